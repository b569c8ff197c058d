"""The fragmentation explorer: a workload, a block size, and what becomes of the memory.

    controls     need the kernel: workload, file, block size, pool, spread of lengths
    waste        computed: a formula over every request at once
    map          simulated: a window of the run, under three policies, on one timeline
    running      simulated: requests at once over the same steps; its slider and the map's are one
    moment       simulated: the pools at the step on the map; `holders` names who holds what stores nothing
    cost         measured: attention over exactly the tables now shown, and its twin
    pool_use     simulated: where the pool's slots went in that window, and how many requests ran at once

A change of a parameter redraws at once; the measurement follows in the background, and starts anew
whenever the tables shown change. What only replays (play, step, scrub) asks nothing of the kernel.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import ipywidgets

from pagedlab import _format, overhead, waste
from pagedlab.events import SeqId
from pagedlab.serving import Rules, Run
from pagedlab.workloads import Workload

from . import controls
from .bar_table import BarTable, Row, Segment
from .block_map import BlockMap
from .chart import Axis, Line, LineChart
from .controls import WorkloadChooser, button, on_change, row
from .measuring import Measuring, draw_cost
from .played import CELL, LABELS, POOL_KINDS, Played, explained, play_contiguous, play_paged, simulated
from .trace import MAX_BLOCKS

if TYPE_CHECKING:
    from pagedlab.cost import Cost

_AS_WIDE = {"width": "max-content", "padding": "0 12px"}
WINDOW_STEPS, WINDOW_EVENTS, WINDOW_REQUESTS = 400, 8_000, 20_000
_KINDS = ("stored", "reserved", "internal")


class TablesShown(NamedTuple):
    """The block tables that are on the screen, and the pool they point into."""

    tables: Mapping[SeqId, Sequence[int]]
    num_tokens: Mapping[SeqId, int]
    block_size: int
    num_slots: int


class FragmentationExplorer(ipywidgets.VBox):
    """Drag the block size and see where the memory of a workload goes.

    `workload` is the name of one that comes with the package, the path of a CSV file of requests, or a
    `Workload`. `block_size`, `num_slots` and `spread` are values of their sliders; without `num_slots` the
    pool is one that holds the longest request. With `measure=False` attention is run by `measure()` alone.

    Raises `ValueError` for a value that a slider lacks, and what `workloads.load` and `named` raise.

    >>> explorer = FragmentationExplorer("uniform", num_slots=4096, measure=False)
    >>> explorer.block_size.value = 256
    >>> explorer.waste_share("paged") > 0.5
    True
    """

    def __init__(
        self,
        workload: str | Path | Workload = "azure-conversation",
        *,
        block_size: int = 16,
        num_slots: int | None = None,
        spread: float = 1.0,
        measure: bool = True,
    ) -> None:
        self.chooser = WorkloadChooser(workload)
        self.block_size = controls.block_size_slider(block_size)
        self.pool = controls.pool_slider(
            controls.roomy_pool(self.chooser.chosen) if num_slots is None else num_slots
        )
        self.spread = controls.spread_slider(spread)
        self.waste = _percentages("Memory held, over all requests and all their steps", _KINDS, "computed")
        self.map = BlockMap(word="simulated")
        steps, timeline = (Axis("step"), Axis("running")), self.map.timeline
        self.running = LineChart("Requests at once", *steps, word="simulated", timeline=timeline)
        self.explain = ipywidgets.ToggleButton(description="Explain this moment", layout=_AS_WIDE)
        self.moment = BarTable("", {kind: kind for kind in POOL_KINDS}, word="simulated")
        self.holders = ipywidgets.HTML()
        self.pool_use = _percentages("The pool, mean over the steps shown", POOL_KINDS, "simulated")
        self.cost = BarTable(
            "One decode step over the tables shown", {"time": "median"}, unit="ms", word="measured"
        )
        draw = partial(draw_cost, self.cost)
        self._measuring = Measuring(self.cost, overhead.decode, self.tables_shown, draw)
        self.measure_again = button("Measure again", self._measuring.soon, None)
        self._measures = measure
        self._redraw_all()
        self.map.frame = self.map.frames // 2
        self._observe()
        sliders = row(self.block_size, self.pool, self.spread)
        again = row(self.measure_again, self._measuring.activity)
        shown = (self.waste, self.map, self.running, self.explain, self.moment, self.holders, self.cost)
        super().__init__([self.chooser, sliders, *shown, again, self.pool_use])
        self._look_at_step()

    # ---- asking ------------------------------------------------------------------------------

    @property
    def requests(self) -> Workload:
        """The requests now looked at, their spread changed as the slider says."""
        return self._requests

    @property
    def run(self) -> Run:
        """The paged run whose window the map shows."""
        return self._paged.run

    def waste_share(self, policy: str) -> float:
        """Share of held slots without a token under a policy, over all requests (0 to 1)."""
        return _footprints(self._requests, self.block_size.value)[policy].wasted_share

    def tables_shown(self) -> TablesShown:
        """The block tables of the step that the map shows, from the event log."""
        played = self._paged  # read once: a measuring thread asks while the reader drags
        log, block_size = played.run.events, played.run.manager.block_size
        state = log.state_at(min(self.map.frame, log.num_steps - 1), block_size)
        return TablesShown(state.tables, state.num_tokens, block_size, played.num_slots)

    def measure(self) -> Cost:
        """Measure attention over the tables now shown, and wait for it.

        Raises `ValueError` when no sequence stores a token at the step shown.
        """
        return self._measuring.now()

    def close(self) -> None:
        """Stop measuring, and close the widget."""
        if hasattr(self, "_measuring"):  # not when making it failed
            self._measuring.stop()
        super().close()

    # ---- changing ----------------------------------------------------------------------------

    def _observe(self) -> None:
        self.chooser.observe(self._redrawing(self._take_workload), "chosen")
        self.block_size.observe(self._redrawing(self._redraw_paged), "value")
        self.pool.observe(self._redrawing(self._redraw_all), "value")
        self.spread.observe(self._redrawing(self._redraw_all), "value")
        self.map.observe(lambda _: self._look_at_step(), "frame")
        on_change(self._draw_moment, self.explain)

    def _redrawing(self, redraw: Callable[[], None]) -> Callable[[Any], None]:
        """What a control calls: an interrupt leaves the pictures as they were, and says so."""

        def changed(_: Any) -> None:
            try:
                redraw()
            except KeyboardInterrupt:
                self._draw_waste(self._requests, self.run.manager.block_size)
                self.chooser.say("Interrupted: the pictures still show what was set before.")

        return changed

    def _take_workload(self) -> None:
        pool = controls.roomy_pool(self.chooser.chosen)
        if pool == self.pool.value:
            self._redraw_all()
        else:
            self.chooser.say(f"The pool is {pool:,} tokens now, so that the longest request fits.", more=True)
            self.pool.value = pool  # redraws

    def _redraw_all(self) -> None:
        """New requests or a new pool: every run, every figure."""
        self._measuring.stop()
        requests, slots = self.chooser.chosen.with_spread(self.spread.value), self.pool.value
        served = requests.first(WINDOW_REQUESTS)
        probe = simulated(
            served, num_slots=slots, block_size=CELL, max_steps=WINDOW_STEPS, max_events=WINDOW_EVENTS
        )
        steps = max(1, len(probe.steps))
        longest = Rules(reserved=int(requests.stored.max()))
        contiguous = [
            play_contiguous(served, policy, slots, steps, rules)
            for policy, rules in (("power-of-two", None), ("reserve", longest))
        ]
        self._show(requests, contiguous, play_paged(served, self.block_size.value, slots, steps), steps)

    def _redraw_paged(self) -> None:
        """A new block size: the contiguous runs stay as they are."""
        self._measuring.stop()
        self._draw_waste(self._requests, self.block_size.value)  # first: on the screen during the simulation
        paged = play_paged(
            self._requests.first(WINDOW_REQUESTS), self.block_size.value, self.pool.value, self._steps
        )
        self._show(self._requests, self._contiguous, paged, self._steps)

    def _show(self, requests: Workload, contiguous: list[Played], paged: Played, steps: int) -> None:
        self._requests, self._contiguous, self._paged, self._steps = requests, contiguous, paged, steps
        self._draw_waste(requests, paged.run.manager.block_size)
        self.map.show(paged.trace, *(played.trace for played in contiguous))
        self._draw_running()
        self._draw_pool_use()
        self._look_at_step()

    def _look_at_step(self) -> None:
        self._draw_moment()
        if self._measures:
            self._measuring.soon()
        else:
            self._measuring.stop()

    # ---- drawing -----------------------------------------------------------------------------

    @property
    def _played(self) -> tuple[Played, ...]:
        return self._paged, *self._contiguous

    def _draw_waste(self, requests: Workload, block_size: int) -> None:
        rows = []
        for policy, footprint in _footprints(requests, block_size).items():
            slots = {"stored": footprint.stored, **footprint.waste._asdict()}
            segments = tuple(Segment(kind, 100 * slots[kind] / footprint.held) for kind in _KINDS)
            wasted = f"{_format.significant(100 * footprint.wasted_share)} % wasted"
            rows.append(Row(LABELS[policy], segments, wasted))
        count = _format.count(len(requests), "request")
        self.waste.show(rows, caption=f"{count}, {requests.origin}: {requests.source}.")

    def _draw_running(self) -> None:
        steps = {played.label: played.run.steps.running.tolist() for played in self._played}
        self.running.show(Line(name, range(len(running)), running) for name, running in steps.items())

    def _draw_moment(self) -> None:
        """The step on the map: what the pools hold, and who holds what stores nothing."""
        for shown in (self.moment, self.holders):
            shown.layout.display = "" if self.explain.value else "none"
        if not self.explain.value:
            self.holders.value = ""
            return
        step = self.map.frame
        there = [played for played in self._played if step < len(played.run.steps)]
        rows = []
        for played in there:
            slots = played.pool_at(step)
            segments = tuple(Segment(kind, slots[kind]) for kind in POOL_KINDS)
            rows.append(Row(played.label, segments, f"{played.run.steps.running[step]:,} running"))
        self.moment.show(rows, title=f"The pool at step {step}")
        told = {played.label: html.escape(explained(played, step)) for played in there}
        self.holders.value = "".join(f"<p><strong>{name}</strong>: {text}</p>" for name, text in told.items())

    def _draw_pool_use(self) -> None:
        rows = []
        for played in self._played:
            run = played.run
            slots = {kind: sum(getattr(run.steps, kind)) for kind in POOL_KINDS[:-1]}
            everything = played.slots * max(1, len(run.steps))
            slots["free"] = everything - sum(slots.values())
            segments = tuple(Segment(kind, 100 * slots[kind] / everything) for kind in POOL_KINDS)
            rows.append(Row(played.label, segments, _running(run)))
        caption = (
            f"Steps 1 to {self._steps} of the run, every request waiting from the start; "
            "running: requests in the pool at once."
        )
        if len(self._requests) > WINDOW_REQUESTS:
            caption += f" Served are the first {WINDOW_REQUESTS:,} of {len(self._requests):,} requests."
        if (cut := self._paged.slots) < self._paged.num_slots:
            caption += f" The paged pool is cut to {cut:,} slots: a map shows {MAX_BLOCKS:,} blocks at most."
        self.pool_use.show(rows, caption=caption)


def _percentages(title: str, kinds: tuple[str, ...], word: str) -> BarTable:
    return BarTable(title, {kind: kind for kind in kinds}, unit="%", scale=100, word=word)


def _footprints(requests: Workload, block_size: int) -> dict[str, waste.Footprint]:
    return {
        "paged": waste.paged(requests, block_size),
        "power-of-two": waste.power_of_two(requests),
        "reserve": waste.reserve_longest(requests),
    }


def _running(run: Run) -> str:
    steps = run.steps
    if not len(steps):
        return f"{_format.count(run.refused, 'request')} refused: larger than the pool"
    text = f"{steps.mean('running'):.1f} running, {steps.running.max():,} at most"
    return f"{text}; {run.refused:,} refused: larger than the pool" if run.refused else text
