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
        return sum(self)


class Usage(NamedTuple):
    """One moment of one pool, in slots (one slot: one token): all of them, held by some sequence, and with a
    token in them; then blocks that somebody holds, and that more than one hold."""

    slots: int
    held: int
    stored: int
    waste: Waste
    blocks_in_use: int
    blocks_shared: int


def usage_of(
    tables: Iterable[tuple[Sequence[int], int]], ref_counts: Sequence[int], block_size: int
) -> Usage:
    """The usage of a paged pool, each physical block counted once, from its tables and their tokens."""
    internal: dict[int, int] = {}  # part-filled block -> empty slots in it
    reserved: set[int] = set()  # blocks held ahead, nothing in them yet
    for blocks, num_tokens in tables:
        full, rest = divmod(num_tokens, block_size)
        if rest:
            internal[blocks[full]] = block_size - rest
        reserved.update(blocks[full + bool(rest) :])
    waste = Waste(len(reserved) * block_size, sum(internal.values()), 0)
    in_use = len(ref_counts) - ref_counts.count(0)
    held, shared = in_use * block_size, in_use - ref_counts.count(1)
    return Usage(len(ref_counts) * block_size, held, held - waste.total, waste, in_use, shared)
