"""What a call of the block manager costs, and that the cost does not grow with the pool.

Times are CPU time of this thread, divided by one step of a fixed pure-Python loop timed beside it (a *unit*,
u), so that runs on a busy or a slower machine can be compared. Each figure is the least of several rounds.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

from pagedlab import _format
from pagedlab.machine import cpu_device
from pagedlab.manager import BlockManager

BLOCK_SIZE, PROMPT, ROUNDS = 16, 640, 5
MOST_CACHED = 10**6  # blocks that are filled before anything is timed; in a larger pool the others are held
SIZES = tuple(10**power for power in range(3, 8))
QUICK_SIZES = SIZES[:3]


@dataclass(frozen=True)
class Costs:
    """Units per call at one pool size, the pool having gone round once: what is free is cached, too."""

    num_blocks: int
    admit: float
    append: float
    free: float
    fork: float


@dataclass(frozen=True)
class ManagerBench:
    """`costs` by pool size, and the unit in nanoseconds."""

    unit_ns: float
    costs: list[Costs]
    device: str

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [
            [f"{c.num_blocks:,}", *(f"{cost:.1f}" for cost in (c.admit, c.append, c.free, c.fork))]
            for c in self.costs
        ]
        return "\n".join(
            [
                "block manager, prefix caching, no log",
                f"measured: CPU time of a call, in units of {self.unit_ns:.0f} ns",
                _format.table(["blocks in the pool", "admit", "append", "free", "fork"], rows, left=0),
                f"admit, free, fork: {PROMPT // BLOCK_SIZE} blocks of {BLOCK_SIZE} tokens, taken by eviction",
                f"append: one token, mean over {BLOCK_SIZE} of them",
                "a unit is one step of a fixed Python loop over a deque and a dict",
                f"device: {self.device}",
            ]
        )


def unit_ns() -> float:
    """CPU nanoseconds of one step of a fixed loop over a deque and a dict."""
    steps, queue, counts = 100_000, deque(range(1024)), {i: i for i in range(1024)}
    start = time.thread_time_ns()
    for _ in range(steps):
        x = queue.popleft()
        counts[x] = counts.get(x, 0) + 1
        queue.append(x)
    return (time.thread_time_ns() - start) / steps


def costs(num_blocks: int, *, calls: int = 100, rounds: int = ROUNDS) -> tuple[float, Costs]:
    """The unit in nanoseconds, and the costs in units, of a pool of that size (at least 200 blocks).

    >>> unit, measured = costs(1000, calls=2, rounds=1)
    >>> measured.num_blocks, unit > 0
    (1000, True)
    """
    manager = BlockManager(num_blocks, BLOCK_SIZE, prefix_caching=True, record=False)
    ids = count()
    if num_blocks > MOST_CACHED:
        manager.allocate("held", [0], lookahead=(num_blocks - MOST_CACHED) * BLOCK_SIZE - 1)
    while _never_used(manager):
        manager.allocate("filler", _prompt(next(ids)))
        manager.free("filler")
    samples = [_one_round(manager, ids, calls) for _ in range(rounds)]
    unit = min(unit_ns() for _ in range(rounds))
    best = {name: min(sample[name] for sample in samples) / unit for name in samples[0]}
    return unit, Costs(num_blocks, **best)


def run(sizes: Sequence[int] = SIZES, progress: Callable[[int, int], object] | None = None) -> ManagerBench:
    """The costs for each pool size."""
    units, measured = [], []
    for done, size in enumerate(sizes, 1):
        unit, cost = costs(size)
        units.append(unit)
        measured.append(cost)
        gc.collect()
        if progress:
            progress(done, len(sizes))
    return ManagerBench(min(units), measured, cpu_device())


def _one_round(manager: BlockManager, ids: Iterator[int], calls: int) -> dict[str, float]:
    """Nanoseconds of each kind of call, over `calls` sequences that come and go."""
    clock, spent = time.thread_time_ns, dict.fromkeys(("admit", "append", "free", "fork"), 0.0)
    for _ in range(calls):
        prompt = _prompt(next(ids))
        tokens = [(token,) for token in prompt[:BLOCK_SIZE]]
        start = clock()
        manager.allocate("A", prompt)
        admitted = clock()
        manager.fork("A", "B")
        forked = clock()
        manager.free("B")
        manager.append("A", tokens[0])  # looks at what was shared, and opens a block
        before = clock()
        for token in tokens:
            manager.append("A", token)
        appended = clock()
        manager.free("A")
        freed = clock()
        spent["admit"] += admitted - start
        spent["fork"] += forked - admitted
        spent["append"] += (appended - before) / BLOCK_SIZE
        spent["free"] += freed - appended
    return {name: ns / calls for name, ns in spent.items()}


def _prompt(number: int) -> list[int]:
    """Token ids that no other number's prompt begins with."""
    return [number, *range(PROMPT - 1)]


def _never_used(manager: BlockManager) -> bool:
    """Whether a block of the pool has never been handed out: there is nothing to evict yet."""
    return not all(manager.is_cached(block) for block in manager._pool.next(PROMPT // BLOCK_SIZE))
