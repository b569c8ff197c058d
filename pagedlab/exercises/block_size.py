"""The exercise `block-size`: the largest block that wastes little enough."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from pagedlab._format import percent, table
from pagedlab.exercises.report import Arguments, Check, Exercise, Misconception
from pagedlab.exercises.solutions.block_size import solution

SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def _held(lengths: Any, size: int) -> int:
    return sum(-(-int(length) // size) * size for length in lengths)


def _spread(rng: random.Random, low: int, high: int) -> list[int]:
    return [rng.randint(low, high) for _ in range(rng.randint(5, 40))]


def _exact(rng: random.Random) -> Arguments:
    """Each sequence stores 48 of 64 slots: wasted / held is exactly 1/4."""
    return [48] * rng.randint(2, 9), [16, 64, 128], 0.25


def _uneven(rng: random.Random) -> Arguments:
    """Powers of two waste nothing here, and smaller sizes do."""
    return [512] * rng.randint(2, 6), rng.sample([16, 24, 96, 200, 256, 512], 6), 0.001


def _nothing(rng: random.Random) -> Arguments:
    return [rng.choice((1, 2, 3)) for _ in range(8)], [64, 32, 128], 0.05


def _valid(lengths: Sequence[int], candidates: Sequence[int], waste_budget: float) -> bool:
    return min([*lengths, *candidates], default=0) > 0 and bool(lengths) and 0 < waste_budget < 1


def _picture(lengths: Sequence[int], candidates: Sequence[int], waste_budget: float) -> str:
    rows = []
    for size in sorted(candidates):
        held, stored = _held(lengths, size), sum(lengths)
        mark = "within" if held - stored <= waste_budget * held else "over"
        rows.append([str(size), str(held), str(held - stored), percent((held - stored) / held), mark])
    return table(["block size", "held", "wasted", "share", f"budget {percent(waste_budget)}"], rows)


def _largest(n: Any, sizes: Any, fits: Callable[[int], Any]) -> Any:
    return max((size for size in sizes if fits(int(size))), default=None)


def _mean_of_shares(n: Any, sizes: Any, budget: float) -> Any:
    return _largest(n, sizes, lambda b: sum(1 - x / _held([x], b) for x in n) / len(n) <= budget)


def _until_the_first(n: Any, sizes: Any, budget: float) -> Any:
    found = None
    for size in sorted(sizes):
        if 1 - sum(n) / _held(n, size) > budget:
            break
        found = size
    return found


EXERCISE = Exercise(
    name="block-size",
    hints=(
        "For one candidate: how many slots are in the blocks that all sequences hold? How many are empty?",
        "held adds each length rounded up to whole blocks; wasted is held less the tokens. Keep the "
        "candidates with wasted / held within the budget.",
        "held = sum(-(-n // size) * size for n in lengths); keep size if held - sum(lengths) <= budget * "
        "held; return the max of what was kept, or None if nothing was.",
    ),
    checks=(
        Check(
            "spread lengths, sizes in order",
            lambda rng: (_spread(rng, 100, 900), SIZES, rng.choice((0.03, 0.06, 0.1))),
        ),
        Check("sizes in any order", lambda rng: (_spread(rng, 50, 400), rng.sample(SIZES, 9), 0.08)),
        Check(
            "short and long sequences together",
            lambda rng: (_spread(rng, 1, 9) + [4000 + rng.randint(0, 99)], SIZES, 0.02),
        ),
        Check("a generous budget", lambda rng: ([rng.randint(50, 100) for _ in range(60)], SIZES, 0.35)),
        Check("a waste of exactly the budget", _exact),
        Check("equal lengths: a larger block may waste less than a smaller one", _uneven),
        Check("no candidate is good enough", _nothing),
    ),
    reference=solution,
    misconceptions=(
        Misconception(
            "the share is of the slots held, not of the tokens stored",
            lambda n, sizes, w: _largest(n, sizes, lambda b: _held(n, b) / sum(n) - 1 <= w),
        ),
        Misconception(
            "the largest that fits is asked for, not the smallest",
            lambda n, sizes, w: min((b for b in sizes if 1 - sum(n) / _held(n, b) <= w), default=None),
        ),
        Misconception(
            "a waste of exactly the budget is within it",
            lambda n, sizes, w: _largest(n, sizes, lambda b: _held(n, b) - sum(n) < w * _held(n, b)),
        ),
        Misconception(
            "add the slots up first: the mean of each sequence's share gives short ones too much weight",
            _mean_of_shares,
        ),
        Misconception(
            "the first that fits need not be the largest: candidates come in any order",
            lambda n, sizes, w: next((b for b in sizes if 1 - sum(n) / _held(n, b) <= w), None),
        ),
        Misconception(
            "try them all: with lengths that are multiples, a larger block can waste less than a smaller one",
            _until_the_first,
        ),
        Misconception(
            "every sequence has a last block of its own: round each length up, not their sum",
            lambda n, sizes, w: _largest(n, sizes, lambda b: 1 - sum(n) / _held([sum(n)], b) <= w),
        ),
        Misconception(
            "half a block a sequence is what to expect; count what these lengths waste",
            lambda n, sizes, w: _largest(
                n, sizes, lambda b: len(n) * (b - 1) / 2 <= w * (sum(n) + len(n) * (b - 1) / 2)
            ),
        ),
        Misconception(
            "a sequence that fills its blocks holds no further one: length // size + 1 is one too many then",
            lambda n, s, w: _largest(n, s, lambda b: 1 - sum(n) / sum((x // b + 1) * b for x in n) <= w),
        ),
        Misconception("where no candidate fits, the answer is None, not 0", lambda *g: solution(*g) or 0),
        Misconception(
            "where no candidate fits, the answer is None, not the smallest",
            lambda n, sizes, w: solution(n, sizes, w) or min(sizes),
        ),
        Misconception(
            "the budget is a share: 0.05 is 5 %",
            lambda n, sizes, w: _largest(n, sizes, lambda b: 100 * (1 - sum(n) / _held(n, b)) <= w),
        ),
    ),
    valid=_valid,
    picture=_picture,
)
