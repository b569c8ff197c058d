"""What a comparison of times found: plain records, and the few questions that may be asked of them.

`pagedlab.timing` fills these in. A record holds every sample and every condition, so that a table, a chart
and a file are made from the same thing, and a ratio can be asked between any two cases of it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from pagedlab import _format

FASTER, SLOWER, NO_DIFFERENCE = "faster", "slower", "no difference seen"
TOO_FEW, TOO_NOISY = "too few rounds", "too noisy to tell"
AS_LEFT, WARM, COLD = "as left", "warm", "cold"
"""What a case finds in the caches: what the case before it left there, its own data, or nothing of use."""
FEWEST_ROUNDS = 15
"""The rounds from which on `Comparison.difference` gives a reading; it says why so many."""
MOST_NOISE = 0.25
"""The noise floor from which on it gives none: the machine is busy with something else."""
RESAMPLES = 2000
# What is written as it is, of a record and of a case; the rest gets names that say what was counted.
_SAID = ("name", "layout", "bytes_moved")
_KEPT = ("what", "device", "clock", "threads", "versions", "baseline", "seed", "caches", "limit", "stopped")


@dataclass(frozen=True)
class Spread:
    """The middle of some values and the quartiles around it."""

    q1: float
    median: float
    q3: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """
        >>> Spread.of([4.0, 1.0, 3.0, 2.0, 5.0])
        Spread(q1=2.0, median=3.0, q3=4.0)
        """
        ordered = sorted(values)
        if len(ordered) < 2:
            only = ordered[0] if ordered else math.nan
            return cls(only, only, only)
        return cls(*statistics.quantiles(ordered, n=4, method="inclusive"))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.q1:.2f} - {self.q3:.2f})"


@dataclass(frozen=True)
class Timing:
    """What one case took: seconds per call, one number per round."""

    name: str
    layout: str
    bytes_moved: int | None
    calls: int
    seconds: tuple[float, ...]

    @property
    def spread(self) -> Spread:
        return Spread.of(self.seconds)

    @property
    def median(self) -> float:
        """Seconds per call; NaN when no round was finished."""
        return self.spread.median

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes moved by one call over its median time, where the case said how many."""
        return self.bytes_moved / self.median if self.bytes_moved and self.median > 0 else None


