"""How much of a pool holds tokens, and where the rest went.

The three kinds of waste are those of the PagedAttention paper (Kwon et al., SOSP 2023, section 3.1):

    reserved   held for tokens that the sequence will store, but has not stored yet
    internal   held, and the sequence will never store anything there (or the rest of a last block)
    external   free, but in pieces that the next request in line cannot use
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def usage_of(
    tables: Iterable[tuple[Sequence[int], int]], ref_counts: Sequence[int], num_free: int, block_size: int
) -> Usage:
    """The usage of a paged pool, each physical block counted once, from its tables and their tokens."""
    internal: dict[int, int] = {}  # part-filled block -> empty slots in it
    reserved: set[int] = set()  # blocks held ahead, nothing in them yet
    for blocks, num_tokens in tables:
        full, rest = divmod(num_tokens, block_size)
        if rest:
            internal[blocks[full]] = block_size - rest
        reserved.update(blocks[full + bool(rest) :])
    in_use = len(ref_counts) - num_free
    waste = Waste(reserved=len(reserved) * block_size, internal=sum(internal.values()), external=0)
    return Usage(
        slots=len(ref_counts) * block_size,
        held=in_use * block_size,
        stored=in_use * block_size - waste.total,
        waste=waste,
        blocks_in_use=in_use,
        blocks_shared=sum(1 for count in ref_counts if count > 1),
    )
