"""How a step's message gets from rank 0 to all, and the faults that can be put in its way.

One `torch.distributed.broadcast` carries a message with its length; only one longer than `CHUNK` takes a
second. A fault is applied to what *arrives* at one rank, after the broadcast: the transport itself stays
sound, as a network does whose fault is in one receiver.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from pagedlab.parallel.plan import FAULTS_OF_DELIVERY, Fault

CHUNK = 16_384
_LENGTH = 8


class LostRank(Exception):
    """Another rank is gone, or took longer than this one's patience."""


@contextmanager
def with_others() -> Iterator[None]:
    """Around what needs the other ranks: torch.distributed reports one that is missing as a `RuntimeError`.

    Only there: a kernel's `RuntimeError` is this rank's own.
    """
    try:
        yield
    except RuntimeError as error:
        raise LostRank(str(error)) from error


class Broadcast:
    """Messages from rank 0 to all ranks of the default process group."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._first = torch.empty(_LENGTH + CHUNK, dtype=torch.uint8, device=device)
        self._sends = dist.get_rank() == 0
        self.broadcasts = 0

    @with_others()
    def __call__(self, message: bytes | None = None) -> bytes:
        """The message that rank 0 gave; the others give none."""
        if self._sends:
            assert message is not None
            head = len(message).to_bytes(_LENGTH, "little") + message[:CHUNK]
            self._first[: len(head)] = _tensor(head, self._device)
        dist.broadcast(self._first, 0)
        self.broadcasts += 1
        head = self._first.cpu().numpy().tobytes()
        length = int.from_bytes(head[:_LENGTH], "little")
        if length <= CHUNK:
            return head[_LENGTH : _LENGTH + length]
        rest = torch.empty(length - CHUNK, dtype=torch.uint8, device=self._device)
        if self._sends:
            assert message is not None
            rest.copy_(_tensor(message[CHUNK:], self._device))
        dist.broadcast(rest, 0)
        self.broadcasts += 1
        return head[_LENGTH:] + rest.cpu().numpy().tobytes()


def _tensor(data: bytes, device: torch.device) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).to(device)


class Delivery:
    """What arrives at one rank, step by step: the broadcast's messages, but for the fault planted here."""

    def __init__(self, rank: int, fault: Fault | None) -> None:
        here = fault is not None and fault.rank == rank and fault.kind in FAULTS_OF_DELIVERY
        self._fault = fault if here else None
        self._held: list[bytes] = []

    def __call__(self, step: int, message: bytes) -> list[bytes]:
        """The messages that arrive in this step, in order."""
        arriving = [*self._held, message]
        self._held = []
        if self._fault is None or step < self._fault.step:
            return arriving
        kind, first = self._fault.kind, step == self._fault.step
        if kind == "drop":
            return [] if first else arriving
        if kind == "corrupt":
            return [_corrupted(message)] if first else arriving
        if kind == "delay":
            time.sleep(self._fault.seconds if first else 0)
            return arriving
        if kind == "reorder":
            self._held = [message] if first else []
            return [] if first else arriving[::-1]
        # A duplicate: from here on, this rank is one message behind.
        self._held = [message]
        return [message] if first else arriving[:1]


def _corrupted(message: bytes) -> bytes:
    """The message with one bit flipped, behind its head."""
    wrong = bytearray(message)
    wrong[len(wrong) * 3 // 5] ^= 1
    return bytes(wrong)


def die() -> None:
    """End this process as a crash would: at once, with nothing said."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
