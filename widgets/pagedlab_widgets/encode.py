"""From an event log to the trace that a browser plays.

The pictures are drawn from a manager's events and from nothing else: `PoolState` replays them, and each
block that an event touched becomes one write. A contiguous pool is drawn in cells of `cell_size` slots,
so that it can stand beside a paged one: a cell shows the tokens in it and the first sequence that holds it.
"""

from __future__ import annotations

from collections.abc import Callable

from pagedlab.events import Allocate, Append, Event, EventLog, Free, PoolState, SeqId
from pagedlab_widgets.trace import Trace, TraceBuilder

Naming = Callable[[SeqId], str]


def paged_trace(
    log: EventLog, *, num_blocks: int, block_size: int, label: str = "paged", name: Naming = str
) -> Trace:
    """The trace of a `BlockManager`'s log, one frame a step.

    >>> from pagedlab import BlockManager
    >>> m = BlockManager(num_blocks=4, block_size=8)
    >>> _ = m.allocate("A", 10); m.fork("A", "B")
    >>> trace = paged_trace(m.events, num_blocks=4, block_size=8)
    >>> trace.frames, trace.counts(1)
    (2, Counts(used=2, stored=10, held=16, shared=2))
    """
    builder = TraceBuilder(label, num_blocks, block_size)
    state = PoolState(block_size)
    owners = _Owners(builder, name)
    for step in log.steps():
        for event in step:
            for block in state.apply(event):
                holders = state.holders.get(block)
                if holders:
                    builder.write(block, owners[holders[0]], state.fill(block), len(holders))
                else:
                    builder.write(block, 0, 0, 0)
        builder.end_frame()
    return builder.build()


def contiguous_trace(
    log: EventLog, *, num_slots: int, cell_size: int, label: str = "contiguous", name: Naming = str
) -> Trace:
    """The trace of a `ContiguousManager`'s log, one frame a step, in cells of `cell_size` slots.

    Slots past the last whole cell are not drawn.
    """
    pool = _Cells(num_slots // cell_size, cell_size)
    builder = TraceBuilder(label, pool.num_cells, cell_size)
    owners = _Owners(builder, name)
    for step in log.steps():
        for event in step:
            for cell in pool.apply(event):
                holders = pool.holders[cell]
                owner = owners[holders[0]] if holders else 0
                builder.write(cell, owner, pool.fill[cell], min(1, len(holders)))
        builder.end_frame()
    return builder.build()


class _Owners(dict[SeqId, int]):
    """Owner numbers, given out when a sequence is first drawn."""

    def __init__(self, builder: TraceBuilder, name: Naming) -> None:
        self._builder, self._name = builder, name

    def __missing__(self, seq_id: SeqId) -> int:
        self[seq_id] = number = self._builder.owner(self._name(seq_id))
        return number


class _Cells:
    """Which sequences hold each cell, and how many tokens lie in it."""

    def __init__(self, num_cells: int, cell_size: int) -> None:
        self.num_cells, self.cell_size = num_cells, cell_size
        self.holders: list[list[SeqId]] = [[] for _ in range(num_cells)]
        self.fill = [0] * num_cells
        self._pieces: dict[SeqId, range] = {}
        self._stored: dict[SeqId, int] = {}

    def apply(self, event: Event) -> range:
        """Change the cells by one event; return those whose picture changed."""
        match event:
            case Allocate(seq_id, tokens, slots):
                self._pieces[seq_id] = range(slots[0], slots[-1] + 1)
                self._stored[seq_id] = 0
                held = self._over(self._pieces[seq_id])
                for cell in held:
                    self.holders[cell].append(seq_id)
                self._store(seq_id, tokens)
                return held
            case Append(seq_id, tokens, _):
                return self._store(seq_id, tokens)
            case Free(seq_id, _):
                piece, stored = self._pieces.pop(seq_id), self._stored.pop(seq_id)
                self._fill(piece.start, stored, -1)
                for cell in self._over(piece):
                    self.holders[cell].remove(seq_id)
                return self._over(piece)
        raise TypeError(f"a contiguous pool has no such event: {event!r}")

    def _over(self, slots: range) -> range:
        """The drawn cells that `slots` reach into."""
        size = self.cell_size
        return range(slots.start // size, min(self.num_cells, -(-slots.stop // size)))

    def _store(self, seq_id: SeqId, tokens: int) -> range:
        start = self._pieces[seq_id].start + self._stored[seq_id]
        self._stored[seq_id] += tokens
        return self._fill(start, tokens, +1)

    def _fill(self, start: int, tokens: int, sign: int) -> range:
        """Add or take away the tokens in slots `start` to `start + tokens`."""
        size, stop = self.cell_size, start + tokens
        cells = self._over(range(start, stop))
        for cell in cells:
            self.fill[cell] += sign * (min(stop, (cell + 1) * size) - max(start, cell * size))
        return cells
