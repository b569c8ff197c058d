"""Bad input gets one error that names the argument, its value and the rule, before any kernel runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from batches import batch

from pagedlab_kernels import CSRTable, contiguous_attention, paged_attention

Arguments = dict[str, Any]


def paged_arguments() -> Arguments:
    """Two sequences of 5 and 40 tokens in blocks of 16, a cache of 7 blocks, 4 query heads on 2 KV heads."""
    case = batch([5, 40])
    names = ("query", "key_cache", "value_cache", "block_tables", "seq_lens")
    return {name: getattr(case, name) for name in names}


def contiguous_arguments() -> Arguments:
    case = batch([5, 40])
    return {name: getattr(case, name) for name in ("query", "keys", "values", "seq_lens")}


def set_to(**changes: Any) -> Callable[[Arguments], Arguments]:
    return lambda arguments: arguments | changes


def change(name: str, function: Callable[[Any], Any]) -> Callable[[Arguments], Arguments]:
    return lambda arguments: arguments | {name: function(arguments[name])}


def entry(seq: int, place: int, block: int) -> Callable[[Arguments], Arguments]:
    def put(table: torch.Tensor) -> torch.Tensor:
        table[seq, place] = block
        return table

    return change("block_tables", put)


def int32(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def csr(**changes: Any) -> Callable[[Arguments], Arguments]:
    return lambda arguments: arguments | {"block_tables": replace(batch([5, 40]).csr(), **changes)}


# What the shapes and the types tell: checked always, for both calls.
ALWAYS = [
    (change("query", torch.Tensor.numpy), TypeError, r"query .*torch.from_numpy\(query\)"),
    (change("query", torch.Tensor.tolist), TypeError, "query must be a torch.Tensor .* got list"),
    (set_to(query=None), TypeError, "query .* got NoneType"),
    (
        change("query", lambda query: query[0]),
        ValueError,
        r"query must have 3 dimensions.* got shape \[4, 32\]",
    ),
    (change("query", torch.Tensor.int), TypeError, "query must be one of .* got torch.int32"),
    (change("query", torch.Tensor.half), TypeError, "must have the query's dtype, torch.float16"),
    (change("query", torch.Tensor.to_sparse), TypeError, "query must be a dense tensor"),
    (
        change("query", lambda query: query[:, :3]),
        ValueError,
        "query must have a multiple of the 2 heads .* got 3",
    ),
    (change("query", lambda query: query[:, :0]), ValueError, "must have heads"),
    (
        change("query", lambda query: query[..., :16]),
        ValueError,
        "must have the query's head_dim, 16, got 32",
    ),
    (
        change("query", lambda query: query[:1]),
        ValueError,
        "seq_lens must hold one length per sequence .* 1, got 2",
    ),
    (
        change("query", lambda query: query.requires_grad_()),
        ValueError,
        r"query requires grad.*query.detach\(\)",
    ),
    (change("seq_lens", torch.Tensor.long), TypeError, "seq_lens must be int32, got torch.int64"),
    (change("seq_lens", torch.Tensor.float), TypeError, "seq_lens must be int32, got torch.float32"),
    (change("seq_lens", torch.Tensor.numpy), TypeError, "seq_lens must be a torch.Tensor"),
    (change("seq_lens", lambda lengths: lengths[:, None]), ValueError, "seq_lens must have 1 dimensions"),
    (
        change("seq_lens", lambda lengths: lengths.to("meta")),
        ValueError,
        "seq_lens must be on the query's device",
    ),
    (set_to(scale=0.0), ValueError, "scale must be finite and greater than 0, got 0.0"),
    (set_to(scale=-1), ValueError, "scale .* got -1"),
    (set_to(scale=math.inf), ValueError, "scale .* got inf"),
    (set_to(scale=math.nan), ValueError, "scale .* got nan"),
    (set_to(scale="1"), TypeError, "scale must be a number or None, got str"),
    (set_to(scale=torch.ones(2)), TypeError, "scale must be a number or None, got Tensor"),
    (set_to(softcap=0), ValueError, "softcap must be finite and greater than 0, got 0"),
    (set_to(softcap=math.nan), ValueError, "softcap .* got nan"),
    (set_to(window=0), ValueError, "window must be from 1 to .* got 0"),
    (set_to(window=-5), ValueError, "window .* got -5"),
    (set_to(window=2.0), TypeError, "window must be an int or None, got float"),
    (set_to(window=True), TypeError, "window must be an int or None, got bool"),
    (set_to(num_splits=0), ValueError, "num_splits must be from 1 to 128, got 0"),
    (set_to(num_splits=10**9), ValueError, "num_splits must be from 1 to 128, got 1000000000"),
    (set_to(k_scale=1.0), ValueError, "k_scale is for quantised caches, key.* is torch.float32"),
    (set_to(v_scale=torch.ones(1)), ValueError, "v_scale is for quantised caches, value.* is torch.float32"),
    (set_to(backend="cuda"), ValueError, "backend must be one of auto, triton, cpu, reference, got 'cuda'"),
    (set_to(backend=None), ValueError, "backend must be one of auto, .* got None"),
    (set_to(backend="cpu", num_splits=2), ValueError, "cpu cannot serve.* num_splits must be None, got 2"),
]

PAGED_ALWAYS = [
    (change("block_tables", torch.Tensor.long), TypeError, "block_tables must be int32, got torch.int64"),
    (change("block_tables", torch.Tensor.float), TypeError, "block_tables must be int32, got torch.float32"),
    (
        change("block_tables", torch.Tensor.numpy),
        TypeError,
        r"block_tables .*torch.from_numpy\(block_tables\)",
    ),
    (change("block_tables", torch.Tensor.tolist), TypeError, "block_tables .*or a CSRTable, got list"),
    (change("block_tables", lambda table: table[0]), ValueError, "block_tables must have 2 dimensions"),
    (
        change("block_tables", lambda table: table[:1]),
        ValueError,
        "block_tables must have one row per sequence, 2",
    ),
    (
        change("block_tables", lambda table: table.to("meta")),
        ValueError,
        "block_tables must be on the query's device",
    ),
    (change("key_cache", lambda cache: cache[0]), ValueError, "key_cache must have 4 dimensions"),
    (
        change("key_cache", lambda cache: cache[:, :0]),
        ValueError,
        "value_cache must have the shape of key_cache",
    ),
    (
        change("key_cache", torch.Tensor.double),
        TypeError,
        "key_cache must have the query's dtype, torch.float32",
    ),
    (change("value_cache", torch.Tensor.double), TypeError, "value_cache must have the dtype of key_cache"),
    (
        change("value_cache", lambda cache: cache[:-1]),
        ValueError,
        "value_cache must have the shape of key_cache",
    ),
    (
        change("value_cache", lambda cache: cache.to("meta")),
        ValueError,
        "value_cache must be on cpu as key_cache, got meta",
    ),
    (
        change("key_cache", lambda cache: cache.transpose(1, 3).contiguous().transpose(1, 3)),
        ValueError,
        "key_cache must have a dense head dimension, stride 1, got strides",
    ),
    (
        lambda a: a | {"key_cache": a["key_cache"][:, :0], "value_cache": a["value_cache"][:, :0]},
        ValueError,
        r"key_cache must have a block_size of at least 1, got shape \[\d+, 0, 2, 32\]",
    ),
    (csr(indptr=[0, 1, 4]), TypeError, "block_tables.indptr must be a one-dimensional int32 array, got list"),
    (csr(indptr=np.array([0, 1, 4])), TypeError, "block_tables.indptr must be int32, got int64"),
    (csr(indices=np.zeros(4)), TypeError, "block_tables.indices must be int32, got float64"),
    (csr(indices=np.zeros((2, 2), np.int32)), TypeError, "block_tables.indices must be a one-dimensional"),
    (csr(indptr=int32(0, 4)), ValueError, "block_tables.indptr must have 3 numbers for 2 sequences, got 2"),
    (csr(last_page_len=int32(5)), ValueError, "block_tables.last_page_len must have 2 numbers .* got 1"),
]

# What has to be read from tables and lengths: skipped with check=False.
PAGED_WHEN_CHECKED = [
    (entry(1, 2, -1), IndexError, "entry 2 of sequence 1 is -1, but key_cache has blocks 0 to 6"),
    (entry(0, 0, 7), IndexError, "entry 0 of sequence 0 is 7"),
    (entry(1, 0, 2**31 - 1), IndexError, "entry 0 of sequence 1 is 2147483647"),
    (entry(1, 1, -(2**31)), IndexError, "entry 1 of sequence 1 is -2147483648"),
    (
        change("block_tables", lambda t: t[:, :2]),
        ValueError,
        r"has 2 entries for sequence 1, .*= 40 takes 3 blocks",
    ),
    (
        change("block_tables", lambda t: t[:, :0]),
        ValueError,
        r"has 0 entries for sequence 0, .*= 5 takes 1 blocks",
    ),
    (set_to(seq_lens=int32(5, -1)), ValueError, r"seq_lens\[1\] = -1 must not be negative"),
    (set_to(seq_lens=int32(-(2**31), 40)), ValueError, r"seq_lens\[0\] = -2147483648 must not be negative"),
    (set_to(seq_lens=int32(5, 2**31 - 1)), ValueError, r"has 3 entries for sequence 1, .*= 2147483647 takes"),
    (csr(indptr=int32(1, 1, 4)), ValueError, "indptr must go from 0 to 4, the number of indices, got 1 to 4"),
    (csr(indptr=int32(0, 1, 5)), ValueError, "indptr must go from 0 to 4, the number of indices, got 0 to 5"),
    (csr(indptr=int32(0, 5, 4)), ValueError, "indptr must not decrease, got 5 then 4 at sequence 1"),
    (csr(indptr=int32(0, -9, 4)), ValueError, "indptr must not decrease, got 0 then -9 at sequence 0"),
    (csr(indptr=int32(0, 2, 4)), ValueError, "has 2 entries for sequence 1, .* takes 3 blocks of 16"),
    (csr(last_page_len=int32(5, 7)), ValueError, r"last_page_len\[1\] must be 8 for seq_lens\[1\] = 40"),
    (csr(indices=int32(0, 1, 9, 2)), IndexError, "entry 1 of sequence 1 is 9"),
]

CONTIGUOUS_ALWAYS = [
    (change("keys", lambda keys: keys[:1]), ValueError, "values must have the shape of keys"),
    (change("values", lambda values: values[:, :3]), ValueError, "values must have the shape of keys"),
    (
        lambda a: a | {"keys": a["keys"][:1], "values": a["values"][:1]},
        ValueError,
        "keys must hold one row per sequence, 2, got 1",
    ),
]
CONTIGUOUS_WHEN_CHECKED = [
    (set_to(seq_lens=int32(5, 41)), ValueError, r"seq_lens\[1\] = 41, but a row of keys has room for 40"),
    (set_to(seq_lens=int32(-1, 40)), ValueError, r"seq_lens\[0\] = -1 must not be negative"),
]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("spoil", "error", "message"), ALWAYS + PAGED_ALWAYS)
def test_paged_attention_refuses(spoil, error, message, check):
    with pytest.raises(error, match=message):
        paged_attention(**spoil(paged_arguments()), check=check)


@pytest.mark.parametrize(("spoil", "error", "message"), PAGED_WHEN_CHECKED)
def test_paged_attention_refuses_when_it_may_read(spoil, error, message):
    with pytest.raises(error, match=message):
        paged_attention(**spoil(paged_arguments()))


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("spoil", "error", "message"), ALWAYS + CONTIGUOUS_ALWAYS)
def test_contiguous_attention_refuses(spoil, error, message, check):
    with pytest.raises(error, match=message):
        contiguous_attention(**spoil(contiguous_arguments()), check=check)


@pytest.mark.parametrize(("spoil", "error", "message"), CONTIGUOUS_WHEN_CHECKED)
def test_contiguous_attention_refuses_when_it_may_read(spoil, error, message):
    with pytest.raises(error, match=message):
        contiguous_attention(**spoil(contiguous_arguments()))


def test_unchecked_call_does_not_read_the_table(backend, monkeypatch):
    from pagedlab_kernels import check_tables

    def read(*arguments: object) -> None:
        raise AssertionError("the table was read")

    expected = paged_attention(**paged_arguments(), backend=backend)
    for name in ("check_lengths", "check_entries"):
        monkeypatch.setattr(check_tables, name, read)
    assert torch.equal(paged_attention(**paged_arguments(), backend=backend, check=False), expected)


def test_gradients_may_be_required_where_none_are_recorded():
    arguments = paged_arguments()
    arguments["query"].requires_grad_()
    with torch.no_grad():
        assert not paged_attention(**arguments).requires_grad


def test_numpy_numbers_are_numbers():
    arguments = paged_arguments()
    found = paged_attention(**arguments, scale=np.float32(0.5), window=np.int64(3))
    assert torch.equal(found, paged_attention(**arguments, scale=0.5, window=3))


@pytest.mark.parametrize("change", ["read-only", "reversed", "strided"])
def test_csr_arrays_of_any_kind_are_served(change):
    table = batch([5, 40]).csr()
    if change == "read-only":
        for array in vars(table).values():
            array.flags.writeable = False
    elif change == "reversed":
        table = CSRTable(*(array[::-1].copy()[::-1] for array in vars(table).values()))
    else:
        table = CSRTable(*(np.repeat(array, 2)[::2] for array in vars(table).values()))
    assert torch.equal(paged_attention(**paged_arguments() | {"block_tables": table}), batch([5, 40]).paged())
