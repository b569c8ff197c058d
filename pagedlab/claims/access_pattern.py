"""Claim: paged reads are not sequential, so they lose bandwidth.

Tables in order, shuffled, and with each block as far as can be from the one before read the same bytes with
the same number of look-ups; only the order differs. Within a block reads stay contiguous, so it should
matter at blocks of one token and hardly at 64. The trap is the layout: head-major blocks keep a head's
tokens together, token-major ones do not, so each layout is compared with itself.
"""

from __future__ import annotations

from pagedlab.claims import reading
from pagedlab.claims.reading import ratio, slower
from pagedlab.claims.verdict import Claim, Outcome, Verdict
from pagedlab.comparison import Comparison
from pagedlab.decoding import HND, IN_ORDER, NHD, SCATTERED, SHUFFLED

ID = "access-pattern"
ROWS = ("a9", "a12", "b6", "c12")
LAYOUTS, ORDERS = (HND, NHD), (IN_ORDER, SHUFFLED, SCATTERED)


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
    return reading.settle(decode, [*twins, *cases], judge, quick)


def judge(comparison: Comparison) -> Verdict:
    """The verdict on cases named after layout, block size and order."""
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
    if "NHD contiguous" in names:
        what = "time, contiguous in NHD, of contiguous in HND: why each layout is compared with itself"
        measured.append(ratio(comparison, "NHD contiguous", what, "HND contiguous"))
    return reading.told(ID, outcome, conditions, measured, ROWS, [comparison])


def _named(group: str) -> str:
    layout, size = group.split()
    return f"blocks of {size} in {layout}"


CLAIM = Claim(ID, "paged reads are not sequential, so they lose bandwidth", run)
