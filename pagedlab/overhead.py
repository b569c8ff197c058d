"""What a look-up costs here, and the four costs of a block size.

    waste      slots held without a token, over the whole life of a workload's requests    computed
    table      look-ups of a step, and bytes of the padded table that it needs             computed
    host       time to build that table from the sequences' own                            measured
    kernel     time of one decode step, beside its contiguous twin                         measured

What is measured is measured elsewhere: `decode`, `step` and `sweep` are handed to the process that measures,
tell how far they are, and stop when asked. Memory is made for a batch once and stays for the next call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagedlab import timing, waste
from pagedlab.comparison import FEWEST_ROUNDS, WARM, Comparison
from pagedlab.cost import AttentionCost, Cost, Outdated
from pagedlab.decoding import HND, IN_ORDER, NHD, SCATTERED, SHUFFLED, Decode, Sizes
from pagedlab.events import SeqId
from pagedlab.inputs import one_of
from pagedlab.table import padded_table
from pagedlab.workloads import Workload

BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LAYOUTS = (HND, NHD)
ORDERS = (IN_ORDER, SHUFFLED, SCATTERED)
MOST_TOKENS = 32_768
"""Tokens of a batch, so that its K and V stay within 128 MiB."""
HOST_BATCH = 64
"""Sequences in the table that the host builds."""


@dataclass(frozen=True)
class DecodeSetting:
    """One decode step: `batch` sequences of `context` tokens, and how their memory lies.

    Raises `ValueError` for a layout or an order that is none, and for a batch of more than `MOST_TOKENS`
    tokens.
    """

    context: int = 1024
    batch: int = 8
    layout: str = HND
    order: str = SHUFFLED

    def __post_init__(self) -> None:
        one_of(LAYOUTS, self.layout, "layout")
        one_of(ORDERS, self.order, "order")
        if self.context < 1 or self.batch < 1 or self.tokens > MOST_TOKENS:
            raise ValueError(
                f"{self.batch:,} sequences of {self.context:,} tokens are {self.tokens:,}: "
                f"1 to {MOST_TOKENS:,} are measured here"
            )

    @property
    def tokens(self) -> int:
        """Tokens of the whole batch."""
        return self.batch * self.context

    def lookups(self, block_size: int) -> int:
        """Block-table entries that one step reads, a layer."""
        return self.batch * -(-self.context // block_size)


@dataclass(frozen=True)
class Counted:
    """What needs no measuring, by block size: share of held slots wasted, real and padded table entries."""

    wasted: tuple[float, ...]
    entries: tuple[int, ...]
    padded: tuple[int, ...]


@dataclass(frozen=True)
class Swept:
    """What was measured by block size: cases "paged B" of `kernel` and of `host`."""

    kernel: Comparison
    host: Comparison


def mid_decode(workload: Workload) -> np.ndarray:
    """Tokens stored by `HOST_BATCH` requests, each met at a random moment of its life (int64, seeded).

    A request is met as often as it decodes, and at any of its steps.

    >>> from pagedlab.workloads import named
    >>> lengths = mid_decode(named("uniform"))
    >>> len(lengths), bool((lengths >= 50).all() and (lengths < 160).all())
    (64, True)
    """
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(workload), size=HOST_BATCH, p=workload.output / workload.output.sum())
    return workload.prompt[drawn] + rng.integers(0, workload.output[drawn])


def count(workload: Workload, block_sizes: Sequence[int] = BLOCK_SIZES) -> Counted:
    """The costs that need no measuring; tables are those of `mid_decode`."""
    lengths = mid_decode(workload)
    blocks = [-(-lengths // size) for size in block_sizes]
    return Counted(
        wasted=tuple(waste.paged(workload, size).wasted_share for size in block_sizes),
        entries=tuple(int(held.sum()) for held in blocks),
        padded=tuple(int(held.max()) * len(held) for held in blocks),
    )


def building(lengths: Iterable[int], block_size: int) -> Callable[[], object]:
    """Building the padded table of sequences of such lengths from Python lists: a call to be timed."""
    ends = np.cumsum([-(-length // block_size) for length in lengths]).tolist()
    tables = [list(range(start, end)) for start, end in zip([0, *ends], ends, strict=False)]
    return lambda: padded_table(tables)


# ---- for the process that measures; `asked` are `should_stop` and `progress` as in `timing.compare` ----


def decode(
    tables: Mapping[SeqId, Sequence[int]],
    num_tokens: Mapping[SeqId, int],
    block_size: int,
    num_slots: int,
    **asked: Any,
) -> Cost:
    """`AttentionCost.measure` over those tables of a pool of `num_slots` slots."""
    pool: AttentionCost = _kept(AttentionCost, num_slots)
    return pool.measure(tables, num_tokens, block_size, **asked)


def step(setting: DecodeSetting, block_size: int, **asked: Any) -> Comparison:
    """One decode step through blocks, beside its contiguous twin and a plain read of the same bytes.

    Raises `Outdated` when stopped before a round was whole.

    >>> comparison = step(DecodeSetting(context=64, batch=2), block_size=16)
    >>> [timing.name for timing in comparison.timings]
    ['contiguous', 'paged 16', 'read']
    """
    return _compared(setting, (block_size,), asked)


def sweep(
    setting: DecodeSetting,
    lengths: Sequence[int],
    block_sizes: Sequence[int] = BLOCK_SIZES,
    **asked: Any,
) -> Swept:
    """A step at each block size, and building the padded table of sequences of `lengths` tokens."""
    cases = {f"paged {size}": building(lengths, size) for size in block_sizes}
    should_stop = asked.get("should_stop")
    host = timing.compare(cases, caches=WARM, should_stop=should_stop, what="building the padded table")
    return Swept(_compared(setting, block_sizes, asked), host)


def _compared(setting: DecodeSetting, block_sizes: Sequence[int], asked: dict[str, Any]) -> Comparison:
    batch: Decode = _kept(Decode, Sizes(setting.batch, setting.context))
    cases = [
        batch.twin(setting.layout),
        *(batch.paged(size, setting.order, setting.layout) for size in block_sizes),
        batch.reader(),
    ]
    comparison = batch.compare(cases, rounds=FEWEST_ROUNDS, **asked)
    if comparison.rounds < FEWEST_ROUNDS:
        raise Outdated("stopped before the last round was timed")
    return comparison


_memory: dict[Any, Any] = {}


def _kept(make: Callable[[Any], Any], size: Any) -> Any:
    """What `make(size)` gave when it was last asked for; what was kept for another size goes first."""
    if (make, size) not in _memory:
        _memory.clear()
        _memory[make, size] = make(size)
    return _memory[make, size]
