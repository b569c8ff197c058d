"""The exercise `paged-decode`: attention through a block table, over memory that may hold anything."""

from __future__ import annotations

import random
from typing import Any

import torch

from pagedlab import museum
from pagedlab.exercises.plain import brief
from pagedlab.exercises.report import Arguments, Check, Convert, Exercise, Misconception
from pagedlab.exercises.solutions.paged_decode import solution
from pagedlab.museum.kernels import paged_decode

Described = dict[str, Any]


def _drive(f: Any, convert: Convert, described: Described) -> Any:
    batch, device = museum.Batch(**described), convert([0]).device
    answer = torch.as_tensor(f(*(each.to(device) for each in batch.arguments), scale=batch.scale))
    rows = answer.detach().double().cpu().flatten(0, -2).tolist()
    return {"dtype": str(answer.dtype), "shape": list(answer.shape), "rows": rows}


def _same(got: Any, expected: Any) -> bool:
    if not isinstance(got, dict) or any(got[key] != expected[key] for key in ("dtype", "shape")):
        return False
    return all(map(_near, got["rows"], expected["rows"]))


def _near(got: list[float], expected: list[float]) -> bool:
    return torch.allclose(torch.tensor(got), torch.tensor(expected), rtol=2e-3, atol=1e-3, equal_nan=True)


def _differ(exercise: Exercise, arguments: Arguments, expected: Any, got: Any) -> tuple[str, str, str]:
    tried = str(museum.Batch(**arguments[0]))
    if not isinstance(got, dict):
        return tried, "an answer", brief(got)
    for key, what in (("dtype", "an answer of dtype"), ("shape", "an answer of shape")):
        if got[key] != expected[key]:
            return tried, f"{what} {expected[key]}", str(got[key])
    rows = zip(expected["rows"], got["rows"], strict=True)
    n, (right, wrong) = next(pair for pair in enumerate(rows) if not _near(pair[1][1], pair[1][0]))
    seq, head = divmod(n, expected["shape"][1])
    return tried, f"sequence {seq}, head {head}: {brief(right)}", brief(wrong)


def _valid(described: Described) -> bool:
    return "lengths" in described and museum.Batch(**described).possible


def _batch(rng: random.Random, longest: int, **traits: Any) -> Arguments:
    """Sequences of 1 to `longest` tokens, unless the traits say how long."""
    lengths = [rng.randint(1, longest) for _ in range(3)]
    return ({"lengths": lengths, "scale": 0.3, "shuffled": True, "seed": rng.randint(1, 999), **traits},)


def _float32(*given: Any, scale: float) -> Any:
    return paged_decode(*given, scale=scale).float()


def _own_scale(*given: Any, scale: float) -> Any:
    return paged_decode(*given, scale=given[0].shape[-1] ** -0.5)


def _no_scale(*given: Any, scale: float) -> Any:
    return paged_decode(*given, scale=1.0)


def _whole_blocks(query: Any, key: Any, value: Any, tables: Any, lengths: Any, *, scale: float) -> Any:
    size = key.shape[1]
    return paged_decode(query, key, value, tables, (lengths + size - 1) // size * size, scale=scale)


def _first_table(query: Any, key: Any, value: Any, tables: Any, lengths: Any, *, scale: float) -> Any:
    return paged_decode(query, key, value, tables[:1].expand(len(tables), -1), lengths, scale=scale)


def _exhibit(name: str) -> Misconception:
    exhibit = museum.get(name)
    return Misconception(f"{exhibit.title}. {exhibit.story}", exhibit.faulty)


EXERCISE = Exercise(
    name="paged-decode",
    hints=(
        "Forget the batch. For one sequence, which rows of the caches are its tokens, in order?",
        "Gather the keys and values of positions 0 to length - 1, and only these, through the table. What is "
        "left is plain attention for each query head. Try museum.Batch(lengths, poisoned=True) on it.",
        "block = block_tables[seq, position // block_size], slot = position % block_size, key = "
        "key_cache[block, slot]. Query head i reads KV head i // (h // k). softmax(scale * q k) over the "
        "positions, times the values; skip length 0; return the query's dtype.",
    ),
    checks=(
        Check("one block, filled", lambda rng: _batch(rng, 8, lengths=[8], block_size=8, shuffled=False)),
        Check("several blocks in any order", lambda rng: _batch(rng, 9, lengths=[24, 16], block_size=8)),
        Check("part-filled blocks of clean memory", lambda rng: _batch(rng, 20, block_size=8)),
        Check(
            "fewer KV heads than query heads", lambda rng: _batch(rng, 20, block_size=4, heads=6, kv_heads=2)
        ),
        Check("NaN where no token is", lambda rng: _batch(rng, 20, block_size=8, poisoned=True)),
        Check(
            "wild table entries past the end",
            lambda rng: _batch(rng, 9, lengths=[16, 8, 24], block_size=8, poisoned=True),
        ),
        Check("a sequence without tokens", lambda rng: _batch(rng, 9, lengths=[5, 0, 9], block_size=4)),
        Check("scores far below zero", lambda rng: _batch(rng, 20, block_size=8, shift=-300.0)),
        Check("scores far above zero", lambda rng: _batch(rng, 20, block_size=8, shift=300.0)),
        Check(
            "half precision, caches with the heads outside",
            lambda rng: _batch(rng, 20, heads=4, kv_heads=2, block_size=8, dtype="float16", head_major=True),
        ),
        Check("an odd block size", lambda rng: _batch(rng, 30, block_size=rng.choice((5, 24)), heads=2)),
    ),
    reference=solution,
    misconceptions=(
        *map(_exhibit, ("tail", "stale-entry", "empty-sequence", "no-rescale", "first-maximum")),
        *map(_exhibit, ("wrong-head", "scale-twice", "no-table")),
        Misconception(
            "slots that no token owns may hold NaN: 0 x NaN is NaN in V, -inf + NaN in K; leave both out",
            museum.get("unwritten-value").faulty,
            (museum.get("unwritten-key").faulty,),
        ),
        Misconception("the answer has the query's dtype; compute in another, and round at the end", _float32),
        Misconception("multiply the scores by the scale that is given, not by head_dim ** -0.5", _own_scale),
        Misconception("the scores are not multiplied by the scale", _no_scale),
        Misconception(
            "a sequence ends at its length; the rest of its last block is not its own", _whole_blocks
        ),
        Misconception("each sequence has a row of its own in block_tables", _first_table),
    ),
    drive=_drive,
    same=_same,
    valid=_valid,
    differ=_differ,
    forms=("tensors", "gpu tensors"),
    seconds=60,
)
