"""The words that say where a number comes from. Every number on a screen carries one of them."""

from __future__ import annotations

WORDS = ("measured", "simulated", "computed", "published", "recorded", "assumed")
