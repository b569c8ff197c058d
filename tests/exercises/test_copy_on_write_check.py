"""The exercise `copy-on-write`: who moves, what is copied, who holds what."""

from __future__ import annotations

from collections import Counter, defaultdict, deque

import numpy as np
import pytest
from trying import assert_passes, assert_recognised

from pagedlab import BlockManager, exercises


class Counting:
    """Reference counts in a list, oldest block first."""

    def __init__(self, num_blocks, block_size):
        self.refs, self.size = [0] * num_blocks, block_size
        self.pool, self.tables, self.lengths = deque(range(num_blocks)), {}, {}

    def take(self, count):
        if count > len(self.pool):
            raise MemoryError
        blocks = [self.pool.popleft() for _ in range(count)]
        for block in blocks:
            self.refs[block] = 1
        return blocks

    def drop(self, block):
        self.refs[block] -= 1
        if not self.refs[block]:
            self.pool.append(block)

    def allocate(self, seq, tokens):
        if seq in self.tables:
            raise ValueError
        self.tables[seq] = self.take(-(-tokens // self.size))
        self.lengths[seq] = tokens
        return self.tables[seq]

    def fork(self, parent, child):
        self.tables[child] = self.tables[parent][:]
        self.lengths[child] = self.lengths[parent]
        for block in self.tables[child]:
            self.refs[block] += 1

    def append(self, seq):
        table, copies = self.tables[seq], []
        if not self.lengths[seq] % self.size:
            table += self.take(1)
        elif self.refs[table[-1]] > 1:
            copies = self.copy(seq)
        self.lengths[seq] += 1
        return copies

    def copy(self, seq):
        table, (new,) = self.tables[seq], self.take(1)
        old, table[-1] = table[-1], new
        self.drop(old)
        return [(old, new)]

    def free(self, seq):
        for block in self.tables.pop(seq):
            self.drop(block)

    def table(self, seq):
        return self.tables[seq]


class WithoutCounts(Counting):
    """Looks through all tables instead of counting; its pool is a set."""

    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.blocks = range(num_blocks)

    def holders(self):
        return Counter(block for table in self.tables.values() for block in table)

    def take(self, count):
        free = [block for block in self.blocks if block not in self.holders()][:count]
        if len(free) < count:
            raise MemoryError("full")
        return free

    def fork(self, parent, child):
        self.tables[child], self.lengths[child] = list(self.tables[parent]), self.lengths[parent]

    def append(self, seq):
        full = self.lengths[seq] % self.size == 0
        shared = not full and self.holders()[self.tables[seq][-1]] > 1
        new = self.take(full + shared)
        copies = [(self.tables[seq].pop(), new[0])] if shared else []
        self.tables[seq] += new
        self.lengths[seq] += 1
        return copies

    def free(self, seq):
        del self.tables[seq], self.lengths[seq]


class Sets(WithoutCounts):
    """Keeps who holds each block, by name; pairs are numpy's."""

    def holders(self):
        held = defaultdict(set)
        for name, table in self.tables.items():
            for block in table:
                held[block].add(name)
        return Counter({block: len(names) for block, names in held.items()})

    def append(self, seq):
        return np.array(super().append(seq))


class Wrapped:
    """The library's own manager."""

    def __init__(self, num_blocks, block_size):
        self.manager = BlockManager(num_blocks, block_size)

    def __getattr__(self, verb):
        return getattr(self.manager, verb)

    def allocate(self, seq, tokens):
        return self.manager.allocate(seq, tokens).new_blocks

    def append(self, seq):
        return self.manager.append(seq).copies


class Newest(Counting):
    """Newest block first, and pairs as lists in a tuple."""

    def take(self, count):
        self.pool.reverse()
        try:
            return super().take(count)
        finally:
            self.pool.reverse()

    def append(self, seq):
        return tuple([src, dst] for src, dst in super().append(seq))


RIGHT = {
    "counts": Counting,
    "no counts": WithoutCounts,
    "sets": Sets,
    "library": Wrapped,
    "newest first": Newest,
}


def changed(**methods):
    return type("Changed", (Counting,), methods)


def in_place(self, seq):
    if not self.lengths[seq] % self.size:
        self.tables[seq] += self.take(1)
    self.lengths[seq] += 1
    return []


def copies_alone(self, seq):
    table, copies = self.tables[seq], []
    if not self.lengths[seq] % self.size:
        table += self.take(1)
    else:
        copies = self.copy(seq)
    self.lengths[seq] += 1
    return copies


def copies_full(self, seq):
    table, copies, full = self.tables[seq], [], not self.lengths[seq] % self.size
    if self.refs[table[-1]] > 1:
        copies = self.copy(seq)
    if full:
        table += self.take(1)
    self.lengths[seq] += 1
    return copies


def copies_all(self, seq):
    old = self.tables[seq]
    new = self.take(len(old))
    self.tables[seq] = new
    for block in old:
        self.drop(block)
    return list(zip(old, new, strict=True))


def moves_others(self, seq):
    shared, (new,) = self.tables[seq][-1], self.take(1)
    others = [name for name, table in self.tables.items() if name != seq and table[-1] == shared]
    for name in others:
        self.tables[name][-1] = new
    self.refs[new], self.refs[shared] = len(others), 1
    return [(shared, new)]


def eager(self, parent, child):
    self.tables[child] = self.take(len(self.tables[parent]))
    self.lengths[child] = self.lengths[parent]


def one_list(self, parent, child):
    Counting.fork(self, parent, child)
    self.tables[child] = self.tables[parent]


def keeps_hold(self, seq):
    old, (new,) = self.tables[seq][-1], self.take(1)
    self.tables[seq][-1] = new
    return [(old, new)]


def frees_all(self, seq):
    self.pool.extend(self.tables.pop(seq))


def counts_first(self, seq):
    try:
        return Counting.append(self, seq)
    except MemoryError:
        self.lengths[seq] += 1
        raise


WRONG = {
    "in place": (changed(append=in_place), "another sequence holds too"),
    "copies alone": (changed(append=copies_alone), "a single holder"),
    "copies full blocks": (changed(append=copies_full), "a full block is never written again"),
    "copies the table": (changed(copy=copies_all), "only that one is copied"),
    "to, from": (changed(copy=lambda self, seq: [Counting.copy(self, seq)[0][::-1]]), "(from, to)"),
    "moves the others": (changed(copy=moves_others), "the writer moves"),
    "copies at the fork": (changed(fork=eager), "a fork copies no block"),
    "frees for all": (changed(free=frees_all), "its last holder frees it"),
    "keeps hold": (changed(copy=keeps_hold), "holds the old block no longer"),
    "one list": (changed(fork=one_list), "a list of its own"),
    "None": (changed(append=lambda self, seq: Counting.append(self, seq) or None), "not None"),
    "counts first": (changed(append=counts_first), "counted the token before"),
}


@pytest.mark.parametrize("style", RIGHT)
def test_any_bookkeeping_passes(style):
    assert_passes("copy-on-write", RIGHT[style])


@pytest.mark.parametrize("mistake", WRONG)
def test_a_known_mistake_is_named_by_its_tables(mistake):
    assert_recognised("copy-on-write", *WRONG[mistake])


def test_copies_of_no_shape_are_a_report():
    for pairs in (3, [(0,)], [([0], [1])]):
        wrong = changed(append=lambda self, seq, pairs=pairs: (Counting.append(self, seq), pairs)[1])
        assert not exercises.check("copy-on-write", wrong, progress=None).passed
