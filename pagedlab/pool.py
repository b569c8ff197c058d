"""The physical blocks: which are free, in which order they go out, and who holds them.

No sequence is known here, only block ids and how many hold each. This is the one place where a
reference count changes.

    next out                                                       last out
    [ freed last, its tail first | freed before | ... | never used, by id ]
      `_returned`, a stack (its top is its end)         `_fresh` .. num_blocks - 1

Blocks never handed out are a number, not a list: a fresh pool of a million costs its counts only.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable


class BlockPool:
    """`num_blocks` blocks with a reference count each, all free at first.

    >>> pool = BlockPool(4)
    >>> pool.take(3)
    [0, 1, 2]
    >>> pool.release([0, 1, 2])
    [0, 1, 2]
    >>> pool.take(4)
    [2, 1, 0, 3]
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.ref_counts = array("i", bytes(4 * num_blocks))
        self._returned: list[int] = []
        self._fresh = 0

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._returned) + self.num_blocks - self._fresh

    def take(self, count: int) -> list[int]:
        """Hand out `count` blocks, each held once from now on. The caller has checked `num_free`."""
        reused = min(count, len(self._returned))
        blocks = self._returned[len(self._returned) - reused :]
        blocks.reverse()
        del self._returned[len(self._returned) - reused :]
        fresh = self._fresh + count - reused
        blocks.extend(range(self._fresh, fresh))
        self._fresh = fresh
        for block in blocks:
            self.ref_counts[block] = 1
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """One more holds each of `blocks`."""
        for block in blocks:
            self.ref_counts[block] += 1

    def release(self, blocks: Iterable[int]) -> list[int]:
        """One fewer holds each of `blocks`, given in table order; return those now free."""
        counts = self.ref_counts
        freed = []
        for block in blocks:
            counts[block] -= 1
            if not counts[block]:
                freed.append(block)
        self._returned.extend(freed)  # the tail of the table lies on top: it is reused first
        return freed
