"""Advice in a notebook: a trace, a model and a GPU to choose, the decision, four costs, the evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ipywidgets

from pagedlab import _format, advice, gpus, models
from pagedlab.advice import page
from pagedlab.advice.block_cost import PARTS
from pagedlab.advice.engines import ENGINES
from pagedlab.workloads import Workload

from .bar_table import BarTable, Row, Segment
from .controls import WorkloadChooser, choice_list, on_change, row

RANKS = (1, 2, 4, 8, 16)


class AdviceView(ipywidgets.VBox):
    """What to set for a trace, and why; every change of a choice gives the advice anew.

    `workload` is the name of one that comes with the package, a path or a `Workload`; `choices` are fields
    of `pagedlab.advice.Choice`. `advice` is what is shown, None where a choice cannot be: then a message says
    why. Raises what `workloads.load` raises, and `ValueError` for a choice that no list has.

    >>> view = AdviceView("azure-code", gpu="h100-sxm")
    >>> view.gpu.value = "rtx-4090"
    >>> view.advice.finding("capacity").values["running"] < 20
    True
    """

    def __init__(self, workload: str | Path | Workload = "azure-conversation", **choices: Any) -> None:
        self.chooser = WorkloadChooser(workload)
        first = advice.Choice(**choices)
        self.model = choice_list("model", models.presets(), first.model, "Model")
        self.gpu = choice_list("gpu", gpus.names(), first.gpu, "GPU")
        self.tp = choice_list("tp", RANKS, first.tp, "Ranks (TP)")
        self.engine = choice_list("engine", ENGINES, first.engine, "Engine")
        self._choices = choices
        self.message = ipywidgets.HTML()
        kinds = {part: part for part in PARTS}
        self.costs = BarTable("What a block size costs", kinds, unit="us", word="simulated")
        self.decision, self.settings, self.evidence = (ipywidgets.HTML() for _ in range(3))
        self.advice: advice.Advice | None = None
        lists = [self.model, self.gpu, self.tp, self.engine]
        shown = [self.message, self.decision, self.costs, self.settings, self.evidence]
        super().__init__([self.chooser, row(*lists), *shown])
        self.chooser.observe(lambda _: self._advise(), "chosen")
        on_change(self._advise, *lists)
        self._advise()

    def _advise(self) -> None:
        chosen = {name: getattr(self, name).value for name in ("model", "gpu", "tp", "engine")}
        self.costs.status = "working ..."
        try:
            self.advice = advice.advise(self.chooser.chosen, **{**self._choices, **chosen})
        except (advice.AdviceError, KeyboardInterrupt) as error:
            self.advice = None
            self.message.value = page.text(str(error) or "Interrupted: change a choice to begin anew.")
            self.costs.show([], status="", caption="")
            self.decision.value = self.settings.value = self.evidence.value = ""
            return
        self.message.value = "".join(f"<p>{page.text(warning)}</p>" for warning in self.advice.warnings)
        self.costs.show(
            [_row(self.advice, cost) for cost in self.advice.costs if cost.backends],
            status="",
            caption=f"{self.advice.subject}. GPU time of one produced token, as far as blocks decide.",
        )
        self.settings.value = page.settings(self.advice)
        self.decision.value = page.findings(self.advice.decision)
        self.evidence.value = page.findings(self.advice.evidence)


def _row(shown: advice.Advice, cost: Any) -> Row:
    note = f"{_format.number(round(cost.total_us, 2))} us in all, {cost.running:,.0f} requests at once"
    if cost.block_size == shown.block_size:
        note += "; advised"
    parts = {part: getattr(cost, f"{part}_us") for part in PARTS}
    segments = tuple(
        Segment(part, value or 0.0, "not known" if value is None else None) for part, value in parts.items()
    )
    return Row(f"blocks of {cost.block_size}", segments, note)
