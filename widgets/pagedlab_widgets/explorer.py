"""The fragmentation explorer: a workload, a block size, and what becomes of the memory.

    controls     need the kernel: workload, file, block size, pool, spread of lengths
    waste        computed: a formula over every request at once
    map          simulated: a window of the run, under three policies, on one timeline
    cost         measured: attention over exactly the tables now shown, and its twin
    pool_use     simulated: where the pool's slots went in that window, and how many requests ran at once

A change of a parameter redraws at once; the measurement follows in the background, and starts anew
whenever the tables shown change. What only replays (play, step, scrub) asks nothing of the kernel.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import ipywidgets

from pagedlab import _format, serving, waste
from pagedlab.serving import Run
from pagedlab.workloads import Workload

from .bar_table import BarTable, Row, Segment
from .block_map import BlockMap
from .controls import WorkloadChooser, block_size_slider, pool_slider, roomy_pool, spread_slider
from .encode import contiguous_trace, paged_trace
from .measuring import Measuring, TablesShown
from .trace import MAX_BLOCKS, Trace

if TYPE_CHECKING:
    from pagedlab.cost import Cost

CELL = 16
"""Slots in one cell of a contiguous pool's picture."""
WINDOW_STEPS, WINDOW_EVENTS = 400, 8_000
_LABELS = {"paged": "paged", "power-of-two": "power of two", "reserve": "longest"}
_KINDS = ("stored", "reserved", "internal")
_POOL_KINDS = (*_KINDS, "external", "free")


class _Played(NamedTuple):
    """One run, its picture, and the pool that was asked for: a map may have to cut it."""

    run: Run
    trace: Trace
    num_slots: int


