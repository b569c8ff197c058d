"""Claim: a paged kernel is easy to get subtly wrong.

The bug museum puts it to the test: faults of one line, most of them made by people who do this for a living,
tried by the test that one writes first and by one that knows where to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagedlab.claims.verdict import Claim, Measurement, Outcome, Verdict, figures
from pagedlab.machine import cpu_device

ID = "kernel-is-hard"


@dataclass(frozen=True)
class Tried:
    """How one exhibit fared: whether each test killed it, and whether it happened somewhere."""

    name: str
    happened: bool
    by_naive: bool
    by_careful: bool


def run(quick: bool) -> Verdict:
    """Both tests on every exhibit, and on the kernels that are sound."""
    from pagedlab import museum  # brings torch

    tried = [
        Tried(
            exhibit.name,
            not exhibit.constructed,
            museum.killed(exhibit.naive, exhibit.faulty),
            museum.killed(exhibit.careful, exhibit.faulty),
        )
        for exhibit in museum.exhibits()
    ]
    refused = sum(museum.killed(museum.careful, kernel) for kernel in museum.sound())
    return judge(tried, refused)


def judge(tried: Sequence[Tried], refused: int) -> Verdict:
    """The verdict on tried exhibits, when the careful test refused so many sound kernels."""
    unseen = [each for each in tried if not each.by_naive]
    missed = [each.name for each in tried if not each.by_careful]
    happened = sum(each.happened for each in unseen)
    conditions = [
        f"{len(unseen)} of {len(tried)} faults of one line pass the test that one writes first; "
        f"{happened} of these were reported in real kernels",
        "the careful test sees them all: it writes NaN where nobody may look, and uses odd sizes"
        if not missed and not refused
        else f"the careful test is not careful enough: it misses {', '.join(missed) or 'none'} "
        f"and refuses {refused} sound kernels",
    ]
    if not unseen:
        outcome = Outcome.FAILS_HERE
    else:
        outcome = Outcome.HOLDS if missed or refused else Outcome.HOLDS_WHEN
        conditions.insert(0, "a kernel is hard to get right when its tests are comfortable")
    counts = (
        ("faults tried", len(tried)),
        ("killed by the naive test", len(tried) - len(unseen)),
        ("killed by the careful test", len(tried) - len(missed)),
    )
    rows = tuple(Measurement(what, count, "", "computed") for what, count in counts)
    return Verdict(ID, outcome, tuple(conditions), rows, figures("c1", "c5", "c6", "c7"), cpu_device())


CLAIM = Claim(ID, "online softmax, partial last blocks and addresses are easy to get subtly wrong", run)
