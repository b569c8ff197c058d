"""Attention over the tables that a widget shows, measured in the background.

A reader drags a slider over many values; each makes the measurement under way worthless. So a wish waits a
moment before it is carried out, and only the latest one is: an outdated one ends at its next step and draws
nothing. The memory that attention reads is one for all widgets of a kernel, and one measurement runs at a
time: two would time each other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pagedlab import _format, machine
from pagedlab.comparison import TOO_NOISY
from pagedlab.events import SeqId

from .bar_table import BarTable, Row, Segment

if TYPE_CHECKING:
    from pagedlab.comparison import Comparison
    from pagedlab.cost import AttentionCost, Cost

_one_at_a_time = threading.Lock()
_memory: AttentionCost | None = None


class TablesShown(NamedTuple):
    """The block tables that are on the screen, and the pool they point into."""

    num_slots: int
    block_size: int
    tables: Mapping[SeqId, Sequence[int]]
    num_tokens: Mapping[SeqId, int]


class Measuring:
    """Runs attention over the tables shown, in a thread; only the latest wish counts."""

    WAIT = 0.3
    """Seconds without a change before a measurement starts."""

    def __init__(self, shown: Callable[[], TablesShown], table: BarTable) -> None:
        self._shown = shown
        self._table = table
        self._wish = 0
        self._turn = threading.Lock()  # a wish is not outdated while it draws

    def soon(self) -> None:
        """Measure what is shown once the reader has stopped changing it."""
        wish = self.stop()
        self._table.status = "measuring ..."
        threading.Thread(target=self._later, args=(wish,), daemon=True).start()

    def stop(self) -> int:
        """Outdate every wish so far; the number of the next one."""
        with self._turn:
            self._wish += 1
            return self._wish

    def now(self) -> Cost:
        """Measure what is shown, and wait for the result."""
        return self._measure(self.stop())

    def _later(self, wish: int) -> None:
        time.sleep(self.WAIT)
        try:
            self._measure(wish)
        except Exception as error:  # in a thread nobody would see it
            with self._turn:
                if wish == self._wish:
                    self._table.status = f"not measured: {error}"

    def _measure(self, wish: int) -> Cost:
        from pagedlab.cost import Outdated  # brings torch

        with _one_at_a_time:
            if wish != self._wish:
                raise Outdated("another measurement was asked for meanwhile")
            shown = self._shown()
            cost = _memory_of(shown.num_slots).measure(
                shown.tables, shown.num_tokens, shown.block_size, should_stop=lambda: wish != self._wish
            )
        with self._turn:
            if wish == self._wish:
                _draw(self._table, cost)
        return cost


def _memory_of(num_slots: int) -> AttentionCost:
    """The pool that attention reads: made when first needed, and anew when its size changes."""
    global _memory
    from pagedlab.cost import AttentionCost

    if _memory is None or _memory.num_slots != num_slots:
        _memory = None  # the old one goes before the new one comes
        _memory = AttentionCost(num_slots)
    return _memory


def _draw(table: BarTable, cost: Cost) -> None:
    comparison = cost.comparison
    rows = []
    for timing in comparison.timings:
        spread = timing.spread
        ms = [1e3 * value for value in (spread.median, spread.q1, spread.q3)]
        notes = [timing.layout]
        if timing.name != comparison.baseline:
            notes.append(_reading(comparison, timing.name))
        if timing.bytes_per_second:
            notes.append(f"{_format.significant(timing.bytes_per_second / 1e9)} GB/s")
        rows.append(Row(timing.name, (Segment("time", ms[0], low=ms[1], high=ms[2]),), ", ".join(notes)))
    table.show(rows, word="measured", device=comparison.device, status="", caption=_caption(cost))


def _reading(comparison: Comparison, name: str) -> str:
    """What the times say, if they say anything."""
    reading = comparison.difference(name)
    if reading == TOO_NOISY:
        return f"{reading}: this machine is busy, measure again"
    ratio = _format.significant(comparison.ratio(name).median)
    return f"{ratio} x the twin (median of rounds): {reading}"


def _caption(cost: Cost) -> str:
    comparison = cost.comparison
    read = f"{_format.size(cost.bytes_read)} read"
    largest_cache = max(machine.caches().values(), default=0)
    if cost.bytes_read <= largest_cache:
        read += f", which fits into this CPU's cache of {_format.size(largest_cache)}"
    return (
        f"{cost.sequences} sequences, {cost.tokens:,} tokens, one layer of {cost.heads}: {read}. "
        f"{cost.backend} kernel, {comparison.rounds} rounds, noise floor "
        f"{_format.percent(comparison.noise_floor)}; the two answers differ by {cost.difference:.1g} at most."
    )
