"""The exercise `merge-splits`: from the answers over parts of a sequence to that over all of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pagedlab.exercises.report import Arguments, Check, Exercise, Misconception, near
from pagedlab.exercises.solutions.merge_splits import solution

INF, NAN = float("inf"), float("nan")
_WRONG_TOTALS = np.max, np.sum, np.mean


def _parts(rng: random.Random, lses: Sequence[float], empty: float = NAN) -> Arguments:
    """Random outputs for these parts; those of empty ones hold `empty`."""
    rows = [[empty if lse == -INF else rng.randint(-9, 9) / 2 for _ in range(3)] for lse in lses]
    return rows, list(lses)


def _around(rng: random.Random, centre: float, count: int) -> Arguments:
    return _parts(rng, [centre + rng.randint(-12, 12) / 4 for _ in range(count)])


def _with_empty(rng: random.Random, empty: float) -> Arguments:
    lses = [rng.randint(-4, 12) / 4, -INF, rng.randint(-4, 12) / 4, -INF]
    return _parts(rng, rng.sample(lses, 4), empty)


def _valid(outputs: Any, lses: Any) -> bool:
    return 0 < len(outputs) == len(lses) and all(len(row) == 3 for row in outputs)


def _picture(outputs: Any, lses: Any) -> str:
    top = max(lses)
    shares = [0.0 if lse == -INF else float(np.exp(lse - top)) for lse in lses]
    bars = ["#" * max(1, round(40 * share / sum(shares))) if share else "empty" for share in shares]
    return "\n".join(
        f"part {n}: lse {lse:<6g} {bar}" for n, (lse, bar) in enumerate(zip(lses, bars, strict=True))
    )


def _weighed(weigh: Callable[[Any], Any], total: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    """A merge with weights, and perhaps an lse, of its own making."""

    def merge(outputs: Any, lses: Any) -> Any:
        parts, logs = np.asarray(outputs), np.asarray(lses)
        output, lse = solution(parts, logs)
        live = logs > -np.inf
        if live.any():
            weights = weigh(logs[live])
            output = weights @ parts[live] / weights.sum()
            lse = total(logs[live]) if total else lse
        return output, lse

    return merge


def _naive(outputs: Any, lses: Any) -> Any:
    weights = np.exp(np.asarray(lses))
    live = weights > 0
    return weights[live] @ np.asarray(outputs)[live] / weights.sum(), np.log(weights.sum())


def _spreads(outputs: Any, lses: Any) -> Any:
    logs = np.asarray(lses)
    top = logs.max()
    if top == -np.inf:
        return solution(outputs, lses)
    weights = np.exp(logs - top)
    return weights @ np.asarray(outputs) / weights.sum(), top + np.log(weights.sum())


def _unguarded(outputs: Any, lses: Any) -> Any:
    logs = np.asarray(lses)
    weights = np.exp(logs - logs.max())
    parts = np.nan_to_num(np.asarray(outputs))
    return weights @ parts / weights.sum(), logs.max() + np.log(weights.sum())


def _counted(outputs: Any, lses: Any) -> Any:
    parts = np.nan_to_num(np.asarray(outputs))
    return parts.mean(0), solution(outputs, lses)[1]


def _zero_for_empty(outputs: Any, lses: Any) -> Any:
    logs = np.asarray(lses)
    return solution(np.nan_to_num(np.asarray(outputs)), np.where(logs == -np.inf, 0.0, logs))


def _undivided(outputs: Any, lses: Any) -> Any:
    output, lse = solution(outputs, lses)
    return output * np.exp(lse - np.asarray(lses).max()), lse


def _true_exp(logs: Any) -> Any:
    return np.exp(logs - logs.max())


EXERCISE = Exercise(
    name="merge-splits",
    hints=(
        "Each part was divided by its own sum of weights. What is that sum, given its lse?",
        "exp(lse) is a part's weight. Subtract the largest lse first, so that no exp overflows; the merged "
        "lse is the logarithm of all weights together.",
        "top = max(lses); w = exp(lses - top); output = sum(w * outputs) / sum(w) over the parts with w > 0; "
        "lse = top + log(sum(w)). If top is -inf: zeros, and -inf.",
    ),
    checks=(
        Check("two parts of equal weight", lambda rng: _parts(rng, [rng.randint(1, 8) / 4] * 2)),
        Check("several parts", lambda rng: _around(rng, 2, 4)),
        Check("one part", lambda rng: _around(rng, 3, 1)),
        Check("a log-sum-exp of ten thousand", lambda rng: _around(rng, 10_000, 3)),
        Check("all far below zero", lambda rng: _around(rng, -10_000, 3)),
        Check("empty parts that hold zeros", lambda rng: _with_empty(rng, 0.0)),
        Check("empty parts that hold NaN", lambda rng: _with_empty(rng, NAN)),
        Check("nothing but empty parts", lambda rng: _parts(rng, [-INF] * 3)),
    ),
    reference=solution,
    misconceptions=(
        Misconception(
            "parts do not weigh alike: each counts by exp of its lse",
            _weighed(np.ones_like),
            tuple(_weighed(np.ones_like, total) for total in _WRONG_TOTALS),
        ),
        Misconception(
            "the weight is exp(lse), not lse itself",
            _weighed(np.asarray),
            tuple(_weighed(np.asarray, total) for total in _WRONG_TOTALS),
        ),
        Misconception("two things are asked for: the output and its lse", lambda o, e: solution(o, e)[0]),
        Misconception("subtract the largest lse before exp: exp of ten thousand is infinite", _naive),
        Misconception("an empty part counts 0 times, but 0 x NaN is NaN: leave its output out", _spreads),
        Misconception("when all parts are empty: zeros and -inf; -inf - -inf is NaN", _unguarded),
        Misconception("an empty part is not one of those to average over", _counted),
        Misconception("an empty part has lse -inf, weight 0; 0 gives it weight 1", _zero_for_empty),
        Misconception(
            "natural logarithm: exp(lse), not 2 ** lse", _weighed(lambda logs: 2.0 ** (logs - logs.max()))
        ),
        Misconception("the merged lse covers all parts, not the largest alone", _weighed(_true_exp, np.max)),
        Misconception(
            "logarithms do not add up: add exp(lse), then take the logarithm", _weighed(_true_exp, np.sum)
        ),
        Misconception("the lse of all is no mean of the parts'", _weighed(_true_exp, np.mean)),
        Misconception(
            "the lse is a logarithm: log(sum(exp(lse))), the largest added back",
            _weighed(_true_exp, lambda logs: np.log(_true_exp(logs).sum())),
        ),
        Misconception("divide by the sum of the weights", _undivided),
    ),
    same=near,
    valid=_valid,
    picture=_picture,
    forms=("tensors", "arrays", "lists"),
)
