"""How much of a pool holds tokens, and where the rest went.

The three kinds of waste are those of the PagedAttention paper (Kwon et al., SOSP 2023, section 3.1):

    reserved   held for tokens that the sequence will store, but has not stored yet
    internal   held, and the sequence will never store anything there (or the rest of a last block)
    external   free, but in pieces that the next request in line cannot use
"""

from __future__ import annotations

from typing import NamedTuple


class Waste(NamedTuple):
    """Slots without a token, by kind."""

    reserved: int
    internal: int
    external: int

    @property
    def total(self) -> int:
        """All wasted slots."""
        return self.reserved + self.internal + self.external


class Usage(NamedTuple):
    """One moment of one pool; all figures but the last two are in slots (one slot: one token)."""

    slots: int
    """Slots of the whole pool."""
    held: int
    """Slots that some sequence holds."""
    stored: int
    """Slots with a token in them."""
    waste: Waste
    blocks_in_use: int
    blocks_shared: int
    """Blocks held by more than one sequence."""
