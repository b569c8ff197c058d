"""Tokens go into their slots and blocks are copied: exactly, in every layout and dtype, or not at all."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from pagedlab import PagedKVCache
from pagedlab_kernels import copy_blocks, dequantise, quantise, write_kv

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
BYTES = [torch.int8, torch.float8_e4m3fn]


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Bit for bit, NaN included."""
    left, right = (each.contiguous().view(torch.uint8) for each in (left, right))
    return torch.equal(left, right)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("dtype", FLOATS + BYTES, ids=str)
def test_written_tokens_come_back_and_nothing_else_changes(dtype, layout):
    """42 tokens, as vLLM's tests of its cache, over head and block sizes (g-vllm-cache-write)."""
    for head_dim, block_size in product((64, 80, 256), (8, 16, 32)):
        cache = PagedKVCache(24, block_size, 8, head_dim, dtype=dtype, layout=layout)
        pools = [
            cache.key,
            cache.value,
            *(each for each in (cache.k_scale, cache.v_scale) if each is not None),
        ]
        for pool in pools:
            pool.copy_(torch.randn(pool.shape).to(pool.dtype))
        before = [pool.clone() for pool in pools]
        key, value = torch.randn(2, 42, 8, head_dim)
        slots = torch.randperm(24 * block_size)[:42]
        cache.write(key, value, slots)

        block, offset = slots // block_size, slots % block_size
        for number, new in enumerate((key, value)):
            stored, scale = pools[number][block, offset], None
            if dtype in BYTES:
                new, scale = quantise(new, dtype)
                assert same(pools[number + 2][block, offset], scale)
            assert same(stored, new.to(dtype))
        for pool, old in zip(pools, before, strict=True):
            pool[block, offset] = old[block, offset]
            assert same(pool, old)


@pytest.mark.parametrize("dtype", FLOATS + BYTES, ids=str)
def test_slot_minus_one_leaves_the_last_slot_alone(dtype):
    """[k-09]"""
    cache = PagedKVCache(2, 4, 1, 8, dtype=dtype, k_scale=0.1, v_scale=0.1) if dtype in BYTES else None
    cache = cache or PagedKVCache(2, 4, 1, 8, dtype=dtype)
    cache.write(torch.ones(1, 1, 8), torch.ones(1, 1, 8), [7])
    last = cache.key[1, 3].clone()
    cache.write(torch.zeros(3, 1, 8), torch.zeros(3, 1, 8), [-1, 0, -1])
    assert same(cache.key[1, 3], last) and (cache.key[0, 0].float() == 0).all()


def test_nothing_is_written_when_only_the_value_is_wrong():
    key_cache, value_cache = torch.zeros(2, 2, 4, 1, 8, dtype=torch.int8)
    tokens = torch.ones(1, 1, 8)
    for value, scale in ((tokens * torch.nan, 0.1), (tokens[:, :, :4], 0.1), (tokens, None), (tokens, -1.0)):
        with pytest.raises(ValueError):
            write_kv(tokens, value, key_cache, value_cache, [0], k_scale=0.1, v_scale=scale)
        assert not key_cache.any() and not value_cache.any()


def test_heads_of_k_and_v_may_differ_in_length():
    key_cache, value_cache = torch.zeros(2, 4, 1, 8), torch.zeros(2, 4, 1, 5)
    write_kv(torch.ones(1, 1, 8), torch.ones(1, 1, 5), key_cache, value_cache, np.array([6]))
    assert key_cache.sum() == 8 and value_cache[1, 2].sum() == 5


TOKENS = torch.ones(1, 1, 8)


