"""The exercise `kv-bytes`: how much memory the cached tokens of a model take."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from pagedlab.exercises.report import Arguments, Check, Exercise, Misconception
from pagedlab.exercises.solutions.kv_bytes import solution


def _model(rng: random.Random, sizes: Sequence[float], tokens: tuple[int, int]) -> Arguments:
    layers, kv_heads, head_dim = rng.randint(12, 126), rng.choice((2, 4, 8, 40)), rng.choice((64, 80, 128))
    return layers, kv_heads, head_dim, rng.choice(sizes), rng.randint(*tokens)


def _valid(layers: int, kv_heads: int, head_dim: int, bytes_per_element: float, tokens: int) -> bool:
    return min(layers, kv_heads, head_dim) > 0 and bytes_per_element in (0.5, 1, 2, 4) and tokens >= 0


EXERCISE = Exercise(
    name="kv-bytes",
    hints=(
        "What does one layer keep of one token? Count the numbers first, the bytes afterwards.",
        "Each layer keeps a key and a value for every KV head, and each of them has head_dim numbers.",
        "2 (K and V) * layers * kv_heads * head_dim * bytes_per_element * tokens. Half a byte is four bits.",
    ),
    checks=(
        Check("one token", lambda rng: _model(rng, (2,), (1, 1))),
        Check("a context of two-byte numbers", lambda rng: _model(rng, (2,), (100, 8192))),
        Check("bytes: fp8 or int8", lambda rng: _model(rng, (1,), (1000, 131_072))),
        Check("half a byte: int4", lambda rng: _model(rng, (0.5,), (1000, 131_072))),
        Check("four bytes, one KV head", lambda rng: (rng.randint(2, 90), 1, 128, 4, rng.randint(2, 999))),
        Check("no token yet", lambda rng: _model(rng, (2,), (0, 0))),
    ),
    reference=solution,
    misconceptions=(
        Misconception("the cache keeps keys and values: twice this", lambda n, h, d, b, t: n * h * d * b * t),
        Misconception(
            "K and V are two, not four: the factor 2 is in there twice",
            lambda n, h, d, b, t: 4 * n * h * d * b * t,
        ),
        Misconception(
            "that is one layer; every layer keeps keys and values of its own",
            lambda n, h, d, b, t: 2 * h * d * b * t,
        ),
        Misconception(
            "that is one KV head; each of the kv_heads keeps its own", lambda n, h, d, b, t: 2 * n * d * b * t
        ),
        Misconception(
            "a key is a vector: head_dim numbers, not one", lambda n, h, d, b, t: 2 * n * h * b * t
        ),
        Misconception("that is one token; the cache keeps all", lambda n, h, d, b, t: 2 * n * h * d * b),
        Misconception(
            "those are numbers, not bytes: multiply by bytes_per_element",
            lambda n, h, d, b, t: 2 * n * h * d * t,
        ),
        Misconception(
            "half a byte was cut to none: make a whole number of the product, not of its factors",
            lambda n, h, d, b, t: 2 * n * h * d * int(b) * t,
        ),
        Misconception(
            "half a byte was rounded up to one: two such numbers share a byte",
            lambda n, h, d, b, t: 2 * n * h * d * math.ceil(b) * t,
        ),
        Misconception(
            "bytes_per_element is in bytes already: dividing by 8 takes it for bits",
            lambda n, h, d, b, t: 2 * n * h * d * b * t / 8,
        ),
        Misconception("bytes are asked for, not KiB", lambda *model: solution(*model) / 2**10),
        Misconception("bytes are asked for, not MiB", lambda *model: solution(*model) / 2**20),
        Misconception("bytes are asked for, not GiB", lambda *model: solution(*model) / 2**30),
    ),
    valid=_valid,
)
