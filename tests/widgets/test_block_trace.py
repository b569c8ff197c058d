"""The trace: what goes in comes out, and what contradicts itself is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedlab_widgets import Counts, Trace, TraceBuilder

Write = tuple[int, int, int, int]


def build(frames: list[list[Write]], blocks: int = 8, block_size: int = 16, names: int = 4) -> Trace:
    builder = TraceBuilder("run", blocks, block_size)
    for i in range(names):
        builder.owner(f"request {i}")
    for frame in frames:
        for write in frame:
            builder.write(*write)
        builder.end_frame()
    return builder.build()


writes = st.tuples(st.integers(0, 7), st.integers(0, 3), st.integers(0, 16), st.integers(0, 3))


@given(st.lists(st.lists(writes, max_size=5), min_size=1, max_size=20))
def test_a_frame_shows_the_last_write_of_each_block(frames: list[list[Write]]) -> None:
    trace = build(frames)
    state: list[tuple[int, ...]] = [(0, 0, 0)] * 8
    for f, frame in enumerate(frames):
        for block, *held in frame:
            state[block] = tuple(held) if held[2] else (0, 0, 0)
        assert trace.blocks(f).tolist() == [list(held) for held in state]
        used = [(fill, refs) for _, fill, refs in state if refs]
        assert trace.counts(f) == Counts(
            len(used), sum(fill for fill, _ in used), 16 * len(used), sum(refs > 1 for _, refs in used)
        )


def test_writes_travel_as_the_head_of_the_module_says_and_equal_neighbours_as_one() -> None:
    trace = build([[(3, 2, 9, 1)], [(4, 1, 16, 1), (5, 1, 16, 1), (6, 1, 300, 1)]], block_size=300)
    assert list(trace.events) == [
        1,
        3,
        1,
        2,
        9,
        1,
        0,
        1,
        4,
        2,
        1,
        16,
        1,
        1,
        6,
        1,
        1,
        300 & 127 | 128,
        2,
        1,
        0,
    ]


def test_a_block_may_be_held_and_empty() -> None:
    counts = build([[(0, 0, 0, 1)]]).counts(0)
    assert (counts.used, counts.stored, counts.held, counts.waste) == (1, 0, 16, 1.0)


def test_an_empty_pool_wastes_nothing() -> None:
    assert build([[]]).counts(0).waste == 0.0


def test_the_largest_pool_and_block_fit_and_one_more_does_not() -> None:
    assert build([[(16_383, 0, 65_535, 32_767)]], 16_384, 65_535).counts(0).stored == 65_535
    with pytest.raises(ValueError, match="num_blocks must be at most 16,384, not 16,385"):
        build([[]], 16_385)
    with pytest.raises(ValueError, match="block_size must be at most 65,535, not 65,536"):
        build([[]], 8, 65_536)


@pytest.mark.parametrize(
    "write",
    [
        (8, 0, 1, 1),
        (-1, 0, 0, 0),
        (0, 4, 1, 1),
        (0, -1, 1, 1),
        (0, 0, 17, 1),
        (0, 0, -1, 1),
        (0, 0, 1, 32_768),
    ],
)
def test_a_write_that_contradicts_the_trace_is_refused_and_leaves_nothing_behind(write: Write) -> None:
    builder = TraceBuilder("run", 8, 16)
    for i in range(4):
        builder.owner(f"request {i}")
    with pytest.raises(ValueError, match="block below 8, an owner below 4, at most 16 tokens"):
        builder.write(*write)
    builder.end_frame()
    assert builder.build().counts(0).used == 0


def test_of_a_free_block_owner_and_fill_say_nothing() -> None:
    assert build([[(0, 9, 99, 0)]]).counts(0).used == 0


def test_writes_that_belong_to_no_frame_are_not_lost_silently() -> None:
    builder = TraceBuilder("run", 8, 16)
    builder.write(0, builder.owner("a"), 1, 1)
    with pytest.raises(ValueError, match="since the last end_frame"):
        builder.build()


def test_a_note_names_the_writes_after_it_and_only_kinds_there_are_are_taken() -> None:
    builder = TraceBuilder("run", 8, 16)
    builder.note("allocate", builder.owner("a"), 5)
    with pytest.raises(ValueError, match="one of allocate, append"):
        builder.note("write", 0)
    builder.end_frame()
    assert list(builder.build().events) == [2, 3, 0, 5, 0]


def test_owners_are_numbered_by_appearance() -> None:
    builder = TraceBuilder("run", 8, 16)
    assert [builder.owner(name) for name in ("b", "a", "b")] == [0, 1, 0]
    assert builder.build().names == ("b", "a")


def test_more_sequences_than_a_trace_tells_apart_are_refused() -> None:
    builder = TraceBuilder("run", 8, 16)
    for i in range(65_536):
        builder.owner(str(i))
    with pytest.raises(ValueError, match="65,536 sequences"):
        builder.owner("one more")
    assert builder.owner("65535") == 65_535


@pytest.mark.parametrize(
    ("part", "value", "error"),
    [
        ("label", 3, TypeError),
        ("num_blocks", 0, ValueError),
        ("num_blocks", -1, ValueError),
        ("num_blocks", 1.5, TypeError),
        ("num_blocks", True, TypeError),
        ("block_size", 0, ValueError),
        ("block_size", "16", TypeError),
    ],
)
def test_a_part_that_cannot_be_is_refused_by_name(part: str, value: Any, error: type[Exception]) -> None:
    good: dict[str, Any] = {"label": "run", "num_blocks": 8, "block_size": 16}
    with pytest.raises(error, match=part):
        TraceBuilder(**{**good, part: value})


def test_a_frame_that_is_not_there_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="frame 1 of a trace of 1 frame"):
        build([[]]).blocks(1)
