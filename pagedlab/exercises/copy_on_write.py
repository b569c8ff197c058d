"""The exercise `copy-on-write`: sequences that share blocks until one of them writes."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from pagedlab.exercises import scripts
from pagedlab.exercises.report import Arguments, Check, Exercise, Misconception
from pagedlab.exercises.solutions.copy_on_write import CopyOnWrite

_wrong = partial(scripts.wrong, CopyOnWrite)


def _forked(rng: random.Random, part: int, calls: list[scripts.Call]) -> Arguments:
    """Sequence a with `part` tokens in its last block, then `calls`."""
    block_size = rng.randint(3, 6)
    tokens = block_size * rng.randint(1, 3) + part
    return rng.randint(8, 11), block_size, [["allocate", "a", tokens], *calls]


def _writers(rng: random.Random) -> Arguments:
    first, second = rng.sample(["a", "b"], 2)
    calls = [["fork", "a", "b"], ["append", first], ["append", second], ["append", first]]
    return _forked(rng, rng.randint(1, 2), calls)


def _boundary(rng: random.Random) -> Arguments:
    names = rng.sample(["a", "b", "c"], 3)
    return _forked(rng, 0, [["fork", "a", "b"], ["fork", "b", "c"], *[["append", name] for name in names]])


def _three(rng: random.Random) -> Arguments:
    names = rng.sample(["a", "b", "c"], 3)
    return _forked(rng, 1, [["fork", "a", "b"], ["fork", "a", "c"], *[["append", name] for name in names]])


def _leaving(rng: random.Random) -> Arguments:
    first, second = rng.sample(["a", "b"], 2)
    calls: list[scripts.Call] = [["fork", "a", "b"], ["free", first], ["allocate", "c", 9]]
    return _forked(rng, 1, [*calls, ["append", second], ["append", second]])


def _full(rng: random.Random) -> Arguments:
    block_size = rng.randint(3, 5)
    tokens = block_size + 1
    calls: list[scripts.Call] = [["allocate", "a", tokens], ["fork", "a", "b"], ["allocate", "c", block_size]]
    calls += [["append", "b"], ["free", "c"], *[["append", "b"]] * (block_size - 1)]  # then b is full
    return 3, block_size, [*calls, ["fork", "x", "y"]]


def _life(rng: random.Random) -> Arguments:
    verbs = ("allocate", "append", "append", "append", "append", "fork", "fork", "free")
    return rng.randint(10, 24), rng.randint(2, 5), scripts.life(rng, verbs, 60, 12)


class _CopiesFullBlocks(CopyOnWrite):
    def append(self, seq: str) -> Any:
        table = self.tables[seq]
        if self.lengths[seq] % self.block_size or self.holders[table[-1]] == 1:
            return super().append(seq)
        new, after = self.take(2)
        copies = [(table[-1], new)]
        self.give_back([table[-1]])
        table[-1:] = [new, after]
        self.lengths[seq] += 1
        return copies


class _CopiesTheTable(CopyOnWrite):
    def append(self, seq: str) -> Any:
        if not self.must_copy(seq):
            return super().append(seq)
        old = self.tables[seq]
        self.tables[seq] = self.take(len(old))
        self.give_back(old)
        self.lengths[seq] += 1
        return list(zip(old, self.tables[seq], strict=True))


class _MovesTheOthers(CopyOnWrite):
    def append(self, seq: str) -> Any:
        if not self.must_copy(seq):
            return super().append(seq)
        shared, new = self.tables[seq][-1], self.take(1)[0]
        for name, table in self.tables.items():
            if name != seq and table[-1] == shared:
                table[-1] = new
        self.holders[new] = self.holders[shared] - 1
        self.holders[shared] = 1
        self.lengths[seq] += 1
        return [(shared, new)]


class _CopiesAtTheFork(CopyOnWrite):
    def fork(self, parent: str, child: str) -> None:
        self.tables[child] = self.take(len(self.tables[parent]))
        self.lengths[child] = self.lengths[parent]


class _FreesWhatOthersHold(CopyOnWrite):
    def free(self, seq: str) -> None:
        self.free_blocks += self.tables.pop(seq)
        del self.lengths[seq]


class _NeverLetsGo(CopyOnWrite):
    def append(self, seq: str) -> Any:
        copies = super().append(seq)
        for src, _ in copies:
            self.holders[src] += 1
        return copies


class _CountsWhatItRefused(CopyOnWrite):
    def append(self, seq: str) -> Any:
        try:
            return super().append(seq)
        except MemoryError:
            self.lengths[seq] += 1
            raise


class _SharesTheList(CopyOnWrite):
    def fork(self, parent: str, child: str) -> None:
        super().fork(parent, child)
        self.tables[child] = self.tables[parent]


EXERCISE = Exercise(
    name="copy-on-write",
    hints=(
        "After a fork, who would notice if the child wrote its next token into the block that both hold?",
        "Count the holders of each block. A fork copies the table, not the blocks, and adds a holder to "
        "each. A block goes back to the pool when its last holder leaves.",
        "append: if the last block is part filled and has another holder, take a new block, put it last in "
        "the writer's table, drop one holder of the old one, and return [(old, new)]. If it is full, take a "
        "block as before. Else write in place. The last two return [].",
    ),
    checks=(
        Check("two writers after a fork", _writers),
        Check("a fork at the end of a block", _boundary),
        Check("three that share one block", _three),
        Check("one of two leaves", _leaving),
        Check("no block is left for a copy", _full),
        Check("a long life", _life),
    ),
    reference=CopyOnWrite,
    misconceptions=(
        Misconception(
            "the writer wrote into a block that another sequence holds too",
            _wrong(must_copy=lambda self, seq: False),
        ),
        Misconception(
            "a block with a single holder is written in place, without a copy",
            _wrong(must_copy=lambda self, seq: self.lengths[seq] % self.block_size != 0),
        ),
        Misconception(
            "a full block is never written again, so it stays shared: only a part-filled one is copied",
            _CopiesFullBlocks,
        ),
        Misconception("only the last block is written, so only that one is copied", _CopiesTheTable),
        Misconception(
            "a copy is (from, to): the shared block first, the new one second",
            _wrong(append=lambda self, seq: [(dst, src) for src, dst in CopyOnWrite.append(self, seq)]),
        ),
        Misconception("the writer moves to the new block; the others keep theirs", _MovesTheOthers),
        Misconception("a fork copies no block: parent and child hold the same ones", _CopiesAtTheFork),
        Misconception(
            "a block goes back to the pool when its last holder frees it, not its first",
            _FreesWhatOthersHold,
            scripts.orders(_FreesWhatOthersHold),
        ),
        Misconception(
            "who has moved to a copy holds the old block no longer: its last holder writes in place",
            _NeverLetsGo,
        ),
        Misconception(
            "parent and child hold the same blocks, but each has a list of its own to grow", _SharesTheList
        ),
        Misconception(
            "append counted the token before it had a slot: after MemoryError nothing may have changed",
            _CountsWhatItRefused,
        ),
        Misconception(
            "append returns [] when nothing is copied, not None",
            _wrong(append=lambda self, seq: CopyOnWrite.append(self, seq) or None),
        ),
    ),
    drive=scripts.drive,
    view=scripts.view,
    alike=scripts.alike,
    valid=scripts.valid,
    differ=scripts.differ,
    forms=("lists",),
)
