"""The exercise `effective-bandwidth`: what a slope says of memory, and a floor does not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from pagedlab._format import table
from pagedlab.exercises.report import Arguments, Check, Exercise, Misconception
from pagedlab.exercises.solutions.effective_bandwidth import solution


def _steps(rng: random.Random, count: int, noise: float, floor: float) -> Arguments:
    bytes_per_token = 1024 * rng.choice((12, 56, 128, 320))
    lengths = [1000 * n for n in sorted(rng.sample(range(1, 128), count))]
    slope = bytes_per_token / (rng.uniform(500, 7000) * 1e6)  # ms a token
    times = [floor + slope * n + noise * rng.uniform(-1, 1) * slope * 20_000 for n in lengths]
    return bytes_per_token, lengths, [round(ms, 6) for ms in times]


def _valid(bytes_per_token: float, context_lengths: Sequence[int], step_ms: Sequence[float]) -> bool:
    lengths = context_lengths
    usable = len(lengths) == len(step_ms) and len(set(lengths)) > 1 and min([bytes_per_token, *lengths]) > 0
    return usable and min(step_ms) > 0 and _slope(lengths, step_ms) > 1e-9


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    over = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return over / sum((a - mean_x) ** 2 for a in x)


def _gbs(bytes_per_token: float, ms_per_token: float) -> float:
    return bytes_per_token / ms_per_token / 1e6


def _picture(bytes_per_token: float, context_lengths: Sequence[int], step_ms: Sequence[float]) -> str:
    rows = [[f"{n:,}", f"{ms:g}"] for n, ms in zip(context_lengths, step_ms, strict=True)]
    return table(["context", "ms a step"], rows)


def _pairwise(b: float, n: Any, ms: Any) -> float:
    slopes = [(t - s) / (y - x) for x, y, s, t in zip(n, n[1:], ms, ms[1:], strict=False)]
    return _gbs(b, sum(slopes) / len(slopes))


EXERCISE = Exercise(
    name="effective-bandwidth",
    hints=(
        "A step takes time even with no context at all. Which part of it grows with every cached token?",
        "Fit a line through step time over context. Its slope is ms for one more token, and one more token "
        "is bytes_per_token more bytes.",
        "slope = sum((n - mean n) * (ms - mean ms)) / sum((n - mean n) ** 2), in ms a token. "
        "bytes_per_token / (slope / 1e3) / 1e9 is GB/s.",
    ),
    checks=(
        Check("points on a line", lambda rng: _steps(rng, 4, 0, 6.5)),
        Check("a floor much above the slope", lambda rng: _steps(rng, 5, 0, 80)),
        Check("two points", lambda rng: _steps(rng, 2, 0, 5)),
        Check("noisy times", lambda rng: _steps(rng, 9, 1, 7)),
        Check("many noisy times", lambda rng: _steps(rng, 60, 1, 7)),
    ),
    reference=solution,
    misconceptions=(
        Misconception(
            "the time of a step holds its floor too; only the slope is reading the cache",
            lambda b, n, ms: sum(b * x / t for x, t in zip(n, ms, strict=True)) / len(n) / 1e6,
        ),
        Misconception(
            "the longest step still holds the floor; take the slope", lambda b, n, ms: _gbs(b, ms[-1] / n[-1])
        ),
        Misconception(
            "all bytes over all time counts the floor as reading", lambda b, n, ms: b * sum(n) / sum(ms) / 1e6
        ),
        Misconception(
            "a line through the origin has no floor, and a step has one",
            lambda b, n, ms: _gbs(b, sum(x * t for x, t in zip(n, ms, strict=True)) / sum(x * x for x in n)),
        ),
        Misconception(
            "the two ends alone are at the mercy of noise: fit all points",
            lambda b, n, ms: _gbs(b, (ms[-1] - ms[0]) / (n[-1] - n[0])),
        ),
        Misconception(
            "the mean of the slopes between neighbours lets the closest pairs decide: fit all points",
            _pairwise,
        ),
        Misconception(
            "fit time over length: the errors are in the time, and the other way round flattens the line",
            lambda b, n, ms: _gbs(b, 1 / _slope(ms, n)),
        ),
        Misconception(
            "a thousand times more: times are in ms, and GB/s are asked for, not TB/s",
            lambda b, n, ms: solution(b, n, ms) / 1e3,
        ),
        Misconception("GB are 1e9 bytes, not 2**30", lambda b, n, ms: solution(b, n, ms) * 1e9 / 2**30),
        Misconception("GB/s are asked for, not bytes", lambda b, n, ms: solution(b, n, ms) * 1e9),
        Misconception(
            "a slope is ms for a token; each is bytes_per_token bytes",
            lambda b, n, ms: 1 / _slope(n, ms) / 1e6,
        ),
    ),
    valid=_valid,
    picture=_picture,
)
