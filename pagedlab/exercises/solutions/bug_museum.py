"""A test of paged decode that knows where to look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def solution(kernel: Callable[..., Any]) -> None:
    from pagedlab.museum import Batch

    nasty: dict[str, Any] = {"shuffled": True, "poisoned": True}
    for batch in (
        Batch([1, 5, 16, 0, 41], heads=4, kv_heads=2, scale=0.35, **nasty),  # odd and empty lengths, groups
        Batch([50, 24], block_size=24, seed=1, **nasty),  # no power of two
        Batch([300], block_size=256, seed=2, **nasty),  # a large block
        Batch([30], block_size=8, shift=-200.0, seed=3, **nasty),  # scores far below zero
    ):
        batch.check(kernel)
