"""Every exhibit survives the naive test and dies of the careful one; a sound kernel gets through both."""

from __future__ import annotations

import difflib
import inspect

import pytest
import torch

from pagedlab import museum
from pagedlab.claims import Outcome, kernel_is_hard
from pagedlab.claims.kernel_is_hard import Tried
from pagedlab.museum import Batch
from pagedlab_kernels import contiguous_attention

EXHIBITS = pytest.mark.parametrize("exhibit", museum.exhibits(), ids=lambda exhibit: exhibit.name)
SCORED = pytest.mark.parametrize("exhibit", museum.exhibits(scored=True), ids=lambda exhibit: exhibit.name)


@EXHIBITS
def test_the_naive_test_passes_and_the_careful_one_kills(exhibit):
    assert not museum.killed(exhibit.naive, exhibit.faulty)
    assert museum.killed(exhibit.careful, exhibit.faulty)
    assert not museum.killed(exhibit.careful, exhibit.sound)


@EXHIBITS
def test_a_fault_is_one_line_with_a_story(exhibit):
    sound, faulty = inspect.getsource(exhibit.sound).splitlines(), exhibit.text.splitlines()
    changed = [line for line in difflib.ndiff(sound, faulty) if line.startswith("- ")]
    assert len(changed) == 1
    assert 1 <= exhibit.story.count(". ") + 1 <= 2 and exhibit.story.endswith(".")
    assert exhibit.citation in str(exhibit) and exhibit.hint
    assert inspect.getsource(exhibit.faulty) == exhibit.text


def test_most_faults_happened_and_the_others_say_that_they_are_constructed():
    constructed = [exhibit for exhibit in museum.exhibits() if exhibit.constructed]
    assert len(museum.exhibits()) >= 10 and 2 * len(constructed) < len(museum.exhibits())
    assert all(exhibit.citation == "constructed" for exhibit in constructed)


@pytest.mark.parametrize("kernel", museum.sound(), ids=lambda kernel: kernel.__name__)
def test_a_sound_kernel_gets_through(kernel):
    museum.naive(kernel)
    museum.careful(kernel)
    assert museum.smallest_failing(kernel) is None


@SCORED
def test_the_smallest_failing_batch_fails_and_is_small(exhibit):
    batch = museum.smallest_failing(exhibit.faulty)
    assert museum.killed(batch.check, exhibit.faulty) and not museum.killed(batch.check, exhibit.sound)
    assert batch.possible and len(batch.description) <= 3 and sum(batch.lengths) <= 129


def test_a_test_that_always_raises_kills_and_one_that_never_does_does_not():
    faulty = museum.get("tail").faulty
    assert museum.killed(lambda kernel: 1 / 0, faulty) and not museum.killed(lambda kernel: None, faulty)
    with pytest.raises(KeyError, match="there are unwritten-value, tail"):
        museum.get("tails")


@pytest.mark.parametrize("batch", museum.faults.CAREFUL, ids=str)
def test_a_batch_holds_what_it_says(batch):
    whole = sum(-(-length // batch.block_size) for length in batch.lengths) * batch.block_size
    spare = 2 * batch.block_size * batch.poisoned
    unowned = (whole + spare - sum(batch.lengths)) * batch.kv_heads * batch.head_dim * batch.poisoned
    assert batch.key_cache.isnan().sum() == batch.value_cache.isnan().sum() == unowned
    assert batch.key_cache.is_contiguous() != batch.head_major
    assert (batch.block_tables == 2**31 - 1).any() == batch.poisoned
    longest = max(batch.lengths)
    rows = torch.zeros(2, len(batch.lengths), longest, batch.kv_heads, batch.head_dim, dtype=torch.float64)
    for seq, length in enumerate(batch.lengths):
        rows[0, seq, :length], rows[1, seq, :length] = batch.keys[seq], batch.values[seq]
    again = contiguous_attention(batch.query.double(), *rows, batch.seq_lens, scale=batch.scale)
    torch.testing.assert_close(batch.expected, again)
    assert Batch(**batch.description) == batch and eval(str(batch)) == batch


def test_a_batch_that_cannot_be_says_so():
    assert not Batch([]).possible and not Batch([3], heads=3, kv_heads=2).possible
    assert not Batch([-1]).possible and Batch([0]).possible


def test_a_wrong_answer_is_told_by_its_place_and_dtype():
    batch = Batch([3, 5], heads=2)
    with pytest.raises(
        AssertionError, match=r"Batch\(lengths=\[3, 5\], heads=2\): wrong in \(sequence, head\) \(0, 0\)"
    ):
        batch.check(lambda *arguments, scale: torch.zeros_like(arguments[0]))
    with pytest.raises(AssertionError, match="the answer is torch.float64"):
        batch.check(lambda *arguments, scale: batch.expected)


def test_it_runs_without_triton_and_numba(run_python):
    code = """
import sys
sys.modules["triton"] = sys.modules["numba"] = None
from pagedlab import museum
print(sum(museum.killed(museum.careful, exhibit.faulty) for exhibit in museum.exhibits(scored=True)))
"""
    ran = run_python("-c", code)
    assert ran.stdout == f"{len(museum.exhibits(scored=True))}\n", ran.stderr


@pytest.mark.parametrize(
    "tried, refused, outcome, words",
    [
        ([(False, True), (False, True)], 0, Outcome.HOLDS_WHEN, "2 of 2 faults"),
        ([(True, True), (False, True)], 0, Outcome.HOLDS_WHEN, "1 of 2 faults"),
        ([(True, True), (True, True)], 0, Outcome.FAILS_HERE, "0 of 2 faults"),
        ([(False, False), (False, True)], 0, Outcome.HOLDS, "misses a0"),
        ([(False, True)], 1, Outcome.HOLDS, "refuses 1 sound"),
    ],
)
def test_the_claim_counts(tried, refused, outcome, words):
    exhibits = [Tried(f"a{n}", True, *each) for n, each in enumerate(tried)]
    verdict = kernel_is_hard.judge(exhibits, refused)
    assert verdict.outcome is outcome and words in str(verdict)


def test_the_claim_holds_on_the_museum():
    verdict = kernel_is_hard.CLAIM.run()
    counts = {row.what: row.value for row in verdict.measured}
    assert verdict.outcome is Outcome.HOLDS_WHEN
    assert counts["killed by the naive test"] == 0
    assert counts["killed by the careful test"] == counts["faults tried"] == len(museum.exhibits())


def test_a_test_that_fails_the_way_pytest_does_kills():
    assert museum.killed(lambda kernel: pytest.fail("no"), museum.sound()[0])
    with pytest.raises(KeyboardInterrupt):
        museum.killed(_interrupted, museum.sound()[0])


def _interrupted(kernel):
    raise KeyboardInterrupt
