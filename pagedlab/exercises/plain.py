"""Answers as plain data: all that ever crosses from a learner's process to ours.

Numbers, text, bytes, lists and dictionaries with text for keys. What a learner's code returns is turned into
these in the learner's process, or refused there; our side reads one line of JSON and nothing else.
"""

from __future__ import annotations

import json
import numbers
from typing import Any


def plain(value: Any) -> Any:
    """The value as plain data, whatever library it came from. Raises TypeError for what has no such form.

    >>> import numpy as np
    >>> plain((np.int64(3), np.array([0.5, 1.0]), {"a": range(2)}, bytearray(b"x")))
    [3, [0.5, 1.0], {'a': [0, 1]}, b'x']
    """
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if isinstance(value, list | tuple | range):
        return [plain(item) for item in value]
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # numpy arrays and scalars, torch tensors
        return plain(value.tolist())
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):  # fractions, for one
        return float(value)
    raise TypeError(f"the answer is a {type(value).__name__}; numbers or lists of numbers are expected")


def pack(value: Any) -> str:
    """Plain data as one line of JSON."""
    return json.dumps(_tagged(value))


def unpack(text: str) -> Any:
    """What `pack` packed. Raises ValueError for anything else, however hostile.

    >>> unpack(pack({"a": [1, 2.5, b"x"]}))
    {'a': [1, 2.5, b'x']}
    """
    try:
        return _untagged(json.loads(text))
    except (RecursionError, TypeError, AttributeError, LookupError) as error:
        raise ValueError("not packed data") from error


def _tagged(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list):
        return [_tagged(item) for item in value]
    if isinstance(value, dict):
        return {"items": {key: _tagged(item) for key, item in value.items()}}
    return value


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_untagged(item) for item in value]
    if isinstance(value, dict):
        if "bytes" in value:
            return bytes.fromhex(value["bytes"])
        return {key: _untagged(item) for key, item in value["items"].items()}
    return value


def brief(value: Any, length: int = 120) -> str:
    """The value as a reader sees it, cut to `length`.

    >>> brief([0.1 + 0.2, 3.0, "a"]), brief("x" * 99, 20)
    ("[0.3, 3.0, 'a']", "'xxxxxxxxx ... (101 characters)")
    """
    text = repr(_rounded(value))
    return text if len(text) <= length else f"{text[: length // 2]} ... ({len(text):,} characters)"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(value) if value == round(value, 3) else float(f"{value:.6g}")
    if isinstance(value, list | tuple):
        return type(value)(_rounded(item) for item in value)
    return value
