"""The log replays to the state that it led to, at any step."""

from __future__ import annotations

import pytest

from pagedlab import BlockManager


def _a_manager_with_steps() -> tuple[BlockManager, list[dict[str, tuple[int, ...]]]]:
    m = BlockManager(16, 4)
    tables = []
    for step in range(6):
        if step == 0:
            m.allocate("A", 6)
        if step == 2:
            m.fork("A", "B")
        if step == 5:
            m.free("A")
        for seq in m.sequences:
            m.append(seq, 2)
        m.events.end_step()
        tables.append({str(seq): m.table(seq) for seq in m.sequences})
    return m, tables


def test_any_step_replays_to_the_tables_that_were():
    m, tables = _a_manager_with_steps()
    assert m.events.num_steps == 6
    for step, expected in enumerate(tables):
        state = m.events.state_at(step, m.block_size)
        assert {seq: tuple(table) for seq, table in state.tables.items()} == expected


def test_before_the_first_step_the_pool_is_empty():
    m, _ = _a_manager_with_steps()
    assert m.events.state_at(-1, 4).tables == {}


def test_a_step_that_was_not_is_refused():
    m, _ = _a_manager_with_steps()
    with pytest.raises(IndexError, match="step 6 is not one of the 6 steps"):
        m.events.state_at(6, 4)


def test_without_steps_every_event_is_a_moment():
    m = BlockManager(4, 4)
    m.allocate("A", 3)
    m.append("A")
    assert m.events.num_steps == len(m.events) == 2


def test_the_fill_of_a_block_is_the_tokens_in_it():
    m = BlockManager(8, 4)
    m.allocate("A", 6)
    m.fork("A", "B")
    m.append("B")
    state = m.events.state_at(len(m.events) - 1, 4)
    assert [state.fill(b) for b in (0, 1, 2, 3)] == [4, 2, 3, 0]
    assert state.holders[0] == ["A", "B"]
