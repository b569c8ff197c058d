"""Prefill, whole or in chunks, and decodes beside it in one batch: causal, over any cache, as by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from batches import NOT_A_BLOCK, assert_close, batch, by_hand

from pagedlab_kernels import CSRTable, contiguous_prefill, paged_prefill

# A whole prompt, a chunk of one, a decode, nothing new, an empty sequence, more rows than tokens.
LENGTHS, NEW = [17, 40, 23, 9, 0, 3, 21], [17, 7, 1, 0, 0, 5, 2]
SHORT = {"lengths": LENGTHS, "new": NEW, "block_size": 5}


@pytest.fixture(params=["reference", "triton"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "triton":
        request.getfixturevalue("interpreter")
    return request.param


@pytest.mark.parametrize(
    "options",
    [{}, {"scale": 0.2}, {"window": 1}, {"window": 6}, {"softcap": 0.5}, {"window": 11, "softcap": 2.0}],
    ids=str,
)
def test_a_mixed_batch_is_what_it_is_by_hand(backend, options):
    case = batch(**SHORT)
    exact = tuple(map(torch.from_numpy, by_hand(case, **options)))
    assert_close(case.paged(backend=backend, return_lse=True, **options), exact, torch.float32)
    assert_close(case.contiguous(backend=backend, return_lse=True, **options), exact, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("cache_dtype", [None, torch.int8, torch.float8_e4m3fn], ids=str)
def test_dtypes_and_quantised_caches(backend, dtype, cache_dtype):
    for layout, scales in (("NHD", None), ("HND", (0.04, 0.3))):
        case = batch(**SHORT, dtype=dtype, cache_dtype=cache_dtype, scales=scales, layout=layout, head_dim=24)
        exact = tuple(map(torch.from_numpy, by_hand(case)))
        found = case.paged(backend=backend, return_lse=True)
        assert_close(found, exact, dtype)
        twin = case.contiguous(backend=backend, return_lse=True)
        assert torch.equal(found[0], twin[0]) and torch.equal(found[1], twin[1])


@pytest.mark.parametrize("heads", [(1, 1), (3, 1), (20, 1), (64, 1), (14, 2)], ids=str)
def test_query_groups_of_any_size(backend, heads):
    case = batch([30, 9], new=[20, 1], heads=heads, head_dim=16)
    assert_close(case.paged(backend=backend, return_lse=True), case.exact(), torch.float32)


@pytest.mark.parametrize("num_splits", [1, 2, 3, 7, 16])
def test_splits_do_not_change_the_answer(backend, num_splits):
    """[k-05 too] Five blocks, so that most splits are empty."""
    case = batch([80, 0, 3], new=[33, 0, 3], block_size=16)
    found = case.paged(backend=backend, num_splits=num_splits, return_lse=True, window=60)
    assert_close(found, case.exact(window=60), torch.float32)


def test_one_new_token_each_is_a_decode(backend):
    decode = batch([0, 9, 40, 70])
    prefill = replace(decode, query_starts=torch.arange(5, dtype=torch.int32))
    assert_close(prefill.paged(backend=backend, return_lse=True), decode.exact(), torch.float32)


def test_chunks_of_a_prompt_are_the_whole_prompt(backend):
    whole = batch([50], new=[50], block_size=8)
    expected = whole.paged(backend=backend)
    for start, stop in ((0, 1), (1, 20), (20, 50)):
        chunk = replace(
            whole,
            query=whole.query[start:stop],
            seq_lens=torch.tensor([stop], dtype=torch.int32),
            query_starts=torch.tensor([0, stop - start], dtype=torch.int32),
        )
        torch.testing.assert_close(chunk.paged(backend=backend), expected[start:stop], atol=2e-6, rtol=0)


def test_rows_that_see_nothing_give_zeros_and_minus_infinity(backend):
    """[k-04] Nine rows and three tokens: six stand before the first."""
    case = batch([3, 8], new=[9, 2])
    out, lse = case.paged(backend=backend, return_lse=True)
    assert (out[:6] == 0).all() and (lse[:6] == -torch.inf).all()
    assert_close((out, lse), case.exact(), torch.float32)
    assert lse[6:].isfinite().all()


@pytest.mark.parametrize(("window", "expected"), [(None, 4.5), (1, 8.0), (4, 6.5)])
def test_window_counts_the_current_token(backend, window, expected):
    """[k-08] Values 1 to 8 and equal scores, all of them new: the last row is the mean of the last values."""
    value = torch.arange(1.0, 9.0).view(2, 4, 1, 1)
    table, lengths = torch.tensor([[0, 1]], dtype=torch.int32), torch.tensor([8], dtype=torch.int32)
    query, starts = torch.zeros(8, 1, 1), torch.tensor([0, 8], dtype=torch.int32)
    key = torch.zeros_like(value)
    out = paged_prefill(query, key, value, table, lengths, starts, window=window, backend=backend)
    assert out[-1].item() == pytest.approx(expected) and out[0].item() == 1


def test_order_of_blocks_does_not_change_a_bit(backend):
    """[k-11]"""
    case = batch(**SHORT)
    moved_to = torch.randperm(len(case.key_cache))
    named = case.block_tables.ge(0) & case.block_tables.lt(len(moved_to))
    table = case.block_tables.clone()
    table[named] = moved_to[table[named].long()].int()
    back = moved_to.argsort()
    moved = replace(
        case, block_tables=table, key_cache=case.key_cache[back], value_cache=case.value_cache[back]
    )
    for here, there in zip(
        *(each.paged(backend=backend, return_lse=True) for each in (case, moved)), strict=True
    ):
        assert torch.equal(here, there)


def test_entries_that_no_query_sees_are_never_followed(backend):
    """[k-14] Past the end, and left of the first query's window."""
    case = batch(**SHORT)
    wider = replace(case, block_tables=torch.cat([case.block_tables, NOT_A_BLOCK.repeat(7, 1)], dim=1))
    assert torch.equal(wider.paged(backend=backend), case.paged(backend=backend))
    for row, length, new in zip(wider.block_tables, LENGTHS, NEW, strict=True):
        row[: max(0, length - new + 1 - 6) // 5] = -1
    assert torch.equal(wider.paged(backend=backend, window=6), case.paged(backend=backend, window=6))


def test_csr_table_gives_what_the_padded_table_gives(backend):
    case = batch(**SHORT)
    for csr in (case.csr(), CSRTable(*map(torch.from_numpy, vars(case.csr()).values()))):
        assert torch.equal(
            replace(case, block_tables=csr).paged(backend=backend), case.paged(backend=backend)
        )


def test_batch_without_tokens_gives_an_empty_answer(backend):
    out, lse = batch([9, 3], new=[0, 0]).paged(backend=backend, return_lse=True)
    assert out.shape == (0, 4, 32) and lse.shape == (0, 4)
    assert batch([], new=[]).contiguous(backend=backend).shape == (0, 4, 32)


def test_long_prompts_take_several_tiles_of_queries_and_of_tokens(backend):
    case = batch([150, 301], new=[150, 140], heads=(2, 1), head_dim=16)
    assert_close(case.paged(backend=backend, return_lse=True), case.exact(), torch.float32)


def test_cpu_kernel_refuses_and_auto_goes_on():
    case = batch(**SHORT)
    with pytest.raises(ValueError, match="cpu cannot serve this call: it serves decode"):
        case.paged(backend="cpu")
    assert torch.equal(case.paged(), case.paged(backend="reference"))


@pytest.mark.parametrize("twin", [False, True])
@pytest.mark.parametrize(
    ("starts", "error", "words"),
    [
        (None, TypeError, "cu_seqlens_q must be a torch.Tensor .* got NoneType"),
        ([0, 3, 8], TypeError, "cu_seqlens_q must be a torch.Tensor .* got list"),
        (torch.tensor([0, 3, 8]), TypeError, "cu_seqlens_q must be int32, got torch.int64"),
        ([[0, 3, 8]], ValueError, "cu_seqlens_q must have 1 dimensions"),
        ([0, 8], ValueError, "cu_seqlens_q must have 3 numbers for 2 sequences, got 2"),
        (
            [0, 3, 7],
            ValueError,
            "cu_seqlens_q must go from 0 to 8, the number of tokens of query, got 0 to 7",
        ),
        ([1, 3, 8], ValueError, "cu_seqlens_q must go from 0 to 8, .* got 1 to 8"),
        ([0, 9, 8], ValueError, "cu_seqlens_q must not decrease, got 9 then 8 at sequence 1"),
    ],
)
def test_bad_bounds_are_refused(starts, error, words, twin):
    case = batch([5, 20], new=[3, 5])
    if isinstance(starts, list) and error is ValueError:
        starts = torch.tensor(starts, dtype=torch.int32)
    with pytest.raises(error, match=words):
        if twin:
            contiguous_prefill(case.query, case.keys, case.values, case.seq_lens, starts)
        else:
            caches = case.key_cache, case.value_cache, case.block_tables
            paged_prefill(case.query, *caches, case.seq_lens, starts)


@pytest.mark.gpu
@pytest.mark.parametrize("cache_dtype", [None, torch.int8, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("head_dim", [64, 80, 128, 256])
@pytest.mark.parametrize("heads", [(4, 4), (8, 2), (5, 1), (64, 1)], ids=str)
def test_triton_kernel_compiled_agrees_with_float64(heads, head_dim, dtype, cache_dtype):
    case = batch(
        [1, 17, 700, 0, 333], new=[1, 17, 300, 0, 33], heads=heads, head_dim=head_dim, dtype=dtype,
        cache_dtype=cache_dtype,
    )  # fmt: skip
    for options in ({}, {"window": 100, "softcap": 20.0}):
        out, lse = case.to("cuda").paged(return_lse=True, backend="triton", **options)
        exact_out, exact_lse = case.exact(**options)
        # Compiled, the weights are rounded to the values' dtype: tolerances as in vLLM's tests.
        tolerances = {torch.float32: (4e-6, 0), torch.float16: (1e-3, 1e-3), torch.bfloat16: (1.5e-2, 1e-2)}
        atol, rtol = tolerances[dtype]
        torch.testing.assert_close(out.double().cpu(), exact_out, atol=atol, rtol=rtol)
        torch.testing.assert_close(lse.double().cpu(), exact_lse, atol=1e-4, rtol=1e-4)
        assert torch.equal(out, case.to("cuda").contiguous(backend="triton", **options))
