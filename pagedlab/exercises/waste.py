"""The exercise `waste`: slots wasted by paging, and by reserving."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from pagedlab.exercises.report import Arguments, Check, Exercise, Misconception
from pagedlab.exercises.solutions.waste import solution

Pair = tuple[float, float]


def _few(rng: random.Random, block_size: int, longest: int) -> Arguments:
    lengths = [rng.randint(1, longest) for _ in range(rng.randint(3, 6))]
    return lengths, block_size, longest + rng.randint(0, 9)


def _many(rng: random.Random) -> Arguments:
    return [rng.randint(1, 2000) for _ in range(200)], 16, 2048


def _part_filled(rng: random.Random) -> Arguments:
    return [4 * rng.randint(0, 3) + rng.choice((1, 3))], 4, 16 + rng.randint(0, 4)


def _whole(rng: random.Random) -> Arguments:
    return [16 * rng.randint(1, 9) for _ in range(4)], 16, 160


def _valid(lengths: Any, block_size: int, reserve_to: int) -> bool:
    return block_size > 0 and min(lengths, default=1) > 0 and reserve_to >= max(lengths, default=1)


def _reserved(lengths: Sequence[int], reserve_to: int) -> int:
    return sum(reserve_to - length for length in lengths)


def _share(lengths: Sequence[int], block_size: int, reserve_to: int) -> Pair:
    paged, reserved = solution(lengths, block_size, reserve_to)
    held = sum(lengths) + paged
    return paged / held if held else 0, reserved / (len(lengths) * reserve_to) if lengths else 0


def _picture(lengths: Sequence[int], block_size: int, reserve_to: int) -> str:
    """Each sequence's blocks, a character a slot: # a token, . none."""
    if len(lengths) > 6 or reserve_to > 60:
        return ""
    rows = []
    for length in lengths:
        slots = "#" * length + "." * (-length % block_size)
        blocks = [slots[start : start + block_size] for start in range(0, len(slots), block_size)]
        rows.append(f"paged [{']['.join(blocks)}]   reserved [{'#' * length:.<{reserve_to}}]")
    return "\n".join(rows)


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
        lambda n, b, r: (solution(n, b, r)[0], r - sum(n)),
    ),
    Misconception(
        "what was reserved is not all wasted: the tokens that are stored there are not",
        lambda n, b, r: (solution(n, b, r)[0], r * len(n)),
    ),
    Misconception("the paged waste comes first, the other second", lambda n, b, r: solution(n, b, r)[::-1]),
    Misconception("slots are asked for, not a share of them", _share),
    Misconception(
        "slots are asked for, not a percentage of them",
        lambda n, b, r: tuple(100 * share for share in _share(n, b, r)),
    ),
)

EXERCISE = Exercise(
    name="waste",
    hints=(
        "How many blocks does one sequence of 5 tokens hold when a block has 4 slots? How many of those "
        "slots have a token in them?",
        "The blocks of one sequence are its length over block_size, rounded up. What it wastes is what it "
        "holds less what it stores. Add that up over the sequences.",
        "-(-length // block_size) rounds up. So the paged part adds blocks * block_size - length, and the "
        "reserved part adds reserve_to - length.",
    ),
    checks=(
        Check("one sequence whose last block is part filled", _part_filled),
        Check("lengths that fill their blocks exactly", _whole),
        Check("a few sequences, an odd block size", lambda rng: _few(rng, 7, 40)),
        Check("blocks of one token", lambda rng: _few(rng, 1, 40)),
        Check("no sequence at all", lambda rng: ([], 16, 128)),
        Check("two hundred sequences", _many),
    ),
    reference=solution,
    misconceptions=_MISCONCEPTIONS,
    valid=_valid,
    picture=_picture,
)