class FragmentationExplorer(ipywidgets.VBox):
    """Drag the block size and see where the memory of a workload goes.

    `workload` is the name of one that comes with the package, the path of a CSV file of requests, or a
    `Workload`. `block_size` and `num_slots` are values of their sliders; without `num_slots` the pool is
    one that holds the longest request. With `measure=False` attention is run by `measure()` alone.

    Raises what `workloads.load` and `workloads.named` raise.

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
        self.block_size = block_size_slider(block_size)
        self.pool = pool_slider(num_slots or roomy_pool(self.chooser.chosen))
        self.spread = spread_slider(spread)
        self.waste = _percentages("Memory held, over all requests and all their steps", _KINDS, "computed")
        self.map = BlockMap(word="simulated")
        self.pool_use = _percentages("The pool, mean over the steps shown", _POOL_KINDS, "simulated")
        self.cost = BarTable(
            "One decode step over the tables shown", {"time": "median"}, unit="ms", word="measured"
        )
        self.measure_again = ipywidgets.Button(description="Measure again")
        self._measuring = Measuring(self.tables_shown, self.cost)
        self._measures = measure
        self._redraw_all()
        self.map.frame = self.map.frames // 2
        self._observe()
        sliders = ipywidgets.HBox([self.block_size, self.pool, self.spread], layout={"flex_flow": "row wrap"})
        super().__init__(
            [self.chooser, sliders, self.waste, self.map, self.cost, self.measure_again, self.pool_use]
        )
        self._measure_soon()

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
        return TablesShown(played.num_slots, block_size, state.tables, state.num_tokens)

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
        self.chooser.observe(lambda _: self._take_workload(), "chosen")
        self.block_size.observe(lambda _: self._redraw_paged(), "value")
        self.pool.observe(lambda _: self._redraw_all(), "value")
        self.spread.observe(lambda _: self._redraw_all(), "value")
        self.map.observe(lambda _: self._measure_soon(), "frame")
        self.measure_again.on_click(lambda _: self._measuring.soon())

    def _take_workload(self) -> None:
        pool = roomy_pool(self.chooser.chosen)
        if pool == self.pool.value:
            self._redraw_all()
        else:
            self.chooser.say(f"The pool is {pool:,} tokens now, so that the longest request fits.")
            self.pool.value = pool  # redraws

    def _redraw_all(self) -> None:
        """New requests or a new pool: every run, every figure."""
        self._measuring.stop()
        self._requests = self.chooser.chosen.with_spread(self.spread.value)
        slots = self.pool.value
        probe = serving.simulate(
            self._requests,
            num_slots=slots,
            block_size=CELL,
            max_steps=WINDOW_STEPS,
            max_events=WINDOW_EVENTS,
        )
        self._steps = max(1, len(probe.steps))
        self._contiguous = [self._play_contiguous(policy, slots) for policy in ("power-of-two", "reserve")]
        self._redraw_paged()

    def _redraw_paged(self) -> None:
        """A new block size: the contiguous runs stay as they are."""
        self._measuring.stop()
        block_size = self.block_size.value
        self._draw_waste(block_size)  # first: it is on the screen while the run is still simulated
        slots = min(self.pool.value, MAX_BLOCKS * block_size)
        self._paged = self._play_paged(slots, block_size)
        self.map.show(self._paged.trace, *(played.trace for played in self._contiguous))
        self._draw_pool_use(slots)
        self._measure_soon()

    def _play_paged(self, slots: int, block_size: int) -> _Played:
        run = serving.simulate(self._requests, num_slots=slots, block_size=block_size, max_steps=self._steps)
        trace = paged_trace(
            run.events,
            num_blocks=slots // block_size,
            block_size=block_size,
            label=f"paged, blocks of {block_size}",
            name=_request,
        )
        return _Played(run, trace, self.pool.value)

    def _play_contiguous(self, policy: str, slots: int) -> _Played:
        run = serving.simulate(self._requests, policy, num_slots=slots, max_steps=self._steps)
        label = f"{_LABELS[policy]}, cells of {CELL}"
        trace = contiguous_trace(run.events, num_slots=slots, cell_size=CELL, label=label, name=_request)
        return _Played(run, trace, self.pool.value)

    def _measure_soon(self) -> None:
        if self._measures:
            self._measuring.soon()

    # ---- drawing -----------------------------------------------------------------------------

    def _draw_waste(self, block_size: int) -> None:
        rows = []
        for policy, footprint in _footprints(self._requests, block_size).items():
            slots = {"stored": footprint.stored, **footprint.waste._asdict()}
            segments = tuple(Segment(kind, 100 * slots[kind] / footprint.held) for kind in _KINDS)
            rows.append(
                Row(
                    _LABELS[policy], segments, f"{_format.significant(100 * footprint.wasted_share)} % wasted"
                )
            )
        requests = self._requests
        self.waste.show(rows, caption=f"{len(requests):,} requests, {requests.origin}: {requests.source}.")

    def _draw_pool_use(self, paged_slots: int) -> None:
        rows = []
        for run in (self._paged.run, *(played.run for played in self._contiguous)):
            pool = paged_slots if run.policy == "paged" else self.pool.value
            slots = {kind: sum(getattr(run.steps, kind)) for kind in _POOL_KINDS[:-1]}
            everything = pool * max(1, len(run.steps))
            slots["free"] = everything - sum(slots.values())
            segments = tuple(Segment(kind, 100 * slots[kind] / everything) for kind in _POOL_KINDS)
            rows.append(Row(_LABELS[run.policy], segments, _running(run)))
        caption = (
            f"Steps 1 to {self._steps} of the run, every request waiting from the start; "
            "running: requests in the pool at once."
        )
        if paged_slots < self.pool.value:
            caption += (
                f" The paged pool is cut to {paged_slots:,} slots: a map shows {MAX_BLOCKS:,} blocks at most."
            )
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
    text = f"{run.steps.mean('running'):.1f} running"
    return f"{text}; {run.refused:,} refused: larger than the pool" if run.refused else text


def _request(seq_id: object) -> str:
    return f"request {seq_id}"
