"""What a decode kernel's test cannot reach: addresses, windows, scales, writes, with tests of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def element_offset(block: int, elements_per_block: int, element: int) -> int:
    """Where a number of a block lies in the cache, counted in numbers."""
    offset = np.array([block], np.int64) * elements_per_block + element
    return int(offset[0])


def few_blocks(offset: Callable[..., int]) -> None:
    assert offset(100, 65_536, 5) == 100 * 65_536 + 5


def many_blocks(offset: Callable[..., int]) -> None:
    assert offset(40_000, 65_536, 5) == 40_000 * 65_536 + 5


def window_mean(values: Array, length: int, window: int) -> float:
    """Attention with equal scores: the mean of the last `window` values, the current one included."""
    first = max(0, length - window)
    return float(values[first:length].mean())


def wide_window(mean: Callable[..., float]) -> None:
    assert mean(np.arange(1.0, 9.0), 8, 100) == 4.5


def narrow_windows(mean: Callable[..., float]) -> None:
    for window, expected in ((1, 8.0), (4, 6.5), (100, 4.5)):
        assert mean(np.arange(1.0, 9.0), 8, window) == expected


def round_trip(key: Array, value: Array) -> tuple[Array, Array]:
    """K and V as int8 with a scale each, and back."""
    k_scale, v_scale = np.abs(key).max() / 127, np.abs(value).max() / 127
    return np.round(key / k_scale) * k_scale, np.round(value / v_scale) * v_scale


def like_ranges(kept: Callable[..., tuple[Array, Array]]) -> None:
    _error_at_most_one_percent(kept, 1.0)


def unlike_ranges(kept: Callable[..., tuple[Array, Array]]) -> None:
    _error_at_most_one_percent(kept, 0.01)


def _error_at_most_one_percent(kept: Callable[..., tuple[Array, Array]], size: float) -> None:
    key, value = np.linspace(-1, 1, 64), size * np.linspace(-1, 1, 64)
    for before, after in zip((key, value), kept(key, value), strict=True):
        assert np.abs(after - before).max() <= 0.01 * np.abs(before).max()


def write_slots(tokens: Array, cache: Array, slots: list[int]) -> None:
    """Store each token in its slot of a cache `[blocks, block_size]`; slot -1 stands for padding."""
    for token, slot in zip(tokens, slots, strict=True):
        if slot >= 0:
            cache[slot // cache.shape[1], slot % cache.shape[1]] = token


def real_slots(write: Callable[..., None]) -> None:
    _writes(write, [3, 0], [[2.0, 0, 0, 1.0], [0, 0, 0, 9.0]])


def padded_slots(write: Callable[..., None]) -> None:
    _writes(write, [3, -1], [[0, 0, 0, 1.0], [0, 0, 0, 9.0]])


def _writes(write: Callable[..., None], slots: list[int], expected: list[list[float]]) -> None:
    cache = np.array([[0.0] * 4, [0, 0, 0, 9.0]])
    write(np.array([1.0, 2.0]), cache, slots)
    assert (cache == expected).all()
