"""A chart of lines over one axis: drawn in the browser, pointed at without a kernel, its data a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import traitlets as t

from .assets import script, style
from .picture import Picture, tell

MAX_LINES = 7  # as many as the style sheet tells apart


@dataclass(frozen=True)
class Line:
    """Values `y` at places `x`, in order of `x`; `kind` is "line" or "points".

    After the place `until` the line is dashed: what could be, not what is. `texts` says how each value
    reads, where the number does not say it; `word` where the numbers come from when that is not what the
    chart says. Raises ValueError for lists that do not fit each other, and for what is no finite number.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    kind: str = "line"
    texts: Sequence[str] = ()
    word: str = ""
    until: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("line", "points"):
            raise ValueError(f"line {self.name!r}: kind must be line or points, got {self.kind!r}")
        if len(self.x) != len(self.y) or (self.texts and len(self.texts) != len(self.y)):
            raise ValueError(
                f"line {self.name!r}: {len(self.x)} places, {len(self.y)} values and {len(self.texts)} texts"
            )
        if not all(map(math.isfinite, [*self.x, *self.y])):
            raise ValueError(f"line {self.name!r}: every place and value must be a finite number")


@dataclass(frozen=True)
class Wall:
    """A straight line across the chart at a place (`x`) or at a value (`y`), and what it is."""

    label: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True)
class Axis:
    """What an axis shows, and whether in powers (every value must then be above 0)."""

    label: str
    log: bool = False
    ticks: Sequence[float] = ()


class LineChart(Picture):
    """Up to seven lines over one axis, told apart by hue, dash and mark.

    Pointing at it, or moving its slider, reads out every line at that place; `cursor` is the place where the
    reader left the slider, in units of the axis, and setting it moves the reader's. With the `timeline` of a
    `BlockMap` its axis is the map's steps, and both move together without the kernel. Raises ValueError
    for a value at or below 0 on an axis in powers.

    >>> chart = LineChart("Waste", Axis("block size", log=True), Axis("wasted, %"))
    >>> chart.show([Line("paged", [1, 16, 256], [0, 0.6, 9.2])])
    >>> chart.lines[0]["y"]
    [0.0, 0.6, 9.2]
    """

    _esm = script("chart.js")
    _css = style("theme.css", "chart.css")

    axes = t.Dict().tag(sync=True)
    lines = t.List(t.Dict()).tag(sync=True)
    walls = t.List(t.Dict()).tag(sync=True)
    cursor = t.Float(None, allow_none=True).tag(sync=True)
    timeline = t.Unicode("").tag(sync=True)

    def __init__(self, title: str, x: Axis, y: Axis, lines: Iterable[Line] = (), **traits: Any) -> None:
        self._logs = x.log, y.log
        axes = {name: vars(axis) | {"ticks": list(axis.ticks)} for name, axis in (("x", x), ("y", y))}
        super().__init__(title=title, axes=axes, lines=self._drawn(lines), **traits)

    def show(self, lines: Iterable[Line], walls: Iterable[Wall] = (), **traits: Any) -> None:
        """Show these lines instead, with other traits (`word`, `caption`, `cursor`, ...), in one message."""
        tell(self, lines=self._drawn(lines), walls=[vars(wall) for wall in walls], **traits)

    def _drawn(self, lines: Iterable[Line]) -> list[dict[str, Any]]:
        lines = tuple(lines)
        if len(lines) > MAX_LINES:
            raise ValueError(f"a chart tells {MAX_LINES} lines apart, not {len(lines)}")
        for line in lines:
            for values, log in zip((line.x, line.y), self._logs, strict=True):
                if log and min(values, default=1) <= 0:
                    raise ValueError(f"line {line.name!r}: {min(values)} has no place on an axis in powers")
        return [
            vars(line) | {"x": [*map(float, line.x)], "y": [*map(float, line.y)], "texts": list(line.texts)}
            for line in lines
        ]
