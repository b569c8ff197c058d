"""Ids from outside: blocks and slots in any sequence, array or tensor of integers. They are never rounded.

Imports without torch, because tables are made where there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def integers(ids: Any, name: str, *, pairs: bool = False) -> np.ndarray:
    """Ids as an array `[n]` of integers, or `[n, 2]` when they come in pairs.

    Raises ValueError for another shape, TypeError for what is no integer.

    >>> integers([(0, 3), (2, 1)], "copies", pairs=True).tolist()
    [[0, 3], [2, 1]]
    """
    form = "(source, target) pairs of integers" if pairs else "a flat sequence of integers"
    try:
        array = np.asarray(ids.cpu().numpy() if hasattr(ids, "cpu") else ids)
    except (TypeError, ValueError, RuntimeError):  # ragged, or no array at all
        raise ValueError(f"{name} must be {form}, got {_clip(ids)}") from None
    if not array.size and array.ndim == 1:
        return np.empty((0, 2) if pairs else 0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be {form}, got {_clip(ids)}")
    if array.shape[1:] != ((2,) if pairs else ()) or not array.ndim:
        raise ValueError(f"{name} must be {form}, got {_clip(ids)}")
    return array


def check_range(ids: np.ndarray, noun: str, low: int, high: int) -> None:
    """Raise IndexError unless every id is at least `low` and below `high`."""
    outside = ids[(ids < low) | (ids >= high)]
    if outside.size:
        raise IndexError(f"{noun} {outside[0]} is outside {low} to {high - 1}")


def check_different(ids: np.ndarray, name: str, noun: str, why: str) -> None:
    """Raise ValueError when an id is there twice, and say why that cannot be."""
    different, counts = np.unique(ids, return_counts=True)
    if len(different) < len(ids):
        raise ValueError(f"{name} must differ: {noun} {different[counts > 1][0]} is there twice, {why}")


def _clip(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
