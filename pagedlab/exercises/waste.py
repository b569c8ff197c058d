"""The exercise `waste`: slots wasted by paging, and by reserving."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from pagedlab.exercises.report import Exercise, Misconception, Trial

Pair = tuple[float, float]


def waste(lengths: Sequence[int], block_size: int, reserve_to: int) -> tuple[int, int]:
    """Slots without a token when each sequence has its final length: paged, and reserved.

    >>> waste([5, 8], block_size=4, reserve_to=16)
    (3, 19)
    """
    paged = sum(-length % block_size for length in lengths)
    reserved = sum(reserve_to - length for length in lengths)
    return paged, reserved


def _trials(rng: random.Random) -> list[Trial]:
    many = [rng.randint(1, 2000) for _ in range(200)]
    few = [rng.randint(1, 40) for _ in range(rng.randint(3, 6))]
    whole = [16 * rng.randint(1, 9) for _ in range(4)]
    return [
        Trial("one sequence whose last block is part filled", ([5], 4, 8)),
        Trial("lengths that fill their blocks exactly", (whole, 16, 160)),
        Trial("a few sequences, an odd block size", (few, 7, 40)),
        Trial("blocks of one token", (few, 1, 50)),
        Trial("no sequence at all", ([], 16, 128)),
        Trial("two hundred sequences", (many, 16, 2048)),
    ]


def _same(got: Any, expected: Any) -> bool:
    return (
        isinstance(got, list | tuple)
        and len(got) == 2
        and all(isinstance(number, int | float) and not isinstance(number, bool) for number in got)
        and list(got) == list(expected)
    )


def _reserved(lengths: Sequence[int], reserve_to: int) -> int:
    return sum(reserve_to - length for length in lengths)


def _share(lengths: Sequence[int], block_size: int, reserve_to: int) -> Pair:
    paged, reserved = waste(lengths, block_size, reserve_to)
    held = sum(lengths) + paged
    return paged / held if held else 0, reserved / (len(lengths) * reserve_to) if lengths else 0


_MISCONCEPTIONS = (
    Misconception(
        "a sequence that fills its last block exactly wastes nothing there: length // block_size + 1 blocks "
        "is one too many then",
        lambda n, b, r: (sum((x // b + 1) * b - x for x in n), _reserved(n, r)),
    ),
    Misconception(
        "length % block_size counts the slots used in the last block; the wasted ones are the others",
        lambda n, b, r: (sum(x % b for x in n), _reserved(n, r)),
    ),
    Misconception(
        "every sequence has a last block of its own: round each length up, not their sum",
        lambda n, b, r: (-sum(n) % b, _reserved(n, r)),
    ),
    Misconception(
        "round the number of blocks up, not down: the tokens after the last whole block need one too",
        lambda n, b, r: (sum(x // b * b - x for x in n), _reserved(n, r)),
    ),
    Misconception(
        "(block_size - 1) / 2 a sequence is what to expect on average; count what these lengths waste",
        lambda n, b, r: ((b - 1) / 2 * len(n), _reserved(n, r)),
    ),
    Misconception(
        "count slots, not blocks: a part-filled block is not wasted whole",
        lambda n, b, r: (sum(1 for x in n if x % b), _reserved(n, r)),
    ),
    Misconception(
        "each sequence reserves reserve_to slots, so there are len(lengths) such reservations",
        lambda n, b, r: (waste(n, b, r)[0], r - sum(n)),
    ),
    Misconception(
        "what was reserved is not all wasted: the tokens that are stored there are not",
        lambda n, b, r: (waste(n, b, r)[0], r * len(n)),
    ),
    Misconception(
        "the paged waste comes first, the reserved one second", lambda n, b, r: waste(n, b, r)[::-1]
    ),
    Misconception("slots are asked for, not a share of them", _share),
    Misconception(
        "slots are asked for, not a percentage of them",
        lambda n, b, r: tuple(100 * share for share in _share(n, b, r)),
    ),
)

WASTE = Exercise(
    name="waste",
    hints=(
        "How many blocks does one sequence of 5 tokens hold when a block has 4 slots? How many of those "
        "slots have a token in them?",
        "The blocks of one sequence are its length over block_size, rounded up. What it wastes is what it "
        "holds less what it stores. Add that up over the sequences.",
        "-(-length // block_size) rounds up. So the paged part adds blocks * block_size - length, and the "
        "reserved part adds reserve_to - length.",
    ),
    trials=_trials,
    reference=waste,
    same=_same,
    misconceptions=_MISCONCEPTIONS,
)
