"""From an event log to the trace that a browser plays.

The pictures are drawn from a manager's events and from nothing else. Those of a paged pool travel as they
are; a `PoolState` replays them here first, so that a log that contradicts itself is refused with the event
that does. A contiguous pool is drawn in cells of `cell_size` slots, so that it can stand beside a paged one:
a cell shows the tokens in it and the first sequence that holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pagedlab import changes
from pagedlab.events import Allocate, Append, Event, EventLog, Free, PoolState, SeqId
from pagedlab_widgets.trace import Trace, TraceBuilder, listed

Naming = Callable[[SeqId], str]


def paged_trace(
    log: EventLog,
    *,
    num_blocks: int | None = None,
    block_size: int | None = None,
    label: str = "paged",
    name: Naming = str,
    each_event: bool = False,
) -> Trace:
    """The trace of a `BlockManager`'s log, one frame a step, or one an event with `each_event`.

    The pool's sizes are the log's own unless given. Raises ValueError for a log that does not say them, and
    for one whose events contradict each other or the sizes.

    >>> from pagedlab import BlockManager
    >>> m = BlockManager(num_blocks=4, block_size=8)
    >>> _ = m.allocate("A", 10); m.fork("A", "B")
    >>> trace = paged_trace(m.events)
    >>> trace.frames, trace.counts(1)
    (2, Counts(used=2, stored=10, held=16, shared=2))
    """
    num_blocks, block_size = num_blocks or log.num_blocks, block_size or log.block_size
    if not num_blocks or not block_size:
        raise ValueError("this log does not know its num_blocks and block_size: pass them")
    builder = TraceBuilder(label, num_blocks, block_size)
    pool = PoolState(block_size)
    seqs = _Numbers(builder, name)
    for step in ([event] for event in log) if each_event else log.steps():
        for event in step:
            touched = pool.apply(event)
            if touched and max(touched) >= num_blocks:
                raise ValueError(f"{event!r} needs block {max(touched)} of a pool of {num_blocks}")
            builder.event(event, *_records(event, seqs, pool))
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
    seqs = _Numbers(builder, name)
    for step in log.steps():
        for event in step:
            if not isinstance(event, Allocate | Append | Free):
                raise TypeError(f"a contiguous pool has no such event: {event!r}")
            touched = pool.apply(event)
            amount = 0 if isinstance(event, Free) else event.tokens
            builder.note(type(event).__name__.lower(), seqs[event.seq_id], amount)
            for cell in touched:
                holders = pool.holders[cell]
                owner = seqs[holders[0]] if holders else 0
                builder.write(cell, owner, pool.fill[cell], min(1, len(holders)))
        builder.end_frame()
    return builder.build()


class _Numbers(dict[SeqId, int]):
    """The number of each sequence, given out when it is first met."""

    def __init__(self, builder: TraceBuilder, name: Naming) -> None:
        self._builder, self._name = builder, name

    def __missing__(self, seq_id: SeqId) -> int:
        self[seq_id] = number = self._builder.number(seq_id, self._name(seq_id))
        return number


def _records(event: Event, seqs: _Numbers, pool: PoolState) -> Iterator[tuple[str, Iterable[int]]]:
    """The event as it travels, from the pool as the event left it."""
    match event:
        case changes.Append(seq_id, tokens, blocks):
            yield "append", (seqs[seq_id], tokens, *listed(blocks))
        case changes.Allocate(seq_id, tokens, blocks):
            yield "allocate", (seqs[seq_id], tokens, *listed(blocks))
        case changes.CopyOnWrite(seq_id, entry, source, target):
            yield "copy-on-write", (seqs[seq_id], entry, source, target)
        case changes.Fork(parent_id, child_id, tokens, num_blocks):
            yield "fork", (seqs[child_id], seqs[parent_id], tokens, num_blocks)
        case changes.Free(seq_id):
            yield "free", (seqs[seq_id],)
        case changes.Release(seq_id, entry, blocks):
            yield "release", (seqs[seq_id], entry, len(blocks))
        case changes.Preempt(seq_id, "recompute", tokens):
            yield "preempt", (seqs[seq_id], tokens)
        case changes.Preempt(seq_id):
            yield "swap out", (seqs[seq_id],)
        case changes.SwapOut(seq_ids):
            for seq_id in seq_ids:
                yield "swap out", (seqs[seq_id],)
        case changes.SwapIn(seq_ids):
            for seq_id in seq_ids:
                yield "swap in", (seqs[seq_id], *listed(pool.tables[seq_id]))
        case changes.Cache(seq_id, blocks):
            yield "cache", (seqs[seq_id], *listed(blocks))
        case changes.CacheHit(seq_id, tokens, blocks):
            yield "cache hit", (seqs[seq_id], tokens, *listed(blocks))
        case changes.Evict(seq_id, blocks):
            yield "evict", (seqs[seq_id], *listed(blocks))
        case changes.ResetCache():
            yield "reset cache", ()


class _Cells:
    """Which sequences hold each cell, and how many tokens lie in it."""

    def __init__(self, num_cells: int, cell_size: int) -> None:
        self.num_cells, self.cell_size = num_cells, cell_size
        self.holders: list[list[SeqId]] = [[] for _ in range(num_cells)]
        self.fill = [0] * num_cells
        self._pieces: dict[SeqId, range] = {}
        self._stored: dict[SeqId, int] = {}

    def apply(self, event: Allocate | Append | Free) -> range:
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
