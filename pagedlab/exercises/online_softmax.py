"""The exercise `online-softmax`: one pass over blocks of scores and values."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from pagedlab.exercises.report import Arguments, Check, Convert, Exercise, Misconception, near
from pagedlab.exercises.solutions.online_softmax import solution

INF = float("inf")
_JOINED = (
    "Right, and worth a remark: all scores were read before the first value. That takes room for a score of "
    "every token, or a second look at each; going block by block takes neither."
)


class _Noted(list[Any]):
    """A list that notes when one of its items is looked at."""

    def __init__(self, items: Sequence[Any], name: str, notes: list[str]) -> None:
        super().__init__(items)
        self._name, self._notes = name, notes

    def __getitem__(self, index: Any) -> Any:
        self._notes.append(self._name)
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            self._notes.append(self._name)
            yield item


def _drive(f: Any, convert: Convert, score_blocks: list[Any], value_blocks: list[Any], d: int) -> Any:
    notes: list[str] = []
    one = convert([[0.0] * d])
    empty = np.zeros((0, d)) if isinstance(one, list) else one[:0]
    scores = _Noted([convert(block) for block in score_blocks], "s", notes)
    values = _Noted([convert(block) if block else empty for block in value_blocks], "v", notes)
    return {"answer": f(scores, values), "order": "".join(notes)}


def _remark(answers: Sequence[Any]) -> str:
    """No score was ever read after a value: the blocks were joined, or walked twice."""
    return "" if any("vs" in answer["order"] for answer in answers) else _JOINED


def _blocks(rng: random.Random, *blocks: Sequence[float]) -> Arguments:
    """Blocks of these scores, with random values of three numbers."""
    values = [[[rng.randint(-9, 9) / 2 for _ in range(3)] for _ in block] for block in blocks]
    return [list(block) for block in blocks], values, 3


def _around(rng: random.Random, *centres: float) -> Arguments:
    """A block around each centre, exact in single precision."""
    blocks = [[centre + rng.randint(-6, 6) / 4 for _ in range(rng.randint(2, 5))] for centre in centres]
    return _blocks(rng, *blocks)


def _gaps(rng: random.Random) -> Arguments:
    first, second = [rng.randint(0, 3) / 2], [rng.randint(-3, 3) / 2, 1.0]
    return _blocks(rng, *rng.sample([[], first, [], second, []], 5))


def _masked(rng: random.Random) -> Arguments:
    return _blocks(rng, [-INF, -INF], [rng.randint(-3, 3) / 2, -INF], [-INF], [0.5, 1.0])


def _valid(score_blocks: Any, value_blocks: Any, d: int) -> bool:
    if d != 3 or not score_blocks or len(score_blocks) != len(value_blocks):
        return False
    paired = zip(score_blocks, value_blocks, strict=True)
    whole = all(len(s) == len(v) and all(len(row) == d for row in v) for s, v in paired)
    scores = [score for block in score_blocks for score in block]
    return whole and (not scores or max(scores) > -INF)


def _picture(score_blocks: Any, value_blocks: Any, d: int) -> str:
    lines, top = [], -INF
    for number, scores in enumerate(score_blocks):
        top = max([top, *scores])
        said = " ".join(f"{score:g}" for score in scores) or "none"
        lines.append(f"block {number}: scores {said}; largest so far {top:g}")
    return "\n".join(lines)


def _walk(
    score_blocks: Any,
    value_blocks: Any,
    *,
    first: float = -INF,
    running: bool = True,
    acc_shrinks: bool = True,
    sum_shrinks: bool = True,
    grows: bool = False,
    careful: bool = True,
    divides: bool = True,
) -> Any:
    """The walk over the blocks, with one thing or another done wrong."""
    top, total, acc = first, 0.0, 0.0
    for block, value_block in zip(score_blocks, value_blocks, strict=True):
        scores, values = np.asarray(block), np.asarray(value_block)
        higher = max(top if running else -INF, scores.max(initial=-INF))
        if careful and higher == -INF:
            continue
        shrink = np.exp(higher - top if grows and top > -INF else top - higher)
        weights = np.exp(scores - higher)
        total = total * (shrink if sum_shrinks else 1.0) + weights.sum()
        acc = acc * (shrink if acc_shrinks else 1.0) + weights @ values
        top = higher
    if not divides:
        return acc + np.zeros(3)
    return acc / np.float64(total) if total or not careful else np.zeros(3)


def _no_maximum(score_blocks: Any, value_blocks: Any, most: float = INF) -> Any:
    weights = [np.exp(np.minimum(block, most)) for block in score_blocks]
    acc = sum(w @ np.asarray(v) for w, v in zip(weights, value_blocks, strict=True))
    total = sum(w.sum() for w in weights)
    return acc / total if total else np.zeros(3)


def _each(score_blocks: Any, value_blocks: Any) -> list[Any]:
    """The softmax of each block alone."""
    return [solution([s], [v]) for s, v in zip(score_blocks, value_blocks, strict=True) if len(s)]


def _mean(score_blocks: Any, value_blocks: Any) -> Any:
    return sum(_each(score_blocks, value_blocks), np.zeros(3)) / max(
        1, len(_each(score_blocks, value_blocks))
    )


def _by_length(score_blocks: Any, value_blocks: Any) -> Any:
    lengths = [len(block) for block in score_blocks if len(block)]
    parts = zip(lengths, _each(score_blocks, value_blocks), strict=True)
    return sum((n * part for n, part in parts), np.zeros(3)) / max(1, sum(lengths))


EXERCISE = Exercise(
    name="online-softmax",
    hints=(
        "You have walked the first block. What must you know of it when the second one comes, and has a "
        "larger score than any before?",
        "Keep the largest score so far, the sum of exp(score - largest) and the sum of exp(score - largest) "
        "* value. When the largest grows, both sums shrink by exp(old - new).",
        "new = max(old, block's max); shrink = exp(old - new); w = exp(scores - new); total = total * shrink "
        "+ sum(w); acc = acc * shrink + w @ values. At the end acc / total. Skip while new is -inf; zeros if "
        "nothing was seen.",
    ),
    checks=(
        Check("one block", lambda rng: _around(rng, 0)),
        Check("the largest score comes first", lambda rng: _around(rng, 9, 2, 0)),
        Check("a score far above all that follow", lambda rng: _around(rng, 2, 1000, 3)),
        Check("the largest score comes last", lambda rng: _around(rng, 0, 2, 5)),
        Check("scores of ten thousand", lambda rng: _around(rng, 9_999, 10_000, 10_001)),
        Check("scores far below zero", lambda rng: _around(rng, -10_000, -10_002)),
        Check("blocks without tokens among others", _gaps),
        Check("masked scores, a whole block of them first", _masked),
        Check("no token at all", lambda rng: _blocks(rng, [], [])),
    ),
    reference=solution,
    misconceptions=(
        Misconception(
            "when the largest score grows, the accumulated values must shrink too",
            partial(_walk, acc_shrinks=False),
        ),
        Misconception(
            "when the largest score grows, the accumulated sum must shrink too",
            partial(_walk, sum_shrinks=False),
        ),
        Misconception(
            "weights of different blocks are relative to different maxima until the old ones are rescaled",
            partial(_walk, acc_shrinks=False, sum_shrinks=False),
            (partial(_walk, running=False, acc_shrinks=False, sum_shrinks=False),),
        ),
        Misconception(
            "the maximum is that of all blocks so far, not of the block at hand",
            partial(_walk, running=False),
        ),
        Misconception(
            "shrink by exp(old - new), which is at most 1, not by exp(new - old)", partial(_walk, grows=True)
        ),
        Misconception(
            "the maximum begins at -inf: from 0, weights of very negative scores all vanish",
            partial(_walk, first=0.0),
        ),
        Misconception("subtract the largest score before exp: exp of ten thousand is infinite", _no_maximum),
        Misconception(
            "scores that are cut off all weigh alike: subtract the largest instead",
            partial(_no_maximum, most=50.0),
            tuple(partial(_no_maximum, most=most) for most in (20.0, 80.0, 100.0, 700.0)),
        ),
        Misconception("divide by the sum of the weights at the end", partial(_walk, divides=False)),
        Misconception(
            "-inf - -inf and 0 / 0 are NaN: mind blocks in which nothing is seen yet",
            partial(_walk, careful=False),
        ),
        Misconception("blocks do not weigh alike: a block with larger scores counts more", _mean),
        Misconception(
            "a block's weight is its sum of exp(score - largest), not its number of tokens", _by_length
        ),
        Misconception(
            "the softmax runs over all blocks, so the weights of all together add up to 1",
            lambda s, v: sum(_each(s, v), np.zeros(3)),
        ),
    ),
    drive=_drive,
    view=lambda answer, *arguments: answer["answer"],
    same=near,
    valid=_valid,
    picture=_picture,
    remark=_remark,
    forms=("tensors", "arrays", "lists"),
)
