"""Advice as one page that asks nothing of any network; every text in it is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pagedlab.advice.block_cost import PARTS
from pagedlab.advice.report import (
    CHANGE_HEADER,
    COST_HEADER,
    Advice,
    Finding,
    Told,
    change_row,
    cost_row,
)

_STYLE = """
:root { color-scheme: light dark; --line: #8888; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: right; }
td { white-space: nowrap; } table.text td { white-space: normal; }
td:first-child, th:first-child, table.text td, table.text th { text-align: left; }
tr.advised { font-weight: bold; }
.word { border: 1px solid var(--line); border-radius: .3rem; font-size: .8em; padding: 0 .3rem; }
small { opacity: .8; }
main { overflow-x: auto; }
h1 { overflow-wrap: anywhere; }
.bar { display: flex; height: 1rem; width: 10rem; }
.bar i { border: 1px solid; box-sizing: border-box; display: block; }
.waste { background: #4477aa; }
.table { background: repeating-linear-gradient(45deg, #ee6677 0 4px, #fff 4px 6px); }
.kernel { background: repeating-linear-gradient(0deg, #228833 0 3px, #fff 3px 5px); }
.prefix { background: repeating-linear-gradient(90deg, #ccbb44 0 3px, #fff 3px 5px); }
"""


def page(told: Told) -> str:
    """The whole page."""
    title = text(told.subject)
    parts = _advice(told) if isinstance(told, Advice) else [findings(told.findings)]
    return (
        "<!doctype html>\n<html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f"<title>{title}</title><style>{_STYLE}</style>\n<main><h1>{title}</h1>{chr(10).join(parts)}</main></html>\n"
    )


def _advice(advice: Advice) -> list[str]:
    return [
        *(f"<p role='alert'><strong>{text(warning)}</strong></p>" for warning in advice.warnings),
        findings(advice.decision),
        f"<h2>What to set in {text(advice.engine)}</h2>{settings(advice)}",
        "<h2>What a block size costs</h2>",
        "<p>Microseconds of GPU time for each token produced (simulated; what is wasted and the requests "
        "at once are computed); bars: the four costs.</p>",
        _costs(advice),
        "<h2>How the advice moves (simulated)</h2>",
        _table(CHANGE_HEADER, map(change_row, advice.changes), "text"),
        f"<h2>Evidence</h2>{findings(advice.evidence)}",
    ]


def text(value: str) -> str:
    """Text as text: neither markup nor, in a notebook, mathematics."""
    return escape(value).replace("$", "&#36;")


def findings(found: Iterable[Finding]) -> str:
    """Findings as a list of definitions."""
    rows = (
        f"<dt>{text(each.topic)} <span class='word'>({text(each.word)})</span></dt>"
        f"<dd>{text(each.text)}<br><small>{text(each.evidence)}</small></dd>"
        for each in found
    )
    return f"<dl>{''.join(rows)}</dl>"


def settings(advice: Advice) -> str:
    """What to set, as a table."""
    rows = ([flag.flag, flag.value, flag.default, flag.allowed, flag.why] for flag in advice.flags)
    return _table(("setting", "value", "default", "allowed", "why"), rows, "text")


def _costs(advice: Advice) -> str:
    longest = max(cost.extra_us for cost in advice.costs if cost.backends) or 1.0
    legend = " ".join(
        "<span class='bar' style='display:inline-flex;width:1.5rem'>"
        f"<i class='{part}' style='width:100%'></i></span> {part}"
        for part in PARTS
    )
    rows = []
    for cost in advice.costs:
        cells = "".join(f"<td>{text(cell)}</td>" for cell in cost_row(advice, cost))
        segments = "".join(
            f"<i class='{part}' style='width:{100 * share:.2f}%'></i>"
            for part in PARTS
            if (share := min(1.0, (getattr(cost, f"{part}_us") or 0.0) / longest)) > 0.002
        )
        mark = " class='advised'" if cost.block_size == advice.block_size else ""
        bar = (
            f"<td aria-hidden='true'><div class='bar'>{segments}</div></td>" if cost.backends else "<td></td>"
        )
        rows.append(f"<tr{mark}>{cells}{bar}</tr>")
    head = "".join(f"<th scope='col'>{text(name)}</th>" for name in (*COST_HEADER, ""))
    return f"<p>{legend}</p><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str) -> str:
    head = "".join(f"<th scope='col'>{text(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table class='{kind}'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
