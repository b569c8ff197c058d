"""What a verdict rests on, as a chart to point at."""

from __future__ import annotations

from pagedlab.claims import Verdict

from .chart import MAX_LINES, Axis, Line, LineChart

_WIDE = 8  # from such a ratio of the largest place to the smallest on, an axis goes in powers


def verdict_chart(verdict: Verdict) -> LineChart:
    """The curves of a verdict, at most six of them. Raises `ValueError` for a verdict that has none.

    >>> from pagedlab import claims
    >>> verdict_chart(claims.get("short-blocks").run()).title
    'Blocks of a short sequence'
    """
    chart = verdict.chart
    if chart is None:
        raise ValueError(f"the verdict on {verdict.claim} rests on no curve")
    places = [x for line in chart.lines for x, _ in line.points]
    log_x = bool(places) and 0 < min(places) * _WIDE <= max(places)
    lines = []
    for line in chart.lines[:MAX_LINES]:
        points = sorted((x, y) for x, y in line.points if y > 0 or not chart.log_y)
        lines.append(Line(line.name, [x for x, _ in points], [y for _, y in points], word=line.word))
    words = {line.word for line in chart.lines}
    return LineChart(
        chart.title,
        Axis(chart.x, log=log_x, ticks=sorted(set(places)) if log_x else ()),
        Axis(chart.y, log=chart.log_y),
        lines,
        word=words.pop() if len(words) == 1 else "computed",
        device=verdict.device,
    )
