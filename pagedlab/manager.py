"""The block manager: which blocks hold which tokens of which sequence.

A sequence's tokens are cut into blocks of `block_size` slots. Its *block table* lists the physical
block of each, in token order, so the blocks may lie anywhere in the pool:

    tokens of A   0 1 2 3 | 4 5 6 7 | 8 9        block_size 4
    table of A       7    |    2    |  5         token 9 is in block 5, slot 5 * 4 + 1 = 21

Forked sequences share blocks by reference. Whoever writes first into a shared, part-filled block
moves to a copy of it (copy-on-write); the manager moves integers only and returns the copy to make.

The design is that of PagedAttention (Kwon et al., SOSP 2023); the order in which blocks are handed
out is that of vLLM's block pool. Every call either does all it says or raises and changes nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

from pagedlab.errors import DuplicateSequence, OutOfBlocks, UnknownSequence
from pagedlab.events import Allocate, Append, CopyOnWrite, EventLog, Fork, Free, SeqId
from pagedlab.pool import BlockPool
from pagedlab.usage import Usage, Waste

Tokens = int | Sequence[int]


class Admission(Enum):
    """Whether a sequence can be allocated: now, when others have finished, or never in this pool."""

    OK = "ok"
    LATER = "later"
    NEVER = "never"


class Allocation(NamedTuple):
    """What `allocate` handed out."""

    new_blocks: tuple[int, ...]
    num_cached_tokens: int


class Growth(NamedTuple):
    """What `append` handed out, and the block copies `(source, target)` to make before writing."""

    new_blocks: tuple[int, ...]
    copies: tuple[tuple[int, int], ...]


_NO_GROWTH = Growth((), ())


class _Held:
    """What one sequence holds."""

    __slots__ = ("blocks", "num_tokens")

    def __init__(self, blocks: list[int], num_tokens: int) -> None:
        self.blocks = blocks
        self.num_tokens = num_tokens


class BlockManager:
    """Block tables of many sequences over one pool of `num_blocks` blocks of `block_size` slots.

    With `record=False` no events are kept, which saves their memory. `tokens` is always a count or
    the token ids themselves; ids and counts mean the same until prefixes are cached.

    Raises `ValueError` for a pool or a block without room, `NotImplementedError` for what this
    version does not do yet.

    >>> m = BlockManager(num_blocks=8, block_size=4)
    >>> m.allocate("A", 6)
    Allocation(new_blocks=(0, 1), num_cached_tokens=0)
    >>> m.fork("A", "B")                      # by reference: nothing is copied
    >>> m.append("B", 3)                      # B writes first, so B moves
    Growth(new_blocks=(2, 3), copies=((1, 2),))
    >>> m.table("A"), m.table("B"), m.ref_count(0)
    ((0, 1), (0, 2, 3), 2)
    >>> m.slots("B", 5)
    [9, 10, 11, 12]
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        prefix_caching: bool = False,
        window: int | None = None,
        watermark: float = 0.0,
        num_host_blocks: int = 0,
        eviction: object = None,
        record: bool = True,
    ) -> None:
        self.num_blocks = _at_least(1, num_blocks, "num_blocks")
        self.block_size = _at_least(1, block_size, "block_size")
        _refuse_what_is_not_here_yet(
            prefix_caching=prefix_caching,
            window=window,
            watermark=watermark,
            num_host_blocks=num_host_blocks,
            eviction=eviction,
        )
        self._pool = BlockPool(self.num_blocks)
        self._held: dict[SeqId, _Held] = {}
        self._events = EventLog()
        self._log = self._events.append if record else None

    # ---- asking ------------------------------------------------------------------------------

    def can_allocate(self, tokens: Tokens, *, salt: str | None = None, lookahead: int = 0) -> Admission:
        """Whether `allocate` would succeed now, once others have finished, or never."""
        _refuse_what_is_not_here_yet(salt=salt)
        needed = self._blocks_for(_count(tokens), lookahead)
        if needed > self.num_blocks:
            return Admission.NEVER
        return Admission.OK if needed <= self._pool.num_free else Admission.LATER

    def table(self, seq_id: SeqId) -> tuple[int, ...]:
        """The physical block of each logical block, in token order."""
        return tuple(self._get(seq_id).blocks)

    def num_tokens(self, seq_id: SeqId) -> int:
        """Tokens stored for the sequence."""
        return self._get(seq_id).num_tokens

    def slots(self, seq_id: SeqId, start: int = 0, stop: int | None = None) -> list[int]:
        """The slot `block * block_size + offset` of tokens `start` to `stop`, in token order.

        Raises `IndexError` when the range reaches past the tokens stored.
        """
        held = self._get(seq_id)
        stop = held.num_tokens if stop is None else stop
        if not 0 <= start <= stop <= held.num_tokens:
            raise IndexError(f"tokens {start} to {stop} of {seq_id!r}: it has stored {held.num_tokens}")
        size, blocks = self.block_size, held.blocks
        return [blocks[i // size] * size + i % size for i in range(start, stop)]

    def ref_count(self, block: int) -> int:
        """How many sequences hold `block`; 0 means that it is free."""
        if not 0 <= block < self.num_blocks:
            raise IndexError(f"block {block} is not one of the {self.num_blocks} blocks of this pool")
        return self._pool.ref_counts[block]

    @property
    def num_free_blocks(self) -> int:
        """Blocks that can be handed out."""
        return self._pool.num_free

    @property
    def sequences(self) -> tuple[SeqId, ...]:
        """The sequences here, in order of arrival."""
        return tuple(self._held)

    @property
    def events(self) -> EventLog:
        """Everything that happened, in order; empty when the manager does not record."""
        return self._events

    def usage(self) -> Usage:
        """Slots held, tokens stored and the difference, each physical block counted once."""
        size = self.block_size
        internal: dict[int, int] = {}  # part-filled block -> empty slots in it
        reserved: set[int] = set()  # blocks held ahead, nothing in them yet
        for held in self._held.values():
            full, rest = divmod(held.num_tokens, size)
            if rest:
                internal[held.blocks[full]] = size - rest
            reserved.update(held.blocks[full + bool(rest) :])
        counts = self._pool.ref_counts
        in_use = self.num_blocks - self._pool.num_free
        waste = Waste(reserved=len(reserved) * size, internal=sum(internal.values()), external=0)
        return Usage(
            slots=self.num_blocks * size,
            held=in_use * size,
            stored=in_use * size - waste.total,
            waste=waste,
            blocks_in_use=in_use,
            blocks_shared=sum(1 for count in counts if count > 1),
        )

    # ---- doing -------------------------------------------------------------------------------

    def allocate(
        self, seq_id: SeqId, tokens: Tokens, *, salt: str | None = None, lookahead: int = 0
    ) -> Allocation:
        """Give a new sequence the blocks for `tokens` tokens, and room for `lookahead` more.

        Raises `DuplicateSequence`, or `OutOfBlocks` with nothing changed.
        """
        _refuse_what_is_not_here_yet(salt=salt)
        if seq_id in self._held:
            raise DuplicateSequence(seq_id, len(self._held[seq_id].blocks))
        count = _count(tokens)
        blocks = self._take(self._blocks_for(count, lookahead), "allocate", seq_id, count)
        self._held[seq_id] = _Held(blocks, count)
        new_blocks = tuple(blocks)
        if self._log:
            self._log(Allocate(seq_id, count, new_blocks))
        return Allocation(new_blocks, 0)

    def append(self, seq_id: SeqId, tokens: Tokens = 1, *, lookahead: int = 0) -> Growth:
        """Store `tokens` more tokens, with room for `lookahead` after them.

        A shared block is never written: its first writer moves to a new block, and the copy
        `(source, target)` that this takes is returned. Raises `UnknownSequence`, or `OutOfBlocks`
        with nothing changed.
        """
        held = self._get(seq_id)
        blocks, start = held.blocks, held.num_tokens
        count = _count(tokens)
        index, offset = divmod(start, self.block_size)
        # Only a part-filled block is written again. A fork leaves blocks held ahead behind, so
        # none but the last block with tokens can be shared and written.
        moves = bool(count and offset) and self._pool.ref_counts[blocks[index]] > 1
        missing = max(0, self._blocks_for(start + count, lookahead) - len(blocks))
        if missing or moves:
            growth = self._grow(seq_id, index if moves else None, missing, count)
        else:
            growth = _NO_GROWTH
        held.num_tokens = start + count
        if self._log:
            self._log(Append(seq_id, count, growth.new_blocks[len(growth.copies) :]))
        return growth

    def fork(self, parent_id: SeqId, child_id: SeqId) -> None:
        """Let a new sequence share every block that holds tokens of `parent_id`: no memory, no copy.

        Raises `UnknownSequence` or `DuplicateSequence`.
        """
        parent = self._get(parent_id)
        if child_id in self._held:
            raise DuplicateSequence(child_id, len(self._held[child_id].blocks))
        shared = parent.blocks[: self._blocks_for(parent.num_tokens)]
        self._pool.share(shared)
        self._held[child_id] = _Held(shared, parent.num_tokens)
        if self._log:
            self._log(Fork(parent_id, child_id, parent.num_tokens, len(shared)))

    def free(self, seq_id: SeqId) -> None:
        """Let the sequence go; blocks that nobody else holds are free again.

        Raises `UnknownSequence`, so freeing twice raises.
        """
        released = self._pool.release(self._get(seq_id).blocks)
        del self._held[seq_id]
        if self._log:
            self._log(Free(seq_id, tuple(released)))

    # ---- inside ------------------------------------------------------------------------------

    def _get(self, seq_id: SeqId) -> _Held:
        try:
            return self._held[seq_id]
        except KeyError:
            raise UnknownSequence(seq_id, len(self._held)) from None

    def _blocks_for(self, tokens: int, lookahead: int = 0) -> int:
        if lookahead:
            tokens += _at_least(0, lookahead, "lookahead")
        return -(-tokens // self.block_size)

    def _take(self, count: int, verb: str, seq_id: SeqId, tokens: int) -> list[int]:
        if count > self._pool.num_free:
            raise OutOfBlocks(
                f"{verb}({seq_id!r}, {tokens} tokens)", count, self._pool.num_free, self.num_blocks
            )
        return self._pool.take(count)

    def _grow(self, seq_id: SeqId, moved: int | None, missing: int, tokens: int) -> Growth:
        """Add `missing` blocks to a table, and replace its shared entry `moved` by a block of its own."""
        blocks = self._held[seq_id].blocks
        taken = self._take(missing + (moved is not None), "append", seq_id, tokens)
        copies: tuple[tuple[int, int], ...] = ()
        if moved is not None:
            source, target = blocks[moved], taken[0]
            self._pool.release((source,))
            blocks[moved] = target
            copies = ((source, target),)
            if self._log:
                self._log(CopyOnWrite(seq_id, moved, source, target))
        blocks.extend(taken[len(copies) :])
        return Growth(tuple(taken), copies)


def _count(tokens: Tokens) -> int:
    """The number of tokens, given as a count or as their ids."""
    if type(tokens) is int:
        count = tokens
    elif type(tokens) is tuple or type(tokens) is list:
        return len(tokens)
    elif isinstance(tokens, bool | str | bytes):
        raise TypeError(f"tokens must be a count or a sequence of token ids, not {tokens!r}")
    else:
        try:
            count = operator.index(tokens)  # type: ignore[arg-type]  # numpy integers
        except TypeError:
            try:
                count = len(tokens)  # type: ignore[arg-type]
            except TypeError:
                raise TypeError(
                    f"tokens must be a count or a sequence of token ids, not {tokens!r}"
                ) from None
    if count < 0:
        raise ValueError(f"tokens must not be negative, got {count}")
    return count


def _at_least(least: int, value: Any, name: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def _refuse_what_is_not_here_yet(**options: object) -> None:
    """The one place that says which options of the interface are still to come."""
    for name, value in options.items():
        if value not in (None, False, 0):
            raise NotImplementedError(f"{name}={value!r}: BlockManager does not do this yet")
