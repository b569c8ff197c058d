"""Sequences that fork and grow over one pool, in the three ways in which engines let them share.

    copy-on-write   a fork shares every block; whoever writes first into a shared, part-filled one copies it
    eager copy      a fork copies every block at once, and nothing is ever shared
    append-only     a fork is a new request that finds its full blocks in the prefix cache; what is left of
                    it is computed again, so that no block is ever copied, or written by two

Each way has a real `BlockManager` and a real `PagedKVCache`; each copy is made, and timed, as it falls due.
The tokens of every sequence are kept apart from the pool as well, so that attention over the block tables can
be held against attention over the tokens themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from pagedlab.branch_memory import HEADS, memory
from pagedlab.errors import UnknownSequence
from pagedlab.inputs import one_of
from pagedlab.manager import BlockManager

MODES = ("copy-on-write", "eager copy", "append-only")


@dataclass(frozen=True)
class Work:
    """What sharing cost: blocks copied, tokens computed again, the bytes written for either, and the seconds.

    Computing a token again costs a model's whole forward pass, of which only the writing is in `seconds`.
    """

    copied: int = 0
    recomputed: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def __add__(self, more: Work) -> Work:
        return Work(*(ours + theirs for ours, theirs in zip(astuple(self), astuple(more), strict=True)))


class Branches:
    """Sequences over `num_blocks` blocks of `block_size` tokens, shared as `mode` says.

    Token ids are the caller's: the same in two sequences means the same K and V. `work` adds up what every
    call cost. With `makes_copies` False the block table moves as it should but no block is copied, as in an
    engine that forgets to. Calls are all or nothing and raise what `BlockManager` raises, `ValueError` for
    another mode.

    >>> branches = Branches("copy-on-write", num_blocks=8, block_size=4)
    >>> branches.start("A", range(6)); branches.fork("A", "B")
    Work(copied=0, recomputed=0, bytes=0, seconds=0.0)
    >>> work = branches.append("B", [77])
    >>> work.copied, work.bytes, branches.manager.table("B")
    (1, 32768, (0, 2))
    >>> max(branches.errors().values()) < 1e-5
    True
    """

    def __init__(self, mode: str, num_blocks: int, block_size: int) -> None:
        self.mode, self.makes_copies, self.work = one_of(MODES, mode, "mode"), True, Work()
        self.ids: dict[str, list[int]] = {}
        self.manager = BlockManager(num_blocks, block_size, prefix_caching=mode == "append-only")
        self._memory = memory(num_blocks, block_size)

    @property
    def block_bytes(self) -> int:
        """Bytes of K and V in one block of this one layer."""
        return 2 * HEADS.bytes_per_token * self.manager.block_size

    def start(self, seq: str, ids: Sequence[int]) -> None:
        """A new sequence with a prompt."""
        self.manager.allocate(seq, self._told(ids))
        self.ids[seq] = list(ids)
        self._write(seq, 0)
        self.manager.events.end_step()

    def fork(self, parent: str, child: str) -> Work:
        """Let `child` go on from where `parent` is."""
        if parent not in self.ids:
            raise UnknownSequence(parent, len(self.ids))
        ids, work = self.ids[parent], Work()
        if self.mode == "copy-on-write":
            self.manager.fork(parent, child)
        elif self.mode == "eager copy":
            self.manager.allocate(child, len(ids))
            copies = zip(self.manager.table(parent), self.manager.table(child), strict=True)
            work = self._copy(list(copies))
        cached = len(ids)
        if self.mode == "append-only":
            cached = self.manager.allocate(child, ids).num_cached_tokens
        self.ids[child] = list(ids)
        if cached < len(ids):
            seconds = self._write(child, cached)
            tokens = len(ids) - cached
            work = Work(recomputed=tokens, bytes=2 * HEADS.bytes_per_token * tokens, seconds=seconds)
        return self._done(work)

    def append(self, seq: str, ids: Sequence[int]) -> Work:
        """Store these tokens at the end of `seq`."""
        growth = self.manager.append(seq, self._told(ids))
        work = self._copy(growth.copies)
        start = len(self.ids[seq])
        self.ids[seq] += ids
        self._write(seq, start)
        return self._done(work)

    def finish(self, seq: str) -> None:
        """Let the sequence and its blocks go."""
        self.manager.free(seq)
        del self.ids[seq]
        self.manager.events.end_step()

    def errors(self) -> dict[str, float]:
        """For each sequence, the largest difference of attention over its block table (fp32, the fastest
        kernel here) from attention over its own tokens (fp64, the reference)."""
        return {seq: self._memory.error(ids, self.manager.table(seq)) for seq, ids in self.ids.items()}

    # ---- inside ------------------------------------------------------------------------------

    def _told(self, ids: Sequence[int]) -> int | list[int]:
        return list(ids) if self.mode == "append-only" else len(ids)

    def _done(self, work: Work) -> Work:
        self.manager.events.end_step()
        self.work += work
        return work

    def _copy(self, copies: Sequence[tuple[int, int]]) -> Work:
        if not copies or not self.makes_copies:
            return Work()
        seconds = self._memory.copy(copies)
        return Work(copied=len(copies), bytes=len(copies) * self.block_bytes, seconds=seconds)

    def _write(self, seq: str, start: int) -> float:
        """Write K and V of the tokens from `start` on to their slots; the seconds it took."""
        return self._memory.write(self.ids[seq][start:], self.manager.slots(seq, start))
