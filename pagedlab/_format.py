"""How this package writes a number, a table and a guess: one place, so that all that is shown agrees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def seconds(value: float) -> str:
    """A duration with three significant digits and a unit.

    >>> seconds(0.01234), seconds(1.5e-6), seconds(75.0)
    ('12.3 ms', '1.50 us', '75.0 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{significant(value / scale)} {unit}"
    return f"{significant(value / 1e-9)} ns"


def size(count: float) -> str:
    """Bytes in binary units.

    >>> size(512), size(1536), size(24 * 2**30)
    ('512 B', '1.50 KiB', '24.0 GiB')
    """
    unit = "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:.0f} B" if unit == "B" else f"{significant(count)} {unit}"


def significant(value: float, digits: int = 3) -> str:
    """A number with that many significant digits and no exponent.

    >>> significant(0.012345), significant(123456), significant(9.999), significant(0)
    ('0.0123', '123456', '10.0', '0')
    """
    if value == 0:
        return "0"
    exponent = int(f"{abs(value):.{digits - 1}e}".partition("e")[2])
    return f"{value:.{max(0, digits - 1 - exponent)}f}"


def number(value: float) -> str:
    """A number as a reader wants it: three significant digits, whole numbers whole, thousands apart.

    >>> number(19366), number(1234.5), number(4.876), number(0.01234)
    ('19,366', '1,234', '4.88', '0.0123')
    """
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else significant(value)


def count(many: int, noun: str) -> str:
    """So many of a thing; the noun in the singular.

    >>> count(1, "request"), count(19366, "request")
    ('1 request', '19,366 requests')
    """
    return f"{many:,} {noun}" if many == 1 else f"{many:,} {noun}s"


def percent(fraction: float) -> str:
    """A share of one, in percent.

    >>> percent(0.0312), percent(0.5)
    ('3.1 %', '50 %')
    """
    value = 100 * fraction
    return f"{value:.1f} %" if abs(value) < 10 else f"{value:.0f} %"


def clip(value: object) -> str:
    """A value as it may stand in a message: 60 characters at most."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def near(name: str, known: Iterable[str]) -> str:
    """The names that one was perhaps meant to be, or else all that are known.

    >>> near("Short-block", ["short-blocks", "ranks-agree"]), near("x", ["a", "b"])
    ('near: short-blocks', 'near: a, b')
    """
    known = list(known)
    return f"near: {', '.join(get_close_matches(name.lower(), known, n=3, cutoff=0.4) or known)}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Rows of text under a header: the first `left` columns flush left, the others flush right.

    >>> print(table(["case", "ms"], [["a", "1"], ["longer", "10"]]))
    case    ms
    a        1
    longer  10
    """
    lines = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
