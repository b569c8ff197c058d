"""Attention over the tables that a widget shows, measured in the background.

A reader drags a slider over many values; each makes the measurement under way worthless. So a wish waits a
moment before it is carried out, and only the latest one is: an outdated one stops at its next sample.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pagedlab.events import SeqId

from .bar_table import BarTable, Row, Segment

if TYPE_CHECKING:
    from pagedlab.cost import AttentionCost, Cost


class TablesShown(NamedTuple):
    """The block tables that are on the screen, and the pool they point into."""

    num_slots: int
    block_size: int
    tables: Mapping[SeqId, Sequence[int]]
    num_tokens: Mapping[SeqId, int]


class Measuring:
    """Runs attention over the tables shown, in a thread; only the latest wish counts."""

    WAIT = 0.3
    """Seconds without a change before a measurement starts: a slider is dragged over many values."""

    def __init__(self, shown: Callable[[], TablesShown], table: BarTable) -> None:
        self._shown = shown
        self._table = table
        self._wish = 0
        self._lock = threading.Lock()
        self._pool: AttentionCost | None = None

    def soon(self) -> None:
        """Measure what is shown once the reader has stopped changing it."""
        wish = self.stop()
        self._table.status = "measuring ..."
        threading.Thread(target=self._later, args=(wish,), daemon=True).start()

    def stop(self) -> int:
        """Let any measurement that is under way or waiting end without a result."""
        self._wish += 1
        return self._wish

    def now(self) -> Cost:
        """Measure what is shown, and wait for the result."""
        return self._measure(self.stop())

    def _later(self, wish: int) -> None:
        time.sleep(self.WAIT)
        if wish != self._wish:
            return
        try:
            self._measure(wish)
        except Exception as error:  # in a thread nobody would see it
            if wish == self._wish:
                self._table.status = f"not measured: {error}"

    def _measure(self, wish: int) -> Cost:
        from pagedlab.cost import AttentionCost  # brings torch

        with self._lock:
            shown = self._shown()
            if self._pool is None or self._pool.num_slots != shown.num_slots:
                self._pool = None  # the old one goes before the new one comes
                self._pool = AttentionCost(shown.num_slots)
            cost = self._pool.measure(
                shown.tables, shown.num_tokens, shown.block_size, should_stop=lambda: wish != self._wish
            )
            if wish == self._wish:
                _draw(self._table, cost)
            return cost


def _draw(table: BarTable, cost: Cost) -> None:
    comparison = cost.comparison
    rows = []
    for timing in comparison.timings:
        spread = timing.spread
        if timing.name == comparison.baseline:
            note = "twin"
        else:
            ratio = comparison.ratio(timing.name).median
            note = f"{ratio:.2f} x the twin: {comparison.difference(timing.name)}"
        if timing.bytes_per_second:
            note += f", {timing.bytes_per_second / 1e9:.3g} GB/s"
        ms = [1e3 * value for value in (spread.median, spread.q1, spread.q3)]
        rows.append(Row(timing.name, (Segment("time", ms[0], low=ms[1], high=ms[2]),), note))
    table.show(
        rows,
        word="measured",
        device=comparison.device,
        status="",
        caption=(
            f"{cost.sequences} sequences, {cost.tokens:,} tokens, one layer of {cost.heads}; "
            f"{cost.backend} kernel; {comparison.rounds} rounds, noise floor "
            f"{100 * comparison.noise_floor:.1f} %; the two answers differ by {cost.difference:.1g} at most."
        ),
    )
