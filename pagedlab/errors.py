"""The ways a block manager says no.

Each carries its numbers in the message, and each is also the built-in exception that a
reader would expect, so that `except MemoryError` and `except KeyError` work.
"""

from __future__ import annotations


class OutOfBlocks(MemoryError):
    """The pool has fewer free blocks than the call needs. Nothing was changed."""

    def __init__(self, what: str, needed: int, free: int, total: int, kept: int = 0) -> None:
        reserve = f", and {kept} must stay free at admission" if kept else ""
        super().__init__(f"{what} needs {needed} block(s), but {free} of {total} are free{reserve}")
        self.needed = needed
        self.free = free
        self.total = total


class UnknownSequence(KeyError):
    """No sequence of that name is in the manager: never allocated, or already freed."""

    def __init__(self, seq_id: object, known: int) -> None:
        super().__init__(seq_id)
        self.seq_id = seq_id
        self._known = known

    def __str__(self) -> str:
        return f"no sequence {self.seq_id!r}: never allocated, or already freed ({self._known} are here)"


class DuplicateSequence(ValueError):
    """A sequence of that name already holds blocks."""

    def __init__(self, seq_id: object, blocks: int) -> None:
        super().__init__(f"sequence {seq_id!r} is here already and holds {blocks} block(s); free it first")
        self.seq_id = seq_id


class SwappedSequence(RuntimeError):
    """The sequence is on the wrong side for this call: swapped out, or not swapped out."""

    def __init__(self, seq_id: object, host_blocks: int) -> None:
        where = f"is swapped out to {host_blocks} host block(s); swap it in first"
        super().__init__(f"sequence {seq_id!r} {where if host_blocks >= 0 else 'is not swapped out'}")
        self.seq_id = seq_id


class CacheInUse(RuntimeError):
    """The cache cannot be reset while a sequence holds cached blocks. Nothing was changed."""

    def __init__(self, held: int) -> None:
        super().__init__(f"reset_cache: {held} cached block(s) are held by sequences; free them first")
        self.held = held
