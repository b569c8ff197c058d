"""The ways a block manager says no: each has its numbers in the message, and nothing was changed.

Each is a built-in exception too, so that `except MemoryError` and `except KeyError` work.
"""

from __future__ import annotations


class OutOfBlocks(MemoryError):
    """The pool has fewer free blocks than the call needs; `needed`, `free` and `total` say how many."""

    def __init__(self, what: str, needed: int, free: int, total: int, kept: int = 0) -> None:
        reserve = f", and {kept} must stay free at admission" if kept else ""
        super().__init__(f"{what} needs {needed} block(s), but {free} of {total} are free{reserve}")
        self.needed, self.free, self.total = needed, free, total


class UnknownSequence(KeyError):
    """No sequence of that name is in the manager: never allocated, or already freed."""

    def __init__(self, seq_id: object, known: int) -> None:
        super().__init__(f"no sequence {seq_id!r}: never allocated, or already freed ({known} are here)")

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show it in quotes


class DuplicateSequence(ValueError):
    """A sequence of that name already holds blocks."""

    def __init__(self, seq_id: object, blocks: int) -> None:
        super().__init__(f"sequence {seq_id!r} is here already and holds {blocks} block(s); free it first")


class SwappedSequence(RuntimeError):
    """The sequence is on the wrong side for this call: swapped out, or not swapped out."""


class CacheInUse(RuntimeError):
    """The cache cannot be reset while a sequence holds cached blocks."""
