"""Claim: fewer KV heads, quantisation and compression cut the bytes.

The same kernel and the same query heads over 32, 8 and 1 KV heads, and over 8 heads in 2 bytes and in 1.
Bytes are computed, time and error measured. The trap is to take bytes for time: what is left of
the time after the bytes are halved is arithmetic, widening and launches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pagedlab import decoding
from pagedlab._format import percent
from pagedlab.claims import reading
from pagedlab.claims.reading import ratio, slower
from pagedlab.claims.verdict import Claim, Measurement, Outcome, Verdict
from pagedlab.comparison import Comparison

ID = "fewer-bytes"
ROWS = ("d1", "d3", "d4", "d5", "d8", "c10")
BLOCK = 16
IN_STEP = 1.25
"""Time falls with the bytes when its share is at most so many times theirs."""
BASE, EXACT = "32 KV heads, fp32", "8 KV heads, fp32"
VARIANTS = {
    BASE: (32, "float32"),
    EXACT: (8, "float32"),
    "1 KV head, fp32": (1, "float32"),
    "8 KV heads, bf16": (8, "bfloat16"),
    "8 KV heads, int8": (8, "int8"),
}
BESIDE = {n: EXACT if dtype != "float32" else BASE for n, (_, dtype) in VARIANTS.items() if n != BASE}
"""What each is compared with: fewer heads with the most, fewer bytes a number with the same heads in fp32."""


def run(quick: bool) -> Verdict:
    """Time all variants in one comparison; rounded K, V and queries are held to the unrounded answer."""
    seqs, tokens = (4, 512) if quick else (8, 4096)
    batches = {
        name: decoding.Decode(decoding.Sizes(seqs, tokens, heads, 32, dtype=dtype))
        for name, (heads, dtype) in VARIANTS.items()
    }
    cases = [batch.paged(BLOCK, name=name) for name, batch in batches.items()]
    what = f"one decode step, one layer: {seqs} sequences x {tokens:,} tokens, 32 query heads of 128"
    exact: Any = cases[list(VARIANTS).index(EXACT)].call()
    errors = {
        case.name: float((cast(Any, case.call()).float() - exact).abs().max())
        for case in cases
        if BESIDE.get(case.name) == EXACT
    }
    decode = batches[BASE]
    return reading.settle(decode, cases, lambda c: judge(c, errors), quick, what=what)


def judge(comparison: Comparison, errors: Mapping[str, float]) -> Verdict:
    """The verdict on the variants' bytes and times, and their errors beside fp32."""
    falls = {name: slower(comparison, other, name) for name, other in BESIDE.items()}
    if None in falls.values() and not any(falls.values()):
        return reading.unreadable(ID, comparison, ROWS)
    moved = {timing.name: timing.bytes_moved or 0 for timing in comparison.timings}
    bytes_left = {name: moved[name] / moved[other] for name, other in BESIDE.items()}
    time_left = {name: comparison.ratio(name, other).median for name, other in BESIDE.items()}
    lagging = [name for name in BESIDE if time_left[name] > IN_STEP * bytes_left[name]]
    if not any(falls.values()):
        outcome, conditions = Outcome.FAILS_HERE, ["the bytes fall, the time of no variant does"]
    elif lagging:
        outcome = Outcome.HOLDS_WHEN
        conditions = ["it is bytes that are counted: the time falls less"] + [
            f"{name}: {percent(bytes_left[name])} of the bytes of {BESIDE[name]} take "
            f"{percent(time_left[name])} of the time"
            for name in lagging
        ]
    else:
        outcome, conditions = Outcome.HOLDS, ["bytes and time fall together"]
    measured = []
    for name, other in BESIDE.items():
        share = 100 * bytes_left[name]
        measured.append(Measurement(f"bytes, {name}, of {other}", share, "%", "computed"))
        measured.append(ratio(comparison, name, f"time, {name}, of {other}", other))
    for name, error in errors.items():
        what = f"largest difference from the fp32 answer, {name}"
        measured.append(Measurement(what, error, "", "measured"))
    return reading.told(ID, outcome, conditions, measured, ROWS, [comparison])


CLAIM = Claim(ID, "fewer KV heads, quantisation and compression cut the bytes read", run)
