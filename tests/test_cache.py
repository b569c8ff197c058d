"""The paged cache keeps what was written, in both layouts, and refuses what is outside it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pagedlab import BlockManager, PagedKVCache

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_sequence_reads_back_what_it_wrote_wherever_its_blocks_lie(layout, dtype):
    manager = BlockManager(10, 4)
    manager.allocate("gap", 5)
    manager.allocate("A", 7)
    manager.free("gap")
    manager.append("A", 6)
    cache = PagedKVCache(10, 4, 2, 8, dtype=dtype, layout=layout)
    key = torch.randn(13, 2, 8).to(dtype)
    cache.write(key, -key, manager.slots("A"))
    read_key, read_value = cache.read(manager.table("A"), 13)
    assert torch.equal(read_key, key) and torch.equal(read_value, -key)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_copy_on_write_keeps_both_sequences_whole(layout):
    manager = BlockManager(8, 4)
    cache = PagedKVCache(8, 4, 1, 2, layout=layout)
    tokens = torch.arange(20, dtype=torch.float32).reshape(10, 1, 2)
    manager.allocate("A", 6)
    cache.write(tokens[:6], tokens[:6], manager.slots("A"))
    manager.fork("A", "B")
    cache.copy(manager.append("B").copies)
    cache.write(tokens[8:9], tokens[8:9], manager.slots("B", 6))
    assert torch.equal(cache.read(manager.table("A"), 6)[0], tokens[:6])
    assert torch.equal(cache.read(manager.table("B"), 7)[0], tokens[[0, 1, 2, 3, 4, 5, 8]])


def test_both_layouts_are_one_view_over_different_memory():
    nhd, hnd = (PagedKVCache(3, 4, 2, 8, layout=layout) for layout in ("NHD", "HND"))
    assert nhd.key.shape == hnd.key.shape == (3, 4, 2, 8)
    assert nhd.key.stride() == (64, 16, 8, 1) and hnd.key.stride() == (64, 8, 32, 1)


def test_slot_minus_one_is_skipped():
    cache = PagedKVCache(2, 4, 1, 2)
    cache.key.zero_()
    cache.write(torch.ones(2, 1, 2), torch.ones(2, 1, 2), [-1, 3])
    assert cache.key.sum() == 2 and cache.key[1, 3].sum() == 0


def test_a_copy_reads_all_sources_before_it_writes():
    cache = PagedKVCache(2, 1, 1, 1)
    cache.write(torch.tensor([[[1.0]], [[2.0]]]), torch.zeros(2, 1, 1), [0, 1])
    cache.copy([(0, 1), (1, 0)])
    assert cache.key.flatten().tolist() == [2.0, 1.0]


ONE = torch.ones(1, 1, 2)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda c: c.write(ONE, ONE, [8]), IndexError, "slot 8 is outside -1 to 7"),
        (lambda c: c.write(ONE, ONE, [-2]), IndexError, "slot -2 is outside"),
        (lambda c: c.write(ONE, ONE, [0, 1]), ValueError, r"key must have shape \(2, 1, 2\)"),
        (lambda c: c.write(ONE, torch.ones(1, 1, 3), [0]), ValueError, r"value must have shape \(1, 1, 2\)"),
        (
            lambda c: c.write(ONE.repeat(2, 1, 1), ONE.repeat(2, 1, 1), [3, 3]),
            ValueError,
            "slots must differ",
        ),
        (lambda c: c.write(ONE, ONE, [1.7]), TypeError, r"slots must be a flat .* of integers, got \[1.7\]"),
        (lambda c: c.write(ONE, ONE, [True]), TypeError, "slots must be a flat sequence of integers"),
        (lambda c: c.write(ONE, ONE, [[1]]), ValueError, "slots must be a flat sequence of integers"),
        (lambda c: c.write(ONE, ONE, 1), ValueError, "slots must be a flat sequence of integers, got 1"),
        (lambda c: c.write(ONE, ONE, [2**70]), TypeError, "slots must be a flat sequence of integers"),
        (
            lambda c: c.write(ONE, ONE, np.array([2**64 - 1], np.uint64)),
            IndexError,
            "slot 18446744073709551615 is outside",
        ),
        (lambda c: c.write([[[1.0, 2.0]]], ONE, [0]), TypeError, "key must be a tensor .* got a list"),
        (lambda c: c.write(ONE, None, [0]), TypeError, "value must be a tensor .* got a NoneType"),
        (lambda c: c.write(ONE, ONE.to("meta"), [0]), ValueError, "value must lie on cpu .* got meta"),
        (lambda c: c.copy([(0, 1), (1, 1)]), ValueError, "targets must differ: block 1 is there twice"),
        (lambda c: c.copy([(0, 1, 2)]), ValueError, r"must be \(source, target\) pairs of integers"),
        (lambda c: c.copy([0, 1]), ValueError, r"must be \(source, target\) pairs of integers"),
        (lambda c: c.copy([(0, 1), (1,)]), ValueError, r"must be \(source, target\) pairs of integers"),
        (lambda c: c.copy([(0, 0.5)]), TypeError, r"must be \(source, target\) pairs of integers"),
        (lambda c: c.copy([(0, 2)]), IndexError, "block 2 is outside 0 to 1"),
        (lambda c: c.copy([(-1, 0)]), IndexError, "block -1 is outside"),
        (lambda c: c.read([0], 5), IndexError, "5 tokens"),
        (lambda c: c.read([9], 2), IndexError, "block 9 is outside"),
        (lambda c: c.read([0], -1), IndexError, "-1 tokens"),
        (lambda c: c.read([0], 1.5), TypeError, "num_tokens must be an integer, got 1.5"),
        (lambda c: c.read([0.5], 1), TypeError, "table must be a flat sequence of integers"),
        (lambda c: c.read([[0]], 1), ValueError, "table must be a flat sequence of integers"),
    ],
)
def test_a_refused_call_says_why_and_changes_nothing(call, error, words):
    cache = PagedKVCache(2, 4, 1, 2)
    cache.key.fill_(7)
    cache.value.fill_(7)
    with pytest.raises(error, match=words):
        call(cache)
    assert (cache.key == 7).all() and (cache.value == 7).all()


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_ids_come_as_any_sequence_of_integers(kind):
    cache = PagedKVCache(3, 2, 1, 2)
    cache.write(ONE.repeat(2, 1, 1), ONE.repeat(2, 1, 1), kind([2, 3]))
    cache.copy(kind([(1, 0)]))
    assert torch.equal(cache.read(kind([0, -1]), 2)[0], ONE.repeat(2, 1, 1)), "only used entries are read"
    cache.copy(kind([]))


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(head_dim=3.5), "head_dim must be an integer, got 3.5"),
        (dict(num_blocks=True), "num_blocks must be an integer, got True"),
        (dict(block_size=0), "block_size must be at least 1, got 0"),
        (dict(layout="HDN"), "layout must be one of NHD, HND, got 'HDN'"),
        (dict(dtype=torch.int32), "dtype must be one of torch.float32"),
    ],
)
def test_a_cache_that_cannot_be_says_why(arguments, words):
    sizes = dict(num_blocks=2, block_size=4, num_kv_heads=1, head_dim=2)
    with pytest.raises((ValueError, TypeError), match=words):
        PagedKVCache(**{**sizes, **arguments})
