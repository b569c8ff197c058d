"""A run in the form in which it travels to the browser.

A trace is a sequence of *frames*, each a handful of events; frame f shows the blocks after the events of
frames 0 to f, and before frame 0 every block is free. The browser replays the events (`static/events.js`), so
that tables, sharing and the cache need no bytes of their own. On the wire an event is its number in `KINDS`
and then whole numbers, in this order:

    end       -                                   closes a frame
    write     block, count, owner, fill, refs     what so many blocks hold from then on
    note      kind, seq, amount                   names what the writes after it show
    allocate  seq, tokens, blocks                 append  seq, tokens, new blocks
    copy-on-write  seq, entry, source, target     fork  child, parent, tokens, num_blocks
    free      seq                                 release  seq, entry, number of entries
    preempt   seq, tokens to compute again        swap out  seq        swap in  seq, blocks
    cache, evict   seq, blocks                    cache hit  seq, tokens, blocks
    reset cache    -

`seq` and `owner` are small numbers by order of appearance, named in `names`. Every number is in LEB128, seven
bits a byte; a list is its length, then its numbers plus one. A token stored by a running sequence is thus
about four bytes, and 100,000 events of a server stay under 1 MB.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pagedlab.events import Event, PoolState
from pagedlab.inputs import at_least, one_of

MAX_BLOCKS = 16_384
MAX_BLOCK_SIZE = 65_535
MAX_OWNERS = 65_536
MAX_REFS = 32_767
KINDS = (
    *("end", "write", "note", "allocate", "append", "copy-on-write", "fork", "free", "release"),
    *("preempt", "swap out", "swap in", "cache", "cache hit", "evict", "reset cache"),
)
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}


class Write(NamedTuple):
    """From now on `blocks` blocks from `block` on are held `refs` times, first by `owner`, `fill` tokens in
    each."""

    block: int
    blocks: int
    owner: int
    fill: int
    refs: int


Drawn: TypeAlias = Event | Write


@dataclass(frozen=True)
class Counts:
    """What one frame of a trace holds: blocks, and slots with a token (`stored`) and in all (`held`)."""

    used: int
    stored: int
    held: int
    shared: int

    @property
    def waste(self) -> float:
        """The part of the held slots that store no token, 0 to 1."""
        return (self.held - self.stored) / self.held if self.held else 0.0


@dataclass(frozen=True, repr=False)
class Trace:
    """One run of a block pool, made by a `TraceBuilder`, `paged_trace` or `contiguous_trace`.

    `label` names the run ("paged, blocks of 16"), `names` the sequences by number; both are text and are
    shown as text. `events` is what travels, as the head of this module says.
    """

    label: str
    num_blocks: int
    block_size: int
    names: tuple[str, ...]
    events: bytes
    steps: tuple[tuple[Drawn, ...], ...] = field(compare=False)
    """The events again, as Python has them; they stay here."""
    numbers: Mapping[Hashable, int] = field(compare=False)
    """The number of each sequence in `steps`."""

    def __repr__(self) -> str:
        return f"Trace({self.label!r}, {self.num_blocks} blocks of {self.block_size}, {self.frames} frames)"

    @property
    def frames(self) -> int:
        return len(self.steps)

    def blocks(self, frame: int) -> np.ndarray[Any, Any]:
        """The blocks after `frame`: uint16 [num_blocks, 3], the owner, fill and refs of each.

        Raises IndexError for a frame that the trace does not have.
        """
        if not 0 <= frame < self.frames:
            raise IndexError(f"frame {frame} of a trace of {self.frames} frames")
        pool, state = PoolState(self.block_size), np.zeros((self.num_blocks, 3), np.uint16)
        for event in chain.from_iterable(self.steps[: frame + 1]):
            if isinstance(event, Write):
                state[event.block : event.block + event.blocks] = event[2:]
                continue
            for block in pool.apply(event):
                holders = pool.holders.get(block, ())
                owner = self.numbers[holders[0]] if holders else 0
                state[block] = owner, pool.fill(block), len(holders)
        return state

    def counts(self, frame: int) -> Counts:
        """Blocks in use, tokens stored, slots held and blocks shared after `frame`."""
        _, fill, refs = self.blocks(frame).T
        used = int(np.count_nonzero(refs))
        stored, shared = int(fill[refs > 0].sum(dtype=np.int64)), int(np.count_nonzero(refs > 1))
        return Counts(used, stored, used * self.block_size, shared)


class TraceBuilder:
    """Builds a `Trace`, write by write, frame by frame.

    >>> builder = TraceBuilder("paged, blocks of 16", num_blocks=4, block_size=16)
    >>> first = builder.owner("request 7")
    >>> builder.note("allocate", first, 21)
    >>> builder.write(0, first, fill=16, refs=1); builder.write(1, first, fill=5, refs=1); builder.end_frame()
    >>> builder.write(0, first, fill=0, refs=0); builder.end_frame()
    >>> trace = builder.build()
    >>> trace.frames, trace.names, trace.counts(0)
    (2, ('request 7',), Counts(used=2, stored=21, held=32, shared=0))

    Raises TypeError and ValueError that name the argument, the value and the rule.
    """

    def __init__(self, label: str, num_blocks: int, block_size: int) -> None:
        if not isinstance(label, str):
            raise TypeError(f"label is text, not {label!r}")
        _check_number("num_blocks", num_blocks, MAX_BLOCKS, "a map shows each; show a window of the run")
        _check_number("block_size", block_size, MAX_BLOCK_SIZE, "16 bits count the slots")
        self._label, self._num_blocks, self._block_size = label, num_blocks, block_size
        self._names: list[str] = []
        self._numbers: dict[Hashable, int] = {}
        self._wire = bytearray()
        self._steps: list[tuple[Drawn, ...]] = []
        self._step: list[Drawn] = []
        self._open = False  # whether anything came since the last frame was closed
        self._last: Write | None = None  # not on the wire yet: the next write may continue it

    def owner(self, name: str) -> int:
        """The number of the sequence called `name`: a new one when the name is new."""
        return self.number(name, name)

    def number(self, seq_id: Hashable, name: str) -> int:
        """The number of a sequence; `name` is what it is called, if it is new."""
        known = self._numbers.get(seq_id)
        if known is not None:
            return known
        if not isinstance(name, str):
            raise TypeError(f"names are text, not {name!r}")
        if len(self._names) == MAX_OWNERS:
            raise ValueError(f"a trace tells {MAX_OWNERS:,} sequences apart; {name!r} is one more")
        self._names.append(name)
        return self._numbers.setdefault(seq_id, len(self._numbers))

    def write(self, block: int, owner: int, fill: int, refs: int) -> None:
        """From this frame on, `block` is held `refs` times (0: free), first by `owner`, and stores `fill`
        tokens: with 0 it is reserved, and drawn as such.
        """
        write = Write(block, 1, owner if refs else 0, fill if refs else 0, refs)
        if not (
            0 <= block < self._num_blocks
            and 0 <= refs <= MAX_REFS
            and 0 <= write.fill <= self._block_size
            and (not refs or 0 <= owner < len(self._names))
        ):
            values = f"block {block}, owner {owner}, fill {fill}, refs {refs}"
            raise ValueError(
                f"a write ({values}) needs a block below {self._num_blocks:,}, an owner below "
                f"{len(self._names):,}, at most {self._block_size:,} tokens and {MAX_REFS:,} refs"
            )
        last = self._last
        if last and block == last.block + last.blocks and write[2:] == last[2:]:
            self._last = last._replace(blocks=last.blocks + 1)
        else:
            self._flush()
            self._last = write

    def note(self, kind: str, owner: int, amount: int = 0) -> None:
        """Name what the writes that follow show: one of `KINDS` from "allocate" on, of `amount` tokens."""
        one_of(KINDS[3:], kind, "kind")
        self._flush()
        self._put("note", (_NUMBER[kind], owner, amount))

    def event(self, event: Event, *records: tuple[str, Iterable[int]]) -> None:
        """An event that the browser replays, as its records on the wire."""
        self._flush()
        for kind, numbers in records:
            self._put(kind, numbers)
        self._step.append(event)

    def end_frame(self) -> None:
        """Close a frame, with or without anything in it."""
        self._flush()
        self._put("end", ())
        self._steps.append(tuple(self._step))
        self._step.clear()

    def build(self) -> Trace:
        """The trace of the frames closed so far. Raises ValueError when there are writes after them."""
        if self._last or self._open:
            raise ValueError("what came since the last end_frame() belongs to no frame")
        return Trace(
            *(self._label, self._num_blocks, self._block_size, tuple(self._names)),
            *(bytes(self._wire), tuple(self._steps), dict(self._numbers)),
        )

    def _flush(self) -> None:
        if self._last:
            self._put("write", self._last)
            self._step.append(self._last)
            self._last = None

    def _put(self, kind: str, numbers: Iterable[int]) -> None:
        wire = self._wire
        wire.append(_NUMBER[kind])
        self._open = kind != "end"
        for number in numbers:
            while number > 127:
                wire.append(number & 127 | 128)
                number >>= 7
            wire.append(number)


def listed(blocks: Iterable[int]) -> Iterator[int]:
    """A list as it is on the wire: its length, then each number plus one, so that -1 has a place."""
    blocks = tuple(blocks)
    yield len(blocks)
    yield from (block + 1 for block in blocks)


def _check_number(name: str, value: int, most: int, why: str) -> None:
    if at_least(1, value, name) > most:
        raise ValueError(f"{name} must be at most {most:,}, not {value:,}: {why}")
