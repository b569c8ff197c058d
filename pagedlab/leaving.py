"""Sequences that have to go: freed, preempted, or swapped out to the host until they come back.

before      A 0 1 2    B 0 1 3          blocks 0 and 1 are shared
swap_out    A 0 1 2    B 0 1 3          host blocks: four travel, and are shared there too
swap_in     A 5 6 7    B 5 6 8          wherever there is room, shared again
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TypeVar

from pagedlab import changes
from pagedlab.asking import Asking
from pagedlab.changes import Blocks, Copies, Event, SeqId
from pagedlab.errors import OutOfBlocks
from pagedlab.prefix import Named

E = TypeVar("E", bound=Event)


class Leaving(Asking):
    """`free`, `preempt`, `swap_out` and `swap_in` of `BlockManager`, and how its verbs end."""

    def free(self, seq_id: SeqId) -> None:
        """Let the sequence go; blocks that nobody else holds are free again.

        Raises `UnknownSequence`, so freeing twice raises.
        """
        self._leave(seq_id, None if self._log is None else lambda freed: changes.Free(seq_id, freed))

    def preempt(self, seq_id: SeqId, how: str = "recompute") -> changes.Preempt:
        """Free a sequence ("recompute") or swap it out ("swap"), and say what that costs.

        The event returned is the one that is logged. Raises `UnknownSequence`, `SwappedSequence`, or
        `OutOfBlocks` when the host has no room.
        """
        tokens = self._get(seq_id, away=False).num_tokens
        if how == "recompute":
            event = self._leave(seq_id, lambda freed: changes.Preempt(seq_id, how, tokens, freed, ()))
            assert event is not None
        elif how == "swap":
            event, _ = self._move(
                (seq_id,), True, lambda to, freed: changes.Preempt(seq_id, how, 0, freed, to)
            )
        else:
            raise ValueError(f'how must be "recompute" or "swap", got {how!r}')
        return event

    def swap_out(self, *seq_ids: SeqId) -> list[tuple[int, int]]:
        """Move sequences to the host; returns the copies `(block, host block)` to make.

        Blocks that they share with one another travel once and stay shared; blocks held ahead stay behind.
        Raises `UnknownSequence`, `SwappedSequence`, or `OutOfBlocks` when the host has no room.
        """
        return self._move(seq_ids, True, lambda to, freed: changes.SwapOut(seq_ids, to, freed))[1]

    def swap_in(self, *seq_ids: SeqId) -> list[tuple[int, int]]:
        """Bring sequences back, with their keys; returns the copies `(host block, block)` to make.

        Raises `UnknownSequence`, `SwappedSequence` for one that is not away, or `OutOfBlocks`.
        """
        return self._move(seq_ids, False, lambda to, freed: changes.SwapIn(seq_ids, to))[1]

    # ---- inside ------------------------------------------------------------------------------

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

    def _take(self, seq_id: SeqId, events: list[Event], new: Blocks, hits: Blocks, named: Named) -> None:
        """`_commit` what is taken from the pool, and log who loses a key and who gets one."""
        pool, log = self._pool, self._log
        if log is None:
            pool.take(new, hits, named, (seq_id, None))
            return
        evicted = tuple(block for block in new if pool.keys[block]) if pool.keys else ()
        at = isinstance(events[0], changes.CacheHit | changes.Release)  # these come before
        if evicted:
            events.insert(at, changes.Evict(seq_id, evicted))
        if named:
            events.append(changes.Cache(seq_id, tuple(named)))
        self._commit(events, pool.take, new, hits, named, (seq_id, len(log) + at))

    def _leave(self, seq_id: SeqId, event: Callable[[Blocks], E] | None) -> E | None:
        """Let a sequence and all that it holds go."""
        held = self._get(seq_id)
        pool = self._host if held.away else self._pool
        blocks = held.blocks[held.gone :] if held.gone else held.blocks
        freed = pool.freed_by(blocks)
        happened = event and event(() if held.away else tuple(freed))
        self._commit([happened] if happened else [], pool.release, blocks, freed, held.priority)
        del self._held[seq_id]
        return happened

    def _move(
        self, seq_ids: Sequence[SeqId], away: bool, event: Callable[[Copies, Blocks], E]
    ) -> tuple[E, list[tuple[int, int]]]:
        """Move sequences to the host (`away`) or back: what happened, and the copies to make."""
        if not seq_ids or len(set(seq_ids)) < len(seq_ids):
            raise ValueError(f"name the sequences that move, each once; got {seq_ids!r}")
        group = [self._get(seq_id, away=not away) for seq_id in seq_ids]
        source, target = (self._pool, self._host) if away else (self._host, self._pool)
        tables = [held.blocks[held.gone :] for held in group]
        stored = [held.blocks[held.gone : self._blocks_for(held.num_tokens)] for held in group]
        holders = Counter(chain.from_iterable(stored))
        if len(holders) > target.num_free:
            what = f"moving {', '.join(map(repr, seq_ids))} {'to' if away else 'from'} the host"
            raise OutOfBlocks(what, len(holders), target.num_free, target.num_blocks)
        copies = list(zip(holders, target.next(len(holders)), strict=True))
        there, new = dict(copies), [block for _, block in copies]
        named = {to: key for old, to in copies if (key := source.keys[old])} if source.keys else {}
        moved = [[-1] * held.gone + [there[b] for b in old] for held, old in zip(group, stored, strict=True)]
        leaving, freed = list(chain.from_iterable(tables)), source.freed_by(*tables)
        done = event(tuple(copies), tuple(freed)), copies
        shared = iter([there[block] for block in (holders - Counter(list(holders))).elements()])
        settling = zip(group, moved, strict=True)
        source.release(leaving, freed, max(held.priority for held in group))
        try:
            if away:
                self._commit(done[:1], target.take, new, (), named)
            else:
                self._take(seq_ids[0], [done[0]], new, (), named)
        except BaseException:
            source.retake(leaving, freed)
            raise
        target.share(shared)
        for held, blocks in settling:
            held.blocks, held.away, held.room = blocks, away, 0
        return done
