"""Claim: paging buys capacity, not bandwidth.

The bytes that a step reads are the same with and without a table, so paging can at best be as fast as its
twin; both are shown as a share of the best reader of the same bytes. The requests that fit into the same
memory are not the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from pagedlab import waste, workloads
from pagedlab.claims import reading
from pagedlab.claims.reading import ratio, sizes_text, slower
from pagedlab.claims.verdict import Claim, Measurement, Outcome, Verdict
from pagedlab.comparison import Comparison
from pagedlab.decoding import READER, TWIN

ID = "capacity-not-bandwidth"
ROWS = ("d2", "b1", "b2", "d11")
WORKLOADS = ("azure-conversation", "azure-code", "mooncake-conversation")


def run(quick: bool) -> Verdict:
    """Time both sides and the reader; compute the requests that fit."""
    gains = {}
    for name in WORKLOADS:
        workload = workloads.named(name, 2_000 if quick else None)
        gains[name] = waste.reserve_longest(workload).held / waste.paged(workload, 16).held
    return reading.sweep(quick, (16, 128), lambda comparison: judge(comparison, gains))


def judge(comparison: Comparison, gains: Mapping[str, float]) -> Verdict:
    """The verdict on a sweep with a reader, and on requests that fit, paged over reserved."""
    cases = reading.paged_cases(comparison)
    quicker = {size: slower(comparison, TWIN, name) for size, name in cases.items()}
    if None in quicker.values():
        return reading.unreadable(ID, comparison, ROWS)
    bandwidth = [size for size, gain in quicker.items() if gain]
    if bandwidth:
        outcome = Outcome.FAILS_HERE
        conditions = [f"blocks of {sizes_text(bandwidth)} are read faster than contiguous memory here"]
    elif min(gains.values()) > 1:
        outcome = Outcome.HOLDS
        conditions = ["the same bytes a step, in no less time; more requests in the same memory"]
    else:
        outcome = Outcome.HOLDS_WHEN
        conditions = ["there is waste to save: on some workload no more requests fit"]
    names = (TWIN, *cases.values(), READER)
    moved = {name: comparison[name].bytes_moved for name in names}
    if len(set(moved.values())) == 1:
        conditions.append("bytes of K and V that a step reads: the same for all")
    measured = [
        Measurement(f"share of the best reader's speed, {name}", 100 * share, "%", "measured")
        for name in names[:-1]
        if (share := comparison.share_of_limit(name)) is not None
    ]
    measured += [
        ratio(comparison, name, f"time, blocks of {size}, of {TWIN}") for size, name in cases.items()
    ]
    measured += [
        Measurement(f"requests that fit, of reserving for the longest, {name}", gain, "times", "computed")
        for name, gain in gains.items()
    ]
    what = "tokens that fit beside Llama-3.1-8B on an H100, paged or not"
    measured.append(Measurement(what, reading.fit_beside("llama-3.1-8b"), "", "computed"))
    return reading.told(ID, outcome, conditions, measured, ROWS, [comparison])


CLAIM = Claim(ID, "paging buys capacity, not bandwidth", run)
