"""The parameters of a workload and its pool, as ipywidgets with names.

They need the kernel, so they are ipywidgets; what only replays is native inputs inside the pictures.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ipywidgets
import traitlets as t

from pagedlab import _format, workloads
from pagedlab.inputs import one_of
from pagedlab.overhead import BLOCK_SIZES
from pagedlab.workloads import Workload

from .names import named
from .upload import Upload

POOLS = tuple(2**k for k in range(12, 19))  # 4,096 to 262,144 slots
WRAP = {"flex_flow": "row wrap"}
_WIDE: dict[str, Any] = {"style": {"description_width": "initial"}, "layout": {"width": "310px"}}


def choice_slider(
    name: str, options: Sequence[int], value: int, description: str, spoken: str
) -> ipywidgets.SelectionSlider:
    """A slider over some whole numbers, called `spoken`; ValueError for a value that is none of them."""
    one_of(options, value, name)
    shown = [(f"{option:,}", option) for option in options]
    slider = ipywidgets.SelectionSlider(options=shown, value=value, description=description, **_WIDE)
    return named(slider, spoken)


def choice_list(
    name: str, options: Sequence[Any], value: Any, description: str, spoken: str = ""
) -> ipywidgets.Dropdown:
    """A drop-down of some texts, or of (text, value) pairs, called `spoken`, or as it is described.

    ValueError for a value that is none of them.
    """
    one_of((option[1] if isinstance(option, tuple) else option for option in options), value, name)
    chooser = ipywidgets.Dropdown(options=options, value=value, description=description, **_WIDE)
    return named(chooser, spoken or description)


def button(
    text: str, does: Callable[[], object], width: str | None = "max-content", **traits: Any
) -> ipywidgets.Button:
    """A button and what it does; without a width it is as wide as most."""
    made = ipywidgets.Button(description=text, layout={"width": width}, **traits)
    made.on_click(lambda _: does())
    return made


def on_change(does: Callable[[], object], *controls: ipywidgets.Widget) -> None:
    """Do it whenever one of the controls has another value."""
    for control in controls:
        control.observe(lambda _: does(), "value")


def row(*children: ipywidgets.Widget) -> ipywidgets.HBox:
    """Side by side, and below each other where the page is narrow."""
    return ipywidgets.HBox(children, layout=WRAP)


def block_size_slider(value: int) -> ipywidgets.SelectionSlider:
    """One of `BLOCK_SIZES`."""
    return choice_slider("block_size", BLOCK_SIZES, value, "Block size (tokens)", "Block size in tokens")


def pool_slider(value: int) -> ipywidgets.SelectionSlider:
    """One of `POOLS`."""
    return choice_slider("num_slots", POOLS, value, "Pool (tokens)", "Pool size in tokens")


def spread_slider(value: float) -> ipywidgets.FloatSlider:
    """What `Workload.with_spread` takes, 0 to 2."""
    if not 0 <= value <= 2:
        raise ValueError(f"spread must be 0 to 2, got {value!r}")
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

    A file that is no trace gets a message and changes nothing; of one that is, rows that are no requests are
    left out and counted.

    >>> chooser = WorkloadChooser("uniform")
    >>> chooser.names.value = "bimodal"
    >>> chooser.chosen.name
    'bimodal'
    """

    chosen = t.Instance(Workload)

    def __init__(self, workload: str | Path | Workload) -> None:
        name, self.chosen = _labelled(workload)
        self._given = {} if name in workloads.names() else {name: self.chosen}
        self.names = choice_list("workload", self._options(), name, "Workload")
        self.file = Upload("Your trace (.csv)", take=self.take, accept=".csv,.jsonl,.json,.txt")
        self.message = ipywidgets.HTML()
        super().__init__([self.names, self.file, self.message], layout=WRAP)
        self.names.observe(self._choose, "value")
        self._tell_left_out(self.chosen)

    def _options(self) -> list[str]:
        return [*self._given, *workloads.names()]

    def _choose(self, change: dict[str, Any]) -> None:
        name = change["new"]
        self.say("")
        self.chosen = self._given[name] if name in self._given else workloads.named(name)

    def take(self, name: str, content: bytes) -> None:
        """Look at a trace that the reader gave, called by the name of its file."""
        try:
            workload = workloads.parse(content, name, tolerant=True)
        except workloads.WorkloadError as error:
            self.say(f"Not read, nothing was changed: {error}")
            return
        label = _label(name)
        self._given[label] = workload
        self.names.unobserve(self._choose, "value")  # new options choose the first of them, for a moment
        self.names.options = self._options()
        self.names.value = label
        self.names.observe(self._choose, "value")
        self.say(f"{_format.count(len(workload), 'request')} read from {name}.")
        self._tell_left_out(workload)
        self.chosen = workload

    def _tell_left_out(self, workload: Workload) -> None:
        if workload.skipped:
            self.say(f"Not all of it: {workload.skipped}.", more=True)

    def say(self, text: str, *, more: bool = False) -> None:
        """Show text that may come from a file: as text, neither markup nor mathematics; with `more` after
        what was said."""
        text = html.escape(text).replace("$", "&#36;")
        self.message.value = f"{self.message.value} {text}" if more else text


def _labelled(workload: str | Path | Workload) -> tuple[str, Workload]:
    """What it is called in the list, and the workload."""
    if isinstance(workload, str) and workload in workloads.names():
        return workload, workloads.named(workload)
    loaded = workload if isinstance(workload, Workload) else workloads.load(workload, tolerant=True)
    return _label(loaded.name), loaded


def _label(name: str) -> str:
    """What the reader's own is called in the list: never like one that comes with the package."""
    return f"{name} (your own)" if name in workloads.names() else name
