"""The other half of the log: events, applied in order, give the state that they led to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    >>> state.apply(Allocate("C", 1, (2,)))
    Traceback (most recent call last):
    ValueError: Allocate(seq_id='C', tokens=1, blocks=(2,)) does not follow: block 2 is held by ['B']
    """

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.tables: dict[SeqId, list[int]] = {}
        self.swapped: dict[SeqId, list[int]] = {}
        self.num_tokens: dict[SeqId, int] = {}
        self.holders: dict[int, list[SeqId]] = {}
        self.cached: set[int] = set()
        self._fill: dict[int, int] = {}
        self._found: tuple[SeqId, Sequence[int]] = (None, ())  # by the last prompt that found anything

    def fill(self, block: int) -> int:
        """Tokens stored in `block`; 0 for one that nobody holds, though it may be `cached`."""
        return self._fill.get(block, 0)

    def apply(self, event: Event) -> list[int]:
        """Change the state by one event; return the blocks whose picture changed.

        Raises `ValueError` for an event that cannot follow from those before it: a block handed out twice, or
        given back by one who did not hold it, a token without a slot. The state is of no use after that.
        """
        try:
            return self._apply(event)
        except (LookupError, ValueError) as error:
            what = f"there is no {error} here" if isinstance(error, KeyError) else error
            shown = repr(event)
            raise ValueError(f"{shown[:200]}{'...' * (len(shown) > 200)} does not follow: {what}") from None

    def _apply(self, event: Event) -> list[int]:
        match event:
            case changes.Append(seq_id, tokens, new_blocks):
                self.tables[seq_id].extend(self._take(seq_id, new_blocks))
                return self._store(seq_id, tokens) + [b for b in new_blocks if b not in self._fill]
            case changes.Allocate(seq_id, tokens, blocks):
                held = [block for block in blocks if block >= 0]
                found, self._found = self._found if self._found[0] == seq_id else (seq_id, ()), (None, ())
                hits = len(found[1])
                _require(list(found[1]) == held[:hits], f"its prompt found {found[1]}")
                self._arrive(seq_id, list(blocks))
                self._hold(seq_id, held[:hits])
                self._take(seq_id, held[hits:])
                self._store(seq_id, tokens)
                return held
            case changes.CopyOnWrite(seq_id, entry, source, target):
                _require(self.tables[seq_id][entry] == source, f"entry {entry} is another block")
                fill = self._fill[source]
                self._release(seq_id, (source,), ())
                self._take(seq_id, (target,))
                self.tables[seq_id][entry], self._fill[target] = target, fill
                return [source, target]
            case changes.Fork(parent_id, child_id, tokens, num_blocks):
                shared = self.tables[parent_id][:num_blocks]
                self._arrive(child_id, shared, tokens)
                stored = self.num_tokens[parent_id], -(-tokens // self.block_size)
                _require(stored == (tokens, len(shared)), f"{parent_id!r} stores {stored[0]} tokens")
                return self._hold(child_id, shared)
            case changes.Release(seq_id, entry, blocks, released):
                table, entries = self.tables[seq_id], slice(entry, entry + len(blocks))
                _require(table[entries] == list(blocks), f"these entries are {table[entries]}")
                table[entries] = [-1] * len(blocks)
                return self._release(seq_id, blocks, released)
            case changes.Free(seq_id, released) | changes.Preempt(seq_id, "recompute", _, released):
                del self.num_tokens[seq_id]
                table = [] if self.swapped.pop(seq_id, None) is not None else self.tables.pop(seq_id)
                return self._release(seq_id, table, released)
            case changes.Preempt(seq_id, _, _, released, copies):
                return self._swap_out((seq_id,), copies, released)
            case changes.SwapOut(seq_ids, copies, released):
                return self._swap_out(seq_ids, copies, released)
            case changes.SwapIn(seq_ids, copies):
                back, targets = {-1: -1, **dict(copies)}, [target for _, target in copies]
                self._be_free(targets)
                for seq_id in seq_ids:
                    tokens = self.num_tokens.pop(seq_id)
                    self._arrive(seq_id, [back[block] for block in self.swapped.pop(seq_id)])
                    self._hold(seq_id, self.tables[seq_id])
                    self._store(seq_id, tokens)
                return targets
            case changes.Cache(_, blocks):
                for block in blocks:
                    _require(self._fill[block] == self.block_size, f"block {block} is not full")
                self.cached.update(blocks)
                return list(blocks)
            case changes.Evict(_, blocks):
                for block in blocks:
                    self.cached.remove(block)
                self._be_free(blocks)
                return list(blocks)
            case changes.CacheHit(seq_id, _, blocks):
                _require(self.cached.issuperset(blocks), "not all of them have a key")
                self._found = seq_id, blocks
                return list(blocks)
            case changes.ResetCache():
                touched = sorted(self.cached)
                self.cached.clear()
                self._be_free(touched)
                return touched
        raise TypeError(f"not an event: {event!r}")

    def _arrive(self, seq_id: SeqId, table: list[int], tokens: int = 0) -> None:
        _require(seq_id not in self.num_tokens, f"{seq_id!r} is here already")
        self.tables[seq_id], self.num_tokens[seq_id] = table, tokens

    def _be_free(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            if block in self.holders:
                raise ValueError(f"block {block} is held by {self.holders[block]}")
            if block in self.cached:
                raise ValueError(f"block {block} has a key, and nothing evicted it")

    def _take(self, seq_id: SeqId, blocks: Sequence[int]) -> Sequence[int]:
        """Hand out free blocks."""
        self._be_free(blocks)
        self._hold(seq_id, blocks)
        return blocks

    def _hold(self, seq_id: SeqId, blocks: Sequence[int]) -> list[int]:
        held = [block for block in blocks if block >= 0]
        for block in held:
            holders = self.holders.setdefault(block, [])
            _require(seq_id not in holders, f"it has block {block} twice")
            holders.append(seq_id)
        return held

    def _drop(self, seq_id: SeqId, blocks: Sequence[int]) -> list[int]:
        dropped = [block for block in blocks if block >= 0]
        for block in dropped:
            self.holders[block].remove(seq_id)
            if not self.holders[block]:
                del self.holders[block]
                self._fill.pop(block, None)
        return dropped

    def _release(self, seq_id: SeqId, blocks: Sequence[int], released: Sequence[int]) -> list[int]:
        """Let blocks go, of which nobody else holds the `released`."""
        dropped = self._drop(seq_id, blocks)
        freed = [block for block in dropped if block not in self.holders]
        _require(freed == list(released), f"nobody else holds {freed}")
        return dropped

    def _swap_out(self, seq_ids: Sequence[SeqId], copies: Copies, released: Sequence[int]) -> list[int]:
        away, hosted = {-1: -1, **dict(copies)}, {b for table in self.swapped.values() for b in table}
        _require(hosted.isdisjoint(target for _, target in copies), "host blocks are taken")
        touched: list[int] = []
        for seq_id in seq_ids:
            table = self.tables.pop(seq_id)
            stored = -(-self.num_tokens[seq_id] // self.block_size)  # blocks held ahead stay behind
            self.swapped[seq_id] = [away[block] for block in table[:stored]]
            touched += self._drop(seq_id, table)
        freed = {block for block in touched if block not in self.holders}
        _require(freed == set(released), f"nobody else holds {sorted(freed)}")
        return touched

    def _store(self, seq_id: SeqId, tokens: int) -> list[int]:
        """Fill slots in token order; return the blocks that were written."""
        size, table = self.block_size, self.tables[seq_id]
        start = self.num_tokens[seq_id]
        stop = self.num_tokens[seq_id] = start + tokens
        _require(stop <= len(table) * size, f"{stop} tokens do not fit into its {len(table)} block(s)")
        written = table[start // size : -(-stop // size)]
        for index, block in enumerate(written, start // size):
            if block >= 0:
                self._fill[block] = min(size, stop - index * size)
        return written


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
