"""A manager beside a model that is too simple to be wrong; every call goes to both.

Each slot of the model's memory holds what a kernel would have written there: a number made of the token, of
all tokens before it and of the salt. If two owners ever wrote one slot, a copy were missing, or a prompt
found the wrong block, some sequence would read back a number that is not its own.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from pagedlab import (
    Admission,
    BlockManager,
    CacheInUse,
    DuplicateSequence,
    OutOfBlocks,
    SwappedSequence,
    UnknownSequence,
    changes,
    released_blocks,
)
from pagedlab.events import PoolState

REFUSALS = (OutOfBlocks, UnknownSequence, DuplicateSequence, SwappedSequence, CacheInUse)


class Twin:
    def __init__(self, num_blocks: int, block_size: int, **options: Any) -> None:
        self.manager = BlockManager(num_blocks, block_size, **options)
        self.size, self.window = block_size, options.get("window")
        self.caching = options.get("prefix_caching", False)
        self.kept = int(options.get("watermark", 0) * num_blocks)
        self.written: dict[Any, list[int]] = {}
        self.salts: dict[Any, int] = {}
        self.away: dict[Any, list[int]] = {}
        self.memory: dict[int, int] = {}
        self.host: dict[int, int] = {}
        self.state = PoolState(block_size)
        self.queue = list(range(num_blocks))  # free blocks, the next to go out first
        self.seen = 0

    # ---- the model

    def _numbers(self, before: int, ids: list[int]) -> list[int]:
        numbers = []
        for token in ids:
            before = hash((before, token))
            numbers.append(before)
        return numbers

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.size)

    def _gone(self, computed: int) -> int:
        return released_blocks(computed, self.window, self.size) if self.window else 0

    def _hit(self, numbers: list[int]) -> int:
        """Blocks that a prompt should find, by looking at the memory of every cached block."""
        if not self.caching:
            return 0
        m, size = self.manager, self.size
        there = {self.memory[b * size + size - 1] for b in range(m.num_blocks) if m.is_cached(b)}
        full = max(0, len(numbers) - 1) // size
        known = [numbers[(i + 1) * size - 1] in there for i in range(full)]
        fits = [n for n in range(1, full + 1) if known[n - 1] and all(known[self._gone(n * size) : n])]
        return max(fits, default=0)

    def _store(self, seq: Any, numbers: list[int], computed: int) -> None:
        m, before = self.manager, len(self.written[seq])
        self.written[seq] += numbers
        for index, slot in enumerate(m.slots(seq, before), before):
            if index >= computed:
                assert slot >= 0 and m.ref_count(slot // self.size) == 1, "a shared block is written"
                self.memory[slot] = self.written[seq][index]

    def _snapshot(self) -> Any:
        m = self.manager
        return (
            {seq: None if seq in self.away else m.table(seq) for seq in m.sequences},
            {seq: m.num_tokens(seq) for seq in m.sequences},
            tuple(m._pool.ref_counts),
            tuple(m._pool.keys),
            m._pool.next(m.num_free_blocks),
            m.num_free_host_blocks,
            len(m.events),
        )

    def refused(
        self, error: type[Exception] | tuple[type[Exception], ...], call: Any, *args: Any, **kw: Any
    ) -> None:
        before = self._snapshot()
        try:
            call(*args, **kw)
        except error:
            assert self._snapshot() == before, "a call that raised changed something"
        else:
            raise AssertionError(f"{call} of {args} {kw} should have raised {error}")

    # ---- calls

    def allocate(self, seq: Any, ids: list[int], salt: str | None, lookahead: int) -> None:
        m = self.manager
        tokens = ids if self.caching else len(ids)
        options = {"salt": salt, "lookahead": lookahead}
        admission = m.can_allocate(tokens, **options)
        numbers = self._numbers(hash(salt), ids)
        hit, needed = self._hit(numbers), self._blocks(len(ids) + lookahead)
        if seq in self.written:
            return self.refused(DuplicateSequence, m.allocate, seq, tokens, **options)
        if admission is not Admission.OK:
            assert (admission is Admission.NEVER) == (needed > m.num_blocks - self.kept)
            return self.refused(OutOfBlocks, m.allocate, seq, tokens, **options)
        if self.caching:
            match = m.match(tokens, salt=salt)
            assert match.num_cached_tokens == hit * self.size
        allocation = m.allocate(seq, tokens, **options)
        assert allocation.num_cached_tokens == hit * self.size
        assert len(allocation.new_blocks) == needed - hit and len(m.table(seq)) == needed
        assert m.num_free_blocks >= self.kept
        self.written[seq], self.salts[seq] = [], hash(salt)
        self._store(seq, numbers, allocation.num_cached_tokens)

    def append(self, seq: Any, ids: list[int], lookahead: int) -> None:
        m = self.manager
        tokens: Any = ids if self.caching else len(ids)
        if seq not in self.written:
            return self.refused(UnknownSequence, m.append, seq, tokens)
        if seq in self.away:
            return self.refused(SwappedSequence, m.append, seq, tokens)
        table, stored = m.table(seq), len(self.written[seq])
        moves = bool(ids and stored % self.size and m.ref_count(table[stored // self.size]) > 1)
        needed = max(0, self._blocks(stored + len(ids) + lookahead) - len(table)) + moves
        past = [b for b in table[: self._gone(stored)] if b >= 0 and m.ref_count(b) == 1]
        if needed > m.num_free_blocks + len(past):
            return self.refused(OutOfBlocks, m.append, seq, tokens, lookahead=lookahead)
        growth = m.append(seq, tokens, lookahead=lookahead)
        assert len(growth.new_blocks) == needed and len(growth.copies) == moves
        for source, target in growth.copies:
            self._copy(self.memory, source, self.memory, target)
        before = self.written[seq][-1] if self.written[seq] else self.salts[seq]
        self._store(seq, self._numbers(before, ids), stored)

    def fork(self, parent: Any, child: Any) -> None:
        m = self.manager
        if parent not in self.written:
            return self.refused(UnknownSequence, m.fork, parent, child)
        if parent in self.away:
            return self.refused(SwappedSequence, m.fork, parent, child)
        if child in self.written:
            return self.refused(DuplicateSequence, m.fork, parent, child)
        free = m.num_free_blocks
        m.fork(parent, child)
        assert m.num_free_blocks == free
        self.written[child] = list(self.written[parent])
        self.salts[child] = self.salts[parent]

    def free(self, seq: Any, preempt: bool = False) -> None:
        m = self.manager
        if seq not in self.written:
            return self.refused(UnknownSequence, m.free, seq)
        if preempt and seq in self.away:
            return self.refused(SwappedSequence, m.preempt, seq)
        if preempt:
            assert m.preempt(seq).tokens == len(self.written[seq])
        else:
            m.free(seq)
        del self.written[seq]
        self.away.pop(seq, None)

    def swap_out(self, seqs: list[Any], preempt: bool = False) -> None:
        m = self.manager
        if any(seq not in self.written for seq in seqs):
            return self.refused((UnknownSequence, SwappedSequence), m.swap_out, *seqs)
        if any(seq in self.away for seq in seqs):
            return self.refused((SwappedSequence, OutOfBlocks), m.swap_out, *seqs)
        tables = {seq: m.table(seq)[: self._blocks(len(self.written[seq]))] for seq in seqs}
        distinct = {block for table in tables.values() for block in table if block >= 0}
        if len(distinct) > m.num_free_host_blocks:
            return self.refused(OutOfBlocks, m.swap_out, *seqs)
        copies = m.preempt(seqs[0], how="swap").copies if preempt and len(seqs) == 1 else m.swap_out(*seqs)
        assert {source for source, _ in copies} == distinct and len(copies) == len(distinct)
        for source, target in copies:
            self._copy(self.memory, source, self.host, target)
        there = {-1: -1, **dict(copies)}
        self.away |= {seq: [there[block] for block in table] for seq, table in tables.items()}

    def swap_in(self, seqs: list[Any]) -> None:
        m = self.manager
        if any(seq not in self.written for seq in seqs):
            return self.refused((UnknownSequence, SwappedSequence), m.swap_in, *seqs)
        if any(seq not in self.away for seq in seqs):
            return self.refused(SwappedSequence, m.swap_in, *seqs)
        distinct = {block for seq in seqs for block in self.away[seq] if block >= 0}
        if len(distinct) > m.num_free_blocks:
            return self.refused(OutOfBlocks, m.swap_in, *seqs)
        copies = m.swap_in(*seqs)
        assert len(copies) == len(distinct)
        for source, target in copies:
            self._copy(self.host, source, self.memory, target)
        back = {-1: -1, **dict(copies)}
        for seq in seqs:
            assert list(m.table(seq)) == [back[block] for block in self.away.pop(seq)]

    def reset(self) -> None:
        m = self.manager
        held = {b for seq in self.written if seq not in self.away for b in m.table(seq) if b >= 0}
        away = any(count and key for count, key in zip(m._host.ref_counts, m._host.keys, strict=False))
        if self.caching and (away or any(m.is_cached(block) for block in held)):
            return self.refused(CacheInUse, m.reset_cache)
        m.reset_cache()
        assert not any(m.is_cached(block) for block in range(m.num_blocks))

    def _copy(self, source: dict[int, int], block: int, target: dict[int, int], to: int) -> None:
        for offset in range(self.size):
            if block * self.size + offset in source:
                target[to * self.size + offset] = source[block * self.size + offset]

    # ---- what always holds

    def follow(self) -> None:
        """Replay the new events, on the pool's state and on a plain list of free blocks."""
        for event in self.manager.events[self.seen :]:
            match event:
                case (
                    changes.Free(_, released)
                    | changes.Preempt(_, _, _, released)
                    | changes.SwapOut(_, _, released)
                ):
                    self._freed(released)
                case changes.Release(_, _, _, released):
                    self._freed(released)
                case changes.Allocate(_, _, blocks) | changes.Append(_, _, blocks):
                    self._taken(blocks)
                case changes.CopyOnWrite(_, _, _, target):
                    self._taken([target])
                case changes.SwapIn(_, copies):
                    self._taken([block for _, block in copies])
                case changes.CacheHit(_, _, blocks):
                    self.queue = [block for block in self.queue if block not in blocks]
            self.state.apply(event)
        self.seen = len(self.manager.events)

    def _freed(self, blocks: Any) -> None:
        self.queue[:0] = [b for b in reversed(blocks) if b not in self.state.cached]
        self.queue += [b for b in reversed(blocks) if b in self.state.cached]

    def _taken(self, blocks: Any) -> None:
        new = [block for block in blocks if block in self.queue]
        assert new == self.queue[: len(new)], "blocks went out in another order"
        del self.queue[: len(new)]

    def check(self) -> None:
        m, size = self.manager, self.size
        self.follow()
        here = {seq: m.table(seq) for seq in self.written if seq not in self.away}
        counts = Counter(block for table in here.values() for block in table if block >= 0)
        assert set(m.sequences) == set(self.written)
        assert m.num_free_blocks + len(counts) == m.num_blocks
        assert [m.ref_count(b) for b in range(m.num_blocks)] == [counts[b] for b in range(m.num_blocks)]
        hosted = Counter(block for table in self.away.values() for block in table if block >= 0)
        assert m.num_free_host_blocks + len(hosted) == m._host.num_blocks
        assert all(m._host.ref_counts[block] == count for block, count in hosted.items())
        for seq, table in here.items():
            assert [self.memory[s] for s in m.slots(seq) if s >= 0] == [
                number for number, s in zip(self.written[seq], m.slots(seq), strict=True) if s >= 0
            ]
            assert all(block >= 0 for block in table[self._gone(len(self.written[seq])) :])
            if self.caching:
                assert all(m.is_cached(b) for b in table[: len(self.written[seq]) // size] if b >= 0)
        state = self.state
        assert {seq: tuple(table) for seq, table in state.tables.items()} == here
        assert state.swapped == self.away
        assert state.num_tokens == {seq: len(numbers) for seq, numbers in self.written.items()}
        assert {block: len(holders) for block, holders in state.holders.items()} == counts
        assert state.cached == {block for block in range(m.num_blocks) if m.is_cached(block)}
        assert m._pool.next(m.num_free_blocks) == self.queue
        usage = m.usage()
        stored = {slot for seq in here for slot in m.slots(seq) if slot >= 0}
        assert usage.stored == len(stored) and usage.held == usage.stored + usage.waste.total
        assert usage.held == len(counts) * size and usage.blocks_shared == sum(c > 1 for c in counts.values())
        assert usage.blocks_in_use == sum(1 for b in range(m.num_blocks) if state.holders.get(b))