@pytest.mark.parametrize(
    "changes, error, words",
    [
        (dict(slots=[8]), IndexError, "slot 8 is outside -1 to 7"),
        (dict(slots=[0.0]), TypeError, "slots must be a flat sequence of integers"),
        (dict(key=TOKENS.long()), TypeError, "key must be a tensor of floats, got torch.int64"),
        (dict(key_cache=None), TypeError, "key_cache must be a torch.Tensor"),
        (dict(value_cache=torch.zeros(2, 4, 1, 8)), TypeError, "value_cache must have the dtype of"),
        (dict(value_cache=torch.zeros(2, 4, 2, 8, dtype=torch.int8)), ValueError, "shape of key_cache but"),
        (dict(k_scale=None), ValueError, "k_scale must be given for torch.int8: a number, or"),
        (dict(k_scale=0.0), ValueError, "k_scale must be finite and greater than 0"),
        (dict(v_scale="1"), TypeError, "v_scale must be a number or None, got str"),
        (dict(v_scale=torch.ones(2, 4)), ValueError, r"v_scale must .* \[2, 4, 1\] .*got \[2, 4\]"),
        (dict(v_scale=torch.ones(2, 4, 1).double()), TypeError, "v_scale must be float32, got torch.float64"),
        (dict(v_scale=torch.ones(2, 4, 1, device="meta")), ValueError, "v_scale must be on cpu"),
        (dict(value=TOKENS * torch.inf), ValueError, "must be finite, got infinity or NaN"),
    ],
)
def test_a_refused_write_names_what_is_wrong(changes, error, words):
    key_cache, value_cache = torch.zeros(2, 2, 4, 1, 8, dtype=torch.int8)
    sound = dict(key=TOKENS, value=TOKENS, key_cache=key_cache, value_cache=value_cache, slots=[0])
    with pytest.raises(error, match=words):
        write_kv(**{**sound, "k_scale": 0.1, "v_scale": 0.1, **changes})
    assert not key_cache.any() and not value_cache.any()


def test_blocks_are_copied_in_all_layers_at_once():
    """Every layer's K and V, of any dtype, and scales beside them."""
    layers = [torch.randn(6, 4, 2, 8), torch.randn(6, 2, 4, 8).transpose(1, 2), torch.randn(6, 4, 2)]
    layers += [
        torch.randint(-100, 100, (6, 4, 2, 8)).to(torch.int8),
        torch.randn(6, 9).to(torch.float8_e4m3fn),
    ]
    before = [layer.clone() for layer in layers]
    copies = [(0, 1), (1, 2), (2, 0), (5, 4)]  # chained: every source as it was before the call
    copy_blocks(iter(layers), copies)
    for layer, old in zip(layers, before, strict=True):
        for source, target in copies:
            assert same(layer[target], old[source])
        assert same(layer[[3, 5]], old[[3, 5]])


@pytest.mark.parametrize(
    "caches, copies, error, words",
    [
        ([torch.zeros(3), torch.zeros(2)], [(0, 1)], ValueError, r"caches\[1\] must have 3 blocks"),
        ([torch.zeros(3), [0.0]], [(0, 1)], TypeError, r"caches\[1\] must be a tensor"),
        ([torch.zeros(3)], [(0, 3)], IndexError, "block 3 is outside 0 to 2"),
        ([torch.zeros(3)], [(0, 1), (2, 1)], ValueError, "targets must differ: block 1 is there twice"),
        ([torch.zeros(3)], [(0, 1, 2)], ValueError, r"copies must be \(source, target\) pairs"),
        ([torch.zeros(3)], [(0, 1.0)], TypeError, r"copies must be \(source, target\) pairs"),
    ],
)
def test_a_refused_copy_names_what_is_wrong(caches, copies, error, words):
    with pytest.raises(error, match=words):
        copy_blocks(caches, copies)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("dtype", BYTES, ids=str)
@pytest.mark.parametrize("scales", [{}, {"k_scale": 0.02, "v_scale": 0.3}], ids=str)
def test_a_quantised_cache_reads_back_what_its_numbers_stand_for(dtype, layout, scales):
    cache = PagedKVCache(6, 4, 2, 8, dtype=dtype, layout=layout, **scales)
    key, value = torch.randn(7, 2, 8), 10 * torch.randn(7, 2, 8)
    cache.write(key, value, range(4, 11))
    cache.copy([(1, 5)])
    for read, exact, scale in zip(cache.read([5, 2], 7), (key, value), ("k_scale", "v_scale"), strict=True):
        assert torch.equal(read, dequantise(*quantise(exact, dtype, scales.get(scale))))
