"""The smallest input that still fails: take parts away, make numbers smaller, keep what fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

Found = TypeVar("Found")
_ROUNDS = 40
_WIDEST = 60
"""Candidates of one round: they run together in one child."""


def shrink(
    arguments: tuple[Any, ...],
    valid: Callable[..., bool],
    first_failing: Callable[[Sequence[tuple[Any, ...]]], tuple[tuple[Any, ...], Found] | None],
) -> tuple[tuple[Any, ...], Found] | None:
    """The smallest arguments found to fail, with what `first_failing` says of them; None if none is smaller.

    >>> def first_failing(candidates):  # fails when two numbers are alike
    ...     return next(((c, "alike") for c in candidates if len(set(c[0])) < len(c[0])), None)
    >>> shrink(([7, 9, 4, 9, 8],), lambda numbers: True, first_failing)
    (([0, 0],), 'alike')
    """
    found = None
    for _ in range(_ROUNDS):
        candidates = list(islice((each for each in smaller(arguments) if valid(*each)), _WIDEST))
        better = first_failing(candidates) if candidates else None
        if better is None:
            break
        found, arguments = better, better[0]
    return found


def smaller(value: Any) -> Iterator[Any]:
    """Simpler values of the same kind, the simplest first; every chain of them ends."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, int):
        yield from dict.fromkeys(n for n in (0, 1, value // 2, value - 1) if abs(n) < abs(value))
    elif isinstance(value, float):
        simple = (0.0, 1.0, float(round(value))) if math.isfinite(value) else (0.0,)
        yield from dict.fromkeys(n for n in simple if abs(n) < abs(value))
    elif isinstance(value, dict):
        for key in value:
            yield {other: item for other, item in value.items() if other != key}
        for key, item in value.items():
            yield from ({**value, key: simpler} for simpler in smaller(item))
    elif isinstance(value, list):
        half = len(value) // 2
        if half:
            yield from (value[:half], value[half:])
        yield from (value[:i] + value[i + 1 :] for i in range(len(value)))
        yield from _one_smaller(value)
        # Two that must stay alike, or apart by as much, get smaller together.
        if value and all(type(item) is int for item in value) and min(value) > 0:
            yield [item - min(value) for item in value]
    elif isinstance(value, tuple):
        yield from _cut_alike(value)
        yield from _one_smaller(value)


def _one_smaller(values: Any) -> Iterator[Any]:
    for i, item in enumerate(values):
        yield from (_replaced(values, {i: simpler}) for simpler in smaller(item))


def _cut_alike(values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Lists of one length may belong together, item by item: the same items are taken from all."""
    for length in {len(each) for each in values if isinstance(each, list)}:
        places = [n for n, each in enumerate(values) if isinstance(each, list) and len(each) == length]
        if len(places) < 2:
            continue
        halves = (range(length // 2), range(length // 2, length)) if length > 1 else ()
        for kept in (*halves, *([i for i in range(length) if i != gone] for gone in range(length))):
            yield _replaced(values, {n: [values[n][i] for i in kept] for n in places})
        for i in range(length):
            for items in _cut_alike(tuple(values[n][i] for n in places)):
                pairs = zip(places, items, strict=True)
                yield _replaced(values, {n: _replaced(values[n], {i: item}) for n, item in pairs})


def _replaced(values: Any, new: Mapping[int, Any]) -> Any:
    """The list or tuple with other values at some places."""
    return type(values)(new.get(place, value) for place, value in enumerate(values))
