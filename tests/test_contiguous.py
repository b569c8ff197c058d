"""Contiguous memory: pieces never overlap, and what is lost is counted by kind."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedlab.contiguous import ContiguousManager
from pagedlab.errors import DuplicateSequence, OutOfBlocks, UnknownSequence
from pagedlab.extents import Buddy, FirstFit, NoHoles
from pagedlab.models import LayerGroup, ModelShape, preset
from pagedlab.policies import granule_tokens

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
        hole = memory.largest_hole
        assert memory.free_in_holes_below(hole) < memory.num_free or not memory.num_free
        assert memory.free_in_holes_below(hole + 1) == memory.num_free
    for piece in held:
        memory.give(*piece)
    largest = 1 << (size.bit_length() - 1)
    assert memory.take(largest) is not None, "what was given back did not merge"


def test_a_buddy_piece_is_aligned_to_its_size():
    memory = Buddy(64)
    starts = [memory.take(8) for _ in range(8)]
    assert sorted(starts) == list(range(0, 64, 8))


def test_free_memory_in_pieces_is_external_waste_while_somebody_waits():
    m = ContiguousManager(100, FirstFit)
    for seq in "ABCD":
        m.allocate(seq, tokens=25, final=25)
    m.free("A")
    m.free("C")
    assert m.usage().waste.external == 0
    assert m.usage(next_size=40).waste.external == 50
    with pytest.raises(OutOfBlocks) as caught:
        m.allocate("E", tokens=1, final=40)
    assert str(caught.value) == (
        "allocate('E'): no hole has 40 contiguous slots: 50 of 100 are free in all, 25 in the largest hole"
    )
    assert (caught.value.needed, caught.value.free, caught.value.total) == (40, 50, 100)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda m: m.allocate("A", 1, 1), DuplicateSequence),
        (lambda m: m.allocate("B", 9, 5), ValueError),
        (lambda m: m.allocate("B", 5, 9, size=8), ValueError),
        (lambda m: m.allocate("B", 0, 0, size=0), ValueError),
        (lambda m: m.allocate("B", 5, 9, size=12), ValueError),  # no power of two
        (lambda m: m.append("A", 99), OutOfBlocks),
        (lambda m: m.append("A", 7), ValueError),  # its piece has room, but 9 was to be its end
        (lambda m: m.append("A", -1), ValueError),
        (lambda m: m.append("A", float("nan")), TypeError),
        (lambda m: m.append("A", 0.5), TypeError),
        (lambda m: m.allocate("B", 1.5, 9), TypeError),
        (lambda m: m.allocate("B", 1, float("inf")), TypeError),
        (lambda m: m.allocate("B", 1, 9, size=15.5), TypeError),
        (lambda m: m.append("B"), UnknownSequence),
        (lambda m: m.free("B"), UnknownSequence),
    ],
)
def test_a_refused_call_changes_nothing(call, error):
    m = ContiguousManager(64, Buddy)
    m.allocate("A", 3, 9, size=16)
    before = m.usage()
    with pytest.raises(error):
        call(m)
    assert m.usage() == before and len(m.events) == 1


@pytest.mark.parametrize("slots, error", [(0, ValueError), (64.0, TypeError), (float("nan"), TypeError)])
def test_a_pool_without_a_number_of_slots_is_refused(slots, error):
    with pytest.raises(error, match="num_slots must be"):
        ContiguousManager(slots, FirstFit)


def test_a_piece_size_that_is_no_number_of_slots_is_refused():
    m = ContiguousManager(64, FirstFit)
    with pytest.raises(TypeError, match="the size of a piece must be an integer, got 11.0"):
        m.allocate("A", 1, 10, size=11.0)
    assert m.num_free_slots == 64 and len(m.events) == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 50), CALLS)
def test_without_holes_only_the_number_of_free_slots_counts(size, calls):
    memory, held = NoHoles(size), []
    for take, number in calls:
        if take:
            fits = number <= memory.num_free
            assert (memory.take(number) is not None) == fits
            held += [number] * fits
        elif held:
            memory.give(0, held.pop())
        assert memory.num_free == size - sum(held)


@pytest.mark.parametrize(
    "model, dtype, layers, tokens",
    [
        ("llama-3.1-8b", "bf16", 1, 1024),  # 8 heads of 128: 2 KiB a token
        ("llama-2-7b", "bf16", 1, 256),
        ("llama-3.1-8b", "fp8", 32, 64),
        ("deepseek-v3", "bf16", 1, 1820),  # 576 numbers: 2 MiB is no multiple of 1,152 bytes
    ],
)
def test_tokens_in_a_granule_follow_from_the_model(model, dtype, layers, tokens):
    assert granule_tokens(preset(model), dtype, layers=layers) == tokens


@pytest.mark.parametrize(
    "call, words",
    [
        (
            lambda: granule_tokens(preset("llama-3.1-8b"), layers=0),
            "layers and granule_bytes must be at least 1",
        ),
        (
            lambda: granule_tokens(preset("llama-3.1-8b"), granule_bytes=100),
            "does not hold one token of 1 layer",
        ),
        (
            lambda: granule_tokens(ModelShape((LayerGroup(1, 8, 128), LayerGroup(1, 4, 128)), "mixed")),
            "the layers of mixed keep 512 or 1024 numbers of a token",
        ),
    ],
)
def test_a_granule_that_cannot_be_says_why(call, words):
    with pytest.raises(ValueError, match=words):
        call()