@dataclass(frozen=True)
class Comparison:
    """Several cases timed against each other, with the conditions that make the numbers mean something.

    `again` is the baseline's second run in each round, in seconds per call. `stopped` says why it ended
    before `planned` rounds, "" when it did not.
    """

    what: str
    baseline: str
    timings: tuple[Timing, ...]
    again: tuple[float, ...]
    device: str
    clock: str
    threads: dict[str, int]
    versions: dict[str, str | None]
    warmup: int
    planned: int
    seed: int
    stopped: str
    limit: str = ""
    """The case that only reads the bytes, "" when there is none."""
    caches: str = AS_LEFT

    def __getitem__(self, name: str) -> Timing:
        """The timing of the case with that name; raises KeyError that lists the names there are."""
        for timing in self.timings:
            if timing.name == name:
                return timing
        raise KeyError(f"no case {name!r}; there are {', '.join(t.name for t in self.timings)}")

    @property
    def rounds(self) -> int:
        """Rounds that were finished."""
        return len(self.again)

    def ratio(self, name: str, to: str | None = None) -> Spread:
        """Time of `name` over time of `to` (the baseline), taken within each round: below 1 is faster."""
        return Spread.of(_ratios(self[name].seconds, self[to or self.baseline].seconds))

    def interval(self, name: str, to: str | None = None) -> tuple[float, float]:
        """Where the median of that ratio lies, by bootstrap: the rounds are drawn anew, with replacement,
        `RESAMPLES` times, and the middle 95 % of the medians is kept. NaN without a round.

        Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993 (percentile intervals).
        """
        import numpy as np

        ratios = np.array(_ratios(self[name].seconds, self[to or self.baseline].seconds))
        if not len(ratios):
            return math.nan, math.nan
        draws = np.random.default_rng(0).integers(0, len(ratios), (RESAMPLES, len(ratios)))
        low, high = np.quantile(np.median(ratios[draws], axis=1), [0.025, 0.975])
        return float(low), float(high)

    def share_of_limit(self, name: str) -> float | None:
        """Bytes a second of a case over those of the `limit`, within each round; None without either."""
        moved, most = self[name].bytes_moved, self.limit and self[self.limit].bytes_moved
        if not moved or not most or not self.rounds:
            return None
        return self.ratio(self.limit, name).median * moved / most

    def __add__(self, more: Comparison) -> Comparison:
        """The rounds of both, of the same cases timed again. Raises ValueError when they are not the same."""
        if [t.name for t in self.timings] != [t.name for t in more.timings] or self.device != more.device:
            raise ValueError("only rounds of the same cases on the same device can be put together")
        timings = tuple(replace(t, seconds=t.seconds + more[t.name].seconds) for t in self.timings)
        again, planned = self.again + more.again, self.planned + more.planned
        return replace(self, timings=timings, again=again, planned=planned, stopped=more.stopped)

    @property
    def noise_floor(self) -> float:
        """How far the baseline strays from itself: 0.03 when a quartile of A'/A lies 3 % from 1."""
        spread = Spread.of(_ratios(self.again, self[self.baseline].seconds))
        return max(max(value, 1 / value) for value in (spread.q1, spread.median, spread.q3)) - 1

    @property
    def bias(self) -> float:
        """How far the baseline's median ratio to itself is from 1: rounds do not average this away."""
        median = Spread.of(_ratios(self.again, self[self.baseline].seconds)).median
        return max(median, 1 / median) - 1

    def difference(self, name: str, to: str | None = None) -> str:
        """FASTER or SLOWER when the median ratio leaves the noise floor and both quartiles agree, else
        NO_DIFFERENCE; TOO_FEW below FEWEST_ROUNDS rounds, TOO_NOISY above MOST_NOISE.

        How often this finds a difference where there is none, in percent (simulated: 200,000 comparisons
        each of cases that take equally long, with independent noise of 3 % or of 20 %, or of 3 % and now
        and then up to twice as long; the three differ by 0.8 at 5 rounds and by 0.1 from 15 on):

            rounds                      5     9    15    25
            against the baseline      9.7   3.1   0.6   0.1
            between two other cases  10.7   3.7   0.9   0.1

        Noise that lasts from round to round is not in this; more rounds do not help against it.
        """
        if self.rounds < FEWEST_ROUNDS:
            return TOO_FEW
        if self.noise_floor > MOST_NOISE:
            return TOO_NOISY
        spread, floor = self.ratio(name, to), self.noise_floor
        if spread.median < 1 / (1 + floor) and spread.q3 < 1:
            return FASTER
        if spread.median > 1 + floor and spread.q1 > 1:
            return SLOWER
        return NO_DIFFERENCE

    def to_dict(self) -> dict[str, Any]:
        """The whole record as plain data; times in seconds, rates in bytes a second."""
        return {
            "kind": "measured",
            **{name: copy(getattr(self, name)) for name in _KEPT},
            "noise_floor": _plain(self.noise_floor),
            "rounds": self.rounds,
            "planned_rounds": self.planned,
            "warmup_rounds": self.warmup,
            "again_s": list(self.again),
            "cases": [self._case(timing) for timing in self.timings],
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Comparison:
        """The record of such plain data; what follows from the samples is worked out anew.

        Raises KeyError, TypeError or ValueError for data that `to_dict` does not make.
        """
        timings = []
        for case in plain["cases"]:
            seconds, calls = tuple(map(float, case["seconds"])), case["calls_per_round"]
            timings.append(Timing(**{name: case[name] for name in _SAID}, calls=calls, seconds=seconds))
        again = tuple(map(float, plain["again_s"]))
        if any(len(timing.seconds) != len(again) for timing in timings):
            raise ValueError("every case must have as many samples as the baseline's second run")
        cases = [timing.name for timing in timings]
        if plain["baseline"] not in cases or plain["limit"] not in ("", *cases):
            raise ValueError("baseline and limit must be among the cases")
        numbers = {"warmup": plain["warmup_rounds"], "planned": plain["planned_rounds"]}
        return cls(timings=tuple(timings), again=again, **numbers, **{name: plain[name] for name in _KEPT})

    def to_frame(self) -> Any:
        """One row a sample as a pandas DataFrame; the rest of the record is in its `attrs`.

        Raises ImportError where pandas is missing: nothing else here needs it.
        """
        try:
            from pandas import DataFrame
        except ImportError:
            raise ImportError("a DataFrame needs pandas: pip install pandas") from None
        record = self.to_dict()
        frame = DataFrame(
            {name: case[name] for name in _SAID} | {"round": number, "seconds": seconds}
            for case in record.pop("cases")
            for number, seconds in enumerate(case["seconds"])
        )
        frame.attrs = record
        return frame

    def _case(self, timing: Timing) -> dict[str, Any]:
        plain: dict[str, Any] = {
            **{name: getattr(timing, name) for name in _SAID},
            "calls_per_round": timing.calls,
            "seconds": list(timing.seconds),
        }
        if self.rounds:
            time, ratio = timing.spread, self.ratio(timing.name)
            plain |= {
                "median_s": time.median,
                "quartiles_s": [time.q1, time.q3],
                "ratio": _plain(ratio.median),
                "ratio_quartiles": [_plain(ratio.q1), _plain(ratio.q3)],
                "ratio_interval": [_plain(end) for end in self.interval(timing.name)],
                "share_of_limit": self.share_of_limit(timing.name),
                "bytes_per_second": timing.bytes_per_second,
                "difference": self.difference(timing.name),
            }
        return plain

    def __str__(self) -> str:
        if not self.rounds:
            return f"{self.what or 'comparison'}: stopped before the first round was finished"
        return "\n".join([*filter(None, [self.what]), self.table(self.baseline), *self.conditions()])

    def table(self, *to: str) -> str:
        """A row for each case, its time also over that of each of `to`; the reading is beside the first."""
        rows = [self._row(timing, to) for timing in self.timings]
        return _format.table(list(rows[0]), [list(row.values()) for row in rows], left=2)

    def conditions(self) -> list[str]:
        """Where, with what and how this was measured, in lines for a person."""
        threads = ", ".join(f"{name} {count}" for name, count in self.threads.items()) or "not asked"
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items() if version)
        early = f" ({self.stopped}; {self.planned} were planned)" if self.stopped else ""
        noise = f"noise floor {_format.percent(self.noise_floor)} ({self.baseline} against itself)"
        return [
            f"measured on {self.device}; threads: {threads}; {versions}",
            f"{self.rounds} interleaved rounds{early} after {self.warmup} of warm-up, {self.clock}, "
            f"seed {self.seed}; caches {self.caches}; {noise}",
        ]

    def _row(self, timing: Timing, to: tuple[str, ...]) -> dict[str, str]:
        time, rate, share = timing.spread, timing.bytes_per_second, self.share_of_limit(timing.name)
        row = {"case": timing.name, "layout": timing.layout, "median": _format.seconds(time.median)}
        row["quartiles"] = f"{_format.seconds(time.q1)} - {_format.seconds(time.q3)}"
        if any(each.bytes_moved for each in self.timings):
            row["GB/s"] = f"{rate / 1e9:.1f}" if rate else ""
        row |= {f"time / {other}": str(self.ratio(timing.name, other)) for other in to}
        if self.limit:
            row[f"of {self.limit}"] = "" if share is None else _format.percent(share)
        row["reading"] = "baseline" if timing.name == to[0] else self.difference(timing.name, to[0])
        return row


def _ratios(above: Iterable[float], below: Iterable[float]) -> list[float]:
    # A clock too coarse for the call reads zero; then nothing can be said of the ratio in that round.
    return [a / b for a, b in zip(above, below, strict=True) if a > 0 and b > 0]


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
