"""A chart that is a table: bars to look at, numbers to read, the same thing to a screen reader."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import traitlets as t

from pagedlab import _format
from pagedlab.inputs import one_of

from .assets import script, style
from .picture import Picture, tell

MAX_KINDS = 6  # as many patterns as the style sheet has


@dataclass(frozen=True)
class Segment:
    """A part of a bar: its kind, its value, and where the value was measured, its spread from `low` to
    `high`.

    `text` is how the value reads; without it the number is formatted and given the table's unit.
    Raises ValueError for a value that is no length (negative, NaN, infinite) or lies outside its spread.
    """

    kind: str
    value: float
    text: str | None = None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            number = getattr(self, name)
            if number is not None and not (math.isfinite(number) and number >= 0):
                raise ValueError(
                    f"{name} of segment {self.kind!r} must be a finite number of at least 0, not {number!r}"
                )
        if (self.low is None) != (self.high is None):
            raise ValueError(f"segment {self.kind!r} needs both ends of its spread, low and high, or neither")
        if self.low is not None and self.high is not None and not self.low <= self.value <= self.high:
            raise ValueError(
                f"segment {self.kind!r}: {self.value} lies outside its spread, {self.low} to {self.high}"
            )


@dataclass(frozen=True)
class Row:
    """One bar: a label, its segments from left to right, and a remark in a few words."""

    label: str
    segments: tuple[Segment, ...]
    note: str = ""

    @property
    def reach(self) -> float:
        """How far the bar and its spreads are drawn."""
        starts = accumulate((part.value for part in self.segments), initial=0.0)
        return max(
            (start + (part.high or part.value) for start, part in zip(starts, self.segments, strict=False)),
            default=0.0,
        )


class BarTable(Picture):
    """Bars with their numbers, a row for each thing compared and a column for each kind of segment.

    `legend` names the kinds, in the order of their patterns (six at most); `heading` heads the labels,
    `bar_heading` the bars. `scale` is the value that the full width stands for (default: the longest bar).
    All text is shown as text. Raises ValueError for a kind that the legend lacks and for a bar longer than
    `scale`.

    >>> table = BarTable("Slots held", {"stored": "store a token", "empty": "empty"}, unit="%", scale=100)
    >>> table.show([Row("paged", (Segment("stored", 95.5), Segment("empty", 4.5)))])
    >>> [(segment["text"], segment["share"]) for segment in table.rows[0]["segments"]]
    [('95.5 %', 0.955), ('4.50 %', 0.045)]
    """

    _esm = script("bar_table.js")
    _css = style("theme.css", "bar_table.css")

    heading = t.Unicode("").tag(sync=True)
    bar_heading = t.Unicode("").tag(sync=True)
    legend = t.List(t.Dict()).tag(sync=True)
    rows = t.List(t.Dict()).tag(sync=True)
    guess = t.Dict().tag(sync=True)
    """Whose answer this is: see `answers`."""

    def __init__(
        self,
        title: str,
        legend: Mapping[str, str],
        rows: Iterable[Row] = (),
        *,
        unit: str = "",
        scale: float | None = None,
        **traits: Any,
    ) -> None:
        if not 1 <= len(legend) <= MAX_KINDS:
            raise ValueError(f"a bar table tells 1 to {MAX_KINDS} kinds apart, not {len(legend)}")
        if scale is not None and not (math.isfinite(scale) and scale > 0):
            raise ValueError(f"scale must be a finite number above 0, not {scale!r}")
        self._kinds = tuple(legend)
        self._unit = unit
        self._scale = scale
        super().__init__(
            title=title,
            legend=[{"kind": kind, "label": label} for kind, label in legend.items()],
            rows=self._drawn(rows),
            **traits,
        )

    def show(self, rows: Iterable[Row], **traits: str) -> None:
        """Show these rows instead, with other traits (`word`, `device`, `status`, …), in one message."""
        tell(self, rows=self._drawn(rows), **traits)

    def answers(self, key: str, here: float) -> None:
        """Show nothing before the reader has committed to the guess of that key, then the guess as well.

        `here` is the value that it is held to. The page does this, so that it works without a kernel too.
        """
        self.guess = {"key": key, "here": here, "unit": self._unit, "scale": self._full}

    def _drawn(self, rows: Iterable[Row]) -> list[dict[str, Any]]:
        rows = tuple(rows)
        for row in rows:
            for segment in row.segments:
                one_of(self._kinds, segment.kind, f"the kind of a segment of row {row.label!r}")
        longest = max((row.reach for row in rows), default=0.0)
        scale = self._scale or longest or 1.0
        if longest > scale * (1 + 1e-9):
            bar, end = _format.number(longest), _format.number(scale)
            raise ValueError(f"a bar of {bar} does not fit a scale that ends at {end}")
        self._full = scale
        return [
            vars(row) | {"segments": [self._drawn_segment(segment) for segment in row.segments]}
            for row in rows
        ]

    def _drawn_segment(self, segment: Segment) -> dict[str, Any]:
        text = segment.text
        if text is None:
            text = f"{_format.number(segment.value)} {self._unit}".rstrip()
        low, high = (None if end is None else end / self._full for end in (segment.low, segment.high))
        return vars(segment) | {"share": segment.value / self._full, "text": text, "low": low, "high": high}
