"""Claim: paged reads are not sequential, so they lose bandwidth.

Tables in order, shuffled, and with each block as far as can be from the one before read the same bytes with
the same number of look-ups; only the order differs. Within a block reads stay contiguous, so it should
matter at blocks of one token and hardly at 16. The trap is the layout: head-major blocks keep a head's
tokens together, token-major ones do not, so each layout is compared with itself.
"""

from __future__ import annotations

from pagedlab.claims import reading
from pagedlab.claims.reading import ratio, slower
from pagedlab.claims.verdict import Claim, Outcome, Verdict, figures
from pagedlab.comparison import Comparison
from pagedlab.decoding import HND, IN_ORDER, NHD, SCATTERED, SHUFFLED

ID = "access-pattern"
ROWS = ("a9", "a12", "b6", "c12")
LAYOUTS, ORDERS = (HND, NHD), (IN_ORDER, SHUFFLED, SCATTERED)


def run(quick: bool) -> Verdict:
    """The three orders, at blocks of 1 and 16, in both layouts."""
    decode = reading.batch(quick)
    cases = [
        decode.paged(size, order, layout, f"{layout} {size} {order}")
        for layout in LAYOUTS
        for size in ((1, 16) if quick else (1, 4, 16, 64))
        for order in ORDERS
    ]
    return reading.settle(decode, cases, judge, quick)


def judge(comparison: Comparison) -> Verdict:
    """The verdict on cases named after layout, block size and order."""
    names = [timing.name for timing in comparison.timings]
    groups = sorted({name.rsplit(" ", 1)[0] for name in names if name.endswith("shuffled")}, key=_by_size)
    loses = {group: slower(comparison, f"{group} shuffled", f"{group} in order") for group in groups}
    if None in loses.values():
        return reading.unreadable(ID, comparison, ROWS)
    losing = [group for group in groups if loses[group]]
    keeping = [group for group in groups if not loses[group]]
    if not keeping:
        outcome, conditions = Outcome.HOLDS, ["shuffled blocks take longer in every layout and size timed"]
    elif losing:
        outcome = Outcome.HOLDS_WHEN
        conditions = [
            f"order matters: {', '.join(map(_named, losing))}",
            f"it does not: {', '.join(map(_named, keeping))}",
        ]
    else:
        outcome, conditions = (
            Outcome.FAILS_HERE,
            ["the order of blocks makes no difference at any size timed"],
        )
    measured = [
        ratio(
            comparison,
            f"{group} {order}",
            f"time, {_named(group)}, {order}, of in order",
            f"{group} in order",
        )
        for group in groups
        for order in ORDERS[1:]
    ]
    return Verdict(
        ID,
        outcome,
        tuple(conditions),
        tuple(measured),
        figures(*ROWS),
        comparison.device,
        records=(comparison,),
    )


def _by_size(group: str) -> tuple[str, int]:
    layout, size = group.split()
    return layout, int(size)


def _named(group: str) -> str:
    layout, size = group.split()
    return f"blocks of {size} in {layout}"


CLAIM = Claim(ID, "paged reads are not sequential, so they lose bandwidth", run)
