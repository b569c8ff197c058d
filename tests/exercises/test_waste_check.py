"""The exercise `waste`: right answers in unlike styles, and the mistakes that a check names."""

from __future__ import annotations

import functools
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from trying import assert_passes, assert_recognised


def loops(lengths, block_size, reserve_to):
    paged = reserved = 0
    for length in lengths:
        blocks = length // block_size
        if length % block_size != 0:
            blocks += 1
        paged += blocks * block_size - length
        reserved += reserve_to - length
    return paged, reserved


def vectorised(lengths, block_size, reserve_to):
    lengths = np.asarray(lengths, dtype=np.int64)
    return np.array([(-lengths % block_size).sum(), (reserve_to - lengths).sum()])


def with_torch(lengths, block_size, reserve_to):
    lengths = torch.tensor(lengths, dtype=torch.int64)
    return (-lengths % block_size).sum(), (reserve_to - lengths).sum()


def only_arrays(lengths, block_size, reserve_to):
    return (-lengths % block_size).sum(), (reserve_to - lengths).sum()


def only_tensors(lengths, block_size, reserve_to):
    return lengths.neg().remainder(block_size).sum(), lengths.neg().add(reserve_to).sum()


class Callable:
    def __call__(self, lengths, block_size, reserve_to):
        return [sum(-x % block_size for x in lengths), len(lengths) * reserve_to - sum(lengths)]


def chatty(lengths, block_size, reserve_to):
    print("x" * 1_000_000)
    sys.stderr.write("y" * 1000)
    return loops(lengths, block_size, reserve_to)


def _partial(extra, lengths, block_size, reserve_to):
    return loops(lengths, block_size, reserve_to)


RIGHT = {
    "loops": loops,
    "numpy": vectorised,
    "torch": with_torch,
    "numpy's methods": only_arrays,
    "torch's methods": only_tensors,
    "object": Callable(),
    "lambda": lambda n, b, r: (sum(-x % b for x in n), sum(r - x for x in n)),
    "partial": functools.partial(_partial, None),
    "floats": lambda n, b, r: (float(sum(-x % b for x in n)), float(sum(r - x for x in n))),
    "fractions": lambda n, b, r: [Fraction(x) for x in loops(n, b, r)],
    "prints a lot": chatty,
}

WRONG = {
    "one block too many": (
        lambda n, b, r: (sum((x // b + 1) * b - x for x in n), sum(r - x for x in n)),
        "one too many",
    ),
    "the used part": (lambda n, b, r: (sum(x % b for x in n), sum(r - x for x in n)), "slots used"),
    "the sum rounded up": (lambda n, b, r: (-sum(n) % b, sum(r - x for x in n)), "a last block of its own"),
    "rounded down": (lambda n, b, r: (sum(x // b * b - x for x in n), sum(r - x for x in n)), "up, not down"),
    "the expectation": (
        lambda n, b, r: ((b - 1) / 2 * len(n), sum(r - x for x in n)),
        "what to expect on average",
    ),
    "blocks": (lambda n, b, r: (sum(x % b > 0 for x in n), sum(r - x for x in n)), "slots, not blocks"),
    "one reservation": (
        lambda n, b, r: (sum(-x % b for x in n), r - sum(n)),
        "len(lengths) such reservations",
    ),
    "all of it": (lambda n, b, r: (sum(-x % b for x in n), r * len(n)), "not all wasted"),
    "swapped": (lambda n, b, r: (sum(r - x for x in n), sum(-x % b for x in n)), "comes first"),
    "shares": (
        lambda n, b, r: (
            n and (1 - sum(n) / sum(-(-x // b) * b for x in n), 1 - sum(n) / len(n) / r) or (0, 0)
        ),
        "not a share",
    ),
    "nothing": (lambda n, b, r: None, "always None"),
    "a constant": (lambda n, b, r: (12345, 54321), "same for every input"),
}


@pytest.mark.parametrize("style", RIGHT)
def test_a_right_answer_of_any_style_passes(style):
    assert_passes("waste", RIGHT[style])


@pytest.mark.parametrize("mistake", WRONG)
def test_a_known_mistake_is_named_by_its_output(mistake):
    assert_recognised("waste", *WRONG[mistake])
