"""What a verdict rests on, as a plotly figure; where there is no plotly, as a line chart."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from pagedlab.claims import Verdict

from .chart import Axis, Line, LineChart

_NEUTRAL = "#767676"  # 4.5 to 1 on white and on JupyterLab's dark page
_WIDE = 8  # from such a ratio of the largest place to the smallest on, an axis goes in powers
_LOOKS = (
    ("#0072B2", "solid", "circle"),
    ("#D55E00", "dash", "square"),
    ("#009E73", "dot", "diamond"),
    ("#CC79A7", "dashdot", "x"),
    ("#E69F00", "longdash", "triangle-up"),
    ("#56B4E9", "longdashdot", "star"),
    ("#8822EE", "solid", "cross"),
)
"""Hue, dash and mark of each line: they are told apart without colour."""


class VerdictChart:
    """A static plotly figure, drawn by the page without the kernel; its text form is a table of its points.

    `figure` is the figure, to change or to save.
    """

    def __init__(self, chart: LineChart) -> None:
        from plotly.graph_objects import Figure, Scatter

        self._chart = chart
        self.figure = Figure()
        for (colour, dash, mark), line in zip(_LOOKS, chart.lines, strict=False):
            style = {"line": {"color": colour, "dash": dash}, "marker": {"symbol": mark, "size": 8}}
            name = _named(line, chart.word)
            self.figure.add_trace(Scatter(x=line["x"], y=line["y"], name=name, mode="lines+markers", **style))
        axes = []
        for given in chart.axes.values():
            axis = {"title": given["label"], "type": "log" if given["log"] else "linear", "zeroline": False}
            ticks = {"tickvals": given["ticks"]} if given["ticks"] else {}
            axes.append(axis | ticks | {"gridcolor": _NEUTRAL, "griddash": "dot"})
        self.figure.update_layout(
            title={"text": chart.title},
            xaxis=axes[0],
            yaxis=axes[1],
            font={"color": _NEUTRAL},
            paper_bgcolor="rgba(0,0,0,0)",
            plot_bgcolor="rgba(0,0,0,0)",
            showlegend=True,
            height=400,
        )

    def __str__(self) -> str:
        chart = self._chart
        rows = [f"{chart.title}: {chart.axes['y']['label']} by {chart.axes['x']['label']} ({chart.device})"]
        for line in chart.lines:
            points = ", ".join(f"{x:g}: {y:.3g}" for x, y in zip(line["x"], line["y"], strict=True))
            rows.append(f"  {_named(line, chart.word)}: {points}")
        return "\n".join(rows)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        plain = self.figure.to_plotly_json() | {"config": {"displayModeBar": False}}
        return {"application/vnd.plotly.v1+json": plain, "text/plain": str(self)}


def verdict_chart(verdict: Verdict) -> VerdictChart | LineChart:
    """The curves of a verdict. Raises `ValueError` for a verdict that has none.

    >>> from pagedlab import claims
    >>> print(verdict_chart(claims.get("short-blocks").run()))
    Blocks of a short sequence: blocks by block size (tokens) (...)
      50 tokens (computed): 8: 7, 16: 4, 32: 2, 64: 1, 128: 1, 256: 1
      100 tokens (computed): 8: 13, 16: 7, 32: 4, 64: 2, 128: 1, 256: 1
    """
    drawn = line_chart(verdict)
    return VerdictChart(drawn) if find_spec("plotly") else drawn  # a kernel in the browser has none


def line_chart(verdict: Verdict) -> LineChart:
    """The curves as a widget, a table too. Raises `ValueError` for a verdict that has none.

    >>> from pagedlab import claims
    >>> chart = line_chart(claims.get("short-blocks").run())
    >>> [(line["name"], line["y"][:3]) for line in chart.lines]
    [('50 tokens', [7.0, 4.0, 2.0]), ('100 tokens', [13.0, 7.0, 4.0])]
    """
    chart = verdict.chart
    if chart is None:
        raise ValueError(f"the verdict on {verdict.claim} rests on no curve")
    places = sorted({x for line in chart.lines for x, _ in line.points})
    powers = 0 < places[0] * _WIDE <= places[-1]
    word, lines = chart.lines[0].word, []
    for line in chart.lines:
        points = sorted(point for point in line.points if point[1] > 0 or not chart.log_y)
        xs, ys = [x for x, _ in points], [y for _, y in points]
        lines.append(Line(line.name, xs, ys, word=line.word if line.word != word else ""))
    x, y = Axis(chart.x, log=powers, ticks=places if powers else ()), Axis(chart.y, log=chart.log_y)
    return LineChart(chart.title, x, y, lines, word=word, device=verdict.device)


def _named(line: dict[str, Any], word: str) -> str:
    return f"{line['name']} ({line['word'] or word})"
