"""What a verdict rests on, as a plotly figure."""

from __future__ import annotations

from typing import Any

from pagedlab.claims import Verdict

_NEUTRAL = "#767676"  # 4.5 to 1 on white and on JupyterLab's dark page
_WIDE = 8  # from such a ratio of the largest place to the smallest on, an axis goes in powers
_LOOKS = (
    ("#0072B2", "solid", "circle"),
    ("#D55E00", "dash", "square"),
    ("#009E73", "dot", "diamond"),
    ("#CC79A7", "dashdot", "x"),
    ("#E69F00", "longdash", "triangle-up"),
    ("#56B4E9", "longdashdot", "star"),
)
"""Hue, dash and mark of each line: they are told apart without colour."""


class VerdictChart:
    """A static plotly figure, drawn by the page without the kernel; its text form is a table of its points.

    `figure` is the figure, to change or to save.
    """

    def __init__(self, verdict: Verdict) -> None:
        from plotly.graph_objects import Figure, Scatter

        chart = verdict.chart
        if chart is None:
            raise ValueError(f"the verdict on {verdict.claim} rests on no curve")
        self._chart, self._device = chart, verdict.device
        places = [x for line in chart.lines for x, _ in line.points]
        log_x = bool(places) and 0 < min(places) * _WIDE <= max(places)
        self.figure = Figure()
        for number, line in enumerate(chart.lines):
            colour, dash, mark = _LOOKS[number % len(_LOOKS)]
            points = sorted(line.points)
            self.figure.add_trace(
                Scatter(
                    x=[x for x, _ in points],
                    y=[y for _, y in points],
                    name=f"{line.name} ({line.word})",
                    mode="lines+markers",
                    line={"color": colour, "dash": dash},
                    marker={"symbol": mark, "size": 8},
                )
            )
        axis = {"gridcolor": _NEUTRAL, "griddash": "dot", "zeroline": False}
        ticks = {"type": "log", "tickvals": sorted(set(places))} if log_x else {}
        self.figure.update_layout(
            title={"text": chart.title},
            xaxis={**axis, "title": chart.x, **ticks},
            yaxis={**axis, "title": chart.y, "type": "log" if chart.log_y else "linear"},
            font={"color": _NEUTRAL},
            paper_bgcolor="rgba(0,0,0,0)",
            plot_bgcolor="rgba(0,0,0,0)",
            showlegend=True,
            height=400,
        )

    def __str__(self) -> str:
        rows = [f"{self._chart.title}: {self._chart.y} by {self._chart.x} ({self._device})"]
        for line in self._chart.lines:
            points = ", ".join(f"{x:g}: {y:.3g}" for x, y in line.points)
            rows.append(f"  {line.name} ({line.word}): {points}")
        return "\n".join(rows)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        plain = self.figure.to_plotly_json() | {"config": {"displayModeBar": False}}
        return {"application/vnd.plotly.v1+json": plain, "text/plain": str(self)}


def verdict_chart(verdict: Verdict) -> VerdictChart:
    """The curves of a verdict. Raises `ValueError` for a verdict that has none.

    >>> from pagedlab import claims
    >>> print(verdict_chart(claims.get("short-blocks").run()))
    Blocks of a short sequence: blocks by block size (tokens) (...)
      50 tokens (computed): 8: 7, 16: 4, 32: 2, 64: 1, 128: 1, 256: 1
      100 tokens (computed): 8: 13, 16: 7, 32: 4, 64: 2, 128: 1, 256: 1
    """
    return VerdictChart(verdict)
