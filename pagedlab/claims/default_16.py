"""Claim: 16, vLLM's default, is the balanced block size.

The cost of a block size is the memory it takes times the time it takes: slots held for each token stored,
times the time of attention. On each workload one size is cheapest, and 16 is balanced where it comes within
`reading.MARGIN` of it. 16 remains vLLM's fallback, but back ends have chosen 1, 32, 64, 128 and 256 since.
"""

from __future__ import annotations

from collections.abc import Mapping

from pagedlab import waste, workloads
from pagedlab._format import percent
from pagedlab.claims import reading
from pagedlab.claims.reading import MARGIN
from pagedlab.claims.verdict import Chart, Claim, Line, Measurement, Outcome, Verdict
from pagedlab.comparison import Comparison

ID = "default-16"
ROWS = ("b4", "b7", "b9", "b10", "b11", "b12", "b13")
DEFAULT = 16
WORKLOADS = ("uniform", "azure-conversation", "azure-code", "mooncake-conversation")


def run(quick: bool) -> Verdict:
    """Time the block sizes once, then weigh them with the waste of each workload."""
    sizes = (1, 8, DEFAULT, 32, 64, 128) if quick else (1, 2, 4, 8, DEFAULT, 32, 64, 128, 256)
    held = {}
    for name in WORKLOADS:
        workload = workloads.named(name, 2_000 if quick else None)
        held[name] = {size: 1 / (1 - waste.paged(workload, size).wasted_share) for size in sizes}
    return reading.sweep(quick, sizes, lambda comparison: judge(comparison, held))


def judge(comparison: Comparison, held: Mapping[str, Mapping[int, float]]) -> Verdict:
    """The verdict on a sweep and on slots held a token stored, by workload and block size."""
    sizes = sorted(next(iter(held.values())))
    fits = {name: _balanced(comparison, slots) for name, slots in held.items()}
    if None in fits.values():
        return reading.unreadable(ID, comparison, ROWS)
    time = {size: comparison.ratio(f"paged {size}").median for size in sizes}
    costs = {name: {size: time[size] * slots[size] for size in sizes} for name, slots in held.items()}
    best = {name: min(cost, key=cost.__getitem__) for name, cost in costs.items()}
    over = {name: cost[DEFAULT] / cost[best[name]] - 1 for name, cost in costs.items()}
    balanced = [name for name in held if fits[name]]
    if len(balanced) == len(held):
        outcome, condition = Outcome.HOLDS, f"within {MARGIN:.0%} of the best on every workload"
    elif balanced:
        outcome, condition = Outcome.HOLDS_WHEN, f"requests are like {' or '.join(balanced)}"
    else:
        outcome, condition = Outcome.FAILS_HERE, "another size is cheaper on every workload"
    conditions = [condition] + [
        f"{name}: {best[name]} is cheapest, {DEFAULT} costs {percent(over[name])} more" for name in held
    ]
    conditions.append(
        "cost: slots held for each token stored x time of attention; kernels differ, so does the answer"
    )
    measured = tuple(
        Measurement(
            f"{name}: cost of blocks of {size}, of the cheapest",
            100 * cost[size] / cost[best[name]],
            "%",
            "measured",
        )
        for name, cost in costs.items()
        for size in sizes
        if size in (DEFAULT, sizes[0], sizes[-1])
    )
    lines = tuple(
        Line(name, tuple((float(size), cost[size] / cost[best[name]]) for size in sizes), "measured")
        for name, cost in costs.items()
    )
    chart = Chart("Memory x time", "block size (tokens)", "cost / cheapest", lines)
    return reading.told(ID, outcome, conditions, measured, ROWS, [comparison], chart)


def _balanced(comparison: Comparison, slots: Mapping[int, float]) -> bool | None:
    """Whether no block size is cheaper than the default by more than `MARGIN`; None when none can tell."""
    times = {size: comparison.interval(f"paged {DEFAULT}", f"paged {size}") for size in slots}
    more = {size: [end * slots[DEFAULT] / slots[size] - 1 for end in ends] for size, ends in times.items()}
    if any(low > MARGIN for low, _ in more.values()):
        return False
    return True if all(high < 2 * MARGIN for _, high in more.values()) else None


CLAIM = Claim(ID, "16 tokens, vLLM's default, is the balanced block size", run)
