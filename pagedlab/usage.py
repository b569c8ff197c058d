"""How much of a pool holds tokens, and where the rest went.

The kinds of waste are those of the PagedAttention paper (Kwon et al., SOSP 2023, section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Waste(NamedTuple):
    """Slots without a token, by kind."""

    reserved: int  # held for tokens that the sequence will store, but has not stored yet
    internal: int  # held, and the sequence will never store anything there (or the rest of a last block)
    external: int  # free, but in pieces that the next request in line cannot use

    @property
    def total(self) -> int:
        """All wasted slots."""
        return sum(self)


class Usage(NamedTuple):
    """One moment of one pool. A slot has room for one token."""

    slots: int  # all of them
    held: int  # by some sequence
    stored: int  # with a token in them
    waste: Waste  # held, less stored
    blocks_in_use: int  # somebody holds them
    blocks_shared: int  # more than one hold them


def usage_of(tables: Iterable[tuple[Sequence[int], int]], counts: Sequence[int], block_size: int) -> Usage:
    """The usage of a paged pool, each block counted once, from its tables, their tokens and the counts."""
    internal: dict[int, int] = {}  # part-filled block -> empty slots in it
    reserved: set[int] = set()  # blocks held ahead, nothing in them yet
    for blocks, num_tokens in tables:
        full, rest = divmod(num_tokens, block_size)
        if rest:
            internal[blocks[full]] = block_size - rest
        reserved.update(blocks[full + bool(rest) :])
    waste = Waste(len(reserved) * block_size, sum(internal.values()), 0)
    in_use = len(counts) - counts.count(0)
    held, shared = in_use * block_size, in_use - counts.count(1)
    return Usage(len(counts) * block_size, held, held - waste.total, waste, in_use, shared)
