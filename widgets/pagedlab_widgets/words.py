"""The words that say where a number comes from. Every number on a screen carries one of them."""

from __future__ import annotations

from pagedlab._format import significant

WORDS = ("measured", "simulated", "computed", "published", "recorded", "assumed")


def format_number(value: float) -> str:
    """A number as a reader wants it: three significant digits, all digits of a whole number, thousands apart.

    >>> format_number(19366), format_number(1234.5), format_number(4.876), format_number(0.01234)
    ('19,366', '1,234', '4.88', '0.0123')
    """
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else significant(value)
