"""What callers pass: counts, token ids and names, checked before anything happens."""

from __future__ import annotations

import operator
import reprlib
from array import array
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

Tokens = int | Sequence[int]
_NO_TOKENS = (bool, str, bytes, bytearray, memoryview, dict, set, frozenset)


def count_of(tokens: Tokens) -> int:
    """The number of tokens, given as a count or as their ids. Raises `TypeError` or `ValueError`."""
    if not isinstance(tokens, (int, *_NO_TOKENS)):
        try:
            return len(tokens)
        except TypeError:
            pass  # perhaps a number of numpy's or torch's
    return at_least(0, tokens, "tokens")


def ids_of(tokens: Tokens) -> array[int]:
    """The token ids, 4 bytes each. Raises `TypeError` for a count, `ValueError` for an id out of range."""
    ids: Any = tokens.tolist() if hasattr(tokens, "tolist") else tokens
    try:
        if not isinstance(tokens, _NO_TOKENS):
            return array("I", ids)
    except OverflowError:
        raise ValueError("token ids must be from 0 to 2**32 - 1") from None
    except TypeError:
        pass  # a count, or not all are integers
    raise TypeError(f"prefix caching needs token ids, a sequence of integers, not {reprlib.repr(tokens)}")


def at_least(least: int, value: Any, name: str) -> int:
    """`value` as an int. Raises `TypeError`, or `ValueError` below `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def below_one(value: Any, name: str) -> float:
    """`value`, a share from 0 to below 1. Raises `TypeError` or `ValueError`."""
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    share = float(value)
    if not 0 <= share < 1:
        raise ValueError(f"{name} must be at least 0 and below 1, got {value!r}")
    return share


def one_of(known: Iterable[Any], value: Any, name: str) -> Any:
    """`value`, which must be among those known. Raises `ValueError` that lists them."""
    if value not in (known := tuple(known)):
        raise ValueError(f"{name} must be one of {', '.join(map(str, known))}, got {value!r}")
    return value
