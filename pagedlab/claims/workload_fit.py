"""Claim: variable lengths want small blocks, uniform lengths can use large ones at no cost.

Waste at final length, by block size, for lengths that are all alike, nearly alike and spread. The trap is
"uniform": lengths of exactly 512 waste nothing, of exactly 520 a third of their blocks of 256.
"""

from __future__ import annotations

from collections.abc import Sequence

from pagedlab import waste, workloads
from pagedlab.claims.reading import assumed
from pagedlab.claims.verdict import ARITHMETIC, Chart, Claim, Line, Measurement, Outcome, Verdict, figures
from pagedlab.workloads import Workload

ID = "workload-fit"
SIZES = (8, 16, 32, 64, 128, 256)
NO_COST = 0.01
"""Share of slots wasted that passes for none."""


def run(quick: bool) -> Verdict:
    """Lengths all alike and nearly alike, then formulas and traces."""
    uniform = [assumed(f"all {tokens}", [tokens]) for tokens in (512, 520)]
    uniform.append(assumed("50 to 100", range(50, 101)))
    names = ("lognormal", "bimodal", "azure-conversation", "azure-code")
    return judge(uniform, [workloads.named(name, 2_000 if quick else None) for name in names])


def judge(uniform: Sequence[Workload], variable: Sequence[Workload]) -> Verdict:
    """The verdict on uniform workloads at the largest block, and on variable ones from small to large."""
    shares = {
        workload.name: [waste.at_final_length(workload, size) for size in SIZES]
        for workload in (*uniform, *variable)
    }
    free = [workload.name for workload in uniform if shares[workload.name][-1] <= NO_COST]
    dear = [workload.name for workload in uniform if workload.name not in free]
    want_small = all(shares[workload.name][0] < shares[workload.name][-1] for workload in variable)
    conditions = []
    if not free or not want_small:
        outcome = Outcome.FAILS_HERE
    elif dear:
        outcome = Outcome.HOLDS_WHEN
        conditions.append(f"uniform means a multiple of the block: {', '.join(free)}, not {', '.join(dear)}")
    else:
        outcome = Outcome.HOLDS
    if want_small:
        conditions.append(
            f"variable lengths waste less in small blocks: {', '.join(w.name for w in variable)}"
        )
    else:
        conditions.append("on some variable lengths small blocks waste no less")
    measured = tuple(
        Measurement(
            f"waste at final length, {name}, blocks of {size}", 100 * row[SIZES.index(size)], "%", "computed"
        )
        for name, row in shares.items()
        for size in (16, 256)
    )
    lines = tuple(
        Line(name, tuple((float(size), 100 * s) for size, s in zip(SIZES, row, strict=True)), "computed")
        for name, row in shares.items()
    )
    chart = Chart("Waste by workload", "block size (tokens)", "% of slots wasted", lines)
    return Verdict(ID, outcome, tuple(conditions), measured, figures("b16", "b4", "b15"), ARITHMETIC, chart)


CLAIM = Claim(ID, "variable lengths want small blocks; uniform lengths can use large ones at no cost", run)
