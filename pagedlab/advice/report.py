"""What advice is: findings, each with its word and its evidence, a table of costs and settings to make."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from pagedlab import _format
from pagedlab.advice.block_cost import BlockCost
from pagedlab.advice.engines import Flag

CANNOT_TELL = "cannot tell"
NOTHING = 5e-4
"""A share that is shown as none."""
DECISION, WHY = "decision", "why"
"""How the topics begin that stand first, before what to set and all evidence."""


@dataclass(frozen=True)
class Finding:
    """One answer: where its number comes from (`word`), what supports it (`evidence`), and the numbers.

    `word` is one of measured, simulated, published, recorded, computed and assumed, or `CANNOT_TELL`; then
    the evidence says what is missing. Names in `values` end in their unit.
    """

    topic: str
    text: str
    word: str
    evidence: str
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """What would be advised if one input were another, and by what share today's advice would be dearer.

    At most: the share is `block_cost.behind`'s.
    """

    input: str
    becomes: str
    block_size: int
    more_share: float


@dataclass(frozen=True)
class Told:
    """Findings on one subject."""

    subject: str
    findings: tuple[Finding, ...]

    def finding(self, topic: str) -> Finding:
        """The first finding on a topic; raises `KeyError` with the topics there are."""
        for found in self.findings:
            if found.topic == topic:
                return found
        raise KeyError(f"no finding on {topic!r}; there are {', '.join(f.topic for f in self.findings)}")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_html(self) -> str:
        """One page that needs nothing else; text from files is text in it."""
        from pagedlab.advice.page import page

        return page(self)

    def __str__(self) -> str:
        return "\n".join([self.subject, "", *_lines(self.findings)])


@dataclass(frozen=True)
class Advice(Told):
    """What to set for one workload, one model and one GPU, and why; `costs` has a row for each block size.

    The decision comes first, as text, page and widget: what it is, what about the trace led to it, what to
    set. Then what a block size costs, how the advice moves, and every other finding.
    """

    engine: str
    block_size: int
    costs: tuple[BlockCost, ...]
    changes: tuple[Change, ...]
    flags: tuple[Flag, ...]
    warnings: tuple[str, ...]

    @property
    def decision(self) -> tuple[Finding, ...]:
        """The findings that stand first."""
        return tuple(found for found in self.findings if found.topic.startswith((DECISION, WHY)))

    @property
    def evidence(self) -> tuple[Finding, ...]:
        """All others."""
        return tuple(found for found in self.findings if found not in self.decision)

    def to_dict(self) -> dict[str, Any]:
        costs = [
            {**asdict(cost), **{name: getattr(cost, name) for name in ("extra_us", "total_us", "free_us")}}
            for cost in self.costs
        ]
        return {**asdict(self), "costs": costs}

    def __str__(self) -> str:
        lines = [self.subject, ""]
        lines += [f"WARNING: {warning}" for warning in self.warnings]
        lines += [*_lines(self.decision), "", f"what to set in {self.engine}"]
        for flag in self.flags:
            allowed = f"; allowed: {flag.allowed}" if flag.allowed else ""
            lines.append(f"{flag.flag} {flag.value}".rstrip())
            lines.append(_wrapped(f"{flag.why} (default {flag.default}{allowed})", "    "))
        lines += [
            "",
            "cost of one produced token by block size, us of GPU time (simulated; wasted, at once: computed)",
        ]
        lines.append(_format.table(COST_HEADER, [cost_row(self, cost) for cost in self.costs], left=1))
        lines += ["", "how the advice moves (simulated)"]
        lines.append(_format.table(CHANGE_HEADER, [change_row(change) for change in self.changes], left=2))
        return "\n".join([*lines, "", "evidence", *_lines(self.evidence)])


COST_HEADER = (
    "block", "wasted over time", "at once", "waste", "table", "kernel", "prefix", "total",
    "if tables were free", "",
)  # fmt: skip
CHANGE_HEADER = ("if", "becomes", "advised", "today's advice costs at most")


def cost_row(advice: Advice, cost: BlockCost) -> list[str]:
    """The cells of one row of the table of costs."""
    parts = (cost.waste_us, cost.table_us, cost.kernel_us, cost.prefix_us, cost.total_us, cost.free_us)
    mark = "" if cost.backends else "not taken"
    return [
        f"{cost.block_size:,}",
        _format.percent(cost.waste_share) if cost.waste_share > 0.001 else f"{100 * cost.waste_share:.2f} %",
        _format.number(round(cost.running, 1)),
        *("?" if part is None else f"{part:,.2f}" for part in parts),
        "<- advised" if cost.block_size == advice.block_size else mark,
    ]


def change_row(change: Change) -> list[str]:
    """The cells of one row of what moves the advice."""
    more = "the same" if change.more_share < NOTHING else f"{_format.percent(change.more_share)} more"
    return [change.input, change.becomes, f"{change.block_size:,}", more]


def _lines(findings: Iterable[Finding]) -> Iterator[str]:
    for found in findings:
        yield _wrapped(f"{found.topic} ({found.word}): {found.text}", "")
        yield _wrapped(found.evidence, "    ")


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(
        text, 110, initial_indent=indent, subsequent_indent=indent or "  ", break_on_hyphens=False
    )
