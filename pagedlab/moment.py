"""One moment of a served run: who holds the memory that stores nothing, and why.

The answer is read off the run's event log, so it is about the very blocks that a picture of that step shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from pagedlab.events import Allocate, Append, Free, Preempt, SeqId
from pagedlab.policies import GROWING
from pagedlab.serving import Run


@dataclass(frozen=True)
class Holder:
    """What one request holds at some step, in slots.

    `reserved` are empty and will be filled by it, `internal` are empty and never will; with blocks that come
    as they are needed (`in_blocks`) they are the rest of its last one.
    """

    request: int
    held: int
    stored: int
    reserved: int
    internal: int
    in_blocks: bool

    @property
    def wasted(self) -> int:
        """Slots it holds that store no token."""
        return self.held - self.stored

    def __str__(self) -> str:
        parts = []
        if self.reserved:
            parts.append(f"{self.reserved:,} empty until it has produced more")
        if self.internal:
            parts.append(
                f"{self.internal:,} {'empty in its last block' if self.in_blocks else 'never needed'}"
            )
        return f"holds {self.held:,} slots for {self.stored:,} tokens ({', '.join(parts) or 'none empty'})"


def holders(run: Run, step: int) -> list[Holder]:
    """The requests that held memory when `step` of a run had ended, those with most of it empty first.

    The run must have been recorded and its blocks not shared. Raises `IndexError` for a step that was not.

    >>> from pagedlab import serving, workloads
    >>> two = workloads.parse("input_length,output_length\\n5,4\\n2,2\\n")
    >>> for holder in holders(serving.simulate(two, "reserve", num_slots=32), step=0): print(holder)
    holds 8 slots for 2 tokens (1 empty until it has produced more, 5 never needed)
    holds 8 slots for 5 tokens (3 empty until it has produced more)
    """
    log, manager = run.events, run.manager
    if not 0 <= step < log.num_steps:
        raise IndexError(f"step {step} is not one of the {log.num_steps} steps of this run")
    held: dict[SeqId, int] = {}
    stored: dict[SeqId, int] = {}
    for event in log[: log.step_ends[step]]:
        match event:
            case Allocate(seq, tokens, blocks):
                held[seq], stored[seq] = manager.block_size * len(blocks), tokens
            case Append(seq, tokens, blocks):
                held[seq] += manager.block_size * len(blocks)
                stored[seq] += tokens
            case Free(seq) | Preempt(seq):
                del held[seq], stored[seq]
    in_blocks = run.policy in GROWING
    found = []
    for seq, slots in held.items():
        request = cast(int, seq)
        final = stored[seq] if in_blocks else int(run.workload.stored[request])
        found.append(Holder(request, slots, stored[seq], final - stored[seq], slots - final, in_blocks))
    return sorted(found, key=lambda holder: (-holder.wasted, holder.request))
