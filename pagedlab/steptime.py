"""How long one step of a server takes: a model with three numbers, assumed or fitted to measurements.

    nanoseconds = base + per_token * tokens computed + per_stored * tokens read by attention

`base` is reading the weights once, whatever the batch; `per_token` the arithmetic of one token (what a
long prompt pays); `per_stored` reading one token's K and V (what a long context pays at each step). It is
a straight line on purpose: anybody can check it, and three measurements of one's own replace it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pagedlab.inputs import at_least
from pagedlab.steps import Steps
from pagedlab.workloads import Workload


@dataclass(frozen=True)
class StepTime:
    """Nanoseconds a step takes, whole numbers, so that a run is exact.

    `word` is "assumed" or "measured" and `source` says by whom; both go beside every time that is
    derived from it. With `base` alone all steps are alike, and a run numbers its steps through idle
    time: step t begins at t * base.

    >>> StepTime(base=10_000_000, per_token=20_000).of(computed=500, stored=0)
    20000000
    """

    base: int
    per_token: int = 0
    per_stored: int = 0
    word: str = "assumed"
    source: str = "given by the reader"

    def __post_init__(self) -> None:
        for name, least in (("base", 1), ("per_token", 0), ("per_stored", 0)):
            at_least(least, getattr(self, name), name)

    @property
    def is_fixed(self) -> bool:
        """Whether every step takes the same time."""
        return not (self.per_token or self.per_stored)

    def of(self, computed: int, stored: int) -> int:
        """Nanoseconds of a step that computes `computed` tokens while `stored` are in the cache."""
        return self.base + self.per_token * computed + self.per_stored * stored

    def of_steps(self, steps: Steps) -> np.ndarray:
        """Nanoseconds of each step of a run, int64."""
        return self.base + self.per_token * steps.computed + self.per_stored * steps.stored


ASSUMED = StepTime(10_000_000, 20_000, source="10 ms a step and 20 us a token")
"""A round number for a small model on a data-centre GPU; nobody measured it."""


def fit(measured: Sequence[tuple[int, int, float]], source: str) -> StepTime:
    """The line through measured steps `(tokens computed, tokens stored, seconds)`, by least squares.

    A part that would come out negative is left out and the rest fitted again: no token gives time
    back. Raises `ValueError` when the measurements do not tell the parts apart (three at least, that
    differ in both counts).

    >>> fit([(1, 100, 0.011), (8, 100, 0.018), (8, 300, 0.020)], "three steps timed here").per_token
    1000000
    """
    if len(measured) < 3:
        raise ValueError(f"at least 3 measured steps are needed to fit 3 numbers, got {len(measured)}")
    computed, stored, seconds = np.array(measured, dtype=np.float64).T
    if not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise ValueError("a measured step must take a finite number of seconds above 0")
    terms = {"base": np.ones_like(computed), "per_token": computed, "per_stored": stored}
    if np.linalg.matrix_rank(np.stack(list(terms.values()), axis=1)) < 3:
        raise ValueError("the measured steps are too alike: vary both the tokens computed and those stored")
    while True:
        found, *_ = np.linalg.lstsq(np.stack(list(terms.values()), axis=1), seconds * 1e9, rcond=None)
        nanoseconds = dict(zip(terms, found.tolist(), strict=True))
        least = min(nanoseconds, key=nanoseconds.__getitem__)
        if nanoseconds[least] >= 0 or len(terms) == 1:
            break
        del terms[least]
    parts = {name: round(value) for name, value in nanoseconds.items()}
    return StepTime(max(1, parts.pop("base", 0)), **parts, word="measured", source=source)


class Clock:
    """A run's clock: it counts steps while all take the same time, else nanoseconds.

    `reading` is the time at which the next step begins, in that unit.
    """

    def __init__(self, step_time: StepTime | None) -> None:
        self.reading = 0
        self._step_time = step_time
        self._counts_steps = step_time is None or step_time.is_fixed

    def arrivals(self, workload: Workload) -> array[int]:
        """When each request arrives on this clock; all at 0 where nothing is known."""
        if self._step_time is None or workload.arrival_ns is None:
            return array("q", bytes(8 * len(workload)))
        unit = self._step_time.base if self._counts_steps else 1
        return array("q", (-(-workload.arrival_ns // unit)).astype(np.int64).tobytes())

    def wait_until(self, arrival: int, now: int) -> int:
        """Let idle time pass; the number of the step that begins then, `now` being the next one's."""
        self.reading = max(self.reading, arrival)
        return self.reading if self._counts_steps else now

    def pass_step(self, computed: int, stored: int) -> None:
        """Let a step pass."""
        if self._counts_steps or self._step_time is None:
            self.reading += 1
        else:
            self.reading += self._step_time.of(computed, stored)

    def skip_steps(self, count: int) -> None:
        """Let steps pass, of which it is known that nobody arrives in them (`step_of`)."""
        if self._counts_steps:
            self.reading += count

    def step_of(self, arrival: int, now: int) -> int:
        """The step before which a request arrives; `now` itself where that cannot be foreseen."""
        return arrival if self._counts_steps else now
