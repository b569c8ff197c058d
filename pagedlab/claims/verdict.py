"""What a claim is, and what its experiment says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pagedlab.published import Figure


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

    def __str__(self) -> str:
        return f"{self.what}: {self.value:.3g} {self.unit} ({self.word})"


@dataclass(frozen=True)
class Verdict:
    """How a claim came out, and on what grounds."""

    claim: str
    outcome: Outcome
    conditions: tuple[str, ...]
    measured: tuple[Measurement, ...]
    published: tuple[Figure, ...]
    device: str

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
            "measured": [vars(measurement) for measurement in self.measured],
            "published": [row.id for row in self.published],
            "device": self.device,
        }


@dataclass(frozen=True)
class Claim:
    """`says` is the chapter's idea in our words; `experiment(quick)` puts it to the test."""

    id: str
    says: str
    experiment: Callable[[bool], Verdict]

    def run(self, quick: bool = True) -> Verdict:
        """The verdict: in seconds when `quick`, else on everything there is."""
        return self.experiment(quick)
