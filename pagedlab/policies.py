"""What a memory policy does with a request: hold it, grow it, account for it.

    paged          blocks of `block_size` slots, taken as tokens come
    power-of-two   one contiguous piece, the next power of two above what the request will store
    reserve        one contiguous piece, as long as the longest request of the workload

A served run (`pagedlab.serving`) asks these few questions and knows nothing else about memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from pagedlab.contiguous import ContiguousManager
from pagedlab.errors import OutOfBlocks
from pagedlab.extents import Buddy, FirstFit
from pagedlab.manager import Admission, BlockManager
from pagedlab.waste import next_power_of_two
from pagedlab.workloads import Workload

POLICIES = ("paged", "power-of-two", "reserve")


@dataclass(slots=True)
class Request:
    """One request in the server; `stored` of its tokens lie in the cache."""

    id: int
    prompt: int
    output: int
    produced: int = 0
    stored: int = 0

    @property
    def known(self) -> int:
        """Tokens that the cache must hold before the next one can be produced."""
        return self.prompt + self.produced

    @property
    def final(self) -> int:
        """Tokens stored at its end."""
        return self.prompt + self.output - 1


class Account(NamedTuple):
    """Slots held, and those of them (or, for `external`, of the free ones) without a token, by kind."""

    held: int
    reserved: int
    internal: int
    external: int


class Memory(Protocol):
    """What a policy does with a request; the run asks nothing else of it."""

    @property
    def manager(self) -> BlockManager | ContiguousManager:
        """The manager whose events tell what happened."""

    def can_ever_hold(self, request: Request) -> bool:
        """Whether an empty pool has room for the request at its end."""

    def admit(self, request: Request) -> bool:
        """Give it memory for the tokens it knows; False when there is none now."""

    def grow(self, request: Request) -> bool:
        """Store one more token; False when there is no memory for it."""

    def measure(self, stored: int, final: int, next_in_line: Request | None) -> Account:
        """The slots now, given the sums of tokens stored, now and in the end, over the running."""


class PagedMemory:
    """Blocks, as tokens come."""

    def __init__(self, num_slots: int, block_size: int, record: bool) -> None:
        self.manager = BlockManager(num_slots // block_size, block_size, record=record)

    def can_ever_hold(self, request: Request) -> bool:
        return self.manager.can_allocate(request.final) is not Admission.NEVER

    def admit(self, request: Request) -> bool:
        if self.manager.can_allocate(request.known) is not Admission.OK:
            return False
        self.manager.allocate(request.id, request.known)
        return True

    def grow(self, request: Request) -> bool:
        try:
            self.manager.append(request.id)
        except OutOfBlocks:
            return False
        return True

    def measure(self, stored: int, final: int, next_in_line: Request | None) -> Account:
        held = (self.manager.num_blocks - self.manager.num_free_blocks) * self.manager.block_size
        return Account(held, 0, held - stored, 0)


class ContiguousMemory:
    """One piece a request, for its whole life."""

    def __init__(
        self,
        num_slots: int,
        piece_size: Callable[[int], int],
        placement: type[FirstFit] | type[Buddy],
        record: bool,
    ) -> None:
        self.manager = ContiguousManager(num_slots, piece_size, placement, record=record)

    def can_ever_hold(self, request: Request) -> bool:
        return self.manager.piece_size(request.final) <= self.manager.num_slots

    def admit(self, request: Request) -> bool:
        try:
            self.manager.allocate(request.id, request.known, request.final)
        except OutOfBlocks:
            return False
        return True

    def grow(self, request: Request) -> bool:
        self.manager.append(request.id)
        return True

    def measure(self, stored: int, final: int, next_in_line: Request | None) -> Account:
        external = self.manager.external_waste(next_in_line.final) if next_in_line else 0
        held = self.manager.num_slots - self.manager.num_free_slots
        return Account(held, final - stored, held - final, external)


def memory_for(
    workload: Workload, policy: str, num_slots: int, block_size: int, *, record: bool = True
) -> Memory:
    """The memory of one of `POLICIES`, empty, of `num_slots` slots (paged: whole blocks of them).

    Raises `ValueError` for another policy, or for a pool or a block without room.
    """
    if num_slots < 1:
        raise ValueError(f"num_slots must be at least 1, got {num_slots}")
    if policy == "paged":
        if not 1 <= block_size <= num_slots:
            raise ValueError(f"block_size must be 1 to num_slots ({num_slots}), got {block_size}")
        return PagedMemory(num_slots, block_size, record)
    if policy == "power-of-two":
        return ContiguousMemory(
            num_slots, lambda final: int(next_power_of_two(np.array(final))), Buddy, record
        )
    if policy == "reserve":
        longest = int(workload.stored.max())
        return ContiguousMemory(num_slots, lambda final: longest, FirstFit, record)
    raise ValueError(f"policy must be one of {', '.join(POLICIES)}, got {policy!r}")
