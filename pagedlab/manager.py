"""The block manager: which blocks hold which tokens of which sequence.

A sequence's tokens are cut into blocks of `block_size` slots. Its *block table* lists the physical
block of each, in token order, so the blocks may lie anywhere in the pool:

    tokens of A   0 1 2 3 | 4 5 6 7 | 8 9        block_size 4
    table of A       7    |    2    |  5         token 9 is in block 5, slot 5 * 4 + 1 = 21

Sequences share blocks by reference: a fork those of its parent, a prompt those that hold its beginning.
Whoever writes first into a shared, part-filled block moves to a copy of it (copy-on-write). The manager moves
integers only and returns the copies to make.

The design is PagedAttention's (Kwon et al., SOSP 2023); the order in which blocks go out and the prefix cache
are those of vLLM's block pool; `POLICIES.md` says where managers differ. Every call does all it says or
changes nothing: it plans, lets `_commit` change log and pool, and ends with steps that cannot fail, since
they need no memory: assignments, and loops over iterators that were made before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from pagedlab import changes
from pagedlab.asking import Allocation, Asking, Growth, Held, released_blocks
from pagedlab.changes import Blocks, Copies, Copy, Event, SeqId, SeqIds
from pagedlab.errors import CacheInUse, DuplicateSequence, OutOfBlocks
from pagedlab.eviction import DEFAULT_PRIORITY, HIGHEST_PRIORITY
from pagedlab.inputs import Tokens, at_least, count_of, ids_of, one_of
from pagedlab.prefix import REMEMBERED, Named, first_parent, keys_of

E = TypeVar("E", bound=Event)
NO_GROWTH = Growth((), ())


class BlockManager(Asking):
    """Block tables of many sequences over one pool of `num_blocks` blocks of `block_size` slots.

    `prefix_caching` lets prompts find blocks that hold their beginning; it needs token ids, where otherwise a
    count will do. Of `window` tokens, the current one included, only those blocks are kept that a later token
    looks at. `int(watermark * num_blocks)` blocks stay free at admission. `num_host_blocks` are for swapped
    sequences. `eviction` orders cached blocks that nobody holds (`pagedlab.eviction`). `record` keeps events.

    A call raises `OutOfBlocks` when it needs more blocks than are free, `UnknownSequence` or
    `DuplicateSequence` for a sequence that must be here, or must not, `SwappedSequence` for one on the wrong
    side, `TypeError` or `ValueError` for an argument that cannot be; and then nothing has changed.

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

        Blocks of that content, cached with the same `salt`, are shared. The eviction policy gets `priority`.
        """
        if seq_id in self._held:
            raise DuplicateSequence(seq_id, len(self._held[seq_id].blocks))
        if at_least(0, priority, "priority") > HIGHEST_PRIORITY:
            raise ValueError(f"priority must be at most {HIGHEST_PRIORITY}, got {priority}")
        pool, parent = self._pool, first_parent(salt)
        count, ids, keys, found, hits, needed, taken = self._look_up(tokens, parent, lookahead)
        if taken > pool.num_free - self._kept_free:
            what = f"allocate({seq_id!r}, {count} tokens)"
            raise OutOfBlocks(what, taken, pool.num_free, self.num_blocks, self._kept_free)
        if len(pool.index.parents) < REMEMBERED:
            pool.index.parents.add(parent)
        hit, gone = len(found), len(found) - len(hits)
        new = pool.next(needed - hit, hits)
        blocks, allocation = found + new, Allocation(tuple(new), hit * self.block_size)
        events: list[Event] = [changes.CacheHit(seq_id, hit * self.block_size, tuple(hits))] if hit else []
        events.append(changes.Allocate(seq_id, count, tuple(blocks)))
        named = dict(zip(blocks[hit:], keys[hit:], strict=False))
        one_more, last, room = changes.Append(seq_id, 1, ()), (keys or [parent])[-1], self._room(blocks, gone)
        self._held[seq_id] = Held(blocks, count, ids, last, int(priority), one_more, gone, room)
        try:
            self._take(seq_id, events, new, hits, named)
        except BaseException:
            del self._held[seq_id]
            raise
        return allocation

    def append(self, seq_id: SeqId, tokens: Tokens = 1, *, lookahead: int = 0) -> Growth:
        """Store `tokens` more tokens, with room for `lookahead` after them.

        A shared block is never written: its first writer moves to a new one, by the copy that is returned.
        """
        held = self._held.get(seq_id)
        if type(tokens) is tuple or type(tokens) is list:
            one = len(tokens) == 1
        else:
            one = type(tokens) is int and tokens == 1
        if held is None or not one or lookahead or held.num_tokens >= held.room:
            return self._grow(seq_id, tokens, lookahead)
        # The common step: one token, and its slot is there.
        ids, stop = held.ids, held.num_tokens + 1
        try:
            if ids is not None:
                ids.append(tokens[0])  # type: ignore[index]
                if len(ids) == self.block_size:
                    (key,), rest = keys_of(held.parent, ids, self.block_size)
                    full = held.blocks[held.num_tokens // self.block_size]
                    filled = (held.one_more, changes.Cache(seq_id, (full,))) if self._record else ()
                    self._commit(filled, self._pool.name, full, key)
                    held.parent, held.num_tokens, held.ids = key, stop, rest
                    return NO_GROWTH
            if self._record:
                self.events.append(held.one_more)
        except BaseException:
            if ids is not None:
                del ids[held.num_tokens % self.block_size :]
                ids_of(tokens)  # says what is wrong with them
            raise
        held.num_tokens = stop
        return NO_GROWTH

    def fork(self, parent_id: SeqId, child_id: SeqId) -> None:
        """Let a new sequence share every block that holds tokens of `parent_id`: no memory, no copy."""
        parent = self._get(parent_id, away=False)
        if child_id in self._held:
            raise DuplicateSequence(child_id, len(self._held[child_id].blocks))
        tokens, blocks = parent.num_tokens, parent.blocks[: self._blocks_for(parent.num_tokens)]
        ids, one_more = None if parent.ids is None else parent.ids[:], changes.Append(child_id, 1, ())
        child = Held(blocks, tokens, ids, parent.parent, parent.priority, one_more, parent.gone)
        shared = iter(blocks[parent.gone :])
        events = [changes.Fork(parent_id, child_id, tokens, len(blocks))] if self._record else []
        self._commit(events, self._held.__setitem__, child_id, child)
        self._pool.share(shared)
        parent.room = 0  # its next append must look at the block that is shared now

    def free(self, seq_id: SeqId) -> None:
        """Let the sequence go; blocks that nobody else holds are free again."""
        self._leave(seq_id, lambda freed: changes.Free(seq_id, freed))

    def preempt(self, seq_id: SeqId, how: str = "recompute") -> changes.Preempt:
        """Free a sequence ("recompute") or swap it out ("swap"); the event says what that costs."""
        tokens = self._get(seq_id, away=False).num_tokens
        if one_of(("recompute", "swap"), how, "how") == "recompute":
            return self._leave(seq_id, lambda freed: changes.Preempt(seq_id, how, tokens, freed, ()))
        return self._move((seq_id,), True, lambda to, freed: changes.Preempt(seq_id, how, 0, freed, to))[0]

    def swap_out(self, *seq_ids: SeqId) -> list[Copy]:
        """Move sequences to the host; returns the copies `(block, host block)` to make.

        Blocks that they share with one another travel once and stay shared; blocks held ahead stay behind.
        """
        return self._move(seq_ids, True, lambda to, freed: changes.SwapOut(seq_ids, to, freed))[1]

    def swap_in(self, *seq_ids: SeqId) -> list[Copy]:
        """Bring sequences back, with their keys; returns the copies `(host block, block)` to make."""
        return self._move(seq_ids, False, lambda to, freed: changes.SwapIn(seq_ids, to))[1]

    def reset_cache(self) -> None:
        """Forget every key; free blocks keep their order. Raises `CacheInUse` while one is held."""
        counts, keys = self._pool.ref_counts + self._host.ref_counts, self._pool.keys + self._host.keys
        if held := sum(1 for count, key in zip(counts, keys, strict=True) if count and key is not None):
            raise CacheInUse(f"reset_cache: {held} cached block(s) are held by sequences; free them first")
        self._host.reset()
        self._commit([changes.ResetCache()], self._pool.reset)

    def _grow(self, seq_id: SeqId, tokens: Tokens, lookahead: int) -> Growth:
        """`append`, the long way."""
        held, pool, size = self._get(seq_id, away=False), self._pool, self.block_size
        blocks, start, had, gone = held.blocks, held.num_tokens, len(held.blocks), held.gone
        ids = held.ids
        keys: list[bytes] = []
        if ids is None:
            count = count_of(tokens)
        else:
            more = ids_of(tokens)
            count, (keys, ids) = len(more), keys_of(held.parent, ids + more, size)
        # Only a part-filled block is written again. A fork leaves blocks held ahead behind, so
        # none but the last block with tokens can be shared and written.
        index, stop = start // size, start + count
        shared = start % size > 0 and count > 0 and pool.ref_counts[blocks[index]] > 1
        source = blocks[index : index + shared]
        if self.window is not None:
            gone = released_blocks(start, self.window, size)
        past = blocks[held.gone : gone]
        freed = [block for block in past if pool.ref_counts[block] == 1] if past else []
        needed = shared + max(0, self._blocks_for(stop, lookahead) - had)
        num_free, leaving = pool.num_free + len(freed), past + source
        if needed > num_free:
            raise OutOfBlocks(f"append({seq_id!r}, {count} tokens)", needed, num_free, self.num_blocks)
        last = keys[-1] if keys else held.parent
        if leaving:
            pool.release(leaving, freed, held.priority)
        try:
            new = pool.next(needed) if needed else []
            growth = Growth(tuple(new), ((source[0], new[0]),) if shared else ())
            blocks += new[shared:]
            room = self._room(blocks, gone) if count else held.room
            named = dict(zip(new[:shared] + blocks[index + shared :], keys, strict=False)) if keys else {}
            events: list[Event] = []
            if self._record:
                events = [changes.Release(seq_id, held.gone, tuple(past), tuple(freed))] if past else []
                events += [changes.CopyOnWrite(seq_id, index, *copy) for copy in growth.copies]
                events.append(changes.Append(seq_id, count, growth.new_blocks[shared:]))
            self._take(seq_id, events, new, (), named)
        except BaseException:
            del blocks[had:]
            if leaving:
                pool.retake(leaving, freed)
            raise
        if shared:
            blocks[index] = new[0]
        held.num_tokens, held.ids, held.parent = stop, ids, last
        held.room, held.gone = room, gone
        return growth

    def _leave(self, seq_id: SeqId, event: Callable[[Blocks], E]) -> E:
        """Let a sequence and all that it holds go."""
        held = self._get(seq_id)
        pool, blocks = self._host if held.away else self._pool, held.blocks[held.gone :]
        freed = [block for block in blocks if pool.ref_counts[block] == 1]
        happened = event(() if held.away else tuple(freed))
        self._commit([happened], pool.release, blocks, freed, held.priority)
        del self._held[seq_id]
        return happened

    def _move(
        self, seq_ids: SeqIds, away: bool, event: Callable[[Copies, Blocks], E]
    ) -> tuple[E, list[Copy]]:
        """Move sequences to the host (`away`) or back: what happened, and the copies to make."""
        if not seq_ids or len(set(seq_ids)) < len(seq_ids):
            raise ValueError(f"name the sequences that move, each once; got {seq_ids!r}")
        group = [self._get(seq_id, away=not away) for seq_id in seq_ids]
        source, target = (self._pool, self._host) if away else (self._host, self._pool)
        stored = [held.blocks[held.gone : self._blocks_for(held.num_tokens)] for held in group]
        holders = Counter(block for blocks in stored for block in blocks)
        if len(holders) > target.num_free:
            what = f"moving {', '.join(map(repr, seq_ids))} {'to' if away else 'from'} the host"
            raise OutOfBlocks(what, len(holders), target.num_free, target.num_blocks)
        new = target.next(len(holders))
        there = dict(zip(holders, new, strict=True))
        named = {to: key for old, to in there.items() if (key := source.keys[old]) is not None}
        leaving = [block for held in group for block in held.blocks[held.gone :]]
        freed = [block for block, n in Counter(leaving).items() if source.ref_counts[block] == n]
        freed.sort(key=lambda block: source.keys[block] is None)
        copies, shared = list(there.items()), [there[b] for b, n in holders.items() for _ in range(n - 1)]
        happened = event(tuple(copies), tuple(freed))
        tables = [[-1] * held.gone + [there[b] for b in old] for held, old in zip(group, stored, strict=True)]
        done, sharing, settling = (happened, copies), iter(shared), zip(group, tables, strict=True)
        source.release(leaving, freed, max(held.priority for held in group))
        try:
            if away:
                self._commit([happened], target.take, new, (), named)
            else:
                self._take(seq_ids[0], [happened], new, (), named)
        except BaseException:
            source.retake(leaving, freed)
            raise
        target.share(sharing)
        for held, blocks in settling:
            held.blocks, held.away, held.room = blocks, away, 0
        return done

    def _take(self, seq_id: SeqId, events: list[Event], new: Blocks, hits: Blocks, named: Named) -> None:
        """`_commit` what is taken from the pool, and log who loses a key and who gets one."""
        if not self._record:
            self._pool.take(new, hits, named, (seq_id, None))
            return
        keys, at = self._pool.keys, isinstance(events[0], changes.CacheHit | changes.Release)  # come before
        if evicted := tuple([block for block in new if keys[block] is not None]):
            events.insert(at, changes.Evict(seq_id, evicted))
        if named:
            events.append(changes.Cache(seq_id, tuple(named)))
        self._commit(events, self._pool.take, new, hits, named, (seq_id, len(self.events) + at))

    def _commit(self, events: Sequence[Event], last: Callable[..., object], *arguments: object) -> None:
        """Log what happens, then take the last step that can fail."""
        log, length = self.events.entries, len(self.events.entries)
        log.extend(events if self._record else ())
        try:
            last(*arguments)
        except BaseException:
            del log[length:]
            raise
