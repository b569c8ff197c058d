"""What holds a served request's tokens: blocks taken as they come, or one piece for its whole life.

A served run (`pagedlab.serving`) asks these few questions and knows nothing else about memory. Two
kinds answer them:

    PagedMemory        grows by a block every `block_size` tokens, and may have to refuse that
    ContiguousMemory   takes the whole piece at admission; after that nothing can go wrong

`pagedlab.policies` makes either from a policy's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pagedlab.asking import Admission
from pagedlab.contiguous import ContiguousManager, Placement
from pagedlab.errors import OutOfBlocks
from pagedlab.manager import BlockManager

TokenIds = Callable[[int, int, int], Sequence[int]]
"""The ids of a request's tokens `start` to `stop`: `token_ids(request, start, stop)`."""
Piece = Callable[[int, int], int]
"""The slots of a request's piece: `piece(prompt, output)`, both in tokens."""


@dataclass(slots=True, eq=False)
class Request:
    """One request in the server."""

    id: int
    prompt: int
    output: int
    arrival: int
    """When it joins the line, on the run's clock."""
    produced: int = 0
    """Tokens it has produced, as of its last admission or preemption."""
    stored: int = 0
    """Tokens that its memory has been told of; a run may tell late, never too late."""
    last_step: int = -1
    """The step of its last token, known as soon as it decodes."""
    next_growth: int = 0
    """The step at which it needs memory again, 0 when it does not."""

    @property
    def known(self) -> int:
        """Tokens that the cache must hold before the next one can be produced."""
        return self.prompt + self.produced

    @property
    def final(self) -> int:
        """Tokens stored at its end: the last one produced is never stored."""
        return self.prompt + self.output - 1


class Refusal(NamedTuple):
    """Why a request can never be served from this pool."""

    request: int
    tokens: int
    needed: int
    kept_free: int
    pool: int
    unit: str

    def __str__(self) -> str:
        kept = f" with {self.kept_free} kept free" if self.kept_free else ""
        return (
            f"request {self.request} stores {self.tokens:,} tokens at its end and needs {self.needed:,} "
            f"{self.unit}(s){kept}; the pool has {self.pool:,}"
        )


class Memory(Protocol):
    """What a policy does with a request; the run asks nothing else of it."""

    growth: int | None
    """A growing request needs memory once every so many tokens; None: never."""

    @property
    def manager(self) -> BlockManager | ContiguousManager:
        """The manager whose events tell what happened."""

    def refusal(self, request: Request) -> Refusal | None:
        """Why an empty pool has no room for the request at its end; None when it has."""

    def admit(self, request: Request, most: int) -> tuple[int, int] | None:
        """Store the first tokens, of which `most` are computed, if there is room for all that it knows.

        The answer is how many are stored, and how many of them were there already (a cached prefix); or
        None: no room now.
        """

    def store(self, request: Request, tokens: int) -> bool:
        """Store `tokens` more; False, and nothing changed, when there is no memory for them."""

    def release(self, request: Request) -> None:
        """Take its memory back: it has finished."""

    def preempt(self, request: Request) -> None:
        """Take its memory back: an older request needs it."""

    def held(self) -> int:
        """Slots held."""

    def in_useless_holes(self, next_in_line: Request) -> int:
        """Free slots in holes too small for the next request."""


class PagedMemory:
    """Blocks, as tokens come.

    `kept_free` blocks stay free at admission (the watermark), never at growth. With `token_ids` the
    manager is told the tokens themselves, so that a cached prefix is found.
    """

    def __init__(self, manager: BlockManager, kept_free: int = 0, token_ids: TokenIds | None = None) -> None:
        self.manager = manager
        self.growth: int | None = manager.block_size
        self._kept_free = kept_free
        self._token_ids = token_ids

    def refusal(self, request: Request) -> Refusal | None:
        needed = self._blocks(request.final)
        if needed + self._kept_free <= self.manager.num_blocks:
            return None
        pool = self.manager.num_blocks
        return Refusal(request.id, request.final, needed, self._kept_free, pool, "block")

    def admit(self, request: Request, most: int) -> tuple[int, int] | None:
        manager = self.manager
        fits = manager.num_free_blocks - self._blocks(request.known) >= self._kept_free
        if self._token_ids is None:
            if not fits:
                return None
            manager.allocate(request.id, most)
            return most, 0
        ids = self._token_ids(request.id, 0, request.known)
        if (self._kept_free and not fits) or manager.can_allocate(ids) is not Admission.OK:
            return None  # a watermark does not count on hits
        tokens = min(request.known, most + manager.match(ids).num_cached_tokens)
        return tokens, manager.allocate(request.id, ids[:tokens]).num_cached_tokens

    def store(self, request: Request, tokens: int) -> bool:
        try:
            if self._token_ids is None:
                self.manager.append(request.id, tokens)
            else:
                start = request.stored
                self.manager.append(request.id, self._token_ids(request.id, start, start + tokens))
        except OutOfBlocks:
            return False
        return True

    def release(self, request: Request) -> None:
        self.manager.free(request.id)

    def preempt(self, request: Request) -> None:
        self.manager.preempt(request.id)

    def held(self) -> int:
        return (self.manager.num_blocks - self.manager.num_free_blocks) * self.manager.block_size

    def in_useless_holes(self, next_in_line: Request) -> int:
        return 0

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.manager.block_size)


class ContiguousMemory:
    """One piece a request, for its whole life; `piece` tells how many slots."""

    growth: int | None = None

    def __init__(self, num_slots: int, piece: Piece, placement: type[Placement], record: bool) -> None:
        self.manager = ContiguousManager(num_slots, placement, record=record)
        self._piece = piece

    def refusal(self, request: Request) -> Refusal | None:
        slots, pool = self._slots(request), self.manager.num_slots
        if slots <= pool:
            return None
        return Refusal(request.id, request.final, slots, 0, pool, "contiguous slot")

    def admit(self, request: Request, most: int) -> tuple[int, int] | None:
        try:
            self.manager.allocate(request.id, most, request.final, self._slots(request))
        except OutOfBlocks:
            return None
        return most, 0

    def store(self, request: Request, tokens: int) -> bool:
        self.manager.append(request.id, tokens)
        return True

    def release(self, request: Request) -> None:
        self.manager.free(request.id)

    def preempt(self, request: Request) -> None:
        raise AssertionError(f"request {request.id} holds its whole piece: nobody can need more")

    def held(self) -> int:
        return self.manager.num_slots - self.manager.num_free_slots

    def in_useless_holes(self, next_in_line: Request) -> int:
        return self.manager.free_in_holes_below(self._slots(next_in_line))

    def _slots(self, request: Request) -> int:
        return self._piece(request.prompt, request.output)
