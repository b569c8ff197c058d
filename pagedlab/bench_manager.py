"""What a call of the block manager costs, and that the cost does not grow with the pool.

Times are CPU time of this thread (time that has passed, in a browser, which knows no other), divided by one
step of a fixed pure-Python loop timed beside it (a *unit*, u), so that runs on a busy or a slower machine can
be compared. Each figure is the least of several rounds.

What still grows is not the manager's work but the machine's: keys are hashes, so a look-up goes to a random
place of a dict that outgrows the caches. `bare_dict` shows that alone: a dict of as many keys and nothing
else, out of which as many are taken, and into which as many are put, as one admission does.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import count
from typing import Any

from pagedlab import _format
from pagedlab.claims.verdict import Chart, Line
from pagedlab.machine import cpu_device
from pagedlab.manager import BlockManager
from pagedlab.prefix import KEY_BYTES

BLOCK_SIZE, PROMPT, ROUNDS = 16, 640, 5
BLOCKS = PROMPT // BLOCK_SIZE
CALLS = {
    "admit": f"admit a prompt of {BLOCKS} blocks",
    "free": f"free {BLOCKS} blocks",
    "fork": f"fork {BLOCKS} blocks",
    "append": "append a token",
    "bare_dict": f"take {BLOCKS} keys out of a bare dict, put {BLOCKS} in",
}
MOST_CACHED = 10**6  # blocks that are filled before anything is timed; in a larger pool the others are held
SIZES = tuple(10**power for power in range(3, 8))
QUICK_SIZES = SIZES[:3]
_clock = getattr(time, "thread_time_ns", time.perf_counter_ns)


@dataclass(frozen=True)
class Costs:
    """Units per call at one pool size, the pool having gone round once: what is free is cached, too."""

    num_blocks: int
    admit: float
    append: float
    free: float
    fork: float
    bare_dict: float
    """Of `min(num_blocks, MOST_CACHED)` keys."""


@dataclass(frozen=True)
class ManagerBench:
    """`costs` by pool size, and the unit in nanoseconds."""

    unit_ns: float
    costs: list[Costs]
    device: str

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self)

    @property
    def note(self) -> str:
        """What a unit is, and where it was measured."""
        return f"1 u = {self.unit_ns:.0f} ns, one step of a fixed Python loop; {self.device}"

    def chart(self) -> Chart:
        """The costs as lines over the size of the pool."""
        lines = (
            Line(what, tuple((c.num_blocks, getattr(c, name)) for c in self.costs), "measured")
            for name, what in CALLS.items()
        )
        return Chart("Block manager", "blocks in the pool", "CPU time of a call, u", tuple(lines), log_y=True)

    def __str__(self) -> str:
        rows = [[f"{c.num_blocks:,}", *(f"{getattr(c, name):.1f}" for name in CALLS)] for c in self.costs]
        return "\n".join(
            [
                "block manager, prefix caching, no log; measured: CPU time of a call, u",
                _format.table(["blocks in the pool", *CALLS], rows, left=0),
                *(f"{name}: {what}" for name, what in CALLS.items()),
                f"blocks of {BLOCK_SIZE} tokens, taken by eviction; append: mean over {BLOCK_SIZE} tokens",
                self.note,
            ]
        )


def unit_ns() -> float:
    """CPU nanoseconds of one step of a fixed loop over a deque and a dict."""
    steps, queue, counts = 100_000, deque(range(1024)), {i: i for i in range(1024)}
    start = _clock()
    for _ in range(steps):
        x = queue.popleft()
        counts[x] = counts.get(x, 0) + 1
        queue.append(x)
    return (_clock() - start) / steps


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
    in_dict = _Dict(min(num_blocks, MOST_CACHED))
    samples = [_one_round(manager, ids, calls) | {"bare_dict": in_dict.ns(calls)} for _ in range(rounds)]
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


class _Dict:
    """A bare dict of keys such as a manager's index has, and nothing else."""

    def __init__(self, num_keys: int) -> None:
        self._keys = [_key(number) for number in range(num_keys)]
        self._index = {key: block for block, key in enumerate(self._keys)}
        self._at, self._fresh = 0, count(num_keys)

    def ns(self, calls: int) -> float:
        """Nanoseconds of what one admission does to it, mean of so many."""
        index, keys, spent = self._index, self._keys, 0
        for _ in range(calls):
            new, self._at = [_key(next(self._fresh)) for _ in range(BLOCKS)], self._at % (len(keys) - BLOCKS)
            start = _clock()
            for block, key in enumerate(new, self._at):
                del index[keys[block]]
                index[key] = block
                keys[block] = key
            spent += _clock() - start
            self._at += BLOCKS
        return spent / calls


def _key(number: int) -> bytes:
    return blake2b(number.to_bytes(8), digest_size=KEY_BYTES).digest()


def _one_round(manager: BlockManager, ids: Iterator[int], calls: int) -> dict[str, float]:
    """Nanoseconds of each kind of call, over `calls` sequences that come and go."""
    clock, spent = _clock, dict.fromkeys(("admit", "append", "free", "fork"), 0.0)
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
    return not all(manager.is_cached(block) for block in manager._pool.next(BLOCKS))
