"""Claim: blocks of 32 and more read better, but are sure to waste more at the boundary.

One sweep, both axes: the time of attention, and the waste on lengths of a real trace. The trap is "sure":
where all lengths are multiples of the block nothing is wasted. And the gain ends once a block spans what a
kernel reads at a time.
"""

from __future__ import annotations

from collections.abc import Mapping

from pagedlab import waste, workloads
from pagedlab.claims import reading
from pagedlab.claims.reading import MARGIN, ratio, slower
from pagedlab.claims.verdict import Chart, Claim, Line, Measurement, Outcome, Verdict
from pagedlab.comparison import Comparison

ID = "large-blocks"
ROWS = ("a6", "a7", "a10", "b6", "b13", "b16")
USUAL = 16
TRACE = "azure-conversation"


def run(quick: bool) -> Verdict:
    """Time blocks from 16 up; compute their waste on a trace's lengths and on lengths of exactly 512."""
    sizes = (USUAL, 32, 64, 256) if quick else (USUAL, 32, 64, 128, 256)
    spread = workloads.named(TRACE, 2_000 if quick else None)
    alike = reading.assumed("all 512", [512])
    wasted = [
        {size: 100 * waste.paged(workload, size).wasted_share for size in sizes}
        for workload in (spread, alike)
    ]
    return reading.sweep(quick, sizes, lambda comparison: judge(comparison, *wasted))


def judge(comparison: Comparison, spread: Mapping[int, float], alike: Mapping[int, float]) -> Verdict:
    """The verdict on a sweep, and on waste (percent) by block size for spread and for equal lengths."""
    sizes, largest = sorted(spread), max(spread)
    usual = f"paged {USUAL}"
    better = slower(comparison, usual, f"paged {largest}")
    if better is None:
        return reading.unreadable(ID, comparison, ROWS)
    time = {size: comparison.ratio(f"paged {size}", usual).median for size in sizes}
    flat = next(size for size in sizes if time[size] <= (1 + MARGIN) * min(time.values()))
    sure = alike[largest] > alike[USUAL]
    if not better:
        outcome = Outcome.FAILS_HERE
        conditions = [f"blocks of {largest} read no better than blocks of {USUAL}"]
    elif sure:
        outcome, conditions = Outcome.HOLDS, ["they waste more on every workload tried"]
    else:
        outcome = Outcome.HOLDS_WHEN
        conditions = [
            f"lengths are spread: where all are 512, blocks of {largest} waste as little as blocks of {USUAL}"
        ]
    if better and flat < largest:
        conditions.append(f"from {flat} tokens a block on, larger ones gain less than {MARGIN:.0%}")
    measured = [
        ratio(comparison, f"paged {size}", f"time, blocks of {size}, of {USUAL}", usual) for size in sizes[1:]
    ] + [
        Measurement(
            f"waste over time, blocks of {size}, {TRACE}", spread[size], "% of slots held", "computed"
        )
        for size in sizes
    ]
    lines = (
        Line(
            "time / contiguous, %",
            tuple((float(size), 100 * comparison.ratio(f"paged {size}").median) for size in sizes),
            "measured",
        ),
        Line("waste, % of slots", tuple((float(size), spread[size]) for size in sizes), "computed"),
    )
    chart = Chart("Large blocks: time and waste", "block size (tokens)", "%", lines, log_y=True)
    return reading.told(ID, outcome, conditions, measured, ROWS, [comparison], chart)


CLAIM = Claim(ID, "blocks of 32 and more read better, but are sure to waste more at the boundary", run)
