"""The physical blocks: which are free, in which order they go out, who holds them, which have a key.

This is the one place where a reference count or a key changes; no sequence is known here.

    next out                                                                   last out
    [ freed last, its tail first | freed before | ... | never used, by id | cached, as the policy says ]
      the top of `_stack`                                  its bottom        `eviction`

Each method does all it says or nothing. First come the steps that can fail: each only adds something, and is
taken back if a later one fails. The others allocate no memory (their iterators are there already), so that
they cannot fail.
"""

from __future__ import annotations

from array import array
from bisect import bisect
from collections.abc import Iterable
from itertools import filterfalse, islice

from pagedlab.changes import Blocks
from pagedlab.eviction import DEFAULT_PRIORITY, Eviction, LeastRecentlyFreed
from pagedlab.prefix import By, Named, PrefixIndex


class BlockPool:
    """`num_blocks` blocks with a reference count each, all free at first and without a key.

    >>> pool = BlockPool(4)
    >>> pool.take(pool.next(3), (), {})
    >>> pool.release([0, 1, 2], freed=[0, 1, 2])
    >>> pool.next(4)
    [2, 1, 0, 3]
    """

    def __init__(self, num_blocks: int, eviction: Eviction | None = None) -> None:
        self.num_blocks = self.num_free = num_blocks
        self.ref_counts = array("i", bytes(4 * num_blocks))
        self.keys: list[bytes | None] = [None] * num_blocks
        self.index = PrefixIndex()
        self.eviction: Eviction = LeastRecentlyFreed() if eviction is None else eviction
        self._stack = array("i", range(num_blocks - 1, -1, -1))  # of the free blocks without a key
        self._height = num_blocks  # of that stack: what is above it is out of date

    def next(self, count: int, hits: Blocks = ()) -> list[int]:
        """The `count` blocks that `take` hands out next, `hits` apart. The caller has checked `num_free`."""
        height = self._height
        blocks = self._stack[max(0, height - count) : height].tolist()[::-1] if height else []
        if missing := count - len(blocks):
            counts, queue = self.ref_counts, filterfalse(set(hits).__contains__, self.eviction)
            victims = list(islice(queue, missing))
            # A policy of the reader's own may offer what is held, what is on the stack, or no block at all.
            if len({*blocks, *[block for block in victims if block >= 0 and not counts[block]]}) < count:
                raise RuntimeError(f"{self.eviction!r} must offer {missing} free blocks, got {victims}")
            blocks += victims
        return blocks

    def take(self, new: Blocks, hits: Blocks, named: Named, by: By = (None, None)) -> None:
        """Hand out `new`, as `next` said; hold `hits` once more; give the blocks `named` their keys."""
        counts, keys, index, height = self.ref_counts, self.keys, self.index, self._height - len(new)
        victims, height = (new[height:], 0) if height < 0 else ((), height)
        revived = [block for block in hits if not counts[block]] if hits else []
        num_free, found, handed_out = self.num_free - len(new) - len(revived), iter(hits), iter(new)
        if victims or revived or named:
            going, emptied, naming = [*victims, *revived], iter(victims), iter(named.items())
            try:
                if named:
                    index.add(named)
                if victims:
                    index.remember(map(keys.__getitem__, victims), by)
                self.eviction.remove(going)
            except BaseException:
                for block, key in named.items():
                    if keys[block] != key:
                        index.drop(block, key)
                self._repair(free=going)
                raise
            for block in emptied:  # one handed out for the content that it had keeps its key, as the latest
                index.drop(block, keys[block], keys[block] == named.get(block))
                keys[block] = None
            for block, key in naming:
                keys[block] = key
        for block in found:
            counts[block] += 1
        for block in handed_out:
            counts[block] = 1
        self._height, self.num_free = height, num_free

    def release(self, blocks: Blocks, freed: Blocks, priority: int = DEFAULT_PRIORITY) -> None:
        """One fewer holds each of `blocks`, and nobody the `freed` among them, those with a key first."""
        counts, keys, leaving, alone = self.ref_counts, self.keys, iter(blocks), len(freed) == len(blocks)
        cut = bisect(freed, False, key=lambda block: keys[block] is None)
        height, num_free = self._height + len(freed) - cut, self.num_free + len(freed)
        self._stack[self._height : height] = array("i", freed[cut:])  # tails are reused first
        if cached := freed[:cut]:
            try:
                self.eviction.add(cached[::-1], priority)
            except BaseException:
                self._repair(held=cached)
                raise
        for block in leaving:
            counts[block] = 0 if alone else counts[block] - 1
        self._height, self.num_free = height, num_free

    def retake(self, blocks: Blocks, freed: Blocks) -> None:
        """Take back the latest `release`."""
        self._repair(held=freed)
        self.share(blocks)
        self._height -= len([block for block in freed if self.keys[block] is None])
        self.num_free -= len(freed)

    def share(self, blocks: Iterable[int]) -> None:
        """One more holds each of `blocks`, which somebody holds."""
        counts = self.ref_counts
        for block in blocks:
            counts[block] += 1

    def name(self, block: int, key: bytes) -> None:
        """`block` is full now: give it its key."""
        self.index.add({block: key})
        self.keys[block] = key

    def reset(self) -> None:
        """Forget every key. The free blocks keep their order."""
        keys: list[bytes | None] = [None] * self.num_blocks
        self.keys, self.index = keys, PrefixIndex()

    def _repair(self, free: Blocks = (), held: Blocks = ()) -> None:
        """Let the policy have the blocks that are `free`, and not those `held`, however far it got."""
        there = set(self.eviction)
        self.eviction.add([block for block in free if block not in there], DEFAULT_PRIORITY)
        self.eviction.remove([block for block in held if block in there])
