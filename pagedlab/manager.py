"""The block manager: which blocks hold which tokens of which sequence.

A sequence's tokens are cut into blocks of `block_size` slots. Its *block table* lists the physical
block of each, in token order, so the blocks may lie anywhere in the pool:

    tokens of A   0 1 2 3 | 4 5 6 7 | 8 9        block_size 4
    table of A       7    |    2    |  5         token 9 is in block 5, slot 5 * 4 + 1 = 21

Sequences share blocks by reference: a fork those of its parent, a prompt those that hold its beginning
already. Whoever writes first into a shared, part-filled block moves to a copy of it (copy-on-write); the
manager moves integers only and returns the copies to make.

The design is that of PagedAttention (Kwon et al., SOSP 2023); the order in which blocks are handed out, and
the prefix cache, are those of vLLM's block pool; `POLICIES.md` says where managers differ. Every call does
all it says or changes nothing: it plans, lets `_commit` change log and pool, and ends with assignments.
"""

from __future__ import annotations

from array import array

from pagedlab import changes
from pagedlab.asking import Admission, Allocation, Growth, Held, released_blocks
from pagedlab.changes import Event, SeqId
from pagedlab.errors import CacheInUse, DuplicateSequence, OutOfBlocks
from pagedlab.eviction import DEFAULT_PRIORITY, HIGHEST_PRIORITY
from pagedlab.inputs import Tokens, at_least, count_of, ids_of
from pagedlab.leaving import Leaving
from pagedlab.prefix import REMEMBERED, keys_of

__all__ = ["Admission", "Allocation", "BlockManager", "Growth", "Tokens", "released_blocks"]

NO_GROWTH = Growth((), ())


