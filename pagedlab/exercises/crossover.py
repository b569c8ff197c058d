"""The exercise `crossover`: from which length on a difference is one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from pagedlab._format import table
from pagedlab.exercises.report import Arguments, Check, Exercise, Misconception
from pagedlab.exercises.solutions.crossover import solution


def _timed(rng: random.Random, differences: Sequence[float]) -> Arguments:
    """Times in quarters of a microsecond, so that a difference of exactly the noise is exact."""
    lengths = sorted(rng.sample(range(16, 4096), len(differences)))
    contiguous = [5 + length // 64 + rng.randint(0, 3) / 4 for length in lengths]
    paged = [time + difference for time, difference in zip(contiguous, differences, strict=True)]
    return lengths, paged, contiguous, 1.0


def _signs(rng: random.Random, sizes: Sequence[float]) -> list[float]:
    return [size * rng.choice((1, -1)) for size in sizes]


def _small(rng: random.Random, count: int) -> list[float]:
    return [rng.randint(-3, 3) / 4 for _ in range(count)]


def _large(rng: random.Random, count: int) -> list[float]:
    return [rng.randint(6, 30) / 4 for _ in range(count)]


def _valid(
    lengths: Sequence[int], paged_us: Sequence[float], contiguous_us: Sequence[float], noise: float
) -> bool:
    one_each = len(lengths) == len(paged_us) == len(contiguous_us)
    return one_each and all(a < b for a, b in zip([0, *lengths], lengths, strict=False)) and noise > 0


def _picture(
    lengths: Sequence[int], paged_us: Sequence[float], contiguous_us: Sequence[float], noise_us: float
) -> str:
    rows = [
        [str(n), f"{p:g}", f"{c:g}", f"{p - c:+g}", "noise" if abs(p - c) <= noise_us else "differs"]
        for n, p, c in zip(lengths, paged_us, contiguous_us, strict=True)
    ]
    return table(["length", "paged", "contiguous", "difference", f"noise {noise_us:g}"], rows)


def _first(n: Any, p: Any, c: Any, noise: float, differs: Callable[[float, float], bool]) -> Any:
    """The least length from which on all differ, by another idea of differing."""
    marks = [differs(float(a), float(b)) for a, b in zip(p, c, strict=True)]
    return next((n[i] for i in range(len(n)) if all(marks[i:])), None)


def _any_length(n: Any, p: Any, c: Any, noise: float) -> Any:
    return next((x for x, a, b in zip(n, p, c, strict=True) if abs(a - b) > noise), None)


def _last_noise(n: Any, p: Any, c: Any, noise: float) -> Any:
    return next((x for x, a, b in list(zip(n, p, c, strict=True))[::-1] if abs(a - b) <= noise), None)


def _place(n: Any, *timed: Any) -> Any:
    found = solution(n, *timed)
    return None if found is None else list(n).index(found)


EXERCISE = Exercise(
    name="crossover",
    hints=(
        "Look at one length: when can these two times be told apart at all?",
        "Walk from the longest to the shortest, and stop at the first whose difference drowns in the noise.",
        "found = None; for each length in order: if abs(paged - contiguous) <= noise, found = None again; "
        "else, if found is None, it is this length. Return found.",
    ),
    checks=(
        Check("small differences, then large ones", lambda rng: _timed(rng, _small(rng, 3) + _large(rng, 4))),
        Check(
            "a difference that comes, goes and comes again",
            lambda rng: _timed(rng, _large(rng, 2) + _small(rng, 2) + _large(rng, 3)),
        ),
        Check("paged is faster", lambda rng: _timed(rng, _small(rng, 2) + [-s for s in _large(rng, 3)])),
        Check("exactly the noise", lambda rng: _timed(rng, [*_small(rng, 2), 2, *_signs(rng, [1, 3])])),
        Check("nothing but noise", lambda rng: _timed(rng, _small(rng, 5))),
        Check("noise at the longest", lambda rng: _timed(rng, _large(rng, 4) + _small(rng, 1))),
        Check("different at every length", lambda rng: _timed(rng, _signs(rng, _large(rng, 4)))),
        Check("no length at all", lambda rng: ([], [], [], 1.0)),
    ),
    reference=solution,
    misconceptions=(
        Misconception("at every longer length too: this difference drowns again further on", _any_length),
        Misconception(
            "paged may be the faster one: the size of the difference counts, not its sign",
            lambda n, p, c, noise: _first(n, p, c, noise, lambda a, b: a - b > noise),
        ),
        Misconception(
            "a difference of exactly the noise is still noise",
            lambda n, p, c, noise: _first(n, p, c, noise, lambda a, b: abs(a - b) >= noise),
        ),
        Misconception(
            "that asks which is slower; a difference below the noise says nothing",
            lambda n, p, c, noise: _first(n, p, c, noise, lambda a, b: a > b),
        ),
        Misconception("the first length past the last noisy one is asked for, not that one", _last_noise),
        Misconception("the length is asked for, not its place in the list", _place),
        Misconception("where no length will do, the answer is None, not 0", lambda *t: solution(*t) or 0),
        Misconception(
            "where no length will do, the answer is None, not the longest",
            lambda n, *timed: n[-1] if solution(n, *timed) is None else solution(n, *timed),
        ),
        Misconception(
            "noise is in microseconds, not a share of the time",
            lambda n, p, c, noise: _first(n, p, c, noise, lambda a, b: abs(a / b - 1) > noise),
        ),
        Misconception(
            "each difference must exceed the noise, not their mean",
            lambda n, p, c, noise: next(
                (n[i] for i in range(len(n)) if abs(sum(p[i:]) - sum(c[i:])) > noise * (len(n) - i)), None
            ),
        ),
    ),
    valid=_valid,
    picture=_picture,
)
