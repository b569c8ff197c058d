"""Claim: every step looks physical blocks up before it reads K and V, and that costs.

The look-ups are counted: one a block, a sequence and a layer. What they cost is the difference from the
contiguous twin, which has no table and is the same in all else. The trap: the paper's 20 to 26 % are of
2023; on GPUs the cost has since moved from look-ups to bulk copies and to the host.
"""

from __future__ import annotations

from pagedlab import _format
from pagedlab.claims import reading
from pagedlab.claims.reading import MARGIN, ratio, sizes_text, slower
from pagedlab.claims.verdict import Chart, Claim, Measurement, Outcome, Verdict
from pagedlab.comparison import Comparison
from pagedlab.decoding import TWIN

ID = "indirection"
ROWS = ("a1", "a5", "a10", "a13")
CONTEXT = 2048


def run(quick: bool) -> Verdict:
    """Paged against its twin, from blocks of one token up."""
    return reading.sweep(quick, (1, 16, 128) if quick else (1, 2, 4, 8, 16, 32, 64, 128, 256), judge)


def judge(comparison: Comparison) -> Verdict:
    """The verdict on a sweep of block sizes."""
    cases = reading.paged_cases(comparison)
    costs = {size: slower(comparison, name) for size, name in sorted(cases.items())}
    smallest, largest = min(cases), max(cases)
    if costs[smallest] is None or costs[largest] is None:
        return reading.unreadable(ID, comparison, ROWS)
    free = [size for size, cost in costs.items() if cost is False]
    if costs[largest]:
        outcome, condition = Outcome.HOLDS, f"at every block size timed, up to {largest}"
    elif costs[smallest]:
        dear = [size for size, cost in costs.items() if cost]
        outcome = Outcome.HOLDS_WHEN
        condition = (
            f"blocks are small: blocks of {sizes_text(dear)} take more than {_format.percent(MARGIN)} longer "
            f"than the contiguous twin, blocks of {sizes_text(free)} do not"
        )
    else:
        outcome = Outcome.FAILS_HERE
        condition = f"no block size takes {_format.percent(MARGIN)} longer than the contiguous twin"
    twin = f"the twin: the same kernel, one {comparison[TWIN].layout.split(',')[0]} piece a sequence, cold"
    measured = [
        ratio(comparison, name, f"time, blocks of {size}, of the twin's")
        for size, name in sorted(cases.items())
    ]
    counted = [
        Measurement(
            f"look-ups a sequence of {CONTEXT:,} tokens, blocks of {size}",
            CONTEXT // size,
            "a layer",
            "computed",
        )
        for size in sorted(cases)
        if size <= CONTEXT
    ]
    chart = Chart(
        "What a block table costs",
        "block size (tokens)",
        "time / contiguous",
        (reading.time_line(comparison, cases),),
    )
    return reading.told(ID, outcome, [condition, twin], [*measured, *counted], ROWS, [comparison], chart)


CLAIM = Claim(ID, "every step looks up physical blocks before it reads K and V, and pays for it", run)
