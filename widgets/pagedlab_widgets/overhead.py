"""The overhead explorer: what a look-up costs on this machine, and what a block size costs in all.

    controls   need the kernel: context, batch, layout, order of blocks, block size
    cost       measured: one decode step through that block table, beside its contiguous twin
    workload   whose lengths decide the waste and the table
    costs      the four costs of every block size on one axis; two are computed at once, two are measured

A change of a control measures the step anew in the background. Every block size takes longer, so that it is
measured when asked for; until then the chart holds what can be computed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ipywidgets

from pagedlab import _format, overhead
from pagedlab.comparison import Comparison
from pagedlab.overhead import BLOCK_SIZES, LAYOUTS, ORDERS, DecodeSetting, Swept
from pagedlab.workloads import Workload

from .bar_table import BarTable
from .chart import Axis, Line, LineChart, Wall
from .controls import WorkloadChooser, block_size_slider, button, choice_list, choice_slider, row
from .measuring import Measuring, conditions, reading, timing_rows

CONTEXTS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
BATCHES = (1, 2, 4, 8, 16, 32, 64)
_USUAL = Wall("16: what vLLM falls back on", x=16)


class OverheadExplorer(ipywidgets.VBox):
    """Set a decode step, and measure it through a block table and without.

    `workload` (as for `FragmentationExplorer`) gives the lengths for the four costs. `context` (16 to 8,192),
    `batch` (1 to 64), `block_size`, `layout` ("HND" or "NHD") and `order` ("in order", "shuffled" or
    "scattered") are values of the controls. With `measure=False` only `measure()` and `measure_all()` do.

    Raises `ValueError` for a value that a control lacks, and what `workloads.load` and `named` raise.

    >>> explorer = OverheadExplorer("uniform", context=64, batch=2, measure=False)
    >>> explorer.setting.lookups(explorer.block_size.value)
    8
    """

    def __init__(
        self,
        workload: str | Path | Workload = "azure-conversation",
        *,
        context: int = 1024,
        batch: int = 8,
        block_size: int = 16,
        layout: str = "HND",
        order: str = "shuffled",
        measure: bool = True,
    ) -> None:
        self.context = choice_slider("context", CONTEXTS, context, "Context (tokens)", "Context in tokens")
        self.batch = choice_slider("batch", BATCHES, batch, "Batch (sequences)", "Batch in sequences")
        self.block_size = block_size_slider(block_size)
        self.layout_list = choice_list("layout", LAYOUTS, layout, "Layout", "Layout of a block")
        self.order = choice_list("order", ORDERS, order, "Blocks lie", "Order of the blocks in memory")
        self.chooser = WorkloadChooser(workload)
        self.cost = BarTable("One decode step", {"time": "median"}, unit="ms", word="measured")
        self.costs = LineChart(
            "What a block size costs",
            Axis("block size", log=True, ticks=BLOCK_SIZES),
            Axis("% of its largest", ticks=(0, 25, 50, 75, 100)),
        )
        self._step = Measuring(self.cost, overhead.step, self._asked, self._draw_step)
        self._sweep = Measuring(self.costs, overhead.sweep, self._asked_for_all, self._draw_sweep)
        self.measure_again = button("Measure again", self._step.soon, None)
        self.every_size = button("Measure every block size", self._sweep.soon)
        self._measures = measure
        self._swept: Swept | None = None
        settings = [self.context, self.batch, self.block_size, self.layout_list, self.order]
        again = row(self.measure_again, self._step.activity)
        every = row(self.every_size, self._sweep.activity)
        super().__init__([row(*settings), self.cost, again, self.chooser, self.costs, every])
        for control in settings:
            control.observe(self._changed, "value")
        self.chooser.observe(lambda _: self._count(), "chosen")
        self._count()
        self._changed({"owner": self.block_size})

    # ---- asking ------------------------------------------------------------------------------

    @property
    def setting(self) -> DecodeSetting:
        """The step that is set; raises `ValueError` when it is larger than what is measured here."""
        return DecodeSetting(self.context.value, self.batch.value, self.layout_list.value, self.order.value)

    def measure(self) -> Comparison:
        """Measure the step that is set, and wait for it."""
        return self._step.now()

    def measure_all(self) -> Swept:
        """Measure every block size, and wait for it."""
        return self._sweep.now()

    def close(self) -> None:
        """Stop measuring, and close the widget."""
        for measuring in (getattr(self, "_step", None), getattr(self, "_sweep", None)):
            if measuring is not None:
                measuring.stop()
        super().close()

    # ---- inside ------------------------------------------------------------------------------

    def _changed(self, change: dict[str, Any]) -> None:
        if change["owner"] is self.block_size:
            self.costs.cursor = self.block_size.value
        else:  # what was measured at every block size was another step
            self._sweep.stop()
            self._swept = None
            self._draw_costs()
        try:
            self.cost.caption = self._counted(self.setting)
        except ValueError as error:
            self._step.stop()
            self.cost.show([], caption=f"Not measured: {error}.")
            return
        if self._measures:
            self._step.soon()
        else:
            self._step.stop()

    def _count(self) -> None:
        """Another workload: what it wastes, and the tables that it needs."""
        self._sweep.stop()
        self._swept = None
        self._counted_costs = overhead.count(self.chooser.chosen)
        self._draw_costs()

    def _asked(self) -> tuple[Any, ...]:
        return self.setting, self.block_size.value

    def _asked_for_all(self) -> tuple[Any, ...]:
        return self.setting, overhead.mid_decode(self.chooser.chosen).tolist()

    # ---- drawing -----------------------------------------------------------------------------

    def _counted(self, setting: DecodeSetting) -> str:
        entries = setting.lookups(self.block_size.value)
        size = _format.size(4 * entries)
        return f"{_format.count(entries, 'look-up')} a layer, a block table of {size} (computed)."

    def _draw_step(self, comparison: Comparison) -> None:
        caption = f"{self._counted(self.setting)} {conditions(comparison)}"
        self.cost.show(timing_rows(comparison), caption=caption, device=comparison.device)

    def _draw_sweep(self, swept: Swept) -> None:
        self._swept = swept
        self._draw_costs()

    def _draw_costs(self) -> None:
        counted, workload = self._counted_costs, self.chooser.chosen
        tables = [
            f"{_format.count(entries, 'look-up')}, padded table of {_format.size(4 * padded)}"
            for entries, padded in zip(counted.entries, counted.padded, strict=True)
        ]
        shares = [_format.percent(share) for share in counted.wasted]
        lines = [
            _line("memory wasted", counted.wasted, shares),
            _line("block table", counted.entries, tables),
        ]
        caption = (
            f"Of {workload.name}: waste over time, and the table of {overhead.HOST_BATCH} requests at random "
            "moments of their lives (computed)."
        )
        if self._swept is None:
            caption += " Two costs are measured when you ask for them."
            self.costs.show(lines, [_USUAL], caption=caption, device="", status="")
            return
        kernel, host = self._swept.kernel, self._swept.host
        names = [f"paged {size}" for size in BLOCK_SIZES]
        builds = [host[name].median for name in names]
        times = [kernel.ratio(name).median for name in names]
        lines.append(_line("host builds the table", builds, [*map(_format.seconds, builds)], "measured"))
        lines.append(_line("kernel", times, [reading(kernel, name) for name in names], "measured"))
        caption += f" Measured: {conditions(kernel)}"
        self.costs.show(lines, [_USUAL], caption=caption, device=kernel.device)


def _line(name: str, values: Any, texts: list[str], word: str = "computed") -> Line:
    """A cost by block size, in percent of what it is at its worst."""
    largest = max(values) or 1
    return Line(name, BLOCK_SIZES, [100 * value / largest for value in values], "line", texts, word)
