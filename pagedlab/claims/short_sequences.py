"""Claim: at 50 to 100 tokens the overhead of paging can outweigh what it saves.

Both sides are timed from 16 tokens up and a line is fitted to each: a floor that every call pays, and a
slope. Calls are warm, as in a loop over layers: what a cold one pays first is the interpreter's own. The trap
is the floor: it is there without paging too, so only the difference between the sides counts.
The saving is that of memory: slots held by blocks of 16 against reserving, once for a server that knows
no request passes 100 tokens, once for one that allows 2,048.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagedlab._format import significant
from pagedlab.claims import reading
from pagedlab.claims.reading import ratio
from pagedlab.claims.verdict import Chart, Claim, Line, Measurement, Outcome, Verdict
from pagedlab.comparison import WARM, Comparison
from pagedlab.decoding import Decode, Sizes

ID = "short-sequences"
ROWS = ("a17", "a18", "a20", "a21", "a22", "a23")
BLOCK = 16
SHORT = range(50, 101)
TIGHT, GENEROUS = 100, 2048
"""Slots that a server without paging reserves a request, knowing or not knowing how long one can be."""


def run(quick: bool) -> Verdict:
    """Both sides at each length, in one comparison."""
    lengths = (16, 64, 96, 256, 1024) if quick else (16, 32, 64, 96, 128, 256, 512, 1024, 2048, 4096)
    cases = []
    for tokens in lengths:
        decode = Decode(Sizes(16, tokens))
        cases += [decode.twin(name=f"contiguous {tokens}"), decode.paged(BLOCK, name=f"paged {tokens}")]
    what = f"one decode step, one layer: 16 sequences of each length, blocks of {BLOCK}"
    return reading.settle(decode, cases, lambda c: judge(c, lengths), quick, caches=WARM, what=what)


def judge(comparison: Comparison, lengths: Sequence[int]) -> Verdict:
    """The verdict on cases "paged N" and "contiguous N"."""
    short = [tokens for tokens in lengths if tokens in SHORT]
    low = max(comparison.interval(f"paged {n}", f"contiguous {n}")[0] for n in short)
    high = max(comparison.interval(f"paged {n}", f"contiguous {n}")[1] for n in short)
    held = float(np.mean([-(-n // BLOCK) * BLOCK for n in SHORT]))
    tight, generous = TIGHT / held, GENEROUS / held
    floors = {side: _fit(comparison, side, lengths) for side in ("contiguous", "paged")}
    conditions = [
        f"at 50 to 100 tokens blocks of {BLOCK} hold {significant(tight)} times fewer slots than reserving "
        f"{TIGHT} a request, {significant(generous)} times fewer than reserving {GENEROUS:,}",
        "the floor of a call is there without paging too",
    ]
    if high < tight:
        outcome = Outcome.FAILS_HERE
        conditions.insert(
            0,
            "even beside the tightest reservation, time is lost by a smaller factor than memory is saved",
        )
    elif low > generous:
        outcome = Outcome.HOLDS
    elif low > tight:
        outcome = Outcome.HOLDS_WHEN
        conditions.insert(0, f"without paging no more than {TIGHT} slots a request would have been reserved")
    else:
        return reading.unreadable(ID, comparison, ROWS)
    measured = [
        ratio(comparison, f"paged {n}", f"time at {n} tokens, paged, of contiguous", f"contiguous {n}")
        for n in lengths
    ]
    for side, (floor, slope) in floors.items():
        measured.append(Measurement(f"floor of a call, {side}", 1e6 * floor, "us", "measured"))
        measured.append(Measurement(f"slope, {side}", 1e9 * slope, "ns a token of each sequence", "measured"))
    lines = tuple(
        Line(side, tuple((float(n), 1e6 * comparison[f"{side} {n}"].median) for n in lengths), "measured")
        for side in floors
    )
    chart = Chart("Floor and slope", "tokens in each sequence", "us a call", lines, log_y=True)
    return reading.told(ID, outcome, conditions, measured, ROWS, [comparison], chart)


def _fit(comparison: Comparison, side: str, lengths: Sequence[int]) -> tuple[float, float]:
    """Floor (seconds) and slope (seconds a token) of the line whose relative errors are least."""
    seconds = np.array([comparison[f"{side} {tokens}"].median for tokens in lengths])
    terms = np.stack([np.ones(len(lengths)), np.array(lengths)], axis=1) / seconds[:, None]
    floor, slope = np.linalg.lstsq(terms, np.ones(len(lengths)), rcond=None)[0]
    return float(floor), float(slope)


CLAIM = Claim(ID, "at 50 to 100 tokens the overhead of paging can outweigh the memory it saves", run)
