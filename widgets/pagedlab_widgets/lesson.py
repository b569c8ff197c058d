"""The small things that every lesson shows: source code, a guess beside its answer, a verdict, a curve."""

from __future__ import annotations

import inspect
from typing import Any

from IPython.display import Markdown

from pagedlab import claims, waste
from pagedlab.claims import Verdict
from pagedlab.published import Figure
from pagedlab.workloads import Workload

from .bar_table import BarTable, Row, Segment
from .chart import Axis, Line, LineChart
from .predict import Predict


def source(thing: Any) -> Markdown:
    """The library's own code of a function, class or module, as it runs here."""
    return Markdown(f"```python\n{inspect.getsource(thing).rstrip()}\n```")


def beside(
    guess: Predict, here: float, word: str, figure: Figure | None = None, key: str = "", device: str = ""
) -> BarTable:
    """A reader's guess, what came out here, and what others published, one below the other.

    `here` is in the unit of the guess and was come by as `word` says, on `device` if one was used; `key`
    names a number or range among the values of `figure`, where one was published. Nothing is shown before
    the reader has committed to a guess.
    """
    rows = [Row(f"here ({word})", (Segment("value", here),))]
    caption = ""
    if figure is not None:
        value = figure.values[key]
        low, high = value if isinstance(value, list | tuple) else (value, value)
        text = f"{low:g} {guess.unit}" if low == high else f"{low:g} to {high:g} {guess.unit}"
        span = Segment("value", low, text, low=low, high=high)
        rows.append(Row(f"to compare ({figure.word})", (span,), f"{figure.conditions}; {figure.citation}"))
        caption = "" if low == high else "The thin line spans the range."
    table = BarTable(
        guess.question, {"value": "value"}, rows, unit=guess.unit, word=word, device=device, caption=caption
    )
    table.answers(guess.key, here)
    return table


def answered(
    guess: Predict, verdict: Verdict, what: str, figure: Figure | None = None, key: str = ""
) -> BarTable | Markdown:
    """`beside`, for the verdict's measurement of that name; in words where the machine was too noisy for one.

    Raises KeyError for a name that no measurement of a told verdict has.
    """
    for row in verdict.measured:
        if row.what == what:
            return beside(guess, row.value, row.word, figure, key, verdict.device)
    if verdict.outcome is not claims.Outcome.NOT_MEASURABLE:
        raise KeyError(f"{verdict.claim} measured no {what!r}, but {[row.what for row in verdict.measured]}")
    return Markdown(f"*{guess.question}* Not measurable here: {verdict.conditions[0]}.")


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
    lines += ["", *(f"> - {row}" for row in verdict.published), "", f"*Device:* {verdict.device}"]
    return Markdown("\n".join(lines))


def waste_curve(
    workload: Workload, block_sizes: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128, 256)
) -> LineChart:
    """Waste over time by block size, with both contiguous policies as lines to compare with (computed).

    Both axes are logarithmic: what wastes nothing has no place on the chart.
    """
    curves = {"paged": [waste.paged(workload, size).wasted_share for size in block_sizes]}
    for name, footprint in (
        ("power of two", waste.power_of_two(workload)),
        ("longest", waste.reserve_longest(workload)),
    ):
        curves[name] = [footprint.wasted_share] * len(block_sizes)
    lines = []
    for name, shares in curves.items():
        points = [(size, 100 * share) for size, share in zip(block_sizes, shares, strict=True) if share > 0]
        lines.append(Line(name, [size for size, _ in points], [share for _, share in points]))
    sizes = Axis("block size (tokens)", log=True, ticks=block_sizes)
    share = Axis("wasted, % of what is held", log=True)
    return LineChart(
        "Waste over time by block size", sizes, share, lines, caption=f"{workload.name}, {workload.origin}"
    )
