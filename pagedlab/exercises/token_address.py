"""The exercise `token-address`: from a position in a sequence to a block and an offset."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from pagedlab.exercises.report import Arguments, Check, Exercise, Misconception
from pagedlab.exercises.solutions.token_address import solution


def _anywhere(rng: random.Random, block_size: int, blocks: int, pool: int) -> Arguments:
    table = rng.sample(range(blocks, pool), blocks)  # no entry is its own index
    return table, rng.randrange(blocks * block_size), block_size


def _edge(rng: random.Random, offset: int) -> Arguments:
    table, _, block_size = _anywhere(rng, rng.choice((4, 16)), 6, 90)
    return table, block_size * rng.randint(1, 5) + offset, block_size


def _valid(block_table: Sequence[int], position: int, block_size: int) -> bool:
    return block_size > 0 and 0 <= position < len(block_table) * block_size


def _picture(block_table: Sequence[int], position: int, block_size: int) -> str:
    if len(block_table) > 8:
        return ""
    spans = [f"{n * block_size}-{(n + 1) * block_size - 1}" for n in range(len(block_table))]
    width = max(len(span) for span in spans) + 2
    marks = ["^" if n == position // block_size else "" for n in range(len(spans))]
    rows = {"positions": spans, "in block": map(str, block_table), "": marks}
    return (
        "\n".join(f"{name:<9}" + "".join(cell.rjust(width) for cell in row) for name, row in rows.items())
        + f" position {position}"
    )


def _beyond(table: Any, position: int, block_size: int) -> Any:
    return table[-(-position // block_size)], position % block_size


EXERCISE = Exercise(
    name="token-address",
    hints=(
        "With blocks of 4, which positions does the first entry of the table stand for? And the second?",
        "position // block_size is the place in the table; what the table holds there is the block.",
        "return block_table[position // block_size], position % block_size.",
    ),
    checks=(
        Check("the first token", lambda rng: (rng.sample(range(3, 40), 3), 0, 16)),
        Check("a token in the middle of a block", lambda rng: _edge(rng, rng.randint(1, 2))),
        Check("the first token of a later block", lambda rng: _edge(rng, 0)),
        Check("the last token of a block", lambda rng: _edge(rng, -1)),
        Check("blocks of one token", lambda rng: _anywhere(rng, 1, 30, 300)),
        Check("a long table, a block size of no power of two", lambda rng: _anywhere(rng, 24, 500, 9000)),
    ),
    reference=solution,
    misconceptions=(
        Misconception(
            "that is the place in the table, not the block: look up what the table holds there",
            lambda t, p, b: (p // b, p % b),
        ),
        Misconception("the block comes first, the offset second", lambda t, p, b: solution(t, p, b)[::-1]),
        Misconception(
            "the offset counts from the start of the block, not of the sequence",
            lambda t, p, b: (t[p // b], p),
        ),
        Misconception(
            "position // block_size leads to the table's entry and position % block_size to the slot, not "
            "the other way round",
            lambda t, p, b: (t[p % b], p // b),
        ),
        Misconception("positions count from 0", lambda t, p, b: (t[(p - 1) // b], (p - 1) % b)),
        Misconception(
            "that is always the last block; only the newest token is sure to be there",
            lambda t, p, b: (t[-1], p % b),
        ),
        Misconception("that is always the first block of the table", lambda t, p, b: (t[0], p % b)),
        Misconception("round position / block_size down, not up", _beyond),
        Misconception(
            "cut position / block_size down; rounding to the nearest moves on half a block early",
            lambda t, p, b: (t[int(p / b + 0.5)], p % b),
        ),
        Misconception(
            "a pair is asked for, the block and the offset, not the slot number block * block_size + offset",
            lambda t, p, b: t[p // b] * b + p % b,
        ),
        Misconception(
            "the block's number is asked for, not its first slot, block * block_size",
            lambda t, p, b: (t[p // b] * b, p % b),
        ),
    ),
    valid=_valid,
    picture=_picture,
)
