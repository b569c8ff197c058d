"""Figures to compare with, as data: what was found, under which conditions, and where.

A lesson, a claim and a test read the same row. Most rows were published by others; a row that was read only
in a copy or transcription of its source has `checked` False, and its citation then opens with "as reported
by". A row whose `word` is *computed* is this project's own arithmetic on public data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One finding; `values` hold its ranges by name, with their unit in the name.

    `word` is "published", or "computed" for arithmetic of our own on public data.
    """

    id: str
    text: str
    values: dict[str, Any]
    conditions: str
    source: str
    checked: bool
    word: str

    @property
    def citation(self) -> str:
        """The source, in the words that may be printed beside the figure."""
        return self.source if self.checked else f"as reported by copies of the {self.source}"

    def __str__(self) -> str:
        return f"{self.text} ({self.word}: {self.conditions}; {self.citation})"


@dataclass(frozen=True)
class Lengths:
    """Quantiles of one public trace: share of requests (0 to 1) to tokens.

    `waste_percent` is the waste at final length by block size, and for both contiguous policies,
    computed on the full trace; `longest` is the longest prompt and output together.
    """

    trace: str
    rows: int
    prompt: dict[float, int]
    output: dict[float, int]
    mean: tuple[int, int]
    waste_percent: dict[str, float]
    longest: int


def figure(id: str) -> Figure:
    """The row of that id; raises `KeyError` with the ids that exist.

    >>> figure("b2").citation
    'vLLM blog, 2023-06-20'
    """
    for row in _data()["figures"]:
        if row["id"] == id:
            return Figure(**row)
    raise KeyError(f"no published figure {id!r}; there are {', '.join(r['id'] for r in _data()['figures'])}")


def traces() -> tuple[str, ...]:
    """Names of the public traces whose quantiles are known."""
    return tuple(_data()["lengths"])


def lengths(trace: str) -> Lengths:
    """Length quantiles of a public trace."""
    row = dict(_data()["lengths"][trace])
    for column in ("prompt", "output"):
        row[column] = {float(share): tokens for share, tokens in row[column].items()}
    return Lengths(**{**row, "mean": tuple(row["mean"])})


@cache
def _data() -> dict[str, Any]:
    return json.loads((files("pagedlab") / "data" / "published.json").read_text(encoding="utf-8"))
