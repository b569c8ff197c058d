"""The small things that every lesson shows: source code, a guess beside its answer, a verdict, a curve."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from IPython.display import Markdown

from pagedlab import published, waste
from pagedlab.claims import Verdict
from pagedlab.workloads import Workload

from .bar_table import BarTable, Row, Segment
from .predict import Predict

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_NEUTRAL = "#767676"  # 4.5 to 1 on white and on JupyterLab's dark page


def source(thing: Any) -> Markdown:
    """The library's own code of a function, class or module, as it runs here."""
    return Markdown(f"```python\n{inspect.getsource(thing).rstrip()}\n```")


def beside(
    guess: Predict, here: float, word: str, figure: published.Figure, low: float, high: float
) -> BarTable:
    """A reader's guess, what came out here, and the published range, one below the other.

    `here` is in the unit of the guess and was come by as `word` says; `low` and `high` are the ends of
    the range that `figure` reports.
    """
    table = BarTable(guess.question, {"value": "value"}, unit=guess.unit, word=word)
    rows = [
        Row(f"here ({word})", (Segment("value", here),)),
        Row(
            "published",
            (Segment("value", low, f"{low:g} to {high:g} {guess.unit}", low=low, high=high),),
            f"{figure.citation}: {figure.conditions}",
        ),
    ]
    if guess.guess is not None:
        off = abs(guess.guess - here)
        rows.insert(0, Row("your guess", (Segment("value", guess.guess),), f"{off:.3g} {guess.unit} off"))
    table.show(rows, caption="The thin line spans the published range.")
    return table


def card(verdict: Verdict) -> Markdown:
    """A verdict as a lesson ends with it."""
    lines = [f"### Verdict: `{verdict.claim}` **{verdict.outcome.value}**", ""]
    lines += [f"- {condition}" for condition in verdict.conditions]
    lines += ["", "| what | value | |", "|---|---:|---|"]
    lines += [f"| {m.what} | {m.value:.3g} {m.unit} | *{m.word}* |" for m in verdict.measured]
    lines += [
        "",
        *(f"> *published*: {row.text} ({row.conditions}; {row.citation})" for row in verdict.published),
    ]
    return Markdown("\n".join([*lines, "", f"Device: {verdict.device}"]))


def waste_curve(workload: Workload, block_sizes: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128, 256)) -> Figure:
    """Waste over time by block size, with both contiguous policies as lines to compare with (computed).

    Both axes are logarithmic, so blocks of one token, which waste nothing, have no place on it.
    """
    from plotly.graph_objects import Figure, Scatter

    shares = [100 * waste.paged(workload, size).wasted_share for size in block_sizes]
    figure = Figure(
        Scatter(x=block_sizes, y=shares, mode="lines+markers", name="paged", line={"color": "#0072B2"})
    )
    contiguous = (
        ("next power of two", waste.power_of_two(workload), "dash", "#D55E00"),
        ("reserved to the longest", waste.reserve_longest(workload), "dot", "#009E73"),
    )
    for name, footprint, dash, colour in contiguous:
        level = 100 * footprint.wasted_share
        ends = [block_sizes[0], block_sizes[-1]]
        line = {"dash": dash, "color": colour}
        figure.add_trace(Scatter(x=ends, y=[level, level], mode="lines", name=name, line=line))
    axis = {"gridcolor": _NEUTRAL, "griddash": "dot", "zeroline": False}
    figure.update_layout(
        title=f"Slots held that store no token, over time (computed): {workload.name}",
        xaxis={**axis, "title": "block size (tokens)", "type": "log", "tickvals": block_sizes},
        yaxis={**axis, "title": "wasted (% of held)", "type": "log"},
        font={"color": _NEUTRAL},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        height=380,
        margin={"t": 60, "r": 10},
    )
    return figure
