"""Three ways to keep every rank's tables the same, behind one call.

    Messages, "full"           rank 0 broadcasts the whole batch with all its tables
    Messages, "differences"    rank 0 broadcasts what changed
    Replicas                   every rank decides for itself, alike; now and then they compare a digest

`settle(number, step)` takes the step that this rank's scheduler decided, if it has one, and returns the step
that the rank must run. A message starts with the step's number and a digest of the step that it leads to, so
wrong tables are found before attention runs on them: `OutOfStep`. With `detect=False` a rank goes on with
what it has, to show what comes of that.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import torch
import torch.distributed as dist

from pagedlab.parallel.tables import (
    DIGEST_BYTES,
    NOTHING,
    BadMessage,
    Step,
    decode_difference,
    decode_full,
    digest,
    encode_difference,
    encode_full,
)
from pagedlab.parallel.transport import Broadcast, Delivery, with_others

_HEAD = struct.Struct(f"<I{DIGEST_BYTES}s")
_FORMS: dict[str, tuple[Callable[[Step, Step], bytes], Callable[[Step, bytes], Step]]] = {
    "full": (lambda last, step: encode_full(step), lambda last, message: decode_full(message)),
    "differences": (encode_difference, decode_difference),
}
"""How a step is written down, and read, by one who knows the last step."""


class OutOfStep(Exception):
    """A rank's tables are not those of the others, or it cannot know: says how that was found.

    `culprit` is that rank; None stands for the one that raises.
    """

    def __init__(self, why: str, culprit: int | None = None) -> None:
        super().__init__(why)
        self.culprit = culprit


@dataclass
class StepCost:
    """What keeping in step took in one step, on this rank."""

    message_bytes: int = 0
    broadcasts: int = 0
    host_s: float = 0.0
    """Encoding or decoding, and the digest."""
    waited_s: float = 0.0
    """In the broadcast or the comparison, the other ranks' lateness included."""


class InStep(Protocol):
    """One way to keep in step."""

    cost: StepCost

    def settle(self, number: int, step: Step | None) -> Step:
        """The step to run as step `number`; raises `OutOfStep`."""


class Messages:
    """Rank 0 decides and tells the others, in full or as differences."""

    def __init__(
        self, form: str, broadcast: Broadcast, delivery: Delivery, detect: bool, late_after_s: float
    ) -> None:
        self._encode, self._decode = _FORMS[form]
        self._broadcast, self._delivery = broadcast, delivery
        self._detect, self._late_after_s = detect, late_after_s
        self._last: Step = NOTHING
        self.cost = StepCost()

    def settle(self, number: int, step: Step | None) -> Step:
        started = time.perf_counter()
        message = None
        if step is not None:
            message = _HEAD.pack(number, digest(step)) + self._encode(self._last, step)
        encoded = time.perf_counter()
        before = self._broadcast.broadcasts
        message = self._broadcast(message)
        sent = time.perf_counter()
        if step is None:
            arrived = self._delivery(number, message)
            delivered = time.perf_counter()
            late = delivered - sent
            step = self._take(number, arrived, late)
        else:
            delivered = sent
        self._last = step
        self.cost = StepCost(
            len(message),
            self._broadcast.broadcasts - before,
            encoded - started + time.perf_counter() - delivered,
            delivered - encoded,
        )
        return step

    def _take(self, number: int, arrived: list[bytes], late: float) -> Step:
        if not self._detect:
            return self._believe(arrived)
        if late > self._late_after_s:
            raise OutOfStep(f"its update came {late:.2f} s late, more than {self._late_after_s:g} s")
        if len(arrived) != 1:
            count = "no update" if not arrived else f"{len(arrived)} updates"
            raise OutOfStep(f"{count} arrived where one was due")
        said, expected = _HEAD.unpack_from(arrived[0])
        if said != number:
            raise OutOfStep(f"the update of step {said} arrived where that of step {number} was due")
        try:
            step = self._decode(self._last, arrived[0][_HEAD.size :])
        except BadMessage as error:
            raise OutOfStep(f"its update cannot be read: {error}") from None
        if digest(step) != expected:
            raise OutOfStep("the tables that its update leads to are not those that rank 0 meant")
        return step

    def _believe(self, arrived: list[bytes]) -> Step:
        """What a rank without checks makes of it: all that it can read, or the last step once more."""
        for message in arrived:
            try:
                self._last = self._decode(self._last, message[_HEAD.size :])
            except BadMessage as error:
                raise OutOfStep(f"not even an unchecked rank can read this update: {error}") from None
        return self._last


class Replicas:
    """No messages: every rank's own scheduler decides the same.

    Every `every` steps the ranks compare a digest of all steps so far, so a difference is found within that
    many steps, not before attention has run on it.
    """

    def __init__(self, device: torch.device, detect: bool, every: int) -> None:
        self._device, self._detect, self._every = device, detect, every
        self._history = b""
        self.cost = StepCost()

    def settle(self, number: int, step: Step | None) -> Step:
        assert step is not None
        started = time.perf_counter()
        self._history = blake2b(self._history + digest(step), digest_size=DIGEST_BYTES).digest()
        self.cost = StepCost(host_s=time.perf_counter() - started)
        if self._detect and (number + 1) % self._every == 0:
            self._compare()
        return step

    @with_others()
    def _compare(self) -> None:
        started = time.perf_counter()
        mine = torch.tensor(list(self._history), dtype=torch.uint8, device=self._device)
        theirs = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(theirs, mine)
        self.cost.message_bytes, self.cost.broadcasts = DIGEST_BYTES, 1
        self.cost.waited_s = time.perf_counter() - started
        differ = [rank for rank, history in enumerate(theirs) if not torch.equal(history, theirs[0])]
        if differ:
            why = f"in the last {self._every} steps it decided otherwise than rank 0"
            raise OutOfStep(why, culprit=differ[0])
