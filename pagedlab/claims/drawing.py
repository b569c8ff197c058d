"""A verdict's chart as an SVG element: lines that differ in dash as well as in colour, in either theme.

x is on a scale of powers of two; y starts at 0, or is in powers of ten.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from pagedlab import _format
from pagedlab.claims.verdict import Chart, Line

WIDTH, HEIGHT, LEFT, RIGHT, TOP, FOOT = 640, 300, 64, 624, 16, 256
DASHES = ("none", "7 4", "2 3", "9 3 2 3", "4 4", "1 4", "12 4")
PAGE = """
:root { color-scheme: light dark; --ink: light-dark(#1b1b1b, #e8e8e8); --page: light-dark(#fff, #161616);
  --faint: light-dark(#6b6b6b, #a0a0a0); --line: light-dark(#c8c8c8, #4a4a4a); }
"""
STYLE = """
:root { --c0: light-dark(#0072b2, #56b4e9); --c1: light-dark(#d55e00, #f0883e); --c2: #009e73;
  --c3: light-dark(#a2628c, #cc79a7); --c4: light-dark(#8a6d00, #e0c341); --c5: #3a8fb7;
  --c6: light-dark(#6b6b6b, #a0a0a0); }
figure { margin: 1rem 0; }
svg { max-width: 100%; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .axis { stroke: var(--line); }
svg path { fill: none; stroke: var(--c); stroke-width: 2; }
svg circle { fill: var(--c); }
ul.legend { list-style: none; padding: 0; }
"""


def svg(chart: Chart) -> str:
    """The chart with its caption and legend; its colours are in `STYLE`."""
    label = escape(f"{chart.title}; the points are in the table below")
    return (
        f"<figure><figcaption>{escape(chart.title)}: {escape(chart.y)} by {escape(chart.x)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{_marks(chart)}</svg>'
        f"{_legend(chart.lines)}</figure>"
    )


def document(chart: Chart, note: str) -> str:
    """The chart as an SVG file of its own, with its title, its legend and a note below it."""
    width, height = WIDTH + 24, HEIGHT + 20 * len(chart.lines) + 52
    points = [
        f"{line.name}: " + ", ".join(f"{_format.number(y)} at {_format.number(x)}" for x, y in line.points)
        for line in chart.lines
    ]
    told = escape(f"{chart.y} by {chart.x}. {'; '.join(points)}. {note}")
    keys = "".join(
        f'<g {_colour(number)} transform="translate({LEFT} {HEIGHT + 20 * number + 10})">'
        f'<path {_dash(number)} d="M0 0 L46 0"/>'
        f'<text x="54" y="4">{escape(f"{line.name} ({line.word})")}</text></g>'
        for number, line in enumerate(chart.lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -24 {width} {height}" width="{width}" '
        f'role="img"><title>{escape(chart.title)}</title><desc>{told}</desc><style>{PAGE}{STYLE}</style>'
        f'<rect y="-24" width="{width}" height="{height}" fill="var(--page)"/>'
        f'<text x="{LEFT}" y="-6">{escape(f"{chart.title}: {chart.y}")}</text>{_marks(chart)}{keys}'
        f'<text x="{LEFT}" y="{height - 36}">{escape(note)}</text></svg>\n'
    )


def _marks(chart: Chart) -> str:
    scale = _Scale(chart)
    parts = [
        f'<text x="{scale.x(x):.1f}" y="{FOOT + 16}" text-anchor="middle">{_format.number(x)}</text>'
        for x in scale.xs
    ]
    for level in scale.levels:
        y = scale.y(level)
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        text = _format.significant(level, 2)
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for number, line in enumerate(chart.lines):
        at = [(scale.x(x), scale.y(y)) for x, y in line.points]
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in at)
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in at)
        parts.append(f'<g {_colour(number)}><path {_dash(number)} d="M{path}"/>{dots}</g>')
    middle = (LEFT + RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(chart.x)}</text>')
    return "".join(parts)


class _Scale:
    """Where a point of the chart lies in the picture, and the levels that get a line."""

    def __init__(self, chart: Chart) -> None:
        self.xs = sorted({x for line in chart.lines for x, _ in line.points})
        ys = [y for line in chart.lines for _, y in line.points if y > 0] or [1.0]
        self._log = chart.log_y
        if self._log:
            low = math.floor(math.log10(min(ys)))
            self.levels = [10.0**e for e in range(low, max(low + 1, math.ceil(math.log10(max(ys)))) + 1)]
        else:
            self.levels = [max(ys) * part / 4 for part in range(5)]

    def x(self, value: float) -> float:
        low, high = math.log2(self.xs[0]), math.log2(self.xs[-1])
        return LEFT + (math.log2(value) - low) / ((high - low) or 1) * (RIGHT - LEFT)

    def y(self, value: float) -> float:
        low, high = self.levels[0], self.levels[-1]
        if self._log:
            value, low, high = (math.log10(max(each, low)) for each in (value, low, high))
        return FOOT - (value - low) / (high - low) * (FOOT - TOP)


def _legend(lines: Sequence[Line]) -> str:
    keys = "".join(
        f'<li><svg width="48" height="10" {_colour(number)} aria-hidden="true">'
        f'<path {_dash(number)} d="M2 5 L46 5"/></svg> {escape(line.name)} '
        f'<span class="word">({escape(line.word)})</span></li>'
        for number, line in enumerate(lines)
    )
    return f'<ul class="legend">{keys}</ul>'


def _colour(number: int) -> str:
    return f'style="--c: var(--c{number % len(DASHES)})"'


def _dash(number: int) -> str:
    return f'stroke-dasharray="{DASHES[number % len(DASHES)]}"'
