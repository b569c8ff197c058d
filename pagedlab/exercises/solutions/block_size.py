"""The largest block size whose waste stays within a budget."""

from __future__ import annotations

from collections.abc import Sequence


def solution(lengths: Sequence[int], candidates: Sequence[int], waste_budget: float) -> int | None:
    """
    >>> solution([30, 50], candidates=[64, 16, 8], waste_budget=0.2)
    16
    """
    fitting = []
    for block_size in candidates:
        held = sum(-(-length // block_size) * block_size for length in lengths)
        if held - sum(lengths) <= waste_budget * held:
            fitting.append(block_size)
    return max(fitting, default=None)
