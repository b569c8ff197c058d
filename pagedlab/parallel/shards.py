"""Which heads a rank holds.

Tensor parallelism cuts attention between KV heads: a rank holds some heads' K and V of *every* block, and
the query heads that read them, so all ranks follow one block table.

    8 KV heads, 4 ranks      rank 0: heads 0 1   rank 1: 2 3   rank 2: 4 5   rank 3: 6 7
    2 KV heads, 4 ranks      ranks 0 1: head 0, half of its query heads each   ranks 2 3: head 1

With fewer KV heads than ranks a head is held several times over. Source: Kwon et al., SOSP 2023, section 4.6.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shard:
    """The heads of one rank, as ranges of the whole model's."""

    kv_heads: range
    q_heads: range
    copies: int
    """How many ranks hold these KV heads."""


def shard(rank: int, ranks: int, q_heads: int, kv_heads: int) -> Shard:
    """What `rank` of `ranks` holds of a model of `q_heads` query and `kv_heads` KV heads.

    Heads are spread as evenly as whole heads allow. Raises `ValueError` for counts that cannot be shared
    out: the query heads must be a multiple of the KV heads, and every rank needs one.

    >>> shard(2, 3, q_heads=16, kv_heads=8)
    Shard(kv_heads=range(6, 8), q_heads=range(12, 16), copies=1)
    >>> [shard(rank, 3, q_heads=16, kv_heads=2).copies for rank in range(3)]
    [2, 2, 1]
    """
    if not 0 <= rank < ranks:
        raise ValueError(f"rank must be from 0 to {ranks - 1}, got {rank}")
    if kv_heads < 1 or q_heads < 1 or q_heads % kv_heads:
        raise ValueError(f"q_heads must be a multiple of kv_heads, got {q_heads} and {kv_heads}")
    group = q_heads // kv_heads
    if ranks <= kv_heads:
        mine = _part(rank, ranks, kv_heads)
        return Shard(mine, range(mine.start * group, mine.stop * group), 1)
    head = next(head for head in range(kv_heads) if rank in _part(head, kv_heads, ranks))
    holders = _part(head, kv_heads, ranks)
    if len(holders) > group:
        raise ValueError(f"{ranks} ranks, but only {q_heads} query heads: every rank needs at least one")
    mine = _part(rank - holders.start, len(holders), group)
    return Shard(
        range(head, head + 1), range(head * group + mine.start, head * group + mine.stop), len(holders)
    )


def _part(index: int, parts: int, count: int) -> range:
    """The `index`-th of `parts` ranges of `count` things; the first ones take what is left over."""
    least, more = divmod(count, parts)
    start = index * least + min(index, more)
    return range(start, start + least + (index < more))
