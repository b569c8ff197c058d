"""What a claim is, and what its experiment says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from pagedlab import published
from pagedlab._format import number, significant
from pagedlab.comparison import Comparison
from pagedlab.published import Figure

ARITHMETIC = "none, this is arithmetic"

Number = TypeVar("Number", "Measurement", "Line")


class Outcome(Enum):
    """The four ways in which an experiment can end."""

    HOLDS = "holds"
    HOLDS_WHEN = "holds when"
    FAILS_HERE = "does not hold here"
    NOT_MEASURABLE = "not measurable here"


@dataclass(frozen=True)
class Measurement:
    """One number of the experiment; `word` says how it was come by, as everywhere in this package."""

    what: str
    value: float
    unit: str
    word: str
    """measured, simulated, computed, recorded, published or assumed"""
    low: float | None = None
    high: float | None = None
    """Where the value lies with 95 % confidence, for what was measured in rounds."""

    @property
    def text(self) -> str:
        """The value with its unit, and its interval if it has one."""
        shown = number if self.value == int(self.value) else significant
        interval = ""
        if self.low is not None and self.high is not None:
            interval = f" ({significant(self.low)} to {significant(self.high)})"
        return f"{shown(self.value)}{interval} {self.unit}".rstrip()

    def __str__(self) -> str:
        return f"{self.what}: {self.text} ({self.word})"


@dataclass(frozen=True)
class Line:
    """A line of a chart: points `(x, y)` in order of x, and how they were come by."""

    name: str
    points: tuple[tuple[float, float], ...]
    word: str


@dataclass(frozen=True)
class Chart:
    """What a verdict rests on, as curves; both axes may be logarithmic."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    log_y: bool = False


@dataclass(frozen=True)
class Verdict:
    """How a claim came out, and on what grounds; `records` are the comparisons that were timed for it."""

    claim: str
    outcome: Outcome
    conditions: tuple[str, ...]
    measured: tuple[Measurement, ...]
    published: tuple[Figure, ...]
    device: str
    chart: Chart | None = None
    records: tuple[Comparison, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.claim}: {self.outcome.value}"]
        lines += [f"  - {condition}" for condition in self.conditions]
        lines += [f"  {measurement}" for measurement in self.measured]
        lines += [f"  {row}" for row in self.published]
        return "\n".join([*lines, f"  device: {self.device}"])

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return {
            "claim": self.claim,
            "outcome": self.outcome.value,
            "conditions": list(self.conditions),
            "measured": [asdict(measurement) for measurement in self.measured],
            "published": [row.id for row in self.published],
            "device": self.device,
            "chart": self.chart and asdict(self.chart),
            "records": [record.to_dict() for record in self.records],
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Verdict:
        """A verdict that was kept as JSON, without its records."""
        chart = plain["chart"]
        if chart:
            lines = (Line(**{**line, "points": tuple(map(tuple, line["points"]))}) for line in chart["lines"])
            chart = Chart(**{**chart, "lines": tuple(lines)})
        return cls(
            plain["claim"],
            Outcome(plain["outcome"]),
            tuple(plain["conditions"]),
            tuple(Measurement(**row) for row in plain["measured"]),
            figures(*plain["published"]),
            plain["device"],
            chart,
        )

    def recorded(self) -> Verdict:
        """The same, kept from another run: what was measured then is *recorded* now."""
        chart = self.chart and replace(self.chart, lines=tuple(map(_recorded, self.chart.lines)))
        return replace(self, measured=tuple(map(_recorded, self.measured)), chart=chart)


@dataclass(frozen=True)
class Claim:
    """`says` is the chapter's idea in our words; `experiment(quick)` puts it to the test."""

    id: str
    says: str
    experiment: Callable[[bool], Verdict]

    def run(self, quick: bool = True) -> Verdict:
        """The verdict: in seconds when `quick`, else in minutes and on everything there is.

        What this machine lacks is a reason, not a failure: then nothing is measurable here.
        """
        try:
            return self.experiment(quick)
        except (ImportError, MemoryError) as error:
            need = f"needs what is not here: {error or type(error).__name__}; `pagedlab doctor` says more"
            return Verdict(self.id, Outcome.NOT_MEASURABLE, (need,), (), (), "none")


def figures(*ids: str) -> tuple[Figure, ...]:
    """Published rows by id."""
    return tuple(map(published.figure, ids))


def _recorded(number: Number) -> Number:
    return replace(number, word="recorded") if number.word == "measured" else number
