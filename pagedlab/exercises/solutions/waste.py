"""Slots without a token when each sequence has its final length: paged, and reserved."""

from __future__ import annotations

from collections.abc import Sequence


def solution(lengths: Sequence[int], block_size: int, reserve_to: int) -> tuple[int, int]:
    """
    >>> solution([5, 8], block_size=4, reserve_to=16)
    (3, 19)
    """
    paged = sum(-length % block_size for length in lengths)
    reserved = sum(reserve_to - length for length in lengths)
    return paged, reserved
