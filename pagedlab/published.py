"""Figures to compare with, as data: what was found, under which conditions, and where.

A lesson, a claim and a test read the same row. Its `label` says how we know it:

    R    read in its source
    R3   read in a copy or transcription of its source       cited "as reported by" only
    U    recalled and never verified                          cited "as reported by" only
    C    this project's own arithmetic or simulation on public data

Rows are numbered by subject: a indirection and access, b block sizes, c the kernel, d capacity and
bandwidth, e many GPUs, s simulations.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One finding; `values` hold its numbers and ranges by name, with their unit in the name."""

    id: str
    label: str
    text: str
    values: dict[str, Any]
    conditions: str
    source: str

    @property
    def checked(self) -> bool:
        """Whether it was read where it was published, or computed here."""
        return self.label in ("R", "C")

    @property
    def word(self) -> str:
        """ "published", or "computed" for arithmetic of our own."""
        return "computed" if self.label == "C" else "published"

    @property
    def citation(self) -> str:
        """The source, in the words that may be printed beside the figure."""
        if self.label == "R3":
            return f"as reported by copies of the {self.source}"
        return (
            f"as reported by others of the {self.source}; not verified" if self.label == "U" else self.source
        )

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
    raise KeyError(f"no published figure {id!r}; there are {', '.join(ids())}")


def ids(subject: str = "") -> tuple[str, ...]:
    """The ids that exist, all or those of one subject.

    >>> ids("s")
    ('s1', 's2', 's3')
    """
    return tuple(row["id"] for row in _data()["figures"] if row["id"].startswith(subject))


def rows(table: str) -> tuple[dict[str, Any], ...]:
    """The rows of a published table, as published; `preset` names the shape in `models`, None without one.

    "models": KiB that one more token takes in bf16, and GiB at 131,072 tokens. "blocks" (figure b18): MiB of
    one block of `tokens` over all layers at `ranks`, and KiB of a piece before the layers were joined.
    """
    return tuple(_data()[table])


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