class BlockManager(Leaving):
    """Block tables of many sequences over one pool of `num_blocks` blocks of `block_size` slots.

    `prefix_caching` lets prompts find blocks that hold their beginning; it needs token ids, where otherwise a
    count will do. Of `window` tokens, the current one included, only those blocks are kept that a later token
    looks at. `int(watermark * num_blocks)` blocks stay free at admission. `num_host_blocks` is where swapped
    sequences go. `eviction` orders the cached blocks that nobody holds (`pagedlab.eviction`). With
    `record=False` no events are kept.

    Raises `TypeError` or `ValueError` for what cannot be.

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

    def allocate(
        self,
        seq_id: SeqId,
        tokens: Tokens,
        *,
        salt: str | None = None,
        lookahead: int = 0,
        priority: int = DEFAULT_PRIORITY,
    ) -> Allocation:
        """Give a new sequence the blocks for `tokens` tokens, and room for `lookahead` more.

        Blocks whose content is cached, for the same `salt`, are shared instead of handed out. `priority` (0
        to 100) is for the eviction policy. Raises `DuplicateSequence` or `OutOfBlocks`.
        """
        if seq_id in self._held:
            raise DuplicateSequence(seq_id, len(self._held[seq_id].blocks))
        if at_least(0, priority, "priority") > HIGHEST_PRIORITY:
            raise ValueError(f"priority must be at most {HIGHEST_PRIORITY}, got {priority}")
        prompt, pool = self._look_up(tokens, salt), self._pool
        count, ids, parent, keys, num_hit, hits = prompt
        needed, taken = self._needs(prompt, lookahead)
        if taken > pool.num_free - self._kept_free:
            what = f"allocate({seq_id!r}, {count} tokens)"
            raise OutOfBlocks(what, taken, pool.num_free, self.num_blocks, self._kept_free)
        new, gone = pool.next(needed - num_hit, hits), num_hit - len(hits)
        blocks = [-1] * gone + hits + new
        allocation = Allocation(tuple(new), num_hit * self.block_size)
        if ids is not None:
            ids = ids[len(keys) * self.block_size :]
            if len(pool.index.parents) < REMEMBERED:
                pool.index.parents.add(parent)
        room, one_more = self._room(len(blocks), gone), None
        events: list[Event] = []
        if self._log is not None:
            one_more = changes.Append(seq_id, 1, ())
            events = [changes.CacheHit(seq_id, allocation.num_cached_tokens, tuple(hits))] if num_hit else []
            events.append(changes.Allocate(seq_id, count, tuple(blocks)))
        named = dict(zip(blocks[num_hit:], keys[num_hit:], strict=False))
        last = keys[-1] if keys else parent
        self._held[seq_id] = Held(blocks, count, ids, last, int(priority), one_more, gone, room)
        try:
            self._take(seq_id, events, new, hits, named)
        except BaseException:
            del self._held[seq_id]
            raise
        return allocation

    def append(self, seq_id: SeqId, tokens: Tokens = 1, *, lookahead: int = 0) -> Growth:
        """Store `tokens` more tokens, with room for `lookahead` after them.

        A shared block is never written: its first writer moves to a new block, and the copy
        `(source, target)` that this takes is returned. Raises `UnknownSequence`, `SwappedSequence` or
        `OutOfBlocks`.
        """
        held = self._held.get(seq_id)
        if held is None or lookahead or held.num_tokens >= held.room:
            return self._grow(seq_id, tokens, lookahead)
        ids, stop = held.ids, held.num_tokens + 1
        if type(tokens) is tuple or type(tokens) is list:
            if len(tokens) != 1:
                return self._grow(seq_id, tokens, lookahead)
        elif ids is not None or type(tokens) is not int or tokens != 1:
            return self._grow(seq_id, tokens, lookahead)
        # From here on the common step: one token, and its slot is there.
        try:
            if ids is not None:
                ids.append(tokens[0])  # type: ignore[index]
                if len(ids) == self.block_size:
                    self._fill(seq_id, held)
                    return NO_GROWTH
            if held.one_more is not None:
                self._events.append(held.one_more)
        except BaseException:
            if ids is not None:
                del ids[held.num_tokens % self.block_size :]
                ids_of(tokens)  # says what is wrong with them
            raise
        held.num_tokens = stop
        return NO_GROWTH

    def fork(self, parent_id: SeqId, child_id: SeqId) -> None:
        """Let a new sequence share every block that holds tokens of `parent_id`: no memory, no copy.

        Raises `UnknownSequence`, `SwappedSequence` or `DuplicateSequence`.
        """
        parent = self._get(parent_id, away=False)
        if child_id in self._held:
            raise DuplicateSequence(child_id, len(self._held[child_id].blocks))
        tokens, blocks = parent.num_tokens, parent.blocks[: self._blocks_for(parent.num_tokens)]
        ids = None if parent.ids is None else parent.ids[:]
        one_more = None if self._log is None else changes.Append(child_id, 1, ())
        child = Held(blocks, tokens, ids, parent.parent, parent.priority, one_more, parent.gone)
        shared, forked = iter(blocks[parent.gone :]), changes.Fork(parent_id, child_id, tokens, len(blocks))
        self._commit([forked], self._held.__setitem__, child_id, child)
        self._pool.share(shared)
        parent.room = 0  # its next append must look at the block that is shared now

    def reset_cache(self) -> None:
        """Forget every key; free blocks keep their order. Raises `CacheInUse` while one is held."""
        held = self._pool.held_with_key() + self._host.held_with_key()
        if held:
            raise CacheInUse(f"reset_cache: {held} cached block(s) are held by sequences; free them first")
        self._host.reset()
        self._commit([changes.ResetCache()], self._pool.reset)

    # ---- inside ------------------------------------------------------------------------------

    def _fill(self, seq_id: SeqId, held: Held) -> None:
        """One token more is in `held.ids`, and the block is full: it gets its key."""
        assert held.ids is not None
        stop, ids = held.num_tokens + 1, array("I")
        (key,) = keys_of(held.parent, held.ids, self.block_size)
        block = held.blocks[held.num_tokens // self.block_size]
        events: list[Event] = []
        if held.one_more is not None:
            events = [held.one_more, changes.Cache(seq_id, (block,))]
        self._commit(events, self._pool.name, block, key)
        held.parent, held.num_tokens, held.ids = key, stop, ids

    def _read(self, held: Held, tokens: Tokens) -> tuple[int, array[int] | None, list[bytes]]:
        """How many tokens, the ids in the part-filled block after them, and keys of the blocks they fill."""
        if held.ids is None:
            return count_of(tokens), None, []
        new, size = ids_of(tokens), self.block_size
        ids = held.ids + new
        if len(ids) < size:
            return len(new), ids, []
        keys = keys_of(held.parent, ids, size)
        return len(new), ids[len(keys) * size :], keys

    def _grow(self, seq_id: SeqId, tokens: Tokens, lookahead: int) -> Growth:
        """`append`, the long way."""
        held, pool, size = self._get(seq_id, away=False), self._pool, self.block_size
        blocks, start, gone = held.blocks, held.num_tokens, held.gone
        count, ids, keys = self._read(held, tokens)
        stop, index, had = start + count, start // size, len(blocks)
        # Only a part-filled block is written again. A fork leaves blocks held ahead behind, so
        # none but the last block with tokens can be shared and written.
        shared = start % size > 0 and pool.ref_counts[blocks[index]] > 1
        source = blocks[index : index + 1] if shared and count else []
        moves = len(source)
        past: list[int] = []
        freed: list[int] = []
        if self.window is not None:
            gone = released_blocks(start, self.window, size)
            past = blocks[held.gone : gone]
            freed = pool.freed_by(past)
        needed = moves + max(0, self._blocks_for(stop, lookahead) - had)
        if needed > pool.num_free + len(freed):
            what = f"append({seq_id!r}, {count} tokens)"
            raise OutOfBlocks(what, needed, pool.num_free + len(freed), self.num_blocks)
        room = 0 if shared and not moves else self._room(had + needed - moves, gone)
        leaving = past + source
        if leaving:
            pool.release(leaving, freed, held.priority)
        try:
            new = pool.next(needed) if needed else []
            growth = Growth(tuple(new), ((source[0], new[0]),) if moves else ()) if needed else NO_GROWTH
            blocks += new[moves:] if moves else new
            named = dict(zip(new[:moves] + blocks[index + moves :], keys, strict=False)) if keys else {}
            events: list[Event] = []
            if self._log is not None:
                events = [changes.Release(seq_id, held.gone, tuple(past), tuple(freed))] if past else []
                events += [changes.CopyOnWrite(seq_id, index, *copy) for copy in growth.copies]
                events.append(changes.Append(seq_id, count, growth.new_blocks[moves:]))
            self._take(seq_id, events, new, (), named)
        except BaseException:
            del blocks[had:]
            if leaving:
                pool.retake(leaving, freed)
            raise
        if moves:
            blocks[index] = new[0]
        if keys:
            held.parent = keys[-1]
        held.num_tokens, held.ids, held.room, held.gone = stop, ids, room, gone
        return growth
