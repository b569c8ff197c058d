"""The manager against a model that is too simple to be wrong, over random sequences of calls."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pagedlab import Admission, BlockManager, DuplicateSequence, OutOfBlocks, UnknownSequence

NUM_BLOCKS, BLOCK_SIZE = 12, 4
SEQUENCES = st.sampled_from("ABCDE")
TOKENS = st.integers(0, 14)


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK_SIZE)


class ManagerMachine(RuleBasedStateMachine):
    """Beside the manager: what each sequence has written, and the memory it was written to.

    Every token has an identity, and is stored in its slot as a kernel would store it. If two owners
    ever wrote one slot, or a copy were missing, a sequence would read back somebody else's token.
    """

    def __init__(self) -> None:
        super().__init__()
        self.manager = BlockManager(NUM_BLOCKS, BLOCK_SIZE)
        self.written: dict[str, list[int]] = {}
        self.memory: dict[int, int] = {}
        self.next_token = 0

    # ---- helpers

    def _store(self, seq: str, count: int) -> None:
        start = len(self.written[seq])
        for slot in self.manager.slots(seq, start):
            self.memory[slot] = self.next_token
            self.written[seq].append(self.next_token)
            self.next_token += 1
        assert len(self.written[seq]) == start + count

    def _snapshot(self) -> tuple[object, ...]:
        m = self.manager
        tables = {seq: m.table(seq) for seq in m.sequences}
        counts = tuple(m.ref_count(b) for b in range(NUM_BLOCKS))
        return tables, counts, m.num_free_blocks, len(m.events)

    def _refused(self, error: type[Exception], call: object, *args: object, **kwargs: object) -> None:
        before = self._snapshot()
        with pytest.raises(error):
            call(*args, **kwargs)  # type: ignore[operator]
        assert self._snapshot() == before, "a call that raised changed something"

    # ---- calls

    @rule(seq=SEQUENCES, tokens=TOKENS, lookahead=st.integers(0, 5))
    def allocate(self, seq: str, tokens: int, lookahead: int) -> None:
        admission = self.manager.can_allocate(tokens, lookahead=lookahead)
        needed = _blocks(tokens + lookahead)
        assert (admission is Admission.NEVER) == (needed > NUM_BLOCKS)
        if seq in self.written:
            self._refused(DuplicateSequence, self.manager.allocate, seq, tokens)
        elif admission is not Admission.OK:
            self._refused(OutOfBlocks, self.manager.allocate, seq, tokens, lookahead=lookahead)
        else:
            allocation = self.manager.allocate(seq, tokens, lookahead=lookahead)
            assert allocation.new_blocks == self.manager.table(seq)
            assert len(allocation.new_blocks) == needed
            self.written[seq] = []
            self._store(seq, tokens)

    @rule(seq=SEQUENCES, tokens=TOKENS, lookahead=st.integers(0, 5))
    def append(self, seq: str, tokens: int, lookahead: int) -> None:
        if seq not in self.written:
            self._refused(UnknownSequence, self.manager.append, seq, tokens)
            return
        table, stored = self.manager.table(seq), len(self.written[seq])
        part_filled = stored % BLOCK_SIZE
        moves = bool(tokens and part_filled and self.manager.ref_count(table[stored // BLOCK_SIZE]) > 1)
        needed = max(0, _blocks(stored + tokens + lookahead) - len(table)) + moves
        if needed > self.manager.num_free_blocks:
            self._refused(OutOfBlocks, self.manager.append, seq, tokens, lookahead=lookahead)
            return
        growth = self.manager.append(seq, tokens, lookahead=lookahead)
        assert len(growth.new_blocks) == needed and len(growth.copies) == moves
        for source, target in growth.copies:
            for offset in range(BLOCK_SIZE):
                if source * BLOCK_SIZE + offset in self.memory:
                    self.memory[target * BLOCK_SIZE + offset] = self.memory[source * BLOCK_SIZE + offset]
        self._store(seq, tokens)

    @rule(parent=SEQUENCES, child=SEQUENCES)
    def fork(self, parent: str, child: str) -> None:
        if parent not in self.written:
            self._refused(UnknownSequence, self.manager.fork, parent, child)
        elif child in self.written:
            self._refused(DuplicateSequence, self.manager.fork, parent, child)
        else:
            free = self.manager.num_free_blocks
            self.manager.fork(parent, child)
            assert self.manager.num_free_blocks == free
            self.written[child] = list(self.written[parent])

    @rule(seq=SEQUENCES)
    def free(self, seq: str) -> None:
        if seq not in self.written:
            self._refused(UnknownSequence, self.manager.free, seq)
        else:
            self.manager.free(seq)
            del self.written[seq]

    # ---- what always holds

    @invariant()
    def free_and_held_blocks_add_up(self) -> None:
        held = {b for seq in self.manager.sequences for b in self.manager.table(seq)}
        assert self.manager.num_free_blocks + len(held) == NUM_BLOCKS

    @invariant()
    def reference_counts_are_those_of_the_tables(self) -> None:
        counts = Counter(b for seq in self.manager.sequences for b in self.manager.table(seq))
        assert all(self.manager.ref_count(b) == counts[b] for b in range(NUM_BLOCKS))

    @invariant()
    def every_sequence_reads_back_its_own_tokens(self) -> None:
        for seq, tokens in self.written.items():
            assert [self.memory[slot] for slot in self.manager.slots(seq)] == tokens

    @invariant()
    def the_log_replays_to_the_same_state(self) -> None:
        log = self.manager.events
        state = log.state_at(log.num_steps - 1, BLOCK_SIZE)
        assert {s: tuple(t) for s, t in state.tables.items()} == {
            s: self.manager.table(s) for s in self.manager.sequences
        }
        assert state.num_tokens == {s: self.manager.num_tokens(s) for s in self.manager.sequences}
        held = {block: len(holders) for block, holders in state.holders.items() if holders}
        assert held == {b: self.manager.ref_count(b) for b in range(NUM_BLOCKS) if self.manager.ref_count(b)}

    @precondition(lambda self: self.written)
    @invariant()
    def usage_counts_every_slot_once(self) -> None:
        usage = self.manager.usage()
        stored = {slot for seq in self.manager.sequences for slot in self.manager.slots(seq)}
        assert usage.stored == len(stored)
        assert usage.held == usage.stored + usage.waste.total
        assert usage.held == (NUM_BLOCKS - self.manager.num_free_blocks) * BLOCK_SIZE


ManagerMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestManager = ManagerMachine.TestCase
