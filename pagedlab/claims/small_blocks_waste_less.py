"""Claim: smaller blocks waste less, because only the last block of a sequence is part filled.

A sequence of n tokens wastes -n % B slots of its last block: at most B - 1, and (B - 1) / 2 on average
where lengths are spread evenly over a block. The trap is "evenly": lengths that are all multiples of
some size waste nothing up to that size, so that there a smaller block saves nothing at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from pagedlab import published, waste, workloads
from pagedlab.claims.reading import assumed
from pagedlab.claims.verdict import ARITHMETIC, Chart, Claim, Line, Measurement, Outcome, Verdict
from pagedlab.workloads import Workload

ID = "small-blocks-waste-less"
BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def run(quick: bool) -> Verdict:
    """The experiment on the published quantiles of real traces, and on lengths of exactly 512."""
    requests = 2_000 if quick else None
    spread = [workloads.named(name, requests) for name in published.traces()]
    return judge(spread, assumed("all 512", [512]))


def judge(spread: Sequence[Workload], alike: Workload) -> Verdict:
    """The verdict on workloads of spread lengths, with one of equal lengths as the counter-example."""
    shares = [[waste.paged(workload, size).wasted_share for size in BLOCK_SIZES] for workload in spread]
    alike_shares = [waste.paged(alike, size).wasted_share for size in BLOCK_SIZES]
    no_gain = [
        (small, large)
        for small, large, less, more in zip(
            BLOCK_SIZES, BLOCK_SIZES[1:], alike_shares, alike_shares[1:], strict=False
        )
        if less == more
    ]
    conditions = [_what_halving_leaves(shares, [workload.name for workload in spread])]
    if any(small >= large for row in shares for small, large in zip(row, row[1:], strict=False)):
        outcome = Outcome.FAILS_HERE
        conditions.insert(0, "on some workload a smaller block wastes no less")
    elif no_gain:
        outcome = Outcome.HOLDS_WHEN
        small, large = no_gain[0][0], no_gain[-1][1]
        conditions.insert(
            0,
            f"lengths are spread: on {alike.name!r}, blocks of {large} waste no more than blocks of {small}",
        )
    else:
        outcome = Outcome.HOLDS
    figures = (published.figure("b15"),)
    lines = tuple(
        Line(
            workload.name,
            tuple((float(b), 100 * s) for b, s in zip(BLOCK_SIZES[1:], row[1:], strict=True)),
            "computed",
        )
        for workload, row in zip(spread, shares, strict=True)
    )
    chart = Chart("Waste over time", "block size (tokens)", "% of slots held", lines, log_y=True)
    return Verdict(ID, outcome, tuple(conditions), _measurements(shares), figures, ARITHMETIC, chart)


def _what_halving_leaves(shares: Sequence[Sequence[float]], names: Sequence[str]) -> str:
    left = [a / b for row in shares for a, b in zip(row[1:], row[2:], strict=False) if b > 0]
    if not left:
        return "no workload here wastes anything at any block size"
    least, most = min(left), max(left)
    return f"halving the block leaves {least:.0%} to {most:.0%} of its waste, on {len(names)} workload(s)"


def _measurements(shares: Sequence[Sequence[float]]) -> tuple[Measurement, ...]:
    rows = []
    for size in (16, 256):
        column = [100 * row[BLOCK_SIZES.index(size)] for row in shares]
        for which, value in (("least", min(column)), ("most", max(column))):
            what = f"waste over time, blocks of {size}, {which} wasteful workload"
            rows.append(Measurement(what, value, "% of slots held", "computed"))
    return tuple(rows)


CLAIM = Claim(ID, "smaller blocks bound the waste of the last block, so they waste less", run)
