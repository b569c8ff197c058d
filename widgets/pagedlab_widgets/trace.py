"""A run in the form in which it travels to the browser.

A trace is a sequence of *frames*, each a handful of *writes*; a write says all there is to say about one
block from then on. Frame f shows the blocks after all writes of frames 0 to f; before frame 0 every block
is free.

    offsets   uint32, frames + 1     the writes of frame f are offsets[f] .. offsets[f + 1]
    writes    4 x uint16 a write     block | owner | fill | refs        (all little-endian)

    owner     the sequence that holds the block: a small number, by order of appearance, named in `names`
    fill      tokens stored in the block
    refs      sequences that hold the block: 0 is free, 2 and more is shared

A block that is held with fill 0 is reserved, and drawn as such; of a free one, owner and fill say nothing.

Eight bytes a write, so that 100,000 writes are 0.8 MB and the browser can go to any frame by itself.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_BLOCKS = 16_384
MAX_BLOCK_SIZE = 65_535
MAX_OWNERS = 65_536
WRITE_BYTES = 8


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


@dataclass(frozen=True)
class Trace:
    """One run of a block pool: what every block held at every frame.

    `label` names the run ("paged, blocks of 16"), `names` the sequences by owner number; both are text and
    are shown as text. The layout of `offsets` and `writes` is at the head of this module; `TraceBuilder`
    makes them. Raises ValueError (TypeError for a wrong type) naming the part that contradicts another.
    """

    label: str
    num_blocks: int
    block_size: int
    offsets: bytes
    writes: bytes
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.label, str):
            raise TypeError(f"label is text, not {self.label!r}")
        _check_number("num_blocks", self.num_blocks, MAX_BLOCKS, "a map shows each; show a window of the run")
        _check_number("block_size", self.block_size, MAX_BLOCK_SIZE, "16 bits count the slots")
        object.__setattr__(self, "names", tuple(self.names))
        for name in self.names:
            if not isinstance(name, str):
                raise TypeError(f"names are text, not {name!r}")
        if len(self.names) > MAX_OWNERS:
            raise ValueError(f"{len(self.names):,} names; 16 bits tell {MAX_OWNERS:,} apart")
        for part in ("offsets", "writes"):
            if not isinstance(getattr(self, part), bytes):
                raise TypeError(f"{part} must be bytes, not {type(getattr(self, part)).__name__}")
        self._check_offsets()
        self._check_writes()

    def _check_offsets(self) -> None:
        if len(self.offsets) < 4 or len(self.offsets) % 4:
            raise ValueError(f"offsets hold frames + 1 numbers of 4 bytes; got {len(self.offsets)} bytes")
        if len(self.writes) % WRITE_BYTES:
            raise ValueError(f"writes hold {WRITE_BYTES} bytes each; got {len(self.writes)} bytes")
        offsets = self._offsets()
        if offsets[0] != 0 or offsets[-1] != self.num_writes or np.any(offsets[1:] < offsets[:-1]):
            raise ValueError(
                f"offsets must rise from 0 to the number of writes, {self.num_writes:,}, and never fall; "
                f"they go from {offsets[0]:,} to {offsets[-1]:,}"
            )

    def _check_writes(self) -> None:
        block, owner, fill, refs = self._writes().T
        held, names = refs > 0, len(self.names)
        for bad, rule in (
            (block >= self.num_blocks, f"block must be below num_blocks, {self.num_blocks:,}"),
            (held & (owner >= names), f"owner must be below the number of names, {names:,}"),
            (held & (fill > self.block_size), f"fill must be at most block_size, {self.block_size:,}"),
        ):
            if bad.any():
                at = int(bad.argmax())
                frame = int(np.searchsorted(self._offsets(), at, side="right")) - 1
                values = f"block {block[at]}, owner {owner[at]}, fill {fill[at]}, refs {refs[at]}"
                raise ValueError(f"write {at:,} (frame {frame:,}: {values}): {rule}")

    def _offsets(self) -> np.ndarray[Any, Any]:
        return np.frombuffer(self.offsets, "<u4")

    def _writes(self) -> np.ndarray[Any, Any]:
        return np.frombuffer(self.writes, "<u2").reshape(-1, 4)

    @property
    def frames(self) -> int:
        return len(self.offsets) // 4 - 1

    @property
    def num_writes(self) -> int:
        return len(self.writes) // WRITE_BYTES

    def blocks(self, frame: int) -> np.ndarray[Any, Any]:
        """The blocks after `frame`: uint16 [num_blocks, 3], the owner, fill and refs of each.

        Raises IndexError for a frame that the trace does not have.
        """
        if not 0 <= frame < self.frames:
            raise IndexError(f"frame {frame} of a trace of {self.frames} frames")
        done = self._writes()[: self._offsets()[frame + 1]]
        # The last write of each block is the one that counts: look at them newest first.
        block, last = np.unique(done[::-1, 0], return_index=True)
        state = np.zeros((self.num_blocks, 3), np.uint16)
        state[block] = done[::-1][last, 1:]
        return state

    def counts(self, frame: int) -> Counts:
        """Blocks in use, tokens stored, slots held and blocks shared after `frame`."""
        _, fill, refs = self.blocks(frame).T
        used = int(np.count_nonzero(refs))
        return Counts(
            used,
            int(fill[refs > 0].sum(dtype=np.int64)),
            used * self.block_size,
            int(np.count_nonzero(refs > 1)),
        )


class TraceBuilder:
    """Builds a `Trace`, write by write, frame by frame.

    >>> builder = TraceBuilder("paged, blocks of 16", num_blocks=4, block_size=16)
    >>> first = builder.owner("request 7")
    >>> builder.write(0, first, fill=16, refs=1); builder.write(1, first, fill=5, refs=1); builder.end_frame()
    >>> builder.write(0, first, fill=0, refs=0); builder.end_frame()
    >>> trace = builder.build()
    >>> trace.frames, trace.names, trace.counts(0)
    (2, ('request 7',), Counts(used=2, stored=21, held=32, shared=0))
    """

    def __init__(self, label: str, num_blocks: int, block_size: int) -> None:
        self._label = label
        self._num_blocks = num_blocks
        self._block_size = block_size
        self._writes = array("H")
        self._ends = array("Q", [0])
        self._owners: dict[str, int] = {}

    def owner(self, name: str) -> int:
        """The number of the sequence called `name`: a new one when the name is new."""
        number = self._owners.setdefault(name, len(self._owners))
        if number >= MAX_OWNERS:
            del self._owners[name]
            raise ValueError(f"a trace tells {MAX_OWNERS:,} sequences apart; {name!r} is one more")
        return number

    def write(self, block: int, owner: int, fill: int, refs: int) -> None:
        """From this frame on, `block` is held `refs` times (0: free), first by `owner`, and stores `fill`
        tokens.
        """
        try:
            self._writes.fromlist([block, owner, fill, refs])  # all four or none
        except OverflowError:
            values = f"block {block}, owner {owner}, fill {fill}, refs {refs}"
            raise ValueError(f"a write holds four numbers between 0 and 65,535, not {values}") from None

    def end_frame(self) -> None:
        """Close a frame, with or without writes in it."""
        self._ends.append(len(self._writes) // 4)

    def build(self, names: Iterable[str] | None = None) -> Trace:
        """The trace. `names` replaces the names given to `owner`, for callers that number sequences
        themselves.
        """
        if (open_writes := len(self._writes) // 4 - self._ends[-1]) > 0:
            writes = "write" if open_writes == 1 else "writes"
            raise ValueError(f"{open_writes} {writes} since the last end_frame() belong to no frame")
        return Trace(
            self._label,
            self._num_blocks,
            self._block_size,
            np.array(self._ends, "<u4").tobytes(),
            (self._writes if sys.byteorder == "little" else _swapped(self._writes)).tobytes(),
            tuple(self._owners) if names is None else tuple(names),
        )


def _check_number(name: str, value: int, most: int, why: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
    if value > most:
        raise ValueError(f"{name} must be at most {most:,}, not {value:,}: {why}")


def _swapped(values: array[int]) -> array[int]:
    copy = values[:]
    copy.byteswap()
    return copy
