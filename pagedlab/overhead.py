"""What a block size costs: the four costs of one, each over the same sequences.

    waste      slots held without a token, over the whole life of a workload's requests   computed
    table      bytes of the padded block table that a step needs, and its look-ups        computed
    host       time to build that table from the sequences' own                           measured
    kernel     time of one decode step over it, beside the contiguous twin                measured

`decode` and `sweep` are what a widget hands to the process that measures; both tell how far they are and stop
when asked. One pool of `NUM_SLOTS` slots serves them all, so that two figures differ in what was changed and
not in the memory under them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pagedlab import timing
from pagedlab.comparison import Timing
from pagedlab.cost import AttentionCost, Cost, Heads
from pagedlab.events import SeqId
from pagedlab.table import padded_table
from pagedlab.workloads import Workload

NUM_SLOTS = 32_768
HEADS = Heads(2, 128)
MOST_ROW_SLOTS = 2 * NUM_SLOTS
"""Slots in the twin's rows, each as long as the longest, on either side."""
ORDERS = ("sequential", "shuffled", "worst")
BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

Progress = Callable[[int, int], object]


def tables_in_order(
    lengths: Sequence[int], block_size: int, order: str = "sequential", num_slots: int = NUM_SLOTS
) -> dict[SeqId, list[int]]:
    """Block tables for sequences of those lengths, their blocks in one of `ORDERS` in the pool.

    "sequential": one sequence after the other, as in an empty pool. "shuffled": drawn from the whole pool
    (seeded), as after hours of service. "worst": every block at the far end of a stride over the pool, so
    that no block is near the one before it. Raises `ValueError` for another order, or when the pool is
    too small.

    >>> tables_in_order([5, 3], block_size=2, num_slots=16)
    {0: [0, 1, 2], 1: [3, 4]}
    >>> tables_in_order([5, 3], block_size=2, order="worst", num_slots=16)
    {0: [0, 5, 2], 1: [7, 4]}
    """
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
    counts = [-(-length // block_size) for length in lengths]
    blocks, needed = num_slots // block_size, sum(counts)
    if needed > blocks:
        raise ValueError(
            f"{needed:,} blocks of {block_size} are needed; the pool of {num_slots:,} slots has {blocks:,}"
        )
    if order == "shuffled":
        places = np.random.default_rng(0).permutation(blocks)[:needed]
    else:
        places = np.arange(needed) * (1 if order == "sequential" else _stride(blocks)) % blocks
    ends = np.cumsum(counts)
    return {
        i: places[end - count : end].tolist() for i, (count, end) in enumerate(zip(counts, ends, strict=True))
    }


def _stride(blocks: int) -> int:
    """The stride nearest to the golden section that visits every block once."""
    stride = max(1, round(blocks * (math.sqrt(5) - 1) / 2))
    while math.gcd(stride, blocks) > 1:
        stride += 1
    return stride


def mid_decode(workload: Workload, batch: int) -> list[int]:
    """Tokens stored by up to `batch` requests, each met at a random moment of its life (seeded).

    A request is met as often as it decodes, and at any of its steps. Requests are taken while they fit:
    into the pool, and as rows into `MOST_ROW_SLOTS`; longer ones are left out. Raises `ValueError` when not
    one fits.

    >>> from pagedlab.workloads import named
    >>> lengths = mid_decode(named("uniform"), 8)
    >>> len(lengths), all(50 <= length < 160 for length in lengths)
    (8, True)
    """
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(workload), size=64 * batch, p=workload.output / workload.output.sum())
    stored = workload.prompt[drawn] + rng.integers(0, workload.output[drawn])
    chosen: list[int] = []
    for length in stored.tolist():
        held, longest = sum(chosen) + length, max([length, *chosen])
        padding = 256 * (len(chosen) + 1)  # the largest block's rest
        if held + padding <= NUM_SLOTS and longest * (len(chosen) + 1) <= MOST_ROW_SLOTS:
            chosen.append(length)
        if len(chosen) == batch:
            break
    if not chosen:
        raise ValueError(f"no request of {workload.name} fits into a pool of {NUM_SLOTS:,} slots")
    return chosen


@dataclass(frozen=True)
class BlockCost:
    """One block size: entries of the padded table and of the real ones, the time to build it, the kernel."""

    block_size: int
    entries: int
    lookups: int
    host: Timing
    kernel: Cost

    @property
    def table_bytes(self) -> int:
        """Bytes of the padded table, int32."""
        return 4 * self.entries


def decode(
    tables: Mapping[SeqId, Sequence[int]],
    num_tokens: Mapping[SeqId, int],
    block_size: int,
    layout: str = "HND",
    num_slots: int = NUM_SLOTS,
    heads: Heads | None = HEADS,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
) -> Cost:
    """`AttentionCost.measure` over those tables; the pool stays for the next call.

    Without `heads` it has as many as its size allows.
    """
    key = num_slots, heads
    if key not in _pools:
        _pools.clear()  # the old one goes before the new one comes
        _pools[key] = AttentionCost(*key)
    return _pools[key].measure(
        tables, num_tokens, block_size, layout=layout, should_stop=should_stop, progress=progress
    )


_pools: dict[tuple[int, Heads | None], AttentionCost] = {}


def sweep(
    lengths: Sequence[int],
    layout: str = "HND",
    order: str = "shuffled",
    block_sizes: Sequence[int] = BLOCK_SIZES,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Progress = lambda done, of: None,
) -> tuple[BlockCost, ...]:
    """The costs of each block size over sequences of those lengths. Raises `Outdated` when stopped.

    >>> (cost,) = sweep([100, 7], block_sizes=[16])
    >>> cost.lookups, cost.entries, cost.table_bytes, cost.kernel.difference < 1e-5
    (8, 14, 56, True)
    """
    costs = []
    for place, block_size in enumerate(block_sizes):
        tables = tables_in_order(lengths, block_size, order)
        listed: list[list[int]] = list(tables.values())
        counted: dict[SeqId, int] = dict(enumerate(lengths))

        def within(done: int, of: int, place: int = place) -> None:
            progress(place * of + done, len(block_sizes) * of)

        kernel = decode(tables, counted, block_size, layout, should_stop=should_stop, progress=within)
        host = timing.compare({"padded table": lambda listed=listed: padded_table(listed)})
        lookups = sum(map(len, listed))
        costs.append(BlockCost(block_size, padded_table(listed).size, lookups, host["padded table"], kernel))
    return tuple(costs)
