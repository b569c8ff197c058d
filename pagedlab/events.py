"""Every change of a pool, as it happened.

A manager writes one immutable event for each thing that it does. The pictures, the exercise
checks, the accounting and the tests read this log and nothing else, so they cannot disagree.

    Allocate  a sequence arrives and gets its blocks        Fork  a child shares its parent's blocks
    Append    tokens are stored, perhaps in new blocks      Free  a sequence lets its blocks go
    CopyOnWrite  a writer leaves a shared block for one of its own

A driver that works in steps (a serving loop) closes each with `EventLog.end_step`, and the step
becomes the unit of time. Without steps, each event is a moment of its own.

`PoolState` is the other half: it replays events, in order, to the state they led to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, overload

SeqId: TypeAlias = Hashable


class Allocate(NamedTuple):
    """`seq_id` arrived with `tokens` tokens and holds `blocks`, in table order."""

    seq_id: SeqId
    tokens: int
    blocks: Sequence[int]


class Append(NamedTuple):
    """`tokens` more tokens were stored; `new_blocks` joined the end of the table."""

    seq_id: SeqId
    tokens: int
    new_blocks: Sequence[int]


class CopyOnWrite(NamedTuple):
    """Entry `entry` of the table moved from the shared block `source` to its copy `target`."""

    seq_id: SeqId
    entry: int
    source: int
    target: int


class Fork(NamedTuple):
    """`child_id` shares the first `num_blocks` blocks and all `tokens` tokens of `parent_id`."""

    parent_id: SeqId
    child_id: SeqId
    tokens: int
    num_blocks: int


class Free(NamedTuple):
    """`seq_id` left; `released` are those of its blocks that nobody else holds."""

    seq_id: SeqId
    released: Sequence[int]


Event: TypeAlias = Allocate | Append | CopyOnWrite | Fork | Free


class EventLog(Sequence[Event]):
    """The events of one manager, oldest first, with the steps they fell in.

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

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._step_ends: list[int] = []
        self.append = self._events.append  # bound once: writers call it for every token

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return self._events[index]

    def __repr__(self) -> str:
        return f"EventLog({len(self)} events, {self.num_steps} steps)"

    def end_step(self) -> None:
        """Close the current step: what was logged since the last call belongs to it."""
        self._step_ends.append(len(self._events))

    @property
    def num_steps(self) -> int:
        """Number of moments on the time axis: closed steps, or events where no step was closed."""
        return len(self._step_ends) or len(self._events)

    def steps(self) -> Iterator[list[Event]]:
        """The events of each step in turn; one event a step where no step was ever closed."""
        ends = self._step_ends or range(1, len(self._events) + 1)
        start = 0
        for end in ends:
            yield self._events[start:end]
            start = end

    def state_at(self, step: int, block_size: int) -> PoolState:
        """The pool as it stood when `step` (0-based) ended; step -1 is the empty pool."""
        if not -1 <= step < self.num_steps:
            raise IndexError(f"step {step} is not one of the {self.num_steps} steps of this log")
        state = PoolState(block_size)
        for number, events in enumerate(self.steps()):
            if number > step:
                break
            for event in events:
                state.apply(event)
        return state


class PoolState:
    """What a pool holds, rebuilt from events alone.

    `tables` and `num_tokens` are keyed by sequence; `holders` lists, for each block in use, the
    sequences that hold it, the one that has had it longest first.

    >>> state = PoolState(block_size=4)
    >>> state.apply(Allocate("A", 6, (0, 1)))
    [0, 1]
    >>> state.apply(Fork("A", "B", 6, 2))
    [0, 1]
    >>> state.apply(CopyOnWrite("B", 1, source=1, target=2)), state.apply(Append("B", 1, ()))
    ([1, 2], [2])
    >>> state.tables["B"], state.fill(2), state.holders[0]
    ([0, 2], 3, ['A', 'B'])
    """

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.tables: dict[SeqId, list[int]] = {}
        self.num_tokens: dict[SeqId, int] = {}
        self.holders: dict[int, list[SeqId]] = {}
        self._fill: dict[int, int] = {}

    def fill(self, block: int) -> int:
        """Tokens stored in `block`; 0 for a free one."""
        return self._fill.get(block, 0)

    def apply(self, event: Event) -> list[int]:
        """Change the state by one event; return the blocks whose picture changed."""
        match event:
            case Append(seq_id, tokens, new_blocks):
                table = self.tables[seq_id]
                self._hold(seq_id, new_blocks)
                table.extend(new_blocks)
                return self._store(seq_id, tokens) + [b for b in new_blocks if b not in self._fill]
            case Allocate(seq_id, tokens, blocks):
                self.tables[seq_id] = list(blocks)
                self.num_tokens[seq_id] = 0
                self._hold(seq_id, blocks)
                self._store(seq_id, tokens)
                return list(blocks)
            case CopyOnWrite(seq_id, entry, source, target):
                self.tables[seq_id][entry] = target
                self.holders[source].remove(seq_id)
                self._hold(seq_id, (target,))
                self._fill[target] = self._fill[source]
                return [source, target]
            case Fork(parent_id, child_id, tokens, num_blocks):
                shared = self.tables[parent_id][:num_blocks]
                self.tables[child_id] = shared
                self.num_tokens[child_id] = tokens
                self._hold(child_id, shared)
                return list(shared)
            case Free(seq_id, released):
                table = self.tables.pop(seq_id)
                del self.num_tokens[seq_id]
                for block in table:
                    self.holders[block].remove(seq_id)
                for block in released:
                    del self.holders[block]
                    self._fill.pop(block, None)
                return table
        raise TypeError(f"not an event: {event!r}")

    def _hold(self, seq_id: SeqId, blocks: Sequence[int]) -> None:
        for block in blocks:
            self.holders.setdefault(block, []).append(seq_id)

    def _store(self, seq_id: SeqId, tokens: int) -> list[int]:
        """Fill slots in token order; return the blocks that were written."""
        size, table = self.block_size, self.tables[seq_id]
        start = self.num_tokens[seq_id]
        stop = self.num_tokens[seq_id] = start + tokens
        written = table[start // size : -(-stop // size)]
        for index, block in enumerate(written, start // size):
            self._fill[block] = min(size, stop - index * size)
        return written
