"""Claim: a short sequence fits into one or two blocks.

Blocks for 50 to 100 tokens, counted. At the default of 16 it takes four to seven: the chapter's own numbers
do not go together.
"""

from __future__ import annotations

from collections.abc import Sequence

from pagedlab.claims.reading import sizes_text
from pagedlab.claims.verdict import ARITHMETIC, Chart, Claim, Line, Measurement, Outcome, Verdict, figures

ID = "short-blocks"
SHORT = range(50, 101)
SIZES = (8, 16, 32, 64, 128, 256)
FEW = 2


def run(quick: bool) -> Verdict:
    """Count them."""
    return judge(SHORT, SIZES)


def judge(lengths: Sequence[int], sizes: Sequence[int]) -> Verdict:
    """The verdict on such lengths at such block sizes."""
    most = {size: max(-(-tokens // size) for tokens in lengths) for size in sizes}
    fitting = [size for size in sizes if most[size] <= FEW]
    if len(fitting) == len(sizes):
        outcome, condition = Outcome.HOLDS, "at every block size"
    elif fitting:
        failing = [size for size in sizes if size not in fitting]
        outcome = Outcome.HOLDS_WHEN
        condition = f"blocks have {min(fitting)} tokens or more; not at {sizes_text(failing)}"
    else:
        outcome, condition = Outcome.FAILS_HERE, f"not at any size up to {max(sizes)}"
    measured = tuple(
        Measurement(f"blocks of {size} for {tokens} tokens", -(-tokens // size), "", "computed")
        for size in sizes
        for tokens in (min(lengths), max(lengths))
    )
    lines = tuple(
        Line(
            f"{tokens} tokens", tuple((float(size), float(-(-tokens // size))) for size in sizes), "computed"
        )
        for tokens in (min(lengths), max(lengths))
    )
    chart = Chart("Blocks of a short sequence", "block size (tokens)", "blocks", lines)
    return Verdict(ID, outcome, (condition,), measured, figures("b4", "b5", "a20"), ARITHMETIC, chart)


CLAIM = Claim(ID, "a sequence of 50 to 100 tokens fits in one or two blocks", run)
