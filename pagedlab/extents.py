"""Free memory as extents: the two classic ways to hand out contiguous pieces of it, and an ideal one.

All answer `take(size)` with the start of a piece, or None when no hole is large enough, and all
know how much of what is free lies in holes too small for a given request.
"""

from __future__ import annotations

from bisect import bisect_left, insort


def power_of_two_from(size: int) -> int:
    """The least power of two that is not below `size`, which is at least 1.

    >>> [power_of_two_from(size) for size in (1, 2, 3, 1025)]
    [1, 2, 4, 2048]
    """
    return 1 << (size - 1).bit_length()


class FirstFit:
    """Holes in order of address; a request takes the front of the first that is large enough.

    >>> memory = FirstFit(10)
    >>> memory.take(4), memory.take(4), memory.take(4)
    (0, 4, None)
    >>> memory.give(0, 4)
    >>> memory.num_free, memory.free_in_holes_below(5)
    (6, 6)
    """

    def __init__(self, size: int) -> None:
        self._holes = [(0, size)]  # (start, length), by start; no two touch
        self.num_free = size

    def take(self, size: int) -> int | None:
        """The start of `size` slots that are now held, or None."""
        for index, (start, length) in enumerate(self._holes):
            if length >= size:
                if length == size:
                    del self._holes[index]
                else:
                    self._holes[index] = (start + size, length - size)
                self.num_free -= size
                return start
        return None

    def give(self, start: int, size: int) -> None:
        """Free what `take` handed out; neighbouring holes become one."""
        self.num_free += size
        index = bisect_left(self._holes, (start, 0))
        if index < len(self._holes) and self._holes[index][0] == start + size:
            size += self._holes.pop(index)[1]
        if index and sum(self._holes[index - 1]) == start:
            start, before = self._holes.pop(index - 1)
            size += before
        insort(self._holes, (start, size))

    def free_in_holes_below(self, size: int) -> int:
        """Free slots that lie in holes too small for `size` slots."""
        return sum(length for _, length in self._holes if length < size)


class Buddy:
    """Pieces whose size is a power of two, aligned to it; a piece and its buddy merge when both are free.

    `take` and `give` want a power of two. Source: Knowlton, "A fast storage allocator", CACM 1965.

    >>> memory = Buddy(8)
    >>> memory.take(2), memory.take(4), memory.take(4)
    (0, 4, None)
    >>> memory.give(0, 2)
    >>> memory.take(4)
    0
    """

    def __init__(self, size: int) -> None:
        self.num_free = size
        self._free: list[list[int]] = [[] for _ in range(size.bit_length())]  # starts, by log2 of size
        start = 0
        for order in reversed(range(size.bit_length())):
            if size >> order & 1:
                self._free[order].append(start)
                start += 1 << order

    def take(self, size: int) -> int | None:
        """The start of `size` slots that are now held, or None."""
        wanted = size.bit_length() - 1
        order = next((o for o in range(wanted, len(self._free)) if self._free[o]), None)
        if order is None:
            return None
        start = self._free[order].pop(0)
        while order > wanted:  # split: keep the lower half, free the upper
            order -= 1
            insort(self._free[order], start + (1 << order))
        self.num_free -= size
        return start

    def give(self, start: int, size: int) -> None:
        """Free what `take` handed out, and merge it with its buddy as often as that is free."""
        self.num_free += size
        order = size.bit_length() - 1
        while order + 1 < len(self._free) and (start ^ (1 << order)) in self._free[order]:
            self._free[order].remove(start ^ (1 << order))
            start &= ~(1 << order)
            order += 1
        insort(self._free[order], start)

    def free_in_holes_below(self, size: int) -> int:
        """Free slots that lie in pieces too small for `size` slots."""
        return sum(len(starts) << order for order, starts in enumerate(self._free) if 1 << order < size)


class NoHoles:
    """Pieces that move together at no cost: whatever is free is one hole.

    Nothing can do this with K and V that a kernel is reading; it shows what a policy would hold if
    holes were no trouble. A piece has no address here: every start is 0.

    >>> memory = NoHoles(10)
    >>> memory.take(4), memory.take(4), memory.take(4)
    (0, 0, None)
    >>> memory.give(0, 4)
    >>> memory.take(6)
    0
    """

    def __init__(self, size: int) -> None:
        self.num_free = size

    def take(self, size: int) -> int | None:
        """0 when `size` slots are free (they are now held), or None."""
        if size > self.num_free:
            return None
        self.num_free -= size
        return 0

    def give(self, start: int, size: int) -> None:
        """Free what `take` handed out."""
        self.num_free += size

    def free_in_holes_below(self, size: int) -> int:
        """All that is free, when it is less than `size` slots."""
        return self.num_free if self.num_free < size else 0
