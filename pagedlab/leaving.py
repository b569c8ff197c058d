"""Sequences that have to go: freed, preempted, or swapped out to the host until they come back.

    before      A 0 1 2    B 0 1 3          blocks 0 and 1 are shared
    swap_out    A 0 1 2    B 0 1 3          host blocks: four travel, and are shared there too
    swap_in     A 5 6 7    B 5 6 8          wherever there is room, shared again

Every verb of the manager ends in `_commit`: what happens is logged, then comes the last step that can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from pagedlab import changes
from pagedlab.asking import Asking, Away
from pagedlab.changes import Copies, Copy, Event, SeqId
from pagedlab.errors import OutOfBlocks, SwappedSequence

E = TypeVar("E", bound=Event)


class Leaving(Asking):
    """`free`, `preempt`, `swap_out` and `swap_in` of `BlockManager`."""

    def free(self, seq_id: SeqId) -> None:
        """Let the sequence go; blocks that nobody else holds are free again.

        Raises `UnknownSequence`, so freeing twice raises.
        """
        self._leave(seq_id, None if self._log is None else lambda released: changes.Free(seq_id, released))

    def preempt(self, seq_id: SeqId, how: str = "recompute") -> changes.Preempt:
        """Free a sequence ("recompute") or swap it out ("swap"), and say what that costs.

        The event returned is the one that is logged. Raises `UnknownSequence`, `SwappedSequence`, or
        `OutOfBlocks` when the host has no room.
        """
        tokens = self._resident(seq_id).num_tokens
        if how == "recompute":
            event = self._leave(seq_id, lambda released: changes.Preempt(seq_id, how, tokens, released, ()))
            assert event is not None
            return event
        if how == "swap":
            event, _ = self._send_away(
                (seq_id,), lambda released, copies: changes.Preempt(seq_id, how, 0, released, copies)
            )
            return event
        raise ValueError(f'how must be "recompute" or "swap", got {how!r}')

    def swap_out(self, *seq_ids: SeqId) -> list[tuple[int, int]]:
        """Move sequences to the host; returns the copies `(block, host block)` to make.

        Blocks that they share with one another travel once and stay shared; blocks held ahead stay behind.
        Raises `UnknownSequence`, `SwappedSequence`, or `OutOfBlocks` when the host has no room.
        """
        _, copies = self._send_away(
            seq_ids, lambda released, copies: changes.SwapOut(seq_ids, copies, released)
        )
        return copies

    def swap_in(self, *seq_ids: SeqId) -> list[tuple[int, int]]:
        """Bring sequences back, with their keys; returns the copies `(host block, block)` to make.

        Raises `UnknownSequence`, `SwappedSequence` for one that is not away, or `OutOfBlocks`.
        """
        group = [self._get(seq_id) for seq_id in _distinct(seq_ids)]
        for seq_id, held in zip(seq_ids, group, strict=True):
            if held.away is None:
                raise SwappedSequence(seq_id, -1)
        away = [held.away for held in group if held.away is not None]
        key_of = {block: key for there in away for block, key in zip(*there, strict=True) if block >= 0}
        if len(key_of) > self._pool.num_free:
            raise OutOfBlocks(f"swap_in{seq_ids!r}", len(key_of), self._pool.num_free, self.num_blocks)
        new = self._pool.next(len(key_of))
        copies = list(zip(key_of, new, strict=True))
        tables, shared = _moved([there.blocks for there in away], copies)
        filled = [block for host, block in copies if key_of[host] is not None]
        keys = [key for key in key_of.values() if key is not None]
        events: list[Event] = [] if self._log is None else [changes.SwapIn(seq_ids, tuple(copies))]
        settling = zip(group, tables, strict=True)
        leaving = [([block for block in there.blocks if block >= 0], 0) for there in away]
        freed = self._host.release_all(leaving)
        try:
            self._hand_out(seq_ids[0], new, (), filled, keys, events)
        except BaseException:
            self._host.retake_all(leaving, freed)
            raise
        self._pool.share(shared)
        for held, table in settling:
            held.blocks, held.away = table, None
        return copies

    # ---- inside ------------------------------------------------------------------------------

    def _hand_out(
        self,
        seq_id: SeqId,
        new: Sequence[int],
        hits: Sequence[int],
        filled: Sequence[int],
        keys: Sequence[bytes],
        events: list[Event],
    ) -> None:
        """The last step of a call that takes blocks: the log, then the pool."""
        pool = self._pool
        if self._log is None:
            pool.take(new, hits, filled, keys, (seq_id, None))
            return
        evicted = tuple(block for block in new if pool.keys[block] is not None) if pool.keys else ()
        at = isinstance(events[0], changes.CacheHit | changes.Release)
        if evicted:
            events.insert(at, changes.Evict(seq_id, evicted))
        if filled:
            events.append(changes.Cache(seq_id, tuple(filled)))
        self._commit(events, pool.take, new, hits, filled, keys, (seq_id, len(self._log) + at))

    def _commit(self, events: Sequence[Event], last: Callable[..., object], *arguments: object) -> None:
        """Log what happens, then take the last step that can fail."""
        if self._log is None:
            last(*arguments)
            return
        length = len(self._log)
        self._log.extend(events)
        try:
            last(*arguments)
        except BaseException:
            del self._log[length:]
            raise

    def _leave(self, seq_id: SeqId, event: Callable[[Sequence[int]], E] | None) -> E | None:
        """Let a sequence and all that it holds go."""
        held = self._get(seq_id)
        pool, blocks = (self._pool, held.blocks) if held.away is None else (self._host, held.away.blocks)
        blocks = blocks[held.gone :] if held.gone else blocks
        freed = pool.release(blocks, held.priority)
        try:
            happened = event and event(() if held.away else tuple(freed))
            self._commit([happened] if happened else [], self._held.pop, seq_id)
        except BaseException:
            pool.retake(blocks, freed)
            raise
        return happened

    def _send_away(
        self, seq_ids: Sequence[SeqId], event: Callable[[Sequence[int], Copies], E]
    ) -> tuple[E, list[Copy]]:
        """Move sequences to the host; returns what happened, and the copies to make."""
        group = [self._resident(seq_id) for seq_id in _distinct(seq_ids)]
        stored = [held.blocks[: self._blocks_for(held.num_tokens)] for held in group]
        sources = dict.fromkeys(block for table in stored for block in table if block >= 0)
        if len(sources) > self._host.num_free:
            what = f"moving {', '.join(map(repr, seq_ids))} to the host"
            raise OutOfBlocks(what, len(sources), self._host.num_free, self._host.num_blocks)
        targets, keys = self._host.next(len(sources)), self._pool.keys
        copies = list(zip(sources, targets, strict=True))
        tables, shared = _moved(stored, copies)
        away = [
            Away(table, [keys[block] if keys and block >= 0 else None for block in blocks])
            for table, blocks in zip(tables, stored, strict=True)
        ]
        settling = zip(group, away, strict=True)
        leaving = [(held.blocks[held.gone :], held.priority) for held in group]
        freed = self._pool.release_all(leaving)
        try:
            done = event(tuple(block for blocks in freed for block in blocks), tuple(copies)), copies
            self._commit(done[:1], self._host.take, targets)
        except BaseException:
            self._pool.retake_all(leaving, freed)
            raise
        self._host.share(shared)
        for held, there in settling:
            held.away, held.room = there, 0
        return done


def _distinct(seq_ids: Sequence[SeqId]) -> Sequence[SeqId]:
    if not seq_ids or len(set(seq_ids)) < len(seq_ids):
        raise ValueError(f"name the sequences that move, each once; got {seq_ids!r}")
    return seq_ids


def _moved(tables: list[list[int]], copies: Copies) -> tuple[list[list[int]], Iterator[int]]:
    """Tables over the copies of their blocks, and of these every holder after the first."""
    target = {-1: -1, **dict(copies)}
    moved = [[target[block] for block in table] for table in tables]
    seen, again = {-1}, []
    for table in moved:
        again += [block for block in table if block in seen and block >= 0]
        seen.update(table)
    return moved, iter(again)
