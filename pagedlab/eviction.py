"""Which cached block goes first when a new one is needed.

A policy holds the blocks that nobody holds but that keep a key. One of your own has the three methods of
`Eviction`; whatever order it chooses, no answer can become wrong: only hits are won or lost.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol, runtime_checkable

DEFAULT_PRIORITY, HIGHEST_PRIORITY = 35, 100  # as TensorRT-LLM has them; the lowest is 0


@runtime_checkable
class Eviction(Protocol):
    """What the pool asks of a policy. Only cached blocks that nobody holds are ever in it."""

    def add(self, blocks: Sequence[int], priority: int) -> None:
        """A sequence of that priority let these go; a tail comes before its head."""

    def remove(self, blocks: Iterable[int]) -> None:
        """These are held again: found by a prompt, or handed out for something else."""

    def __iter__(self) -> Iterator[int]:
        """All of them, the next to go first."""


class LeastRecentlyFreed:
    """Who was let go first goes first, whatever its priority: vLLM's order. Each step is O(1).

    >>> policy = LeastRecentlyFreed()
    >>> policy.add([2, 1, 0], priority=35)
    >>> policy.remove([1])
    >>> list(policy)
    [2, 0]
    """

    def __init__(self) -> None:
        self._queue: OrderedDict[int, None] = OrderedDict()  # a dict is slow at giving up its first entry

    def add(self, blocks: Sequence[int], priority: int) -> None:
        for block in blocks:
            self._queue[block] = None

    def remove(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            del self._queue[block]

    def __iter__(self) -> Iterator[int]:
        return iter(self._queue)


class ByPriority:
    """The lowest priority goes first, and within one who was let go first: TensorRT-LLM's order.

    >>> policy = ByPriority()
    >>> policy.add([0], priority=80); policy.add([1, 2], priority=35)
    >>> list(policy)
    [1, 2, 0]
    """

    def __init__(self) -> None:
        self._queues: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(HIGHEST_PRIORITY + 1)]
        self._queue_of: dict[int, OrderedDict[int, None]] = {}

    def add(self, blocks: Sequence[int], priority: int) -> None:
        for block in blocks:
            self._queue_of[block] = queue = self._queues[priority]
            queue[block] = None

    def remove(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            del self._queue_of[block][block]

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._queues)
