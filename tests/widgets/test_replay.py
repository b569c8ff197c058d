"""The page replays a manager's events to the same blocks, tables and cache as `PoolState` does, frame by
frame; and a long run stays small.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from node import find_node

from pagedlab import BlockManager, EventLog, PoolState, recorders, serving, workloads
from pagedlab.changes import Allocate, Append, Free
from pagedlab_widgets import BlockMap, Trace, paged_trace

AGREE = Path(__file__).with_name("agree.mjs")


def replayed(*traces: Trace) -> list[dict[str, Any]]:
    """What the page makes of these traces."""
    runs = [
        {**panel, "events": base64.b64encode(panel["events"]).decode()} for panel in BlockMap(*traces).panels
    ]
    done = subprocess.run(
        [find_node(), str(AGREE)], input=json.dumps(runs), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    shown: list[dict[str, Any]] = json.loads(done.stdout)
    return shown


def held(pool: PoolState, num_blocks: int) -> dict[str, Any]:
    """The same of a pool in Python."""

    def block(number: int) -> list[Any]:
        holders = pool.holders.get(number, [])
        owner = str(holders[0]) if holders else None
        return [len(holders), pool.fill(number), number in pool.cached, owner]

    return {
        "blocks": [block(number) for number in range(num_blocks)],
        "tables": {str(seq): table for seq, table in pool.tables.items() if table},
        "swapped": sorted(str(seq) for seq in pool.swapped),
    }


def random_life(rng: random.Random, calls: int = 70) -> BlockManager:
    """Calls of every kind; those that the manager refuses leave no event."""
    manager = BlockManager(
        rng.choice([6, 12, 20]),
        rng.choice([1, 2, 4]),
        prefix_caching=rng.random() < 0.7,
        window=rng.choice([None, None, 1, 4, 7]),
        num_host_blocks=rng.choice([0, 8]),
    )
    for _ in range(calls):
        seq, other = rng.sample("ABCDE", 2)
        ids = [rng.randint(0, 1) for _ in range(rng.randint(1, 14))]
        verb, *arguments = rng.choice(
            [
                *2 * [("allocate", seq, ids)],
                *4 * [("append", seq, ids[:2])],
                ("fork", seq, other),
                ("free", seq),
                ("preempt", seq, rng.choice(["swap", "recompute"])),
                ("swap_out", seq),
                ("swap_in", seq),
                ("reset_cache",),
            ]
        )
        ahead = {"lookahead": rng.choice([0, 0, 3])} if verb in ("allocate", "append") else {}
        with suppress(Exception):
            getattr(manager, verb)(*arguments, **ahead)
        if rng.random() < 0.5:
            manager.events.end_step()
    manager.events.end_step()
    return manager


def test_the_page_replays_what_python_replays() -> None:
    rng = random.Random(7)
    managers = [random_life(rng) for _ in range(60)]
    kinds = {type(event).__name__ for manager in managers for event in manager.events}
    assert len(kinds) == 13, f"of 13 kinds of event, only {sorted(kinds)} happened"
    for manager, shown in zip(managers, replayed(*(paged_trace(m.events) for m in managers)), strict=True):
        assert len(shown["frames"]) == manager.events.num_steps
        pool = PoolState(manager.block_size)
        for step, frame in zip(manager.events.steps(), shown["frames"], strict=True):
            for event in step:
                pool.apply(event)
            assert frame == held(pool, manager.num_blocks)


def test_a_recording_of_a_real_engine_replays() -> None:
    run = recorders.shipped()
    trace = paged_trace(run.events, num_blocks=run.num_blocks, block_size=run.block_size, label=run.engine)
    (shown,) = replayed(trace)
    last = held(run.events.state_at(run.events.num_steps - 1, run.block_size), run.num_blocks)
    assert shown["frames"][-1] == last
    assert len(shown["told"]) == len(run.events)


def test_each_event_can_be_a_frame_and_says_what_it_is() -> None:
    manager = BlockManager(8, 4)
    manager.allocate("A", 6)
    manager.fork("A", "<b>B</b>")
    manager.append("<b>B</b>", 1)
    manager.free("A")
    manager.events.end_step()
    assert paged_trace(manager.events).frames == 1
    trace = paged_trace(manager.events, each_event=True)
    (shown,) = replayed(trace)
    assert shown["told"] == [
        "A: 6 tokens in blocks 0, 1",
        "<b>B</b> shares 2 blocks of A",
        "<b>B</b>: entry 1, block 1 copied to block 2",
        "<b>B</b>: 1 token",
        "A",
    ]
    assert [frame["tables"].get("<b>B</b>") for frame in shown["frames"]] == [
        None,
        [0, 1],
        [0, 2],
        [0, 2],
        [0, 2],
    ]


def test_a_hundred_thousand_events_of_sixteen_thousand_blocks_are_a_megabyte_at_most() -> None:
    requests = workloads.named("azure-conversation")
    run = serving.simulate(requests, num_slots=16_384 * 16, block_size=16, max_events=100_000)
    trace = paged_trace(run.events)
    assert trace.num_blocks == 16_384 and len(run.events) >= 100_000
    assert len(trace.events) + sum(map(len, trace.names)) <= 1_000_000


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([Append("A", 1, (0,))], "does not follow"),
        ([Allocate("A", 4, (0,)), Free("B", ())], "does not follow"),
        ([Allocate("A", 4, (8,))], "block 8 of a pool of 8"),
    ],
)
def test_a_log_that_contradicts_itself_is_not_drawn(events: list[Any], says: str) -> None:
    log = EventLog(8, 4)
    log.entries += events
    with pytest.raises(ValueError, match=says):
        paged_trace(log)


def test_the_sizes_of_a_pool_are_the_logs_or_are_asked_for() -> None:
    with pytest.raises(ValueError, match="num_blocks and block_size: pass them"):
        paged_trace(EventLog())
    assert paged_trace(EventLog(), num_blocks=4, block_size=2).num_blocks == 4
