"""The other half of the log: events, applied in order, give the state that they led to."""

from __future__ import annotations

from collections.abc import Sequence

from pagedlab import changes
from pagedlab.changes import Copies, Event, SeqId


class PoolState:
    """What a pool holds, rebuilt from events alone.

    `tables` and `num_tokens` are keyed by sequence; `holders` lists, for each block in use, the
    sequences that hold it, the one that has had it longest first. `cached` are the blocks with a key, held
    or free; `swapped` has the host blocks of those swapped out, which have no table until they are back.

    >>> from pagedlab.changes import Allocate, Append, CopyOnWrite, Fork
    >>> state = PoolState(block_size=4)
    >>> state.apply(Allocate("A", 6, (0, 1)))
    [0, 1]
    >>> state.apply(Fork("A", "B", 6, 2))
    [0, 1]
    >>> state.apply(CopyOnWrite("B", 1, source=1, target=2)), state.apply(Append("B", 1, ()))
    ([1, 2], [2])
    >>> state.tables["B"], state.fill(2), state.holders[0]
    ([0, 2], 3, ['A', 'B'])
    """

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.tables: dict[SeqId, list[int]] = {}
        self.swapped: dict[SeqId, list[int]] = {}
        self.num_tokens: dict[SeqId, int] = {}
        self.holders: dict[int, list[SeqId]] = {}
        self.cached: set[int] = set()
        self._fill: dict[int, int] = {}

    def fill(self, block: int) -> int:
        """Tokens stored in `block`; 0 for one that nobody holds, though it may be `cached`."""
        return self._fill.get(block, 0)

    def apply(self, event: Event) -> list[int]:
        """Change the state by one event; return the blocks whose picture changed."""
        match event:
            case changes.Append(seq_id, tokens, new_blocks):
                self._hold(seq_id, new_blocks)
                self.tables[seq_id].extend(new_blocks)
                return self._store(seq_id, tokens) + [b for b in new_blocks if b not in self._fill]
            case changes.Allocate(seq_id, tokens, blocks):
                self.tables[seq_id] = list(blocks)
                self.num_tokens[seq_id] = 0
                self._hold(seq_id, blocks)
                self._store(seq_id, tokens)
                return [block for block in blocks if block >= 0]
            case changes.CopyOnWrite(seq_id, entry, source, target):
                self.tables[seq_id][entry] = target
                fill = self._fill[source]
                self._drop(seq_id, (source,))
                self._hold(seq_id, (target,))
                self._fill[target] = fill
                return [source, target]
            case changes.Fork(parent_id, child_id, tokens, num_blocks):
                shared = self.tables[parent_id][:num_blocks]
                self.tables[child_id] = shared
                self.num_tokens[child_id] = tokens
                return self._hold(child_id, shared)
            case changes.Release(seq_id, entry, blocks):
                self.tables[seq_id][entry : entry + len(blocks)] = [-1] * len(blocks)
                return self._drop(seq_id, blocks)
            case changes.Free(seq_id) | changes.Preempt(seq_id, "recompute"):
                del self.num_tokens[seq_id]
                if self.swapped.pop(seq_id, None) is not None:
                    return []
                return self._drop(seq_id, self.tables.pop(seq_id))
            case changes.Preempt(seq_id, _, _, _, copies):
                return self._swap_out((seq_id,), copies)
            case changes.SwapOut(seq_ids, copies):
                return self._swap_out(seq_ids, copies)
            case changes.SwapIn(seq_ids, copies):
                back, touched = {-1: -1, **dict(copies)}, []
                for seq_id in seq_ids:
                    self.tables[seq_id] = table = [back[block] for block in self.swapped.pop(seq_id)]
                    touched += self._hold(seq_id, table)
                    tokens, self.num_tokens[seq_id] = self.num_tokens[seq_id], 0
                    self._store(seq_id, tokens)
                return touched
            case changes.Cache(_, blocks):
                self.cached.update(blocks)
                return list(blocks)
            case changes.Evict(_, blocks):
                self.cached.difference_update(blocks)
                return list(blocks)
            case changes.CacheHit(_, _, blocks):
                return list(blocks)
            case changes.ResetCache():
                touched = sorted(self.cached)
                self.cached.clear()
                return touched
        raise TypeError(f"not an event: {event!r}")

    def _hold(self, seq_id: SeqId, blocks: Sequence[int]) -> list[int]:
        held = [block for block in blocks if block >= 0]
        for block in held:
            self.holders.setdefault(block, []).append(seq_id)
        return held

    def _drop(self, seq_id: SeqId, blocks: Sequence[int]) -> list[int]:
        dropped = [block for block in blocks if block >= 0]
        for block in dropped:
            self.holders[block].remove(seq_id)
            if not self.holders[block]:
                del self.holders[block]
                self._fill.pop(block, None)
        return dropped

    def _swap_out(self, seq_ids: Sequence[SeqId], copies: Copies) -> list[int]:
        away, touched = {-1: -1, **dict(copies)}, []
        for seq_id in seq_ids:
            table = self.tables.pop(seq_id)
            stored = -(-self.num_tokens[seq_id] // self.block_size)  # blocks held ahead stay behind
            self.swapped[seq_id] = [away[block] for block in table[:stored]]
            touched += self._drop(seq_id, table)
        return touched

    def _store(self, seq_id: SeqId, tokens: int) -> list[int]:
        """Fill slots in token order; return the blocks that were written."""
        size, table = self.block_size, self.tables[seq_id]
        start = self.num_tokens[seq_id]
        stop = self.num_tokens[seq_id] = start + tokens
        written = table[start // size : -(-stop // size)]
        for index, block in enumerate(written, start // size):
            if block >= 0:
                self._fill[block] = min(size, stop - index * size)
        return written
