"""What the manager promises, one example each."""

from __future__ import annotations

import numpy as np
import pytest

from pagedlab import BlockManager, DuplicateSequence, OutOfBlocks, UnknownSequence
from pagedlab.events import Allocate, Append, CopyOnWrite, Fork, Free


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


def test_a_count_ids_and_an_array_of_ids_are_the_same_number_of_tokens():
    m = BlockManager(8, 4)
    for seq, tokens in [("A", 5), ("B", [7] * 5), ("C", np.arange(5)), ("D", np.int64(5))]:
        m.allocate(seq, tokens)
        assert m.num_tokens(seq) == 5


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        (dict(num_blocks=0, block_size=4), ValueError, "num_blocks must be at least 1"),
        (dict(num_blocks=4, block_size=0), ValueError, "block_size must be at least 1"),
        (dict(num_blocks=4.5, block_size=4), TypeError, "num_blocks must be an integer"),
        (dict(num_blocks=4, block_size=True), TypeError, "block_size must be an integer"),
        (dict(num_blocks=4, block_size=4, prefix_caching=True), NotImplementedError, "prefix_caching"),
        (dict(num_blocks=4, block_size=4, window=8), NotImplementedError, "window"),
        (dict(num_blocks=4, block_size=4, watermark=0.1), NotImplementedError, "watermark"),
        (dict(num_blocks=4, block_size=4, num_host_blocks=2), NotImplementedError, "num_host_blocks"),
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
        (lambda m: m.append("A", -1), ValueError, "must not be negative, got -1"),
        (lambda m: m.append("A", 1.5), TypeError, "a count or a sequence of token ids, not 1.5"),
        (lambda m: m.append("A", "abc"), TypeError, "not 'abc'"),
        (lambda m: m.allocate("B", True), TypeError, "not True"),
        (lambda m: m.append("A", lookahead=-1), ValueError, "lookahead must be at least 0"),
        (lambda m: m.slots("A", 0, 9), IndexError, "it has stored 6"),
        (lambda m: m.ref_count(4), IndexError, "block 4 is not one of the 4 blocks"),
        (lambda m: m.allocate("B", 1, salt="s"), NotImplementedError, "salt"),
    ],
)
def test_a_refused_call_says_why_and_changes_nothing(call, error, words):
    m = BlockManager(4, 4)
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
