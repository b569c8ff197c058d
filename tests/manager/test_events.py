"""The log replays to the state that it led to, at any step."""

from __future__ import annotations

from typing import get_args

import pytest

from pagedlab import BlockManager, EventLog, changes
from pagedlab.contiguous import ContiguousManager
from pagedlab.extents import FirstFit


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


def _everything() -> BlockManager:
    """A log with every kind of event, in steps and after the last one."""
    m = BlockManager(8, 4, prefix_caching=True, window=6, num_host_blocks=4)
    m.allocate("A", range(6))
    m.fork("A", "B")
    m.append("B", [1, 2, 3, 4])
    m.events.end_step()
    m.append("B", [5, 6])
    m.swap_out("A")
    m.allocate(7, [0, 1, 2, 3, 9, 9, 9, 9, 9])
    m.free("B")
    m.allocate("C", range(100, 117))
    m.events.end_step()
    m.free("C")
    m.swap_in("A")
    m.preempt("A", how="swap")
    m.preempt(7)
    m.free("A")
    m.events.end_step()
    m.reset_cache()
    return m


def test_a_log_goes_to_json_lines_and_back(tmp_path):
    log = _everything().events
    assert {type(event) for event in log} == set(get_args(changes.Event))
    log.to_jsonl(tmp_path / "log.jsonl")
    back = EventLog.from_jsonl(tmp_path / "log.jsonl")
    assert list(back) == list(log) and [type(event) for event in back] == [type(event) for event in log]
    assert list(back.steps()) == list(log.steps()) and (back.num_blocks, back.block_size) == (8, 4)
    for step in range(-1, log.num_steps):
        assert vars(back.state_at(step)) == vars(log.state_at(step))


def test_a_log_without_steps_and_a_contiguous_log_come_back_too(tmp_path):
    m = ContiguousManager(64, FirstFit)
    m.allocate("A", tokens=10, final=20, size=32)
    m.append("A", 3)
    m.free("A")
    m.events.to_jsonl(tmp_path / "log.jsonl")
    back = EventLog.from_jsonl(tmp_path / "log.jsonl")
    assert list(back) == list(m.events) and back[0].blocks == range(0, 32) and back.num_steps == 3
    assert (back.num_blocks, back.state_at(1).num_tokens) == (64, {"A": 13})


def test_a_log_that_does_not_say_its_block_size_asks_for_it():
    log = EventLog()
    log.append(changes.Allocate("A", 3, (0,)))
    with pytest.raises(ValueError, match="does not know its block_size"):
        log.state_at(0)
    assert log.state_at(0, block_size=4).fill(0) == 3


@pytest.mark.parametrize(
    "line, words",
    [
        ("", "line 2: "),
        ("{", "line 2: "),
        ("[" * 100_000, "line 2: "),
        ("3", "line 2: not an event: 3"),
        ('"end_step"', "not an event"),
        ('{"event": "Explode"}', "events are Allocate, .* and end_step"),
        ('{"event": ["Free"]}', "not an event"),
        ('{"event": "Free", "seq_id": "A"}', "Free has the fields seq_id, released"),
        ('{"event": "Free", "seq_id": "A", "released": [], "more": 1}', "Free has the fields"),
        ('{"event": "Free", "seq_id": ["A"], "released": []}', r"seq_id cannot be \['A'\]"),
        ('{"event": "Free", "seq_id": true, "released": []}', "seq_id cannot be True"),
        ('{"event": "Free", "seq_id": "A", "released": [0.5]}', r"released cannot be \[0.5\]"),
        ('{"event": "Free", "seq_id": "A", "released": "all"}', "released cannot be 'all'"),
        ('{"event": "Allocate", "seq_id": 1, "tokens": -1, "blocks": []}', "tokens cannot be -1"),
        ('{"event": "Allocate", "seq_id": 1, "tokens": 1e3, "blocks": []}', "tokens cannot be 1000.0"),
        ('{"event": "Allocate", "seq_id": 1, "tokens": 1, "blocks": [99]}', r"blocks cannot be \[99\]"),
        ('{"event": "Allocate", "seq_id": 1, "tokens": 1, "blocks": {"start": 0}}', "blocks cannot be"),
        (
            '{"event": "Allocate", "seq_id": 1, "tokens": 1, "blocks": {"start": 0, "stop": 99999999999}}',
            "blocks",
        ),
        ('{"event": "Free", "seq_id": 1, "released": {"start": 0, "stop": 5}}', "released cannot be"),
        ('{"event": "CopyOnWrite", "seq_id": 1, "entry": 0, "source": 1, "target": 4}', "target cannot be 4"),
        ('{"event": "SwapIn", "seq_ids": ["A"], "copies": [[1]]}', "copies cannot be"),
        ('{"event": "SwapIn", "seq_ids": "A", "copies": []}', "seq_ids cannot be 'A'"),
    ],
)
def test_a_line_that_is_no_event_is_one_error_with_file_and_line(tmp_path, line, words):
    path = tmp_path / "log.jsonl"
    head = '{"format": "pagedlab_events/1", "num_blocks": 4, "block_size": 4}\n'
    path.write_text(head + line + "\n")
    with pytest.raises(ValueError, match=words) as caught:
        EventLog.from_jsonl(path)
    assert f"{path}, line 2: " in str(caught.value) and len(str(caught.value)) < 500


