"""A window of a served run, its picture, and what is to be said of one of its steps."""

from __future__ import annotations

from typing import Any, NamedTuple

from pagedlab import _format, moment, serving
from pagedlab.serving import Rules, Run
from pagedlab.workloads import Workload

from .encode import contiguous_trace, paged_trace
from .trace import MAX_BLOCKS, Trace

CELL = 16
"""Slots in one cell of a contiguous pool's picture."""
HOLDERS = 3
"""Requests named where a moment is explained."""
LABELS = {"paged": "paged", "power-of-two": "power of two", "reserve": "longest"}
POOL_KINDS = ("stored", "reserved", "internal", "external", "free")


class Played(NamedTuple):
    """One run, its picture, and the pool (slots) that was asked for: a map may have to cut it."""

    run: Run
    trace: Trace
    num_slots: int

    @property
    def slots(self) -> int:
        """Slots of the pool that was served from."""
        return self.trace.num_blocks * self.trace.block_size

    @property
    def label(self) -> str:
        return LABELS[self.run.policy]

    def pool_at(self, step: int) -> dict[str, int]:
        """Slots of the pool by kind when a step had ended."""
        slots = {kind: int(getattr(self.run.steps, kind)[step]) for kind in POOL_KINDS[:-1]}
        return {**slots, "free": self.slots - sum(slots.values())}


def play_paged(requests: Workload, block_size: int, num_slots: int, steps: int) -> Played:
    """So many steps of a paged run, of the blocks that a map can show."""
    slots = min(num_slots, MAX_BLOCKS * block_size)
    run = simulated(requests, num_slots=slots, block_size=block_size, max_steps=steps)
    trace = paged_trace(
        run.events,
        num_blocks=slots // block_size,
        block_size=block_size,
        label=f"paged, blocks of {block_size}",
        name=_request,
    )
    return Played(run, trace, num_slots)


def simulated(requests: Workload, policy: str = "paged", **limits: Any) -> Run:
    """A run as long as its limits say."""
    return serving.uncut(serving.simulate(requests, policy, **limits))


def play_contiguous(requests: Workload, policy: str, slots: int, steps: int, rules: Rules | None) -> Played:
    run = simulated(requests, policy, num_slots=slots, max_steps=steps, rules=rules)
    label = f"{LABELS[policy]}, cells of {CELL}"
    trace = contiguous_trace(run.events, num_slots=slots, cell_size=CELL, label=label, name=_request)
    return Played(run, trace, slots)


def explained(played: Played, step: int) -> str:
    """Who holds what stores nothing at that step, in a few sentences."""
    slots, waiting = played.pool_at(step), int(played.run.steps.waiting[step])
    empty = slots["reserved"] + slots["internal"]
    text = f"Of {empty + slots['stored']:,} slots held, {empty:,} store nothing."
    most = [
        f"{_request(holder.request)} {holder}"
        for holder in moment.holders(played.run, step)[:HOLDERS]
        if holder.wasted
    ]
    if most:
        text += f" Most of them: {'; '.join(most)}."
    if slots["external"]:
        text += f" {slots['external']:,} free slots lie in holes too small for the next request in line."
    return f"{text} {_format.count(waiting, 'request')} waiting."


def _request(seq_id: object) -> str:
    return f"request {seq_id}"
