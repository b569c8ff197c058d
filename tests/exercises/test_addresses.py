"""The exercises `kv-bytes` and `token-address`."""

from __future__ import annotations

import functools
import math
import operator

import numpy as np
import pytest
import torch
from trying import assert_passes, assert_recognised

from pagedlab import LayerGroup, ModelShape, exercises


def byte_loops(layers, kv_heads, head_dim, bytes_per_element, tokens):
    total = 0
    for _ in ("key", "value"):
        for _ in range(layers):
            total += kv_heads * head_dim * tokens * bytes_per_element
    return total


class Bits:
    def __call__(self, layers, kv_heads, head_dim, bytes_per_element, tokens):
        bits = round(8 * bytes_per_element)
        return layers * kv_heads * head_dim * tokens * bits // 4


BYTES_RIGHT = {
    "loops": byte_loops,
    "numpy": lambda *model: 2 * np.prod(np.array(model, float)),
    "torch": lambda *model: torch.tensor(model, dtype=torch.float64).prod() * 2,
    "reduce": lambda *model: functools.reduce(operator.mul, model, 2),
    "math.prod": lambda n, h, d, b, t: int(math.prod([2, n, h, d, t]) * b),
    "bits": Bits(),
    "numpy integer": lambda n, h, d, b, t: np.int64(2 * n * h * d * b * t),
}
BYTES_WRONG = {
    "K only": (lambda n, h, d, b, t: n * h * d * b * t, "the cache keeps keys and values"),
    "twice twice": (
        lambda n, h, d, b, t: 2 * (n * h * d * b * t + n * h * d * b * t),
        "the factor 2 is in there twice",
    ),
    "one layer": (lambda n, h, d, b, t: 2 * h * d * b * t, "one layer"),
    "one head": (lambda n, h, d, b, t: 2 * n * d * b * t, "one KV head"),
    "numbers for vectors": (lambda n, h, d, b, t: 2 * n * h * b * t, "a key is a vector"),
    "one token": (lambda n, h, d, b, t: 2 * n * h * d * b, "one token"),
    "elements": (lambda n, h, d, b, t: 2 * n * h * d * t, "numbers, not bytes"),
    "cut": (lambda n, h, d, b, t: 2 * n * h * d * (b // 1) * t, "cut to none"),
    "rounded up": (lambda n, h, d, b, t: 2 * n * h * d * max(b, 1) * t, "rounded up to one"),
    "bits": (lambda n, h, d, b, t: n * h * d * b * t / 4, "for bits"),
    "KiB": (lambda n, h, d, b, t: n * h * d * b * t / 512, "not KiB"),
    "GiB": (lambda n, h, d, b, t: 2 * n * h * d * b * t / 1024**3, "not GiB"),
}


def find_by_walking(block_table, position, block_size):
    for block in block_table:
        if position < block_size:
            return block, position
        position -= block_size
    raise IndexError(position)


def by_slots(block_table, position, block_size):
    slots = [(block, slot) for block in block_table for slot in range(block_size)]
    return slots[position]


def by_numpy(block_table, position, block_size):
    where = np.unravel_index(position, (len(block_table), block_size))
    return np.asarray(block_table)[where[0]], where[1]


def by_torch(block_table, position, block_size):
    table = torch.as_tensor(block_table).repeat_interleave(block_size)
    return table[position], torch.tensor(position).remainder(block_size)


ADDRESS_RIGHT = {
    "divmod": lambda t, p, b: (lambda place, slot: (t[place], slot))(*divmod(p, b)),
    "walking": find_by_walking,
    "all slots": by_slots,
    "numpy": by_numpy,
    "torch": by_torch,
    "array": lambda t, p, b: np.array([t[p // b], p % b]),
    "methods of tensors": lambda t, p, b: (t.index_select(0, torch.tensor([p // b])).item(), p % b),
}
ADDRESS_WRONG = {
    "no look-up": (lambda t, p, b: divmod(p, b), "not the block"),
    "swapped": (lambda t, p, b: (p % b, t[p // b]), "comes first"),
    "offset in the sequence": (lambda t, p, b: (t[p // b], p), "not of the sequence"),
    "crossed": (lambda t, p, b: (t[p % b], p // b), "other way round"),
    "from one": (lambda t, p, b: (t[(p - 1) // b], (p - 1) % b), "count from 0"),
    "last block": (lambda t, p, b: (t[-1], p % b), "always the last block"),
    "first block": (lambda t, p, b: (t[0], p % b), "always the first block"),
    "rounded up": (lambda t, p, b: (t[math.ceil(p / b)], p % b), "down, not up"),
    "rounded": (lambda t, p, b: (t[math.floor(p / b + 0.5)], p % b), "half a block early"),
    "slot": (lambda t, p, b: t[p // b] * b + p % b, "a pair is asked for"),
    "first slot": (lambda t, p, b: (t[p // b] * b, p % b), "not its first slot"),
}


@pytest.mark.parametrize("style", BYTES_RIGHT)
def test_bytes_in_any_style_pass(style):
    assert_passes("kv-bytes", BYTES_RIGHT[style])


def test_the_librarys_own_count_passes():
    def with_library(layers, kv_heads, head_dim, bytes_per_element, tokens):
        dtype = {0.5: "int4", 1: "fp8", 2: "fp16", 4: "fp32"}[bytes_per_element]
        group = LayerGroup(layers=layers, kv_heads=kv_heads, head_dim=head_dim)
        return ModelShape((group,)).kv_bytes(tokens, dtype)

    assert_passes("kv-bytes", with_library)


@pytest.mark.parametrize("mistake", BYTES_WRONG)
def test_wrong_bytes_are_named(mistake):
    assert_recognised("kv-bytes", *BYTES_WRONG[mistake])


@pytest.mark.parametrize("style", ADDRESS_RIGHT)
def test_addresses_in_any_style_pass(style):
    assert_passes("token-address", ADDRESS_RIGHT[style])


@pytest.mark.parametrize("mistake", ADDRESS_WRONG)
def test_wrong_addresses_are_named(mistake):
    assert_recognised("token-address", *ADDRESS_WRONG[mistake])


def test_the_picture_points_at_the_token():
    picture = exercises.get("token-address").picture([7, 3, 9], 9, 4)
    assert picture.splitlines() == [
        "positions   0-3   4-7  8-11",
        "in block      7     3     9",
        "                          ^ position 9",
    ]
