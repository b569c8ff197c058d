"""A learner's allocator in the block map, also one that is still wrong."""

from __future__ import annotations

import pytest

from pagedlab_widgets import own_trace


class Forgiving:
    """Takes any call and never complains."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.tables: dict[str, list[int]] = {}

    def allocate(self, seq: str, tokens: int) -> None:
        self.tables[seq] = [0]

    def append(self, seq: str) -> None: ...

    def free(self, seq: str) -> None:
        self.tables.pop(seq, None)

    def table(self, seq: str) -> list[int]:
        return self.tables[seq]


def test_a_second_free_that_passes_is_a_frame_of_its_own():
    trace = own_trace(Forgiving, [("allocate", "A", 3), ("free", "A"), ("free", "A"), ("free", "Z")])
    assert [trace.counts(frame).stored for frame in range(trace.frames)] == [3, 0, 0, 0]


@pytest.mark.parametrize(
    "calls, words",
    [
        ([("allocate", "A", -3)], "tokens of allocate 'A' must be at least 0, got -3"),
        ([("borrow", "A", 3)], "a call must be one of allocate, append, free, got 'borrow'"),
    ],
)
def test_a_call_that_is_none_is_one_clear_error(calls, words):
    with pytest.raises(ValueError, match=words):
        own_trace(Forgiving, calls)


@pytest.mark.parametrize("table", [None, 7, "abc", [0.5], [[0]]])
def test_a_table_that_is_none_is_one_clear_error(table):
    class Returns(Forgiving):
        def table(self, seq):
            return table

    with pytest.raises(ValueError, match=r"table\('A'\) must be a list of whole numbers, got "):
        own_trace(Returns, [("allocate", "A", 3)])
