"""The exercise `allocator`: any bookkeeping passes; mistakes are told by the tables that they lead to."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import pytest
import torch
from trying import assert_passes, assert_recognised

from pagedlab import BlockManager, exercises


class Stack:
    """Plain lists; tables are live."""

    def __init__(self, num_blocks, block_size):
        self.size, self.pool, self.seqs = block_size, list(range(num_blocks))[::-1], {}

    def allocate(self, seq, tokens):
        if seq in self.seqs:
            raise ValueError(seq)
        need = (tokens + self.size - 1) // self.size
        if need > len(self.pool):
            raise MemoryError
        blocks = [self.pool.pop() for _ in range(need)]
        self.seqs[seq] = [blocks, tokens]
        return blocks

    def append(self, seq):
        entry = self.seqs[seq]
        if entry[1] == len(entry[0]) * self.size:
            if not self.pool:
                raise MemoryError
            entry[0].append(self.pool.pop())
        entry[1] += 1

    def free(self, seq):
        blocks, _ = self.seqs.pop(seq)
        self.pool.extend(blocks)

    def table(self, seq):
        return self.seqs[seq][0]


class Queue(Stack):
    """Oldest block first, exceptions of its own, append says what it took."""

    class Full(MemoryError):
        pass

    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.pool = deque(range(num_blocks))

    def take(self, count):
        if count > len(self.pool):
            raise self.Full(f"{count} of {len(self.pool)}")
        return [self.pool.popleft() for _ in range(count)]

    def allocate(self, seq, tokens):
        if seq in self.seqs:
            raise ValueError(seq)
        self.seqs[seq] = [self.take(math.ceil(tokens / self.size)), tokens]
        return tuple(self.seqs[seq][0])

    def append(self, seq):
        blocks, tokens = self.seqs[seq]
        new = self.take(1) if tokens % self.size == 0 else []
        blocks += new
        self.seqs[seq][1] += 1
        return new


class Owners:
    """An array that says who owns each block, so that blocks come lowest first; ids are numpy's."""

    def __init__(self, num_blocks, block_size):
        self.owner, self.size, self.names, self.counts = np.zeros(num_blocks, int), block_size, [None], {}
        self.order = {}

    def _take(self, seq, count):
        free = np.flatnonzero(self.owner == 0)[:count]
        if len(free) < count:
            raise MemoryError
        return free

    def allocate(self, seq, tokens):
        if seq in self.counts:
            raise ValueError
        taken = self._take(seq, -(-tokens // self.size))
        self.names.append(seq)
        self.owner[taken] = len(self.names) - 1
        self.counts[seq], self.order[seq] = tokens, list(taken)
        return taken

    def append(self, seq):
        if self.counts[seq] % self.size == 0:
            taken = self._take(seq, 1)
            self.owner[taken] = 99
            self.order[seq] += list(taken)
        self.counts[seq] += 1

    def free(self, seq):
        del self.counts[seq]
        self.owner[self.order.pop(seq)] = 0

    def table(self, seq):
        return np.array(self.order[seq])


def closures(num_blocks, block_size):
    """No class at all; the pool is a set."""
    pool, tables, lengths = set(range(num_blocks)), {}, {}

    def take(n):
        if n > len(pool):
            raise MemoryError("full")
        return [pool.pop() for _ in range(n)]

    class Calls:
        def allocate(self, seq, tokens):
            if seq in tables:
                raise ValueError("taken")
            tables[seq], lengths[seq] = take(-(-tokens // block_size)), tokens
            return tables[seq]

        def append(self, seq):
            if not lengths[seq] % block_size:
                tables[seq].extend(take(1))
            lengths[seq] += 1

        def free(self, seq):
            pool.update(tables.pop(seq))
            lengths.pop(seq)

        def table(self, seq):
            return torch.tensor(tables[seq])

    return Calls()


class Wrapped:
    """The library's own manager."""

    def __init__(self, num_blocks, block_size):
        self.manager = BlockManager(num_blocks, block_size)

    def __getattr__(self, verb):
        return getattr(self.manager, verb)

    def allocate(self, seq, tokens):
        return self.manager.allocate(seq, tokens).new_blocks

    def append(self, seq):
        self.manager.append(seq)


RIGHT = {"stack": Stack, "queue": Queue, "owners": Owners, "closures": closures, "library": Wrapped}


def changed(base=Queue, **methods):
    return type("Changed", (base,), methods)


def takes_one_by_one(self, count):
    return [self.pool.popleft() for _ in range(count)]


def loses_what_it_took(self, count):
    taken = []
    while len(taken) < count:
        if not self.pool:
            raise MemoryError
        taken.append(self.pool.popleft())
    return taken


def rounds(how):
    def allocate(self, seq, tokens):
        if seq in self.seqs:
            raise ValueError(seq)
        self.seqs[seq] = [self.take(how(tokens, self.size)), tokens]
        return self.seqs[seq][0]

    return allocate


def append_when(condition):
    def append(self, seq):
        blocks, tokens = self.seqs[seq]
        if condition(tokens, self.size):
            blocks += self.take(1)
        self.seqs[seq][1] += 1

    return append


def counts_first(self, seq):
    entry = self.seqs[seq]
    entry[1] += 1
    if entry[1] > len(entry[0]) * self.size:
        entry[0].extend(self.take(1))


def lists_first(self, seq, tokens):
    if seq in self.seqs:
        raise ValueError(seq)
    self.seqs[seq] = [[], tokens]
    self.seqs[seq][0] += self.take(-(-tokens // self.size))
    return self.seqs[seq][0]


def empties_the_table(self, seq):
    self.pool.extend(self.seqs[seq][0])
    self.seqs[seq][0] = []


WRONG = {
    "one block": (changed(allocate=rounds(lambda n, size: 1)), "one block for all"),
    "counts first": (changed(append=counts_first), "counted the token before"),
    "lists first": (changed(allocate=lists_first), "was refused"),
    "empties the table": (changed(free=empties_the_table), "an empty table"),
    "a table for anyone": (
        changed(table=lambda self, seq: self.seqs.get(seq, [[]])[0]),
        "is a KeyError, not []",
    ),
    "one block too many": (changed(allocate=rounds(lambda n, size: n // size + 1)), "one block too many"),
    "rounded down": (changed(allocate=rounds(lambda n, size: n // size)), "round up"),
    "a block for each token": (changed(allocate=rounds(lambda n, size: n)), "one block for each token"),
    "freed, not given back": (changed(free=lambda self, seq: self.seqs.pop(seq)), "gives the blocks back"),
    "never grows": (changed(append=append_when(lambda n, size: False)), "a block when the last one is full"),
    "always grows": (changed(append=append_when(lambda n, size: True)), "not each time"),
    "grows early": (changed(append=append_when(lambda n, size: (n + 1) % size == 0)), "one token early"),
    "takes what there is": (changed(take=loses_what_it_took), "count the free blocks"),
    "pop's own error": (changed(take=takes_one_by_one), "raises MemoryError"),
    "frees anyone": (
        changed(free=lambda self, seq: seq in self.seqs and Queue.free(self, seq)),
        "freeing a sequence that is not there",
    ),
    "keeps the table": (
        changed(free=lambda self, seq: self.pool.extend(self.seqs[seq][0])),
        "forgets the table",
    ),
    "takes a name twice": (
        changed(allocate=lambda self, seq, n: (self.seqs.pop(seq, 0), Queue.allocate(self, seq, n))[1]),
        "a second allocate",
    ),
    "counts": (changed(allocate=lambda self, seq, n: len(Queue.allocate(self, seq, n))), "not how many"),
}


@pytest.mark.parametrize("style", RIGHT)
def test_any_bookkeeping_passes(style):
    assert_passes("allocator", RIGHT[style])


@pytest.mark.parametrize("mistake", WRONG)
def test_a_known_mistake_is_named_by_its_tables(mistake):
    assert_recognised("allocator", *WRONG[mistake])


def test_the_report_shows_the_script_and_the_call_that_went_wrong():
    report = exercises.check("allocator", WRONG["freed, not given back"][0], seed=1, progress=None)
    assert report.smallest.tried.splitlines()[0].startswith("Allocator(num_blocks=")
    assert report.smallest.expected.startswith("allocate(") and "blocks | " in report.smallest.expected
    assert "raises MemoryError" in report.smallest.got


@pytest.mark.parametrize("nothing", [None, 3, "01", {}, {"a": [0]}, [[0]], [None]])
def test_tables_of_no_shape_are_a_report(nothing):
    report = exercises.check("allocator", changed(table=lambda self, seq: nothing), progress=None)
    assert report.public_passed == 0 and "no block" in report.smallest.got


def test_a_class_of_empty_methods_is_a_report():
    verbs = dict.fromkeys(("allocate", "append", "free", "table"), lambda *arguments: None)
    report = exercises.check("allocator", changed(**verbs), progress=None)
    assert report.public_passed == 0 and "returns None, no list of blocks" in str(report)


def test_a_method_that_is_missing_is_said():
    report = exercises.check("allocator", changed(free=None), progress=None)
    assert "TypeError: 'NoneType' object is not callable" in report.smallest.got
    report = exercises.check("allocator", lambda num_blocks: None, progress=None)
    assert "positional argument" in report.findings[0].got
