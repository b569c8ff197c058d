"""The length from which on paged and contiguous attention differ by more than the noise."""

from __future__ import annotations

from collections.abc import Sequence


def solution(
    lengths: Sequence[int], paged_us: Sequence[float], contiguous_us: Sequence[float], noise_us: float
) -> int | None:
    """
    >>> solution([16, 64, 256], [9, 7, 12], [7, 7, 9], noise_us=1)
    256
    """
    found = None
    for length, paged, contiguous in zip(lengths, paged_us, contiguous_us, strict=True):
        if abs(paged - contiguous) <= noise_us:
            found = None
        elif found is None:
            found = length
    return found
