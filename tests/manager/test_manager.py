"""What the manager promises, one example each."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from pagedlab import (
    Admission,
    BlockManager,
    DuplicateSequence,
    LeastRecentlyFreed,
    OutOfBlocks,
    SwappedSequence,
    UnknownSequence,
)
from pagedlab.contiguous import ContiguousManager
from pagedlab.events import Allocate, Append, CopyOnWrite, Fork, Free, Preempt
from pagedlab.extents import FirstFit


def _used() -> LeastRecentlyFreed:
    policy = LeastRecentlyFreed()
    policy.add([0], 35)
    return policy


def test_blocks_come_out_in_order_of_id_and_the_last_freed_goes_first_tail_before_head():
    m = BlockManager(6, 4)
    assert m.allocate("A", 8).new_blocks == (0, 1)
    assert m.allocate("B", 8).new_blocks == (2, 3)
    m.free("A")
    m.free("B")
    assert m.allocate("C", 24).new_blocks == (3, 2, 1, 0, 4, 5)


def test_first_writer_moves_the_other_keeps_the_block():
    m = BlockManager(8, 4)
    m.allocate("parent", 6)
    m.fork("parent", "child")
    growth = m.append("parent")
    assert growth.copies == ((1, 2),) and growth.new_blocks == (2,)
    assert m.table("parent") == (0, 2) and m.table("child") == (0, 1)
    assert m.append("child") == ((), ())  # alone now: it writes in place


def test_of_three_holders_two_move_and_the_last_keeps_the_block():
    m = BlockManager(8, 4)
    m.allocate("A", 2)
    m.fork("A", "B")
    m.fork("A", "C")
    copies = [len(m.append(seq).copies) for seq in "BAC"]
    assert copies == [1, 1, 0] and m.table("C") == (0,)


def test_a_fork_leaves_blocks_held_ahead_behind():
    m = BlockManager(8, 4)
    m.allocate("A", 4, lookahead=6)
    m.fork("A", "B")
    assert len(m.table("A")) == 3 and len(m.table("B")) == 1
    assert m.append("A", 2) == ((), ())  # its own, held ahead: nothing to copy
    assert m.ref_count(m.table("A")[1]) == 1


def test_every_change_is_one_event():
    m = BlockManager(8, 4)
    m.allocate("A", 5)
    m.fork("A", "B")
    m.append("B", 4)
    m.free("A")
    assert list(m.events) == [
        Allocate("A", 5, (0, 1)),
        Fork("A", "B", 5, 2),
        CopyOnWrite("B", 1, 1, 2),
        Append("B", 4, (3,)),
        Free("A", (1,)),
    ]


def test_a_manager_that_does_not_record_works_the_same():
    m = BlockManager(8, 4, record=False)
    m.allocate("A", 5)
    m.append("A", 4)
    assert m.table("A") == (0, 1, 2) and len(m.events) == 0


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_lives_on_its_own(copied):
    for m in (BlockManager(8, 4), ContiguousManager(8, FirstFit)):
        m.allocate("A", *[2] if isinstance(m, BlockManager) else [2, 4])
        other = copied(m)
        other.append("A")
        assert (len(m.events), len(other.events)) == (1, 2) and other.events[1] == Append("A", 1, ())


def test_a_count_ids_and_an_array_of_ids_are_the_same_number_of_tokens():
    m = BlockManager(8, 4)
    for seq, tokens in [("A", 5), ("B", [7] * 5), ("C", np.arange(5)), ("D", np.int64(5))]:
        m.allocate(seq, tokens)
        assert m.num_tokens(seq) == 5
    m.append("A", torch.tensor([777]))  # one id, as a sampler gives it, and no count
    assert m.num_tokens("A") == 6


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        (dict(num_blocks=0, block_size=4), ValueError, "num_blocks must be at least 1"),
        (dict(num_blocks=4, block_size=0), ValueError, "block_size must be at least 1"),
        (dict(num_blocks=4.5, block_size=4), TypeError, "num_blocks must be an integer"),
        (dict(num_blocks=4, block_size=True), TypeError, "block_size must be an integer"),
        (dict(num_blocks=4, block_size=4, window=0), ValueError, "window must be at least 1"),
        (
            dict(num_blocks=4, block_size=4, watermark=1.0),
            ValueError,
            "watermark must be at least 0 and below 1",
        ),
        (dict(num_blocks=4, block_size=4, watermark="1%"), TypeError, "watermark must be a number, got '1%'"),
        (dict(num_blocks=4, block_size=4, watermark=float("nan")), ValueError, "watermark"),
        (dict(num_blocks=4, block_size=4, num_host_blocks=-1), ValueError, "num_host_blocks"),
        (
            dict(num_blocks=4, block_size=4, eviction=LeastRecentlyFreed),
            TypeError,
            "eviction must be an object",
        ),
        (dict(num_blocks=4, block_size=4, eviction=_used()), ValueError, "blocks of another manager"),
    ],
)
def test_a_manager_that_cannot_be_says_why(arguments, error, words):
    with pytest.raises(error, match=words):
        BlockManager(**arguments)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda m: m.allocate("A", 1), DuplicateSequence, "'A' is here already and holds 2"),
        (lambda m: m.allocate("B", 99), OutOfBlocks, r"needs 25 block\(s\), but 2 of 4 are free"),
        (lambda m: m.append("A", 99), OutOfBlocks, r"needs 25 block\(s\), but 2 of 4 are free"),
        (lambda m: m.append("Z"), UnknownSequence, "no sequence 'Z'"),
        (lambda m: m.free("Z"), UnknownSequence, "never allocated, or already freed"),
        (lambda m: m.table("Z"), UnknownSequence, "'Z'"),
        (lambda m: m.fork("A", "A"), DuplicateSequence, "'A'"),
        (lambda m: m.append("A", -1), ValueError, "tokens must be at least 0, got -1"),
        (lambda m: m.append("A", 1.5), TypeError, "tokens must be an integer, got 1.5"),
        (lambda m: m.append("A", "abc"), TypeError, "got 'abc'"),
        (lambda m: m.allocate("B", True), TypeError, "got True"),
        (lambda m: m.append("A", lookahead=-1), ValueError, "lookahead must be at least 0"),
        (lambda m: m.slots("A", 0, 9), IndexError, "it has stored 6"),
        (lambda m: m.ref_count(4), IndexError, "block 4 is not one of the 4 blocks"),
        (lambda m: m.allocate("B", 1, salt=7), TypeError, "salt must be text or None, got 7"),
        (lambda m: m.allocate("B", 1, priority=101), ValueError, "priority must be at most 100"),
        (lambda m: m.match([1]), ValueError, "without prefix_caching=True"),
        (lambda m: m.swap_out("A"), OutOfBlocks, r"needs 2 block\(s\), but 1 of 1 are free"),
        (lambda m: m.swap_out(), ValueError, "name the sequences that move"),
        (lambda m: m.swap_out("A", "A"), ValueError, "each once"),
        (lambda m: m.swap_in("A"), SwappedSequence, "'A' is not swapped out"),
        (lambda m: m.preempt("A", how="swop"), ValueError, "'swop'"),
    ],
)
def test_a_refused_call_says_why_and_changes_nothing(call, error, words):
    m = BlockManager(4, 4, num_host_blocks=1)
    m.allocate("A", 6)
    with pytest.raises(error, match=words):
        call(m)
    assert m.sequences == ("A",) and m.table("A") == (0, 1) and m.num_tokens("A") == 6
    assert m.num_free_blocks == 2 and len(m.events) == 1


def test_errors_are_also_the_built_in_ones():
    assert issubclass(OutOfBlocks, MemoryError)
    assert issubclass(UnknownSequence, KeyError)


def test_usage_tells_held_ahead_from_the_rest_of_a_block():
    m = BlockManager(8, 4)
    m.allocate("A", 5, lookahead=4)  # 2 blocks with tokens, 1 ahead
    usage = m.usage()
    assert (usage.held, usage.stored) == (12, 5)
    assert usage.waste == (4, 3, 0)


def test_the_watermark_guards_admission_and_not_growth():
    m = BlockManager(10, 4, watermark=0.25)  # 2 blocks stay free
    assert m.can_allocate(32) is Admission.OK and m.can_allocate(33) is Admission.NEVER
    m.allocate("A", 20)
    assert m.can_allocate(13) is Admission.LATER
    with pytest.raises(OutOfBlocks, match="4 block.* but 5 of 10 are free, and 2 must stay free"):
        m.allocate("B", 13)
    m.append("A", 20)
    assert m.num_free_blocks == 0


def test_blocks_left_of_the_window_are_released_and_used_again():
    m = BlockManager(3, 2, window=4)
    m.allocate("A", 5)
    assert m.append("A") == ((), ()) and m.table("A") == (-1, 1, 2)  # 5 were computed: token 2 is still seen
    assert m.append("A").new_blocks == (0,) and m.table("A") == (-1, 1, 2, 0)
    assert m.append("A", 2).new_blocks == (1,) and m.table("A") == (-1, -1, 2, 0, 1)
    assert m.slots("A", 2, 6) == [-1, -1, 4, 5] and m.num_tokens("A") == 9
    m.fork("A", "B")
    m.free("A")
    assert m.num_free_blocks == 0 and m.usage().stored == 5
    m.free("B")
    assert m.num_free_blocks == 3


def test_a_long_sequence_lives_in_a_window_of_few_blocks():
    m = BlockManager(4, 4, window=8)
    m.allocate("A", 3)
    for _ in range(1000):
        m.append("A")
    assert m.num_free_blocks >= 1 and sum(block >= 0 for block in m.table("A")) <= 3


def test_shared_blocks_travel_once_and_stay_shared():
    m = BlockManager(10, 8, num_host_blocks=4)
    m.allocate("A", 20, lookahead=8)
    m.fork("A", "B")
    m.append("B")
    assert m.swap_out("A", "B") == [(0, 0), (1, 1), (2, 2), (4, 3)]  # held ahead: stays behind
    assert m.num_free_blocks == 10 and m.num_free_host_blocks == 0
    for call in (m.table, m.append, m.slots, m.swap_out, lambda seq: m.fork(seq, "C"), m.preempt):
        with pytest.raises(SwappedSequence, match="swapped out to 3 host block"):
            call("A")
    assert m.num_tokens("A") == 20 and m.sequences == ("A", "B")
    assert len(m.swap_in("A", "B")) == 4
    assert m.table("A")[:2] == m.table("B")[:2] and m.table("A")[2] != m.table("B")[2]
    assert m.ref_count(m.table("A")[0]) == 2 and m.num_free_host_blocks == 4


def test_a_sequence_swapped_out_can_be_freed():
    m = BlockManager(4, 4, num_host_blocks=4)
    m.allocate("A", 9)
    m.swap_out("A")
    m.free("A")
    assert m.num_free_host_blocks == 4 and m.sequences == ()


def test_a_preemption_is_one_event_that_says_what_it_costs():
    m = BlockManager(4, 4, num_host_blocks=4)
    m.allocate("A", 9)
    m.allocate("B", 3)
    assert m.preempt("A") == Preempt("A", "recompute", 9, (0, 1, 2), ())
    swapped = m.preempt("B", how="swap")
    assert swapped == Preempt("B", "swap", 0, (3,), ((3, 0),)) and swapped.bytes_moved(2**21) == 2**21
    assert list(m.events)[2:] == [
        Preempt("A", "recompute", 9, (0, 1, 2), ()),
        Preempt("B", "swap", 0, (3,), ((3, 0),)),
    ]
    assert m.sequences == ("B",) and m.num_free_blocks == 4
