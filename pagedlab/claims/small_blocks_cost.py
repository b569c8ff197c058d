"""Claim: smaller blocks mean longer tables, more look-ups and worse locality.

Table entries are counted; the kernel is timed; and so is what is easily forgotten, the host's work of
building the padded table for each step. The trap is the padding: at large batches most of a padded table is
empty, whatever the block size, and a compressed one (CSR) has none.
"""

from __future__ import annotations

import numpy as np

from pagedlab import timing, workloads
from pagedlab.claims import reading
from pagedlab.claims.reading import ratio, slower
from pagedlab.claims.verdict import Chart, Claim, Measurement, Outcome, Verdict
from pagedlab.comparison import COLD, WARM, Comparison
from pagedlab.decoding import clock_for
from pagedlab.overhead import building

ID = "small-blocks-cost"
ROWS = ("a13", "a14", "a16", "b6", "b17", "b18")
BATCH = 256
USUAL = 16


def run(quick: bool) -> Verdict:
    """Time the kernel and the building of tables; count entries for a batch of real lengths."""
    sizes = (1, 8, USUAL) if quick else (1, 2, 4, 8, USUAL, 32)
    lengths = workloads.named("azure-conversation", BATCH).stored
    host = timing.compare(
        {f"paged {size}": building(lengths, size) for size in reversed(sizes)},
        what=f"building the padded table of {BATCH} sequences from Python lists",
        caches=WARM,
        clock=clock_for("cpu"),
    )
    counted = entries(lengths, sizes)
    return reading.sweep(quick, sizes, lambda kernel: judge(kernel, host, counted))


def entries(lengths: np.ndarray, sizes: tuple[int, ...]) -> dict[int, tuple[int, int]]:
    """Entries of the tables by block size: those with a block, and those of the padded table.

    >>> entries(np.array([16, 64]), (16,))
    {16: (5, 8)}
    """
    blocks = {size: -(-lengths // size) for size in sizes}
    return {size: (int(held.sum()), int(held.max()) * len(held)) for size, held in blocks.items()}


def judge(kernel: Comparison, host: Comparison, counted: dict[int, tuple[int, int]]) -> Verdict:
    """The verdict on a sweep of the kernel, one of the host's work, and the entries counted."""
    smallest, usual = f"paged {min(counted)}", f"paged {USUAL}"
    slow = slower(kernel, smallest, usual)
    dear = slower(host, smallest, usual)
    if slow is None or dear is None:
        return reading.unreadable(ID, kernel if slow is None else host, ROWS)
    longer = counted[min(counted)][0] / counted[USUAL][0]
    conditions = [f"tables are {longer:.1f} times as long at {min(counted)} as at {USUAL}"]
    if slow and dear:
        outcome = Outcome.HOLDS
        conditions.append("both the kernel and the host pay for it")
    elif slow or dear:
        outcome = Outcome.HOLDS_WHEN
        conditions.insert(0, f"the cost is that of the {'kernel' if slow else 'host'}; the other shows none")
    else:
        outcome = Outcome.FAILS_HERE
        conditions.append("neither the kernel nor the host takes longer here")
    padding = [padded / real for real, padded in counted.values()]
    conditions.append(
        f"a padded table of {BATCH} sequences holds {min(padding):.1f} to {max(padding):.1f} times its real "
        "entries; a compressed one (CSR) has no padding"
    )
    measured = [
        Measurement(f"table of {BATCH} sequences, blocks of {size}, padded", 4 * padded, "bytes", "computed")
        for size, (_, padded) in counted.items()
    ]
    for comparison, what in ((kernel, "time of the kernel"), (host, "time of building the table")):
        for size in counted:
            if size != USUAL:
                measured.append(
                    ratio(comparison, f"paged {size}", f"{what}, blocks of {size}, of {USUAL}", usual)
                )
    lines = (reading.time_line(kernel, reading.paged_cases(kernel), f"kernel, caches {COLD}"),)
    chart = Chart("Small blocks", "block size (tokens)", "time / contiguous", lines)
    return reading.told(ID, outcome, conditions, measured, ROWS, [kernel, host], chart)


CLAIM = Claim(ID, "smaller blocks mean longer tables, more look-ups and worse locality", run)
