"""The log of every change of a pool, as it happened.

A manager writes one immutable event (`pagedlab.changes`) for each thing that it does. The pictures, the
exercise checks, the accounting and the tests read this log and nothing else, so they cannot disagree.

A driver that works in steps (a serving loop) closes each with `EventLog.end_step`, and the step
becomes the unit of time. Without steps, each event is a moment of its own.

In memory an event costs eight bytes and itself; the commonest of all, a token that fits into its block, is
one object for the whole life of its sequence. On disk a log is JSON lines (`pagedlab.event_files`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any, overload

from pagedlab.changes import Allocate as Allocate
from pagedlab.changes import Append as Append
from pagedlab.changes import Cache as Cache
from pagedlab.changes import CacheHit as CacheHit
from pagedlab.changes import CopyOnWrite as CopyOnWrite
from pagedlab.changes import Event as Event
from pagedlab.changes import Evict as Evict
from pagedlab.changes import Fork as Fork
from pagedlab.changes import Free as Free
from pagedlab.changes import Preempt as Preempt
from pagedlab.changes import Release as Release
from pagedlab.changes import ResetCache as ResetCache
from pagedlab.changes import SeqId as SeqId
from pagedlab.changes import SwapIn as SwapIn
from pagedlab.changes import SwapOut as SwapOut
from pagedlab.replay import PoolState as PoolState


class EventLog(Sequence[Event]):
    """The events of one manager, oldest first, with the steps they fell in.

    `num_blocks` and `block_size` are those of the pool, None where nobody said.

    >>> log = EventLog()
    >>> log.append(Allocate("A", 3, (0,)))
    >>> log.end_step()
    >>> log.append(Append("A", 1, ()))
    >>> log.end_step()
    >>> [len(step) for step in log.steps()]
    [1, 1]
    >>> log[0].seq_id
    'A'
    """

    def __init__(self, num_blocks: int | None = None, block_size: int | None = None) -> None:
        self.num_blocks, self.block_size = num_blocks, block_size
        self.entries: list[Event] = []
        self._step_ends: list[int] = []
        self.append = self.entries.append  # bound once: writers call it for every token

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy writes to its own entries."""
        self.__dict__.update(state, append=state["entries"].append)

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return self.entries[index]

    def __repr__(self) -> str:
        return f"EventLog({len(self)} events, {self.num_steps} steps)"

    def end_step(self) -> None:
        """Close the current step: what was logged since the last call belongs to it."""
        self._step_ends.append(len(self.entries))

    @property
    def num_steps(self) -> int:
        """Number of moments on the time axis: closed steps, or events where no step was closed."""
        return len(self._step_ends) or len(self.entries)

    @property
    def stepped(self) -> bool:
        """Whether a step was ever closed."""
        return bool(self._step_ends)

    @property
    def step_ends(self) -> Sequence[int]:
        """How many events had been logged when each step ended."""
        return self._step_ends or range(1, len(self.entries) + 1)

    def steps(self) -> Iterator[list[Event]]:
        """The events of each step in turn; one event a step where no step was ever closed."""
        start = 0
        for end in self.step_ends:
            yield self.entries[start:end]
            start = end

    def state_at(self, step: int, block_size: int | None = None) -> PoolState:
        """The pool as it stood when `step` (0-based) ended; step -1 is the empty pool.

        Raises `IndexError` for a step that was not, `ValueError` for events that contradict each other.
        """
        if not -1 <= step < self.num_steps:
            raise IndexError(f"step {step} is not one of the {self.num_steps} steps of this log")
        block_size = block_size or self.block_size
        if not block_size:
            raise ValueError("this log does not know its block_size: pass it")
        state = PoolState(block_size)
        for event in self.entries[: self.step_ends[step] if step >= 0 else 0]:
            state.apply(event)
        return state

    def to_jsonl(self, path: str | PathLike[str]) -> None:
        """Write the log as JSON lines, all of it or nothing.

        Raises `TypeError` for an id that is neither text nor integer, `ValueError` for a pool too large.
        """
        from pagedlab.event_files import write

        write(self, path)

    @classmethod
    def from_jsonl(cls, path: str | PathLike[str]) -> EventLog:
        """Read what `to_jsonl` wrote. Raises `ValueError` naming the file and line of what is wrong."""
        from pagedlab.event_files import read

        return read(path)
