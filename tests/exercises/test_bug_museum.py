"""The exercise `bug-museum`: a learner's test has the mutation score that it deserves."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from pagedlab import exercises, museum
from pagedlab.museum import Batch
from pagedlab_kernels import paged_attention

NASTY = dict(shuffled=True, poisoned=True)
TOTAL = len(museum.exhibits(scored=True))


def many_batches(kernel):
    for seed in range(3):
        for size in (5, 16, 200):
            Batch([1, 2 * size, 0, size + 3], size, heads=4, kv_heads=2, scale=0.3, seed=seed, **NASTY).check(
                kernel
            )
    Batch([20], shift=-500.0, **NASTY).check(kernel)


def against_the_library(kernel):
    """Compares with another kernel, on tensors of its own."""
    for size, lengths, low in ((3, [4, 0, 9], 0.0), (20, [50], 0.0), (160, [170, 3], 0.0), (8, [30], -300.0)):
        blocks = sum(-(-n // size) for n in lengths)
        width = max(-(-n // size) for n in lengths)
        ids = torch.randperm(blocks, generator=torch.Generator().manual_seed(1))
        key, value = torch.full((2, blocks, size, 2, 4), torch.nan)
        table = torch.full((len(lengths), width + 1), 10**9, dtype=torch.int32)
        for row, length in zip(table, lengths, strict=True):
            own, ids = ids[: -(-length // size)], ids[-(-length // size) :]
            row[: len(own)] = own
            for position in range(length):
                key[own[position // size], position % size] = torch.randn(2, 4)
                key[own[position // size], position % size, :, 0] = low
                value[own[position // size], position % size] = torch.randn(2, 4)
        query = torch.randn(len(lengths), 4, 4)
        query[..., 0] = 1
        given = query, key, value, table, torch.tensor(lengths, dtype=torch.int32)
        expected = paged_attention(*given, scale=1.3, backend="reference")
        torch.testing.assert_close(kernel(*given, scale=1.3), expected, atol=1e-4, rtol=1e-3)


def against_sdpa(kernel):
    for batch in (
        Batch([17, 5, 0], 4, heads=6, kv_heads=2, scale=2.0, **NASTY),
        Batch([40, 21], 20, shift=-200.0, seed=5, **NASTY),
        Batch([150], 150, seed=6, **NASTY),
    ):
        answer = kernel(*batch.arguments, scale=batch.scale)
        for seq, (key, value) in enumerate(zip(batch.keys, batch.values, strict=True)):
            q = batch.query[seq][:, None]
            key, value = (
                x.transpose(0, 1).repeat_interleave(len(q) // batch.kv_heads, 0) for x in (key, value)
            )
            right = scaled_dot_product_attention(q, key, value, scale=batch.scale) if key.shape[1] else 0 * q
            if (answer[seq] - right[:, 0]).abs().max() < 1e-3:
                continue
            raise ValueError(f"sequence {seq}")


def exits(kernel):
    """Kills by leaving, as a script would."""
    try:
        museum.careful(kernel)
    except Exception:
        raise SystemExit(1) from None


def three_quarters(kernel):
    """Careful enough: it forgets large blocks and very negative scores."""
    Batch([1, 5, 16, 0, 41], heads=4, kv_heads=2, scale=0.35, **NASTY).check(kernel)


class Suite:
    def __call__(self, kernel):
        many_batches(kernel)


RIGHT = {
    "many batches": many_batches,
    "library": against_the_library,
    "sdpa": against_sdpa,
    "exits": exits,
    "three quarters": three_quarters,
    "object": Suite(),
    "museum's": museum.careful,
}


def clean(kernel):
    Batch([5, 40, 0], heads=4, kv_heads=2, scale=0.5, shuffled=True).check(kernel)


def one_head(kernel):
    Batch([5, 40], heads=1, scale=0.5, **NASTY).check(kernel)


def unscaled(kernel):
    Batch([32], heads=4, kv_heads=2).check(kernel)


def exact(kernel):
    batch = Batch([5, 41, 0], heads=4, kv_heads=2, scale=0.35, **NASTY)
    assert torch.equal(batch.run(kernel), museum.sound()[0](*batch.arguments, scale=batch.scale))


def loose(kernel):
    for batch in museum.faults.CAREFUL:
        torch.testing.assert_close(batch.run(kernel).double(), batch.expected, atol=2.0, rtol=0.0)


def finite(kernel):
    for batch in museum.faults.CAREFUL:
        if not all(math.isfinite(x) for x in batch.run(kernel).flatten().tolist()):
            raise ValueError


def fills(kernel):
    Batch([16, 32], heads=4, kv_heads=2, scale=0.5, **NASTY).check(kernel)


WRONG = {
    "never": (lambda kernel: None, "nothing was killed"),
    "always": (lambda kernel: 1 / 0, "sound kernels must get through"),
    "comfortable": (lambda kernel: Batch([16]).check(kernel), "nothing was killed"),
    "exact": (exact, "rounding"),
    "loose": (loose, "a tolerance of the size"),
    "finite": (finite, "finite and wrong"),
    "clean": (clean, "with NaN, in K as well as in V"),
    "one head": (one_head, "fewer KV heads than query heads"),
    "unscaled": (unscaled, "a scale that is not 1"),
    "full blocks": (fills, "let a sequence end inside a block"),
}


@pytest.mark.parametrize("style", RIGHT)
def test_a_careful_test_of_any_style_passes(style):
    report = exercises.check("bug-museum", RIGHT[style], progress=None)
    assert report.passed and report.public_passed >= 0.75 * TOTAL, str(report)
    assert report.summary.startswith(f"mutation score {report.public_passed} of {TOTAL}")
    assert len(report.findings) == TOTAL - report.public_passed


@pytest.mark.parametrize("mistake", WRONG)
def test_a_comfortable_test_fails_and_what_it_lacks_is_named(mistake):
    test, words = WRONG[mistake]
    report = exercises.check("bug-museum", test, progress=None)
    assert not report.passed and any(words in finding.hint for finding in report.findings), str(report)


@pytest.mark.parametrize("mistake", ["never", "always", "exact"])
def test_who_refuses_a_sound_kernel_or_none_at_all_scores_zero(mistake):
    report = exercises.check("bug-museum", WRONG[mistake][0], progress=None)
    assert report.public_passed == 0 and report.summary.startswith("mutation score 0 of 13")


def test_counting_the_calls_does_not_help():
    def counts(kernel, calls=[0]):  # noqa: B006
        calls[0] += 1
        assert calls[0] <= len(museum.sound())

    passed = [exercises.check("bug-museum", counts, progress=None).passed for _ in range(4)]
    assert not all(passed)


def test_the_kernel_does_not_say_which_it_is():
    def peeks(kernel):
        assert kernel.__name__ == "kernel" and "exhibit" not in kernel.__code__.co_filename

    report = exercises.check("bug-museum", peeks, progress=None)
    assert report.public_passed == 0 and "nothing was killed" in report.findings[0].hint
