"""What came before paging: each sequence holds one contiguous piece of the cache for its whole life.

The piece must be as large as the sequence can become, which nobody knows at admission. The common
answers: reserve what the longest request would need, or guess this request's own need and round it up
(`pagedlab.policies` lists them). However good the guess, pieces of different sizes leave holes.

`ContiguousManager` writes the same events as `BlockManager`, with slots for blocks: its tables are
ranges. So the same pictures and accounts read it.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from pagedlab.errors import DuplicateSequence, OutOfBlocks, UnknownSequence
from pagedlab.events import Allocate, Append, EventLog, Free, SeqId
from pagedlab.extents import Buddy, FirstFit, NoHoles
from pagedlab.inputs import at_least
from pagedlab.usage import Usage, Waste

Placement: TypeAlias = FirstFit | Buddy | NoHoles


class OutOfSlots(OutOfBlocks):
    """There is no room in one piece, however much is free in all. Nothing was changed.

    `needed`, `free` and `total` are slots: here a block is one slot.
    """

    def __init__(self, message: str, needed: int, free: int, total: int) -> None:
        super().__init__(message, needed, free, total)
        self.args = (message,)


class _Piece(NamedTuple):
    start: int
    size: int
    final: int  # tokens that will be stored in the end


class ContiguousManager:
    """Pieces of a pool of `num_slots` slots, one a sequence.

    `final` is the number of tokens that a sequence will have stored in the end. `memory` is the
    allocator that places the pieces, one of those in `pagedlab.extents`.

    Raises `ValueError` for a pool without room; every call, `TypeError` for a number that is no integer.

    >>> m = ContiguousManager(num_slots=64, memory=FirstFit)
    >>> m.allocate("A", tokens=10, final=20, size=32)
    range(0, 32)
    >>> m.usage().waste
    Waste(reserved=10, internal=12, external=0)
    """

    block_size = 1

    def __init__(self, num_slots: int, memory: type[Placement], *, record: bool = True) -> None:
        self.num_slots = at_least(1, num_slots, "num_slots")
        self._memory = memory(self.num_slots)
        self._pieces: dict[SeqId, _Piece] = {}
        self._num_tokens: dict[SeqId, int] = {}
        self._events = EventLog(self.num_slots, 1)
        self._record = record

    @property
    def events(self) -> EventLog:
        """Everything that happened, in order."""
        return self._events

    @property
    def num_free_slots(self) -> int:
        """Slots in no piece."""
        return self._memory.num_free

    @property
    def largest_hole(self) -> int:
        """Slots in the largest hole: no larger piece can be had, whatever is free in all."""
        return self._memory.largest_hole

    def allocate(self, seq_id: SeqId, tokens: int, final: int, size: int | None = None) -> range:
        """Give a new sequence its piece of `size` slots, `final` by default and at least one.

        Raises `OutOfSlots`, an `OutOfBlocks`, when no hole is large enough,
        `DuplicateSequence`, and `ValueError` for numbers that do not fit each other.
        """
        if seq_id in self._pieces:
            raise DuplicateSequence(seq_id, self._pieces[seq_id].size)
        tokens, final = at_least(0, tokens, "tokens"), at_least(0, final, "final")
        if tokens > final:
            raise ValueError(f"tokens must be 0 to final ({final}), got {tokens}")
        size = at_least(0, final if size is None else size, "the size of a piece")
        if size < max(1, final):
            raise ValueError(f"a piece of {size} slots is too small for the {final} tokens of {seq_id!r}")
        start = self._memory.take(size)
        if start is None:
            raise OutOfSlots(
                f"allocate({seq_id!r}): no hole has {size} contiguous slots: {self.num_free_slots} of "
                f"{self.num_slots} are free in all, {self.largest_hole} in the largest hole",
                size,
                self.num_free_slots,
                self.num_slots,
            )
        self._pieces[seq_id] = _Piece(start, size, final)
        self._num_tokens[seq_id] = tokens
        slots = range(start, start + size)
        if self._record:
            self._events.append(Allocate(seq_id, tokens, slots))
        return slots

    def append(self, seq_id: SeqId, tokens: int = 1) -> None:
        """Store `tokens` more tokens.

        Raises `OutOfSlots` past the end of the piece, and `ValueError` past the sequence's final length,
        where the piece is longer than that: `final` was a promise, and waste is counted by it.
        """
        piece = self._get(seq_id)
        tokens, stored = at_least(0, tokens, "tokens"), self._num_tokens[seq_id]
        if stored + tokens > piece.size:
            raise OutOfSlots(
                f"append({seq_id!r}, {tokens} tokens): of the {piece.size} slots of its piece "
                f"{piece.size - stored} are left",
                tokens,
                piece.size - stored,
                piece.size,
            )
        if stored + tokens > piece.final:
            raise ValueError(
                f"append({seq_id!r}, {tokens} tokens): with the {stored} stored that is more than the "
                f"{piece.final} it was to store in the end"
            )
        self._num_tokens[seq_id] = stored + tokens
        if self._record:
            self._events.append(Append(seq_id, tokens, ()))

    def free(self, seq_id: SeqId) -> None:
        """Let the sequence and its piece go."""
        piece = self._get(seq_id)
        self._memory.give(piece.start, piece.size)
        del self._pieces[seq_id], self._num_tokens[seq_id]
        if self._record:
            self._events.append(Free(seq_id, range(piece.start, piece.start + piece.size)))

    def free_in_holes_below(self, size: int) -> int:
        """Free slots in holes too small for a piece of `size` slots."""
        return self._memory.free_in_holes_below(size)

    def usage(self, next_size: int | None = None) -> Usage:
        """The pool now; while a request waits for `next_size` slots, holes too small for it are waste."""
        held = self.num_slots - self.num_free_slots
        stored = sum(self._num_tokens.values())
        final = sum(piece.final for piece in self._pieces.values())
        external = 0 if next_size is None else self.free_in_holes_below(next_size)
        waste = Waste(reserved=final - stored, internal=held - final, external=external)
        return Usage(self.num_slots, held, stored, waste, blocks_in_use=held, blocks_shared=0)

    def _get(self, seq_id: SeqId) -> _Piece:
        try:
            return self._pieces[seq_id]
        except KeyError:
            raise UnknownSequence(seq_id, len(self._pieces)) from None
