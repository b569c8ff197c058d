"""The verdicts on one page that needs nothing but itself: text, tables and charts.

Every text is escaped, wherever it came from. The page follows the light or dark theme, and the points of
each chart stand below it as a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from pagedlab import _format, claims
from pagedlab.claims import drawing
from pagedlab.claims.drawing import svg
from pagedlab.claims.verdict import Chart, Outcome, Verdict

SIGNS = {Outcome.HOLDS: "✓", Outcome.HOLDS_WHEN: "◐", Outcome.FAILS_HERE: "✗", Outcome.NOT_MEASURABLE: "?"}
_FRAME = """
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 52rem;
  margin: 2rem auto; padding: 0 1rem; }
a { color: inherit; }
"""
STYLE = """
table { border-collapse: collapse; margin: .5rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .15rem .8rem .15rem 0; text-align: left;
  vertical-align: top; }
td.n { text-align: right; }
td { overflow-wrap: anywhere; }
details { overflow-x: auto; }
section { border-top: 2px solid var(--line); margin-top: 2rem; }
.word, .cite { color: var(--faint); }
"""


def page(verdicts: Sequence[Verdict], note: str) -> str:
    """The whole document; `note` says where, when and how long."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>The chapter on trial</title>'
        f"<style>{drawing.PAGE}{_FRAME}{STYLE}{drawing.STYLE}</style></head>\n"
        f"<body><main>{body(verdicts, note)}</main></body></html>\n"
    )


def body(verdicts: Sequence[Verdict], note: str) -> str:
    """What stands on the page; its styles take their colours from `--ink`, `--faint` and `--line`."""
    rows = [
        f'<tr><td><a href="#{escape(v.claim)}">{escape(v.claim)}</a></td>'
        f"<td>{SIGNS[v.outcome]} {escape(v.outcome.value)}</td><td>{escape(v.conditions[0])}</td></tr>"
        for v in verdicts
    ]
    parts = [
        f"<h1>The chapter on trial</h1><p>{escape(note)}</p>",
        f"<table><tr><th>claim</th><th>verdict</th><th>when, or why</th></tr>{''.join(rows)}</table>",
        *map(_section, verdicts),
        '<p class="word">Each number carries its word: measured here, computed, simulated, assumed, recorded '
        "elsewhere, or published by others.</p>",
    ]
    return "\n".join(parts)


def summary(verdicts: Sequence[Verdict], device: str, seconds: float) -> str:
    """How many came out how, how long it took, and where."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    ends = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome])
    return f"{_format.count(len(verdicts), 'claim')} in {_format.seconds(seconds)}: {ends}. Device: {device}."


def _section(verdict: Verdict) -> str:
    parts = [
        f"<h2>{escape(verdict.claim)}</h2><p>The chapter: {escape(claims.get(verdict.claim).says)}.</p>",
        f"<p><strong>{SIGNS[verdict.outcome]} {escape(verdict.outcome.value)}</strong></p>",
        _items(verdict.conditions),
    ]
    if verdict.chart:
        parts += [svg(verdict.chart), _points(verdict.chart)]
    rows = [
        f'<tr><td>{escape(m.what)}</td><td class="n">{escape(m.text)}</td>'
        f'<td class="word">{escape(m.word)}</td></tr>'
        for m in verdict.measured
    ]
    parts.append(f"<table>{''.join(rows)}</table>")
    kept = claims.recordings(verdict.claim)
    for title, texts in (
        ("Recorded", [f"{old.outcome.value}: {old.conditions[0]} ({old.device})" for old in kept]),
        ("Published", list(map(str, verdict.published))),
    ):
        if texts:
            parts.append(f'<h3>{title}</h3><div class="cite">{_items(texts)}</div>')
    parts.append(f'<p class="word">Device: {escape(verdict.device)}</p>')
    return f'<section id="{escape(verdict.claim)}">{"".join(parts)}</section>'


def _points(chart: Chart) -> str:
    xs = sorted({x for line in chart.lines for x, _ in line.points})
    head = "".join(f"<th>{_format.number(x)}</th>" for x in xs)
    rows = ""
    for line in chart.lines:
        at = dict(line.points)
        cells = "".join(f'<td class="n">{_format.significant(at[x]) if x in at else ""}</td>' for x in xs)
        rows += f"<tr><th>{escape(line.name)}</th>{cells}</tr>"
    table = f"<table><tr><th>{escape(chart.x)}</th>{head}</tr>{rows}</table>"
    return f"<details><summary>The points</summary>{table}</details>"


def _items(texts: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"
