"""What can happen to a pool: one immutable event for each change.

A call that causes several writes them in the order in which they replay: what is let go, what is found, what
is evicted, what is handed out, what got a key.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeAlias

SeqId: TypeAlias = Hashable
Block: TypeAlias = int
Blocks: TypeAlias = Sequence[Block]
Copy: TypeAlias = tuple[Block, Block]
Copies: TypeAlias = Sequence[Copy]
SeqIds: TypeAlias = Sequence[SeqId]


class Allocate(NamedTuple):
    """`seq_id` arrived with `tokens` tokens and holds `blocks`, in table order (-1: left of its window)."""

    seq_id: SeqId
    tokens: int
    blocks: Blocks


class Append(NamedTuple):
    """`tokens` more tokens were stored; `new_blocks` joined the end of the table."""

    seq_id: SeqId
    tokens: int
    new_blocks: Blocks


class CopyOnWrite(NamedTuple):
    """Entry `entry` of the table moved from the shared block `source` to its copy `target`."""

    seq_id: SeqId
    entry: int
    source: Block
    target: Block


class Fork(NamedTuple):
    """`child_id` shares the first `num_blocks` blocks and all `tokens` tokens of `parent_id`."""

    parent_id: SeqId
    child_id: SeqId
    tokens: int
    num_blocks: int


class Free(NamedTuple):
    """`seq_id` left; `released` are those of its blocks that nobody else holds."""

    seq_id: SeqId
    released: Blocks


class Release(NamedTuple):
    """The window of `seq_id` left entries `entry` to `entry + len(blocks)` of its table behind."""

    seq_id: SeqId
    entry: int
    blocks: Blocks
    released: Blocks


class Preempt(NamedTuple):
    """`seq_id` had to leave: "recompute" costs computing `tokens` again, "swap" moving a block for each copy.

    What is still cached when it returns need not be recomputed: `tokens` is the most that it can cost.
    """

    seq_id: SeqId
    how: str
    tokens: int
    released: Blocks
    copies: Copies

    def bytes_moved(self, block_bytes: int) -> int:
        """Bytes to move, each way, if a block of all layers has so many (`Capacity.block_bytes`)."""
        return len(self.copies) * block_bytes


class SwapOut(NamedTuple):
    """`seq_ids` moved to the host; `copies` are `(block, host block)`."""

    seq_ids: SeqIds
    copies: Copies
    released: Blocks


class SwapIn(NamedTuple):
    """`seq_ids` came back; `copies` are `(host block, block)`."""

    seq_ids: SeqIds
    copies: Copies


class Cache(NamedTuple):
    """`blocks` of `seq_id` are full and have a key: a prompt can find them from now on."""

    seq_id: SeqId
    blocks: Blocks


class CacheHit(NamedTuple):
    """`seq_id` found its first `tokens` tokens in `blocks`; its `Allocate` follows."""

    seq_id: SeqId
    tokens: int
    blocks: Blocks


class Evict(NamedTuple):
    """`blocks` lost their key, because they are handed to `seq_id`."""

    seq_id: SeqId
    blocks: Blocks


class ResetCache(NamedTuple):
    """Every block lost its key."""


Event: TypeAlias = (
    Allocate
    | Append
    | CopyOnWrite
    | Fork
    | Free
    | Release
    | Preempt
    | SwapOut
    | SwapIn
    | Cache
    | CacheHit
    | Evict
    | ResetCache
)
