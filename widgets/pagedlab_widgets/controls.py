"""The parameters of a workload and its pool, as ipywidgets with names.

They need the kernel, so they are ipywidgets; what only replays is native inputs inside the pictures.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import ipywidgets
import traitlets as t

from pagedlab import workloads
from pagedlab.workloads import Workload

from .names import named

BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
POOLS = tuple(2**k for k in range(12, 19))  # 4,096 to 262,144 slots
_WIDE: dict[str, Any] = {"style": {"description_width": "initial"}, "layout": {"width": "310px"}}


def block_size_slider(value: int) -> ipywidgets.SelectionSlider:
    """One of `BLOCK_SIZES`."""
    slider = ipywidgets.SelectionSlider(
        options=BLOCK_SIZES, value=value, description="Block size (tokens)", **_WIDE
    )
    return named(slider, "Block size in tokens")


def pool_slider(value: int) -> ipywidgets.SelectionSlider:
    """One of `POOLS`."""
    options = [(f"{slots:,}", slots) for slots in POOLS]
    slider = ipywidgets.SelectionSlider(options=options, value=value, description="Pool (tokens)", **_WIDE)
    return named(slider, "Pool size in tokens")


def spread_slider(value: float) -> ipywidgets.FloatSlider:
    """What `Workload.with_spread` takes, 0 to 2."""
    slider = ipywidgets.FloatSlider(
        value=value,
        min=0,
        max=2,
        step=0.25,
        description="Spread of lengths",
        continuous_update=False,
        **_WIDE,
    )
    return named(slider, "Spread of lengths, 1 leaves them as they are")


def roomy_pool(workload: Workload) -> int:
    """The least of `POOLS`, from 16,384 on, that holds the longest request; the largest when none does."""
    longest = int(workload.stored.max())
    return next((slots for slots in POOLS if slots >= max(longest, 16_384)), POOLS[-1])


class WorkloadChooser(ipywidgets.HBox):
    """A drop-down of workloads and an upload for the reader's own; `chosen` is the one to look at.

    A file that is no trace gets a message and changes nothing.

    >>> chooser = WorkloadChooser("uniform")
    >>> chooser.names.value = "bimodal"
    >>> chooser.chosen.name
    'bimodal'
    """

    chosen = t.Instance(Workload)

    def __init__(self, workload: str | Path | Workload) -> None:
        name, self.chosen = _named_workload(workload)
        self._given = {} if name in workloads.names() else {name: self.chosen}
        self.names = named(
            ipywidgets.Dropdown(options=self._options(), value=name, description="Workload", **_WIDE),
            "Workload",
        )
        self.file = ipywidgets.FileUpload(
            accept=".csv", description="Your trace (.csv)", multiple=False, layout={"width": "max-content"}
        )
        self.message = ipywidgets.HTML()
        super().__init__([self.names, self.file, self.message], layout={"flex_flow": "row wrap"})
        self.names.observe(self._choose, "value")
        self.file.observe(self._take_file, "value")

    def _options(self) -> list[str]:
        return [*self._given, *workloads.names()]

    def _choose(self, change: dict[str, Any]) -> None:
        name = change["new"]
        self.chosen = self._given[name] if name in self._given else workloads.named(name)

    def _take_file(self, change: dict[str, Any]) -> None:
        if not change["new"]:
            return
        upload = change["new"][0]
        try:
            text = bytes(upload["content"]).decode("utf-8", "replace")
            workload = workloads.parse(text, upload["name"])
        except workloads.WorkloadError as error:
            self.say(f"Not read, nothing was changed: {error}")
            return
        self.say(f"{len(workload):,} requests read from {workload.name}")
        self._given[workload.name] = workload
        self.names.unobserve(self._choose, "value")  # new options choose the first of them, for a moment
        self.names.options = self._options()
        self.names.value = workload.name
        self.names.observe(self._choose, "value")
        self.chosen = workload

    def say(self, text: str) -> None:
        """Show text that may come from a file: as text, neither markup nor mathematics."""
        self.message.value = html.escape(text).replace("$", "&#36;")


def _named_workload(workload: str | Path | Workload) -> tuple[str, Workload]:
    """The name to choose it by, and the workload."""
    if isinstance(workload, str) and workload in workloads.names():
        return workload, workloads.named(workload)
    loaded = workload if isinstance(workload, Workload) else workloads.load(workload)
    return loaded.name, loaded
