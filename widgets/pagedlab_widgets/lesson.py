"""The small things that every lesson shows: source code, a guess beside its answer, a verdict, a curve."""

from __future__ import annotations

import html
import inspect
from typing import TYPE_CHECKING, Any

from IPython.display import Markdown

from pagedlab import claims, waste
from pagedlab.claims import Verdict
from pagedlab.published import Figure
from pagedlab.workloads import Workload

from .bar_table import BarTable, Row, Segment
from .predict import Predict

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as Chart

_NEUTRAL = "#767676"  # 4.5 to 1 on white and on JupyterLab's dark page


def source(thing: Any) -> Markdown:
    """The library's own code of a function, class or module, as it runs here."""
    return Markdown(f"```python\n{inspect.getsource(thing).rstrip()}\n```")


def beside(guess: Predict, here: float, word: str, figure: Figure, key: str, device: str = "") -> BarTable:
    """A reader's guess, what came out here, and a range to compare with, one below the other.

    `here` is in the unit of the guess and was come by as `word` says, on `device` if one was used; `key`
    names a number or range among the figure's values. Nothing is shown before
    the reader has committed to a guess.
    """
    value = figure.values[key]
    low, high = value if isinstance(value, list | tuple) else (value, value)
    text = f"{low:g} {guess.unit}" if low == high else f"{low:g} to {high:g} {guess.unit}"
    span = Segment("value", low, text, low=low, high=high)
    rows = [
        Row(f"here ({word})", (Segment("value", here),)),
        Row(f"to compare ({figure.word})", (span,), f"{figure.conditions}; {figure.citation}"),
    ]
    kinds, caption = {"value": "value"}, "The thin line spans the range."
    table = BarTable(guess.question, kinds, rows, unit=guess.unit, word=word, device=device, caption=caption)
    table.answers(guess.key, here)
    return table


def card(verdict: Verdict) -> Markdown:
    """A verdict as a lesson ends with it."""
    lines = [f"**Claim:** {claims.get(verdict.claim).says}.", ""]
    lines += [f"**Verdict: {verdict.outcome.value}**", ""]
    lines += [f"- {condition}" for condition in verdict.conditions]
    if verdict.outcome is claims.Outcome.NOT_MEASURABLE:
        kept = claims.recordings(verdict.claim)
        lines += [f"- *recorded* on {old.device}: {old.outcome.value}: {old.conditions[0]}" for old in kept]
    lines += ["", "| what | value | |", "|---|---:|---|"]
    lines += [f"| {m.what} | {m.text} | *{m.word}* |" for m in verdict.measured]
    lines += ["", *(f"> {row}" for row in verdict.published), "", f"*Device:* {verdict.device}"]
    return Markdown("\n".join(lines))


def waste_curve(workload: Workload, block_sizes: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128, 256)) -> Chart:
    """Waste over time by block size, with both contiguous policies as lines to compare with (computed).

    Both axes are logarithmic, so blocks of one token, which waste nothing, have no place on it.
    """
    from plotly.graph_objects import Figure as Chart
    from plotly.graph_objects import Scatter

    shares = [100 * waste.paged(workload, size).wasted_share for size in block_sizes]
    figure = Chart(
        Scatter(x=block_sizes, y=shares, mode="lines+markers", name="paged", line={"color": "#0072B2"})
    )
    contiguous = (
        ("power of two", waste.power_of_two(workload), "dash", "#D55E00"),
        ("longest", waste.reserve_longest(workload), "dot", "#009E73"),
    )
    for name, footprint, dash, colour in contiguous:
        level = 100 * footprint.wasted_share
        ends = [block_sizes[0], block_sizes[-1]]
        line = {"dash": dash, "color": colour}
        figure.add_trace(Scatter(x=ends, y=[level, level], mode="lines", name=name, line=line))
    axis = {"gridcolor": _NEUTRAL, "griddash": "dot", "zeroline": False}
    name = html.escape(workload.name)
    figure.update_layout(
        xaxis={**axis, "title": f"block size (tokens), {name}", "type": "log", "tickvals": block_sizes},
        yaxis={**axis, "title": "wasted, % of held (computed)", "type": "log", "dtick": 1},
        font={"color": _NEUTRAL},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        height=380,
        margin={"t": 30, "r": 10},
    )
    return figure
