"""The manager against its twin, over every sequence of calls that hypothesis can think of."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from twin import Twin

SEQUENCES = st.sampled_from("ABCDE")
GROUPS = st.lists(SEQUENCES, min_size=1, max_size=3, unique=True)
IDS = st.lists(st.integers(0, 1), max_size=14)  # two ids and four-token blocks: prompts often meet


class ManagerMachine(RuleBasedStateMachine):
    @initialize(
        caching=st.booleans(),
        window=st.sampled_from([None, None, 1, 4, 7]),
        watermark=st.sampled_from([0, 0.2]),
        host=st.sampled_from([0, 3, 8]),
    )
    def start(self, caching: bool, window: Any, watermark: float, host: int) -> None:
        self.twin = Twin(
            12, 4, prefix_caching=caching, window=window, watermark=watermark, num_host_blocks=host
        )

    @rule(seq=SEQUENCES, ids=IDS, salt=st.sampled_from([None, None, "s"]), lookahead=st.integers(0, 5))
    def allocate(self, seq: str, ids: list[int], salt: str | None, lookahead: int) -> None:
        self.twin.allocate(seq, ids, salt, lookahead)

    @rule(seq=SEQUENCES, ids=IDS, lookahead=st.integers(0, 5))
    def append(self, seq: str, ids: list[int], lookahead: int) -> None:
        self.twin.append(seq, ids, lookahead)

    @rule(seq=SEQUENCES, ids=IDS)
    def append_one_by_one(self, seq: str, ids: list[int]) -> None:
        for token in ids:
            self.twin.append(seq, [token], 0)

    @rule(parent=SEQUENCES, child=SEQUENCES)
    def fork(self, parent: str, child: str) -> None:
        self.twin.fork(parent, child)

    @rule(seq=SEQUENCES, preempt=st.booleans())
    def free(self, seq: str, preempt: bool) -> None:
        self.twin.free(seq, preempt)

    @rule(seqs=GROUPS, preempt=st.booleans())
    def swap_out(self, seqs: list[str], preempt: bool) -> None:
        self.twin.swap_out(seqs, preempt)

    @rule(seqs=GROUPS)
    def swap_in(self, seqs: list[str]) -> None:
        self.twin.swap_in(seqs)

    @rule()
    def reset(self) -> None:
        self.twin.reset()

    @invariant()
    def all_holds(self) -> None:
        if hasattr(self, "twin"):
            self.twin.check()


ManagerMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestManager = ManagerMachine.TestCase
