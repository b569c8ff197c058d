"""When requests arrived: dates, seconds and milliseconds, as nanoseconds.

numpy reads the dates, but not on its own terms: left to itself it takes "now", "" and years of any length,
and nanoseconds of a far year wrap around unseen.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pagedlab._format import clip

_YEARS = 142
_FARTHEST_MS = 4.5e12  # so many years from 1970: between any two such times are less than 2**63 nanoseconds
_TOO_FAR = f"is no time of requests: it lies {_YEARS} years or more from 1970"
_ZONED = re.compile(r"(.*:\d\d(?:\.\d*)?) ?(?:Z|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)")

Convert = Callable[[Sequence[str]], np.ndarray]
"""Texts to nanoseconds, int64; raises `ValueError` or `OverflowError` and does not say for which text."""


def of_column(texts: Sequence[str], kind: str) -> np.ndarray:
    """Nanoseconds of texts of one kind, one of `KINDS`. Raises `ValueError` that names the first bad text.

    >>> of_column(["2023-11-16 18:17:04.5", "2023-11-16 19:17:04+01:00"], "date").tolist()
    [1700158624500000000, 1700158624000000000]
    """
    convert, what = KINDS[kind]
    try:
        return convert(texts)
    except (ValueError, OverflowError):
        for text in texts:
            try:
                convert([text])
            except OverflowError:
                raise ValueError(f"{clip(text)} {_TOO_FAR}") from None
            except ValueError:
                raise ValueError(f"{clip(text)} is not {what}") from None
        raise


def of_json(timestamp: Any) -> int:
    """Nanoseconds; Mooncake writes numbers of milliseconds, RAGPulse strings of seconds."""
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float | str):
        raise ValueError(f"{clip(timestamp)} is not a time")
    unit, kind = (1_000, "seconds") if isinstance(timestamp, str) else (1, "milliseconds")
    try:
        milliseconds = float(timestamp) * unit
    except (ValueError, OverflowError):
        raise ValueError(f"{clip(timestamp)} is not {KINDS[kind][1]}") from None
    if not milliseconds >= 0:
        raise ValueError(f"{clip(timestamp)} is not {KINDS[kind][1]}")
    if milliseconds >= _FARTHEST_MS:
        raise ValueError(f"{clip(timestamp)} {_TOO_FAR}")
    return round(milliseconds * 1e6)


def _numbers(unit: int) -> Convert:
    def convert(texts: Sequence[str]) -> np.ndarray:
        milliseconds = np.array(texts, dtype=np.float64) * unit
        if not (milliseconds >= 0).all():
            raise ValueError("negative, or not a number")
        if (milliseconds >= _FARTHEST_MS).any():
            raise OverflowError
        return np.rint(milliseconds * 1e6).astype(np.int64)

    return convert


def _dates(texts: Sequence[str]) -> np.ndarray:
    texts = [text.strip() for text in texts]
    zoned = [_ZONED.fullmatch(text) for text in texts]
    if any(zoned):
        texts = [match[1] if match else text for match, text in zip(zoned, texts, strict=True)]
    if not all(text[:4].isdigit() and text[4:5] in ("", "-") for text in texts):
        raise ValueError("not a date")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy warns of whatever stands behind a time
        try:
            # Coarse first: nanoseconds of a far year would wrap around unseen.
            microseconds = np.array(texts, dtype="datetime64[us]").astype(np.int64)
            if (np.abs(microseconds) >= _FARTHEST_MS * 1e3).any():
                raise OverflowError
            nanoseconds = np.array(texts, dtype="datetime64[ns]").astype(np.int64)
        except Warning:
            raise ValueError("not a date") from None
    if any(zoned):
        nanoseconds -= np.array([_ahead_of_utc(match) for match in zoned], dtype=np.int64)
    return nanoseconds


def _ahead_of_utc(zoned: re.Match[str] | None) -> int:
    """Nanoseconds that a time is ahead of UTC."""
    if zoned is None or zoned[2] is None:
        return 0
    minutes = 60 * int(zoned[3]) + int(zoned[4] or 0)
    return (-minutes if zoned[2] == "-" else minutes) * 60 * 10**9


KINDS: dict[str, tuple[Convert, str]] = {
    "date": (_dates, "a date and time"),
    "seconds": (_numbers(1_000), "a number of seconds from 0 on"),
    "milliseconds": (_numbers(1), "a number of milliseconds from 0 on"),
}
