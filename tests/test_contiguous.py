"""Contiguous memory: pieces never overlap, and what is lost is counted by kind."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedlab.contiguous import ContiguousManager
from pagedlab.errors import DuplicateSequence, OutOfBlocks, UnknownSequence
from pagedlab.extents import Buddy, FirstFit

CALLS = st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from([FirstFit, Buddy]), st.integers(1, 200), CALLS)
def test_pieces_never_overlap_and_everything_comes_back(kind, size, calls):
    memory, held = kind(size), []
    for take, number in calls:
        if take:
            wanted = 1 << number
            start = memory.take(wanted)
            if start is not None:
                held.append((start, wanted))
            elif kind is FirstFit:
                assert memory.free_in_holes_below(wanted) == memory.num_free
        elif held:
            memory.give(*held.pop(number % len(held)))
        slots = [slot for start, length in held for slot in range(start, start + length)]
        assert len(set(slots)) == len(slots) and all(0 <= slot < size for slot in slots)
        assert memory.num_free == size - len(slots)
    for piece in held:
        memory.give(*piece)
    largest = 1 << (size.bit_length() - 1)
    assert memory.take(largest) is not None, "what was given back did not merge"


def test_a_buddy_piece_is_aligned_to_its_size():
    memory = Buddy(64)
    starts = [memory.take(8) for _ in range(8)]
    assert sorted(starts) == list(range(0, 64, 8))


def test_free_memory_in_pieces_is_external_waste_while_somebody_waits():
    m = ContiguousManager(100, piece_size=lambda final: final, memory=FirstFit)
    for seq in "ABCD":
        m.allocate(seq, tokens=25, final=25)
    m.free("A")
    m.free("C")
    assert m.usage().waste.external == 0
    assert m.usage(next_final=40).waste.external == 50
    with pytest.raises(OutOfBlocks, match="a piece of 40 contiguous slots needs 40 .* 50 of 100 are free"):
        m.allocate("E", tokens=1, final=40)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda m: m.allocate("A", 1, 1), DuplicateSequence),
        (lambda m: m.allocate("B", 9, 5), ValueError),
        (lambda m: m.append("A", 99), OutOfBlocks),
        (lambda m: m.append("B"), UnknownSequence),
        (lambda m: m.free("B"), UnknownSequence),
    ],
)
def test_a_refused_call_changes_nothing(call, error):
    m = ContiguousManager(64, piece_size=lambda final: 16, memory=Buddy)
    m.allocate("A", 3, 9)
    before = m.usage()
    with pytest.raises(error):
        call(m)
    assert m.usage() == before and len(m.events) == 1
