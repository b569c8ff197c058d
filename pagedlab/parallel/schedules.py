"""Who decides the steps: schedulers that drive a real block manager.

`RandomSchedule` admits, grows, forks, frees and preempts at random, by a seed: the hardest batch to keep in
step with. `ServingSchedule` takes the steps of a served workload. Both are deterministic, so two of them in
two processes decide the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from pagedlab import serving
from pagedlab.errors import OutOfBlocks
from pagedlab.manager import BlockManager
from pagedlab.parallel.tables import Row, Step
from pagedlab.policies import Rules
from pagedlab.workloads import Workload


class RandomSchedule:
    """Steps of up to `max_seqs` sequences in a pool that is too small for them now and then.

    >>> schedule = RandomSchedule(seed=0, num_blocks=32, block_size=4)
    >>> first = next(schedule)
    >>> {name: (row.start, row.stop) for name, row in first.rows.items()}
    {'0': (0, 25)}
    """

    def __init__(self, seed: int, num_blocks: int, block_size: int, max_seqs: int = 8) -> None:
        self.manager = BlockManager(num_blocks, block_size, record=False)
        self.counts = dict.fromkeys(("allocated", "forked", "copied", "freed", "preempted"), 0)
        self._random = random.Random(seed)
        self._max_seqs = max_seqs
        self._longest = max(2, num_blocks * block_size // 4)
        self._known: dict[str, int] = {}  # tokens of each running sequence when its last step ended
        self._waiting: list[tuple[str, int]] = []  # preempted: (name, tokens to compute anew)
        self._named = 0

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        for name, tokens in list(self._known.items()):
            if self._random.random() < 0.05 or tokens > 2 * self._longest:
                self._leave(name, "freed")
        starts = dict(self._known)
        if starts and self._random.random() < 0.2 and len(starts) < self._max_seqs:
            parent, child = self._random.choice(list(starts)), self._name()
            self.manager.fork(parent, child)
            self.counts["forked"] += 1
            starts[child] = self._known[child] = self._known[parent]
        copies = [pair for name in list(starts) for pair in self._grow(name, starts)]
        if not self._waiting and (not starts or self._random.random() < 0.3):
            self._waiting.append((self._name(), self._random.randint(1, self._longest)))
        while self._waiting and len(starts) < self._max_seqs and self._admit(*self._waiting[0]):
            starts[self._waiting.pop(0)[0]] = 0
        rows = {name: Row(self.manager.table(name), starts[name], self._known[name]) for name in starts}
        return Step(rows, tuple(copies))

    def _name(self) -> str:
        self._named += 1
        return str(self._named - 1)

    def _grow(self, name: str, starts: dict[str, int]) -> list[tuple[int, int]]:
        """Store one more token of `name`; the newest give way until there is room for it."""
        while name in starts:
            try:
                copies = list(self.manager.append(name).copies)
            except OutOfBlocks:
                newest = list(starts)[-1]
                del starts[newest]
                self._waiting.insert(0, (newest, self._known[newest]))
                self._leave(newest, "preempted")
            else:
                self._known[name] += 1
                self.counts["copied"] += len(copies)
                return copies
        return []

    def _admit(self, name: str, tokens: int) -> bool:
        try:
            self.manager.allocate(name, tokens)
        except OutOfBlocks:
            return False
        self._known[name] = tokens
        self.counts["allocated"] += 1
        return True

    def _leave(self, name: str, how: str) -> None:
        self.manager.free(name)
        del self._known[name]
        self.counts[how] += 1


class ServingSchedule:
    """The steps of a served workload, one batch of at most `max_seqs` requests each.

    `num_slots` is the pool; by default it holds the batch at the workload's longest request.
    """

    def __init__(
        self, workload: Workload, block_size: int, max_seqs: int, num_slots: int | None = None
    ) -> None:
        if num_slots is None:
            num_slots = (int(workload.stored.max()) + block_size) * max_seqs
        rules = Rules(max_seqs=max_seqs)
        self._run = serving.start(workload, num_slots=num_slots, block_size=block_size, rules=rules)
        self._stored: dict[str, int] = {}

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        if self._run.complete:
            raise StopIteration
        self._run.step()
        manager = self._run.manager
        assert isinstance(manager, BlockManager)
        rows = {}
        for request in self._run.running:
            name, stored = str(request.id), manager.num_tokens(request.id)
            before = self._stored.get(name, 0)
            rows[name] = Row(manager.table(request.id), 0 if before >= stored else before, stored)
        self._stored = {name: row.stop for name, row in rows.items()}
        return Step(rows)
