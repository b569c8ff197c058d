"""Measuring what a widget shows, in the background.

A reader drags a slider over many values; each makes the measurement under way worthless. So a wish waits a
moment before it is carried out, and only the latest one is: an outdated one ends at its next step and draws
nothing. The work is done by the one worker process of the kernel (`worker`); an `Activity` says how far it is
and lets the reader end it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pagedlab import _format, machine
from pagedlab.comparison import TOO_NOISY
from pagedlab.cost import Outdated

from .activity import Activity
from .bar_table import BarTable, Row, Segment
from .picture import Picture
from .worker import WORKER, Stopped

if TYPE_CHECKING:
    from pagedlab.comparison import Comparison
    from pagedlab.cost import Cost

OUT_OF_DATE = "out of date"
NOT_IN_A_BROWSER = "Not measured: a browser has no kernels to time. On a machine of your own it has."


class Measuring:
    """Runs a task with what `ask` gives for it, and draws the answer; only the latest wish counts.

    `chart` is what `draw` draws on: its `status` says when that is out of date. `ask` is called in another
    thread.
    """

    WAIT = 0.3
    """Seconds without a change before a measurement starts."""

    def __init__(
        self,
        chart: Picture,
        task: Callable[..., Any],
        ask: Callable[[], tuple[Any, ...]],
        draw: Callable[[Any], object],
    ) -> None:
        self.activity = Activity(self.cancel)
        self._chart, self._task, self._ask, self._draw = chart, task, ask, draw
        self._wish = 0
        self._drawn = False
        self._turn = threading.Lock()  # a wish is not outdated while it draws

    def soon(self) -> None:
        """Measure what is shown once the reader has stopped changing it."""
        if sys.platform == "emscripten":  # nor has it threads
            self.activity.end(NOT_IN_A_BROWSER)
            return
        wish = self._next_wish("measuring")
        threading.Thread(target=self._later, args=(wish,), daemon=True).start()

    def stop(self) -> None:
        """What was measured, or is being measured, is not what is shown any more."""
        self._next_wish("")

    def cancel(self) -> None:
        """The reader does not want to wait."""
        self._next_wish("")
        self.activity.end("Cancelled.")

    def now(self) -> Any:
        """Measure what is shown, and wait for the answer."""
        wish = self._next_wish("measuring")
        try:
            return self._measure(wish)
        except BaseException as error:
            self._end(wish, f"Not measured: {str(error) or 'interrupted'}")
            raise

    def _next_wish(self, doing: str) -> int:
        with self._turn:
            self._wish += 1
            if self._drawn:
                self._chart.status = OUT_OF_DATE
            if doing:
                self.activity.begin(doing)
            else:
                self.activity.end()
            return self._wish

    def _later(self, wish: int) -> None:
        time.sleep(self.WAIT)
        try:
            if wish == self._wish:
                self._measure(wish)
        except (Outdated, Stopped):
            self._end(wish)
        except Exception as error:  # in a thread nobody would see it
            self._end(wish, f"Not measured: {error}")

    def _measure(self, wish: int) -> Any:
        def outdated() -> bool:
            return wish != self._wish

        def progress(done: int, of: int) -> None:
            with self._turn:
                if not outdated():
                    self.activity.progress(done, of)

        answer = WORKER.run(self._task, *self._ask(), should_stop=outdated, progress=progress)
        with self._turn:
            if not outdated():
                self._draw(answer)
                self._drawn = True
                self._chart.status = ""
                self.activity.end()
        return answer

    def _end(self, wish: int, message: str = "") -> None:
        with self._turn:
            if wish == self._wish:
                self.activity.end(message)


def timing_rows(comparison: Comparison) -> list[Row]:
    """A row for each case: its time in ms (kind "time"), and what that says."""
    rows = []
    for timing in comparison.timings:
        spread, notes = timing.spread, [timing.layout]
        ms = [1e3 * value for value in (spread.median, spread.q1, spread.q3)]
        if timing.name not in (comparison.baseline, comparison.limit):
            notes.append(reading(comparison, timing.name))
        if timing.name != comparison.limit and (share := comparison.share_of_limit(timing.name)):
            notes.append(f"{_format.percent(share)} of the speed of a plain read")
        elif timing.bytes_per_second:
            notes.append(f"{_format.significant(timing.bytes_per_second / 1e9)} GB/s")
        name = timing.name.replace("paged ", "paged, blocks of ")
        name = "the same bytes, only read" if name == comparison.limit else name
        rows.append(Row(name, (Segment("time", ms[0], low=ms[1], high=ms[2]),), ", ".join(notes)))
    return rows


def reading(comparison: Comparison, name: str) -> str:
    """What the times say, if they say anything."""
    says = comparison.difference(name)
    if says == TOO_NOISY:
        return f"{says}: this machine is busy, measure again"
    ratio = _format.significant(comparison.ratio(name).median)
    return f"{ratio} x the twin (median of rounds): {says}"


def conditions(comparison: Comparison) -> str:
    """What was timed and how, in two sentences."""
    what = comparison.what.removeprefix("one decode step, ")
    threads = ", ".join(f"{name} {count}" for name, count in comparison.threads.items())
    return (
        f"{what[:1].upper()}{what[1:]}. Caches {comparison.caches}, {comparison.rounds} rounds, noise floor "
        f"{_format.percent(comparison.noise_floor)}; threads: {threads}."
    )


def draw_cost(table: BarTable, cost: Cost) -> None:
    """The two sides of a cost, with what their times say."""
    read = f"{_format.size(cost.bytes_read)} read"
    largest_cache = max(machine.caches().values(), default=0)
    if cost.bytes_read <= largest_cache:
        read += f", which fits into this CPU's cache of {_format.size(largest_cache)}"
    sequences, tokens = _format.count(cost.sequences, "sequence"), _format.count(cost.tokens, "token")
    caption = (
        f"{sequences}, {tokens}, {read}. {conditions(cost.comparison)} The two answers differ by "
        f"{cost.difference:.1g} at most."
    )
    table.show(timing_rows(cost.comparison), caption=caption, device=cost.comparison.device)
