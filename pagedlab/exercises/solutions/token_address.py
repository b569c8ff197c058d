"""Where a token lies: the block that the table gives, and the slot in it."""

from __future__ import annotations

from collections.abc import Sequence


def solution(block_table: Sequence[int], position: int, block_size: int) -> tuple[int, int]:
    """
    >>> solution([7, 2, 9], position=5, block_size=4)
    (2, 1)
    """
    return block_table[position // block_size], position % block_size
