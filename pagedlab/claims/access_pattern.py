"""Claim: paged reads are not sequential, so they lose bandwidth.

Tables in order, shuffled, and with each block as far as can be from the one before read the same bytes with
the same number of look-ups; only the order differs. Within a block reads stay contiguous, so it should
matter at blocks of one token and hardly at 64. The trap is the layout: head-major blocks keep a head's
tokens together, token-major ones do not, so each layout is compared with itself. And what it is that is
lost: an address trace of the Triton kernel counts the sectors that a warp's request touches.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from pagedlab import kernel_cases
from pagedlab.claims import reading
from pagedlab.claims.reading import ratio, slower
from pagedlab.claims.verdict import Claim, Measurement, Outcome, Verdict
from pagedlab.comparison import Comparison
from pagedlab.decoding import HND, IN_ORDER, NHD, SCATTERED, SHUFFLED

ID = "access-pattern"
ROWS = ("a9", "a12", "b6", "c12")
SECTOR = 32  # bytes
LAYOUTS, ORDERS = (HND, NHD), (IN_ORDER, SHUFFLED, SCATTERED)


class Traced(NamedTuple):
    """Sectors for each request of a warp, and the share of their bytes that was asked for."""

    sectors: float
    used: float
    word: str


def run(quick: bool) -> Verdict:
    """The three orders, from blocks of one token up, in both layouts."""
    decode = reading.batch(quick)
    cases = [
        decode.paged(size, order, layout, f"{layout} {size} {order}")
        for layout in LAYOUTS
        for size in ((1, 16, 64) if quick else (1, 4, 16, 64, 256))
        for order in ORDERS
    ]
    twins = [decode.twin(layout, f"{layout} contiguous") for layout in LAYOUTS]
    places = [(layout, size) for layout in LAYOUTS for size in (1, 16)]
    traced = {f"{layout} {size}": traffic(f"block {size}, {layout}", quick) for layout, size in places}
    return reading.settle(decode, [*twins, *cases], lambda comparison: judge(comparison, traced), quick)


def traffic(case: str, quick: bool) -> Traced:
    """What a warp's request for K or V touches in a case of `kernel_cases`: recorded if quick, else live."""
    trace = None
    if quick:
        with suppress(ValueError):  # the kernels are no longer those that were recorded
            trace = kernel_cases.recorded(case)
    trace = trace or kernel_cases.trace(kernel_cases.CASES[case], values=())
    rows = [row for row in trace.traffic() if row.tensor in ("keys", "values")]
    sectors, requests = sum(row.sectors for row in rows), sum(row.requests for row in rows)
    used = sum(row.bytes for row in rows) / (SECTOR * sectors)
    return Traced(sectors / requests, used, "recorded" if trace.recorded else "computed")


def judge(comparison: Comparison, traced: Mapping[str, Traced]) -> Verdict:
    """The verdict on cases named after layout, block size and order, and on what requests touch."""
    names = [timing.name for timing in comparison.timings]
    groups = [name.removesuffix(f" {SHUFFLED}") for name in names if name.endswith(SHUFFLED)]
    loses = {group: slower(comparison, f"{group} {SHUFFLED}", f"{group} {IN_ORDER}") for group in groups}
    sizes = [int(group.split()[1]) for group in groups]
    ends = [group for group, size in zip(groups, sizes, strict=True) if size in (min(sizes), max(sizes))]
    if any(loses[group] is None for group in ends):
        return reading.unreadable(ID, comparison, ROWS)
    losing = [_named(group) for group in groups if loses[group]]
    keeping = [_named(group) for group in groups if loses[group] is False]
    if all(loses[group] for group in ends):
        outcome, conditions = Outcome.HOLDS, ["shuffled blocks take longer in each layout, small or large"]
    elif losing:
        outcome = Outcome.HOLDS_WHEN
        conditions = [f"blocks are small: order matters to {', '.join(losing)}; not to {', '.join(keeping)}"]
    else:
        outcome, conditions = Outcome.FAILS_HERE, ["the order of blocks makes no difference"]
    measured = [
        ratio(
            comparison,
            f"{group} {order}",
            f"time, {_named(group)}, {order}, of in order",
            f"{group} {IN_ORDER}",
        )
        for group in groups
        for order in ORDERS[1:]
    ]
    if len({round(found.sectors, 3) for found in traced.values()}) == 1:
        conditions.append("a request touches as many sectors at every size: what is lost is order, not width")
    for group, found in traced.items():
        what = f"sectors of 32 bytes that a warp's request touches, {_named(group)}"
        used = f"({found.used:.0%} of their bytes used)"
        measured.append(Measurement(what, found.sectors, used, found.word))
    if "NHD contiguous" in names:
        what = "time, contiguous in NHD, of contiguous in HND: why each layout is compared with itself"
        measured.append(ratio(comparison, "NHD contiguous", what, "HND contiguous"))
    return reading.told(ID, outcome, conditions, measured, ROWS, [comparison])


def _named(group: str) -> str:
    layout, size = group.split()
    return f"blocks of {size} in {layout}"


CLAIM = Claim(ID, "paged reads are not sequential, so they lose bandwidth", run)
