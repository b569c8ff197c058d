"""The physical blocks: which are free, in which order they go out, who holds them, which have a key.

No sequence is known here, only block ids and how many hold each. This is the one place where a reference
count or a key changes.

    next out                                                                   last out
    [ freed last, its tail first | freed before | ... | never used, by id | cached, as the policy says ]
      the top of `_stack`                                  its bottom        `eviction`

Each method does all it says or nothing. First come the steps that can fail: each of them only adds something,
and is taken back if a later one fails. Those after them allocate no memory (their iterators are there
already), so that they cannot fail.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from itertools import chain, filterfalse, islice

from pagedlab.changes import Blocks
from pagedlab.eviction import DEFAULT_PRIORITY, Eviction, LeastRecentlyFreed
from pagedlab.prefix import UNNAMED, By, Named, PrefixIndex


class BlockPool:
    """`num_blocks` blocks with a reference count each, all free at first; with keys if `eviction` is given.

    >>> pool = BlockPool(4)
    >>> pool.take(pool.next(3))
    >>> pool.release([0, 1, 2], pool.freed_by([0, 1, 2]))
    >>> pool.next(4)
    [2, 1, 0, 3]
    """

    def __init__(self, num_blocks: int, eviction: Eviction | None = None) -> None:
        self.num_blocks = self.num_free = num_blocks
        self.ref_counts = array("i", bytes(4 * num_blocks))
        self.keys: list[bytes | None] = [] if eviction is None else [None] * num_blocks
        self.index = PrefixIndex()
        self.eviction: Eviction = LeastRecentlyFreed() if eviction is None else eviction
        self._stack = array("i", range(num_blocks - 1, -1, -1))  # of the free blocks without a key
        self._height = num_blocks  # of that stack: what is above it is out of date

    def next(self, count: int, hits: Blocks = ()) -> list[int]:
        """The `count` blocks that `take` hands out next, `hits` apart. The caller has checked `num_free`."""
        height = self._height
        blocks = self._stack[max(0, height - count) : height].tolist()[::-1] if height else []
        if missing := count - len(blocks):
            counts, queue = self.ref_counts, iter(self.eviction)
            victims = list(islice(filterfalse(set(hits).__contains__, queue) if hits else queue, missing))
            if len({block for block in victims if not counts[block]}) < missing:
                raise RuntimeError(f"{self.eviction!r} must offer {missing} free blocks, got {victims}")
            blocks += victims
        return blocks

    def take(self, new: Blocks, hits: Blocks = (), named: Named = UNNAMED, by: By = (None, None)) -> None:
        """Hand out `new`, as `next` said; hold `hits` once more; give the blocks `named` their keys."""
        counts, height = self.ref_counts, self._height - len(new)
        victims, height = (new[height:], 0) if height < 0 else ((), height)
        revived = [block for block in hits if not counts[block]] if hits else ()
        num_free, found, handed_out = self.num_free - len(new) - len(revived), iter(hits), iter(new)
        if victims or hits or named:
            self._pass_on(victims, revived, named, by)
        for block in found:
            counts[block] += 1
        for block in handed_out:
            counts[block] = 1
        self._height, self.num_free = height, num_free

    def freed_by(self, blocks: Blocks, *more: Blocks) -> list[int]:
        """What nobody holds once these tables are let go, in table order, those with a key first."""
        counts, keys = self.ref_counts, self.keys
        if not more:  # a block gets its key when it is full, so within one table the order is right
            return [block for block in blocks if counts[block] == 1]
        leaving = Counter(chain(blocks, *more)).items()
        freed = [block for block, holders in leaving if counts[block] == holders]
        return sorted(freed, key=lambda block: keys[block] is None) if keys else freed

    def release(self, blocks: Blocks, freed: Blocks, priority: int = DEFAULT_PRIORITY) -> None:
        """One fewer holds each of `blocks`, and nobody those that are `freed_by` it."""
        counts, leaving, cut = self.ref_counts, iter(blocks), self._num_cached(freed)
        height, num_free = self._height + len(freed) - cut, self.num_free + len(freed)
        self._stack[self._height : height] = array(
            "i", freed[cut:] if cut else freed
        )  # tails are reused first
        if cut:
            try:
                self.eviction.add(freed[:cut][::-1], priority)
            except BaseException:
                self._repair(held=freed[:cut])
                raise
        if len(freed) == len(blocks):
            for block in leaving:
                counts[block] = 0
        else:
            for block in leaving:
                counts[block] -= 1
        self._height, self.num_free = height, num_free

    def retake(self, blocks: Blocks, freed: Blocks) -> None:
        """Take back the latest `release`."""
        cut = self._num_cached(freed)
        self._repair(held=freed[:cut])
        self.share(blocks)
        self._height -= len(freed) - cut
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

    def held_with_key(self) -> int:
        """How many cached blocks somebody holds."""
        return sum(1 for count, key in zip(self.ref_counts, self.keys, strict=False) if count and key)

    def reset(self) -> None:
        """Forget every key. The free blocks keep their order."""
        keys: list[bytes | None] = [None] * len(self.keys)
        self.keys, self.index = keys, PrefixIndex()

    # ---- inside ------------------------------------------------------------------------------

    def _pass_on(self, victims: Blocks, revived: Blocks, named: Named, by: By) -> None:
        """`victims` lose their keys, the `named` get theirs, and nobody evicts victims and `revived` now."""
        keys, index = self.keys, self.index
        going, emptied, naming = [*victims, *revived], iter(victims), iter(named.items())
        try:
            if named:
                index.add(named)
            if victims:
                index.remember([keys[block] for block in victims], by)
            if going:
                self.eviction.remove(going)
        except BaseException:
            index.take_back(named, keys)
            self._repair(free=going)
            raise
        index.forget(emptied, keys, named)
        for block, key in naming:
            keys[block] = key

    def _num_cached(self, freed: Blocks) -> int:
        """How many of the blocks have a key: in what is `freed_by` something they come first."""
        cut = len(freed) if self.keys else 0
        while cut and self.keys[freed[cut - 1]] is None:
            cut -= 1
        return cut

    def _repair(self, free: Blocks = (), held: Blocks = ()) -> None:
        """Let the policy have the blocks that are `free`, and not those `held`, however far it got."""
        there = set(self.eviction)
        self.eviction.add([block for block in free if block not in there], DEFAULT_PRIORITY)
        self.eviction.remove([block for block in held if block in there])
