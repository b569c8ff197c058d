"""How many sectors of memory the lanes of one instruction touch."""

from __future__ import annotations

from collections.abc import Sequence


def solution(byte_addresses: Sequence[int], bytes_per_lane: int, *, sector: int = 32) -> int:
    """
    >>> solution([0, 4, 8, 64], 4), solution([30], 4)
    (2, 2)
    """
    touched: set[int] = set()
    for address in byte_addresses:
        touched.update(range(address // sector, (address + bytes_per_lane - 1) // sector + 1))
    return len(touched)
