"""The exercises `transactions`, `crossover`, `block-size` and `effective-bandwidth`."""

from __future__ import annotations

import itertools
import math
import statistics
from functools import partial

import numpy as np
import pytest
import torch
from trying import assert_passes, assert_recognised

from pagedlab import exercises


def bytes_one_by_one(byte_addresses, bytes_per_lane, *, sector=32):
    return len({(a + i) // sector for a in byte_addresses for i in range(bytes_per_lane)})


def by_marks(byte_addresses, bytes_per_lane, *, sector=32):
    touched = np.zeros(1_000_000 // sector + 1, bool)
    for address in byte_addresses:
        touched[address // sector : -(-(address + bytes_per_lane) // sector)] = True
    return touched.sum()


def by_unique(byte_addresses, bytes_per_lane, sector=32):
    every = np.asarray(byte_addresses)[:, None] + np.arange(bytes_per_lane)
    return np.unique(every // sector).size


def by_torch(byte_addresses, bytes_per_lane, sector=32):
    every = torch.as_tensor(byte_addresses).long().view(-1, 1) + torch.arange(bytes_per_lane)
    return torch.tensor(every.div(sector, rounding_mode="floor").unique().numel())


def by_intervals(byte_addresses, bytes_per_lane, *, sector=32):
    count, last = 0, -1
    for address in sorted(byte_addresses):
        first, stop = address // sector, (address + bytes_per_lane - 1) // sector
        count += max(0, stop - max(first, last + 1) + 1)
        last = max(last, stop)
    return count


def lanes_times(a, n, sector=32):
    return sum((x + n - 1) // sector - x // sector + 1 for x in a)


TRANSACTIONS = {
    "bytes": bytes_one_by_one,
    "marks": by_marks,
    "unique": by_unique,
    "torch": by_torch,
    "intervals": by_intervals,
}
TRANSACTIONS_WRONG = {
    "lanes": (lambda a, n, sector=32: len(a), "not lanes"),
    "bytes over sector": (lambda a, n, sector=32: math.ceil(len(a) * n / sector), "the least it could take"),
    "starts": (lambda a, n, sector=32: len(set(np.array(a, int) // sector)), "end in the next"),
    "each lane's": (lanes_times, "each lane's sectors"),
    "one byte more": (
        lambda a, n, sector=32: len({b // sector for x in a for b in range(x, x + n + 1)}),
        "last byte",
    ),
    "the span": (
        lambda a, n, sector=32: (max(a) + n - 1) // sector - min(a) // sector + 1 if len(a) else 0,
        "nobody reads",
    ),
    "always 32": (lambda a, n, sector=32: bytes_one_by_one(a, n), "by default"),
    "from the first address": (
        lambda a, n, sector=32: bytes_one_by_one([x - min(a) for x in a], n, sector=sector),
        "multiple of its size",
    ),
    "lines": (lambda a, n, sector=32: bytes_one_by_one(a, n, sector=sector * 4), "cache lines"),
    "bytes fetched": (lambda a, n, sector=32: bytes_one_by_one(a, n, sector=sector) * sector, "not bytes"),
}


def backwards(lengths, paged_us, contiguous_us, noise_us):
    answer = None
    for length, paged, contiguous in reversed(list(zip(lengths, paged_us, contiguous_us, strict=True))):
        if not abs(paged - contiguous) > noise_us:
            return answer
        answer = length
    return answer


def by_mask(lengths, paged_us, contiguous_us, noise_us):
    differs = np.abs(np.subtract(paged_us, contiguous_us)) > noise_us
    tail = np.logical_and.accumulate(differs[::-1])[::-1]
    return np.asarray(lengths)[tail.argmax()] if tail.any() else None


def by_suffix(lengths, paged_us, contiguous_us, noise_us):
    for start in range(len(lengths)):
        if all(abs(p - c) > noise_us for p, c in zip(paged_us[start:], contiguous_us[start:], strict=True)):
            return lengths[start]
    return None


def by_groups(lengths, paged_us, contiguous_us, noise_us):
    marks = [(abs(p - c) > noise_us, n) for n, p, c in zip(lengths, paged_us, contiguous_us, strict=True)]
    groups = [(k, [n for _, n in g]) for k, g in itertools.groupby(marks, key=lambda mark: mark[0])]
    return groups[-1][1][0] if groups and groups[-1][0] else None


def torch_tail(lengths, paged_us, contiguous_us, noise_us):
    noisy = (torch.as_tensor(paged_us) - torch.as_tensor(contiguous_us)).abs() <= noise_us
    after = int(noisy.nonzero().max()) + 1 if noisy.any() else 0
    return torch.as_tensor(lengths)[after] if after < len(lengths) else None


def first_from(differs, n, p, c, noise):
    for i in range(len(n)):
        if all(differs(a - b, noise) for a, b in zip(p[i:], c[i:], strict=True)):
            return n[i]
    return None


CROSSOVER = {
    "backwards": backwards,
    "mask": by_mask,
    "suffix": by_suffix,
    "groups": by_groups,
    "torch": torch_tail,
}
CROSSOVER_WRONG = {
    "any": (
        lambda n, p, c, noise: next((x for x, a, b in zip(n, p, c, strict=True) if abs(a - b) > noise), None),
        "drowns again",
    ),
    "sign": (partial(first_from, lambda d, noise: d > noise), "not its sign"),
    "at least": (partial(first_from, lambda d, noise: abs(d) >= noise), "is still noise"),
    "slower": (partial(first_from, lambda d, noise: d > 0), "which is slower"),
    "last noisy": (
        lambda n, p, c, noise: max(
            (x for x, a, b in zip(n, p, c, strict=True) if abs(a - b) <= noise), default=None
        ),
        "not that one",
    ),
    "place": (
        lambda n, p, c, noise: None if (x := by_suffix(n, p, c, noise)) is None else n.index(x),
        "not its place",
    ),
    "0": (lambda *given: by_suffix(*given) or 0, "not 0"),
    "longest": (lambda n, *given: by_suffix(n, *given) or n[-1], "not the longest"),
}


def size_loops(lengths, candidates, waste_budget):
    best = None
    for size in sorted(candidates, reverse=True):
        held = 0
        for length in lengths:
            while held % size or length > 0:
                held, length = held + 1, length - 1
        if (held - sum(lengths)) / held <= waste_budget:
            best = size
            break
    return best


def size_numpy(lengths, candidates, waste_budget):
    lengths, sizes = np.asarray(lengths), np.asarray(candidates)[:, None]
    wasted = (-lengths % sizes).sum(1)
    fits = wasted / (wasted + lengths.sum()) <= waste_budget
    return sizes[fits].max() if fits.any() else None


def size_torch(lengths, candidates, waste_budget):
    lengths, best = torch.as_tensor(lengths), None
    for size in candidates:
        held = ((lengths + size - 1) // size * size).sum()
        if 1 - lengths.sum() / held <= waste_budget and (best is None or size > best):
            best = size
    return best


def share(lengths, size):
    held = sum(math.ceil(length / size) for length in lengths) * size
    return (held - sum(lengths)) / held


BLOCK_SIZE = {
    "loops": size_loops,
    "numpy": size_numpy,
    "torch": size_torch,
    "filter": lambda n, sizes, w: max(filter(lambda b: share(n, b) <= w, sizes), default=None),
    "sorted": lambda n, sizes, w: next((b for b in sorted(sizes)[::-1] if share(n, b) <= w), None),
    "float": lambda n, sizes, w: max((float(b) for b in sizes if share(n, b) <= w), default=None),
}
BLOCK_SIZE_WRONG = {
    "of stored": (
        lambda n, sizes, w: max((b for b in sizes if sum(-x % b for x in n) / sum(n) <= w), default=None),
        "not of the tokens stored",
    ),
    "smallest": (
        lambda n, sizes, w: next((b for b in sorted(sizes) if share(n, b) <= w), None),
        "asked for, not the smallest",
    ),
    "less than": (lambda n, sizes, w: max((b for b in sizes if share(n, b) < w), default=None), "within it"),
    "mean of shares": (
        lambda n, sizes, w: max(
            (b for b in sizes if statistics.fmean(share([x], b) for x in n) <= w), default=None
        ),
        "the mean of each",
    ),
    "first": (lambda n, sizes, w: next((b for b in sizes if share(n, b) <= w), None), "any order"),
    "stops": (
        lambda n, sizes, w: max(itertools.takewhile(lambda b: share(n, b) <= w, sorted(sizes)), default=None),
        "try them all",
    ),
    "one sequence": (
        lambda n, sizes, w: max((b for b in sizes if share([sum(n)], b) <= w), default=None),
        "not their sum",
    ),
    "expected": (
        lambda n, sizes, w: max(
            (b for b in sizes if (b - 1) / 2 / (statistics.fmean(n) + (b - 1) / 2) <= w), default=None
        ),
        "half a block",
    ),
    "one more": (
        lambda n, sizes, w: max(
            (b for b in sizes if 1 - sum(n) / sum(x // b * b + b for x in n) <= w), default=None
        ),
        "one too many",
    ),
    "0": (lambda n, sizes, w: max((b for b in sizes if share(n, b) <= w), default=0), "not 0"),
    "percent": (
        lambda n, sizes, w: max((b for b in sizes if 100 * share(n, b) <= w), default=None),
        "the budget is a share",
    ),
}

BANDWIDTH = {
    "polyfit": lambda b, n, ms: b / np.polyfit(n, ms, 1)[0] / 1e6,
    "statistics": lambda b, n, ms: b / statistics.linear_regression(n, ms).slope / 1e6,
    "lstsq": lambda b, n, ms: (
        b / (np.linalg.lstsq(np.stack([n, np.ones(len(n))], 1), np.asarray(ms), rcond=None)[0][0] * 1e6)
    ),
    "torch": lambda b, n, ms: (
        b * torch.tensor(n, dtype=torch.float64).var() / torch.cov(torch.tensor([n, ms]).double())[0, 1] / 1e6
    ),
    "sums": lambda b, n, ms: (
        b
        * (len(n) * sum(x * x for x in n) - sum(n) ** 2)
        / (len(n) * sum(x * t for x, t in zip(n, ms, strict=True)) - sum(n) * sum(ms))
        / 1e6
    ),
}
BANDWIDTH_WRONG = {
    "mean of ratios": (
        lambda b, n, ms: np.mean([b * x / t / 1e6 for x, t in zip(n, ms, strict=True)]),
        "its floor too",
    ),
    "longest": (lambda b, n, ms: b * n[-1] / ms[-1] / 1e6, "the longest step"),
    "all over all": (lambda b, n, ms: b * np.sum(n) / np.sum(ms) / 1e6, "all bytes over all time"),
    "origin": (lambda b, n, ms: b * np.dot(n, n) / np.dot(n, ms) / 1e6, "through the origin"),
    "ends": (lambda b, n, ms: b * (n[-1] - n[0]) / (ms[-1] - ms[0]) / 1e6, "two ends"),
    "neighbours": (lambda b, n, ms: b / np.mean(np.diff(ms) / np.diff(n)) / 1e6, "between neighbours"),
    "other way round": (lambda b, n, ms: b * np.polyfit(ms, n, 1)[0] / 1e6, "flattens"),
    "seconds": (lambda b, n, ms: b / np.polyfit(n, ms, 1)[0] / 1e9, "a thousand times"),
    "GiB": (lambda b, n, ms: b / np.polyfit(n, ms, 1)[0] * 1e3 / 2**30, "not 2**30"),
    "bytes": (lambda b, n, ms: b / np.polyfit(n, ms, 1)[0] * 1e3, "not bytes"),
    "tokens": (lambda b, n, ms: 1 / np.polyfit(n, ms, 1)[0] / 1e6, "bytes_per_token bytes"),
}

RIGHT = {
    "transactions": TRANSACTIONS,
    "crossover": CROSSOVER,
    "block-size": BLOCK_SIZE,
    "effective-bandwidth": BANDWIDTH,
}
WRONG = {
    "transactions": TRANSACTIONS_WRONG,
    "crossover": CROSSOVER_WRONG,
    "block-size": BLOCK_SIZE_WRONG,
    "effective-bandwidth": BANDWIDTH_WRONG,
}


@pytest.mark.parametrize("name, style", [(name, style) for name, styles in RIGHT.items() for style in styles])
def test_a_right_answer_of_any_style_passes(name, style):
    assert_passes(name, RIGHT[name][style])


@pytest.mark.parametrize(
    "name, mistake", [(name, each) for name, mistakes in WRONG.items() for each in mistakes]
)
def test_a_known_mistake_is_named_by_its_output(name, mistake):
    assert_recognised(name, *WRONG[name][mistake])


def test_the_pictures_show_what_decides():
    assert exercises.get("transactions").picture([30], 4, 32) == f"0 |{'.' * 30}##|##{'.' * 30}|"
    assert "differs" in exercises.get("crossover").picture([16], [9], [7], 1)
    assert "25 %         over" in exercises.get("block-size").picture([48], [64], 0.2)
