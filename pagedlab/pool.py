"""The physical blocks: which are free, in which order they go out, who holds them, which have a key.

No sequence is known here, only block ids and how many hold each. This is the one place where a reference
count or a key changes.

    next out                                                                                  last out
    [ freed last, its tail first | freed before | ... | never used, by id | cached, as the policy says ]
      `_returned`, a stack (its top is its end)         `_fresh` ..         `eviction`

Blocks never handed out are a number, not a list: a fresh pool of a million costs its counts and keys only.

Each method does all it says or nothing. First come the steps that can fail, in an order in which they can be
taken back. Those after them allocate nothing (their iterators are there already), so they do not fail.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence
from itertools import filterfalse, islice

from pagedlab.eviction import DEFAULT_PRIORITY, Eviction, LeastRecentlyFreed
from pagedlab.prefix import PrefixIndex

_NOT_YET: list[int] = []


class BlockPool:
    """`num_blocks` blocks with a reference count each, all free at first; with keys if `eviction` is given.

    >>> pool = BlockPool(4)
    >>> pool.take(pool.next(3))
    >>> pool.release([0, 1, 2])
    [0, 1, 2]
    >>> pool.next(4)
    [2, 1, 0, 3]
    """

    def __init__(self, num_blocks: int, eviction: Eviction | None = None) -> None:
        self.num_blocks = self.num_free = num_blocks
        self.ref_counts = array("i", bytes(4 * num_blocks))
        self.keys: list[bytes | None] = [] if eviction is None else [None] * num_blocks
        self.index = PrefixIndex()
        self.eviction: Eviction = LeastRecentlyFreed() if eviction is None else eviction
        self._returned: list[int] = []
        self._fresh = 0

    def next(self, count: int, hits: Sequence[int] = ()) -> list[int]:
        """The `count` blocks that `take` hands out next, `hits` apart. The caller has checked `num_free`."""
        blocks = self._returned[: -count - 1 : -1] if self._returned else []
        if len(blocks) < count and self._fresh < self.num_blocks:
            blocks += range(self._fresh, min(self._fresh + count - len(blocks), self.num_blocks))
        if missing := count - len(blocks):
            counts, queue = self.ref_counts, iter(self.eviction)
            victims = list(islice(filterfalse(set(hits).__contains__, queue) if hits else queue, missing))
            if len({block for block in victims if not counts[block]}) < missing:
                raise RuntimeError(f"{self.eviction!r} must offer {missing} free blocks, got {victims}")
            blocks += victims
        return blocks

    def take(
        self,
        blocks: Sequence[int],
        hits: Sequence[int] = (),
        filled: Sequence[int] = (),
        keys: Sequence[bytes] = (),
        by: tuple[Hashable, int | None] = (None, None),
    ) -> None:
        """Hand out `blocks`, as `next` said; hold `hits` once more; give the blocks `filled` their `keys`.

        `by` is who gets them and the index of the event that says so: `match` tells it to those who ask why a
        block is no longer there.
        """
        counts, stack = self.ref_counts, self._returned
        from_stack = min(len(blocks), len(stack))
        rest = len(stack) - from_stack
        fresh = min(self._fresh + len(blocks) - from_stack, self.num_blocks)
        victims = blocks[from_stack + fresh - self._fresh :]
        revived = [block for block in hits if not counts[block]] if hits else []
        num_free = self.num_free - len(blocks) - len(revived)
        found, new = iter(hits), iter(blocks)
        del stack[rest:]
        if victims or hits or keys:
            try:
                self._pass_on(victims, revived, filled, keys, by)
            except BaseException:
                stack.extend(reversed(blocks[:from_stack]))
                raise
        for block in found:
            counts[block] += 1
        for block in new:
            counts[block] = 1
        self._fresh, self.num_free = fresh, num_free

    def _pass_on(
        self,
        victims: Sequence[int],
        revived: list[int],
        filled: Sequence[int],
        keys: Sequence[bytes],
        by: tuple[Hashable, int | None],
    ) -> None:
        """`victims` lose their keys, the `filled` get theirs, and nobody evicts victims and `revived` now."""
        old, leaving = self.keys, [*victims, *revived] if revived else victims
        lost = [old[block] for block in victims]
        again: Sequence[int] = ()  # victims handed out for the very content that they have
        new_keys, new_blocks = keys, filled
        if keys and lost and not set(lost).isdisjoint(keys):
            again = [b for b, key in zip(filled, keys, strict=True) if old[b] == key]
            new_blocks = [b for b in filled if b not in again]
            new_keys = [key for b, key in zip(filled, keys, strict=True) if b not in again]
        going, forgotten = zip(lost, victims, strict=True), iter(victims)
        naming = zip(keys, filled, strict=True) if keys else ()
        if new_keys:
            self.index.add(new_keys, new_blocks)
        try:
            if lost:
                self.index.remember(lost, by)
            if leaving:
                self.eviction.remove(leaving)
        except BaseException:
            self.index.remove(zip(new_keys, new_blocks, strict=True))
            there = set(self.eviction)
            self.eviction.add([block for block in leaving if block not in there], DEFAULT_PRIORITY)
            raise
        self.index.remove(going, again)
        for block in forgotten:
            old[block] = None
        for key, block in naming:
            old[block] = key

    def name(self, block: int, key: bytes) -> None:
        """`block` is full now: give it its key."""
        self.index.add_one(key, block)
        self.keys[block] = key

    def share(self, blocks: Iterable[int]) -> None:
        """One more holds each of `blocks`, which somebody holds."""
        for block in blocks:
            self.ref_counts[block] += 1

    def release(self, blocks: Sequence[int], priority: int = DEFAULT_PRIORITY) -> list[int]:
        """One fewer holds each of `blocks`, given in table order; return those now free."""
        counts = self.ref_counts
        freed = [block for block in blocks if counts[block] == 1]
        bare, cached = self._by_key(freed)
        num_free, leaving = self.num_free + len(freed), iter(blocks)
        self._returned += bare  # the tail of the table lies on top: it is reused first
        try:
            if cached:
                self.eviction.add(cached, priority)
        except BaseException:
            self._withdraw(bare, cached)
            raise
        if len(freed) == len(blocks):
            for block in leaving:
                counts[block] = 0
        else:
            for block in leaving:
                counts[block] -= 1
        self.num_free = num_free
        return freed

    def retake(self, blocks: Sequence[int], freed: list[int]) -> None:
        """Take back the latest `release`, of `blocks`, which returned `freed`."""
        self._withdraw(*self._by_key(freed))
        self.share(blocks)
        self.num_free -= len(freed)

    def release_all(self, tables: Sequence[tuple[Sequence[int], int]]) -> list[list[int]]:
        """`release` of each `(blocks, priority)`, or of none."""
        freed: list[list[int]] = [_NOT_YET] * len(tables)
        try:
            for number, (blocks, priority) in enumerate(tables):
                freed[number] = self.release(blocks, priority)
        except BaseException:
            self.retake_all(tables, freed)
            raise
        return freed

    def retake_all(self, tables: Sequence[tuple[Sequence[int], int]], freed: list[list[int]]) -> None:
        """Take back the latest `release_all`, as far as it got."""
        for (blocks, _), back in reversed(list(zip(tables, freed, strict=True))):
            if back is not _NOT_YET:
                self.retake(blocks, back)

    def reset(self) -> None:
        """Forget every key. The free blocks keep their order."""
        keys: list[bytes | None] = [None] * len(self.keys)
        self.keys, self.index = keys, PrefixIndex()

    def _by_key(self, freed: list[int]) -> tuple[list[int], list[int]]:
        """Those without a key, head before tail, and those with one, tail before head.

        In a table those with a key come first: a block gets its key when it is full.
        """
        keys, cut = self.keys, len(freed)
        if not keys:
            return freed, []
        while cut and keys[freed[cut - 1]] is None:
            cut -= 1
        cached = freed[:cut]
        cached.reverse()
        return freed[cut:], cached

    def _withdraw(self, bare: list[int], cached: list[int]) -> None:
        """From the stack's top, and from the policy as far as they got there."""
        del self._returned[len(self._returned) - len(bare) :]
        there = set(self.eviction)
        self.eviction.remove([block for block in cached if block in there])
