"""The exercise `allocator`: tables of blocks for sequences, out of one pool."""

from __future__ import annotations

import random
from functools import partial

from pagedlab.exercises import scripts
from pagedlab.exercises.report import Arguments, Check, Exercise, Misconception
from pagedlab.exercises.solutions.allocator import Allocator

_wrong = partial(scripts.wrong, Allocator)


def _alone(rng: random.Random) -> Arguments:
    block_size = rng.randint(2, 9)
    calls = [["allocate", name, rng.randint(1, 3) * block_size - rng.choice((0, 0, 1))] for name in "abc"]
    return 12, block_size, calls


def _growing(rng: random.Random) -> Arguments:
    block_size = rng.randint(2, 5)
    first = ["allocate", "a", rng.randint(1, block_size)]
    return 9, block_size, [first, *[["append", "a"]] * (3 * block_size)]


def _again(rng: random.Random) -> Arguments:
    block_size, blocks = rng.randint(2, 5), rng.randint(3, 6)
    full = blocks * block_size
    calls = [["allocate", "a", full], ["free", "a"], ["allocate", "b", full - 1]]
    return blocks, block_size, [*calls, ["append", "b"], ["free", "b"], ["allocate", "c", full]]


def _full(rng: random.Random) -> Arguments:
    block_size, blocks = rng.randint(2, 5), rng.randint(4, 7)
    calls = [["allocate", "a", block_size], ["allocate", "b", blocks * block_size]]  # b is too large
    calls += [["allocate", "c", (blocks - 1) * block_size], ["append", "a"], ["free", "c"]]
    return blocks, block_size, calls + [["append", "a"]] * block_size


def _names(rng: random.Random) -> Arguments:
    calls = [["free", "a"], ["allocate", "a", rng.randint(5, 9)], ["append", "b"], ["allocate", "a", 3]]
    return rng.randint(9, 12), 2, [*calls, ["append", "a"], ["free", "a"], ["free", "a"], ["append", "a"]]


def _life(rng: random.Random) -> Arguments:
    verbs = ("allocate", "append", "append", "append", "free")
    return rng.randint(8, 20), rng.randint(1, 5), scripts.life(rng, verbs, 60, 16)


class _NeverGrows(Allocator):
    def append(self, seq: str) -> None:
        self.lengths[seq] += 1


class _AlwaysGrows(Allocator):
    def append(self, seq: str) -> None:
        self.tables[seq] += self.take(1)


class _GrowsEarly(Allocator):
    def append(self, seq: str) -> None:
        if (self.lengths[seq] + 1) % self.block_size == 0:
            self.tables[seq] += self.take(1)
        self.lengths[seq] += 1


class _TakesWhatThereIs(Allocator):
    def take(self, count: int) -> list[int]:
        taken = []
        for _ in range(count):
            if not self.free_blocks:
                raise MemoryError
            taken.append(self.free_blocks.pop())
        return taken


class _CountsFirst(Allocator):
    def append(self, seq: str) -> None:
        self.lengths[seq] += 1
        if self.lengths[seq] > len(self.tables[seq]) * self.block_size:
            self.tables[seq] += self.take(1)


class _ListsWhatItRefused(Allocator):
    def allocate(self, seq: str, tokens: int) -> list[int]:
        try:
            return super().allocate(seq, tokens)
        except MemoryError:
            self.tables[seq], self.lengths[seq] = [], tokens
            raise


class _FreesAnyone(Allocator):
    def free(self, seq: str) -> None:
        if seq in self.tables:
            super().free(seq)


class _FreesAndKeepsTheName(Allocator):
    def free(self, seq: str) -> None:
        self.give_back(self.tables[seq])
        self.tables[seq] = []


class _Overwrites(Allocator):
    def allocate(self, seq: str, tokens: int) -> list[int]:
        self.tables.pop(seq, None)
        return super().allocate(seq, tokens)


EXERCISE = Exercise(
    name="allocator",
    hints=(
        "What must be remembered between the calls? Which blocks are free, and for each sequence two things.",
        "A list of free blocks, a table and a length for each sequence. Allocating and growing take from the "
        "list, freeing gives back to it. Look whether there is enough before taking anything.",
        "allocate: ValueError for a known name, MemoryError if -(-tokens // block_size) is more than is "
        "free, else take that many. append: if the length is a multiple of block_size, the last block is "
        "full, so take one; then count the token. free: pop table and length, and extend the free list.",
    ),
    checks=(
        Check("sequences that do not grow", _alone),
        Check("growing across the end of a block", _growing),
        Check("blocks that were freed are there again", _again),
        Check("a pool that is full refuses, and nothing has changed", _full),
        Check("unknown sequences, and names that are taken", _names),
        Check("a long life", _life),
    ),
    reference=Allocator,
    misconceptions=(
        Misconception(
            "tokens // block_size + 1 is one block too many where they fit exactly",
            _wrong(blocks_for=lambda self, tokens: tokens // self.block_size + 1),
        ),
        Misconception(
            "round up: the tokens after the last whole block need a block too",
            _wrong(blocks_for=lambda self, tokens: tokens // self.block_size),
        ),
        Misconception(
            "a block holds block_size tokens; that is one block for each token",
            _wrong(blocks_for=lambda self, tokens: tokens),
        ),
        Misconception(
            "one block for all its tokens is not enough: divide by what a block holds",
            _wrong(blocks_for=lambda self, tokens: 1),
        ),
        Misconception(
            "free gives the blocks back to the pool, so that others can have them",
            _wrong(give_back=lambda self, blocks: None),
        ),
        Misconception("append takes a block when the last one is full", _NeverGrows),
        Misconception("append takes a block only when the last one is full, not each time", _AlwaysGrows),
        Misconception(
            "the block is taken one token early: a full last block is enough until the next token comes",
            _GrowsEarly,
        ),
        Misconception(
            "count the free blocks before taking the first: after MemoryError those already taken are lost",
            _TakesWhatThereIs,
        ),
        Misconception(
            "append counted the token before it had a slot: after MemoryError nothing may have changed",
            _CountsFirst,
        ),
        Misconception(
            "a sequence that was refused is not there: keep its name only when it has its blocks",
            _ListsWhatItRefused,
        ),
        Misconception(
            "a pool without enough blocks raises MemoryError",
            _wrong(take=lambda self, count: [self.free_blocks.pop() for _ in range(count)]),
        ),
        Misconception("freeing a sequence that is not there raises KeyError", _FreesAnyone),
        Misconception(
            "free forgets the table: blocks given back twice get two owners",
            _wrong(free=lambda self, seq: self.give_back(self.tables[seq])),
        ),
        Misconception("free forgets the name too: an empty table is still a sequence", _FreesAndKeepsTheName),
        Misconception(
            "the table of a sequence that is not there is a KeyError, not []",
            _wrong(table=lambda self, seq: self.tables.get(seq, [])),
        ),
        Misconception(
            "a second allocate of one sequence raises ValueError; its old blocks would be lost", _Overwrites
        ),
        Misconception(
            "allocate returns the list of blocks, not how many",
            _wrong(allocate=lambda self, seq, tokens: len(Allocator.allocate(self, seq, tokens))),
        ),
    ),
    drive=scripts.drive,
    view=partial(scripts.view, copies=False),
    alike=scripts.alike,
    valid=scripts.valid,
    differ=scripts.differ,
    forms=("lists",),
)