HUGE = '{"format": "pagedlab_events/1", "num_blocks": 1099511627776, "block_size": 1}\n'


@pytest.mark.parametrize(
    "text", ["", "{}\n", "\xff\xfe", '{"format": "pagedlab_events/1", "num_blocks": 0}\n', HUGE]
)
def test_a_file_that_is_no_log_says_so(tmp_path, text):
    path = tmp_path / "log.jsonl"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"log\.jsonl"):
        EventLog.from_jsonl(path)


START = [changes.Allocate("A", 6, (0, 1)), changes.Allocate("B", 4, (2,)), changes.Cache("B", (2,))]


@pytest.mark.parametrize(
    "event, words",
    [
        (changes.Append("nobody", 1, ()), "there is no 'nobody' here"),
        (changes.Append("A", 3, ()), r"9 tokens do not fit into its 2 block\(s\)"),
        (changes.Append("A", 3, (2,)), r"block 2 is held by \['B'\]"),
        (changes.Append("A", 9, (3, 3)), "it has block 3 twice"),
        (changes.Allocate("C", 4, (1,)), r"block 1 is held by \['A'\]"),
        (changes.Allocate("A", 4, (3,)), "'A' is here already"),
        (changes.Allocate("C", 5, (3,)), "5 tokens do not fit"),
        (changes.CopyOnWrite("A", 1, 0, 3), "entry 1 is another block"),
        (changes.CopyOnWrite("A", 9, 1, 3), "list index out of range"),
        (changes.CopyOnWrite("A", 1, 1, 2), r"nobody else holds \[1\]"),
        (changes.Fork("A", "B", 6, 2), "'B' is here already"),
        (changes.Fork("A", "C", 4, 1), "'A' stores 6 tokens"),
        (changes.Fork("A", "C", 6, 1), "'A' stores 6 tokens"),
        (changes.Free("Z", ()), "there is no 'Z' here"),
        (changes.Free("A", (0,)), r"nobody else holds \[0, 1\]"),
        (changes.Preempt("A", "recompute", 6, (), ()), r"nobody else holds \[0, 1\]"),
        (changes.Preempt("A", "swap", 0, (0, 1), ((0, 0),)), "there is no 1 here"),
        (changes.SwapOut(("A",), ((0, 0), (1, 1)), ()), r"nobody else holds \[0, 1\]"),
        (changes.SwapIn(("A",), ()), "there is no 'A' here"),
        (changes.Release("A", 0, (1,), (1,)), r"these entries are \[0\]"),
        (changes.Cache("A", (1,)), "block 1 is not full"),
        (changes.Cache("A", (3,)), "there is no 3 here"),
        (changes.Evict("C", (0,)), "there is no 0 here"),
        (changes.Evict("C", (2,)), r"block 2 is held by \['B'\]"),
        (changes.CacheHit("C", 4, (0,)), "not all of them have a key"),
        (changes.ResetCache(), r"block 2 is held by \['B'\]"),
    ],
)
def test_an_event_that_contradicts_those_before_it_is_an_error_when_replayed(event, words):
    log = EventLog(4, 4)
    log.entries += [*START, event]
    assert log.state_at(2).cached == {2}
    with pytest.raises(ValueError, match=f"{type(event).__name__}.* does not follow: {words}"):
        log.state_at(3)


def test_what_a_prompt_found_is_what_its_table_begins_with():
    log = EventLog(4, 4)
    log.entries += [*START, changes.CacheHit("C", 4, (2,)), changes.Allocate("C", 8, (3, 2))]
    with pytest.raises(ValueError, match=r"its prompt found \(2,\)"):
        log.state_at(4)
    log.entries[-1:] = [changes.Allocate("C", 5, (2, 3)), changes.Free("B", ()), changes.Free("C", (2, 3))]
    assert list(log.state_at(6).holders) == [0, 1]


def test_a_sequence_id_that_json_does_not_keep_is_refused_and_nothing_written(tmp_path):
    m = BlockManager(4, 4)
    m.allocate(("a", "tuple"), 3)
    with pytest.raises(TypeError, match="text or integers"):
        m.events.to_jsonl(tmp_path / "log.jsonl")
    assert not (tmp_path / "log.jsonl").exists()


def test_a_pool_that_could_not_be_read_again_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="num_blocks and block_size must be null or 1 to 16,777,216"):
        EventLog(1 << 25, 16).to_jsonl(tmp_path / "log.jsonl")
    assert not (tmp_path / "log.jsonl").exists()


def test_tokens_that_fit_share_one_event():
    m = BlockManager(4, 16)
    m.allocate("A", 1)
    for _ in range(10):
        m.append("A")
    assert len(m.events) == 11 and len({id(event) for event in m.events}) == 2
