"""What keeping ranks in step costs: bytes of a message, host time, waiting, beside attention itself.

Bytes are exact for the workload (computed). Times are of processes of this machine, one thread each: they
show what the host does and what it waits for, nothing of a network.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from pagedlab import _format, workloads
from pagedlab.machine import cpu_device
from pagedlab.parallel.cost import WORKLOAD, MessageCost, RunCost, message_cost, served_cost
from pagedlab.parallel.plan import METHODS

BATCHES, BLOCK_SIZES = (8, 64, 256), (16, 64)
RANKS = (2, 4)
SENT_TO = (2, 4, 8, 16, 64)


@dataclass(frozen=True)
class RanksBench:
    """`messages` by batch and block size; `runs` by ranks and method, at batch 16 and block size 16."""

    messages: list[MessageCost]
    runs: dict[tuple[int, str], RunCost]
    device: str

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        runs = [{"ranks": n, "method": method, **asdict(cost)} for (n, method), cost in self.runs.items()]
        return {"messages": [asdict(cost) for cost in self.messages], "runs": runs, "device": self.device}

    def __str__(self) -> str:
        messages = [
            [
                f"{cost.batch}",
                f"{cost.block_size}",
                *(f"{size:,.0f}" for size in (cost.padded_bytes, cost.full_bytes, cost.difference_bytes)),
                _format.seconds(cost.full_host_s),
                _format.seconds(cost.difference_host_s),
            ]
            for cost in self.messages
        ]
        runs = [
            [
                f"{ranks}",
                method,
                f"{cost.message_bytes:,.0f}",
                *map(_format.seconds, (cost.host_s, cost.waited_s, cost.attention_s)),
            ]
            for (ranks, method), cost in self.runs.items()
        ]
        sent = [[f"{n}", *(f"{size:,.0f}" for size in self.messages[-1].sent_to(n))] for n in SENT_TO]
        last = self.messages[-1]
        return "\n".join(
            [
                f"messages of a step, {WORKLOAD}: bytes (computed) and host time (measured)",
                _format.table(
                    ["batch", "block", "padded table", "full", "difference", "host, full", "host, diff."],
                    messages,
                    left=0,
                ),
                "",
                "steps of real processes, batch 16, blocks of 16: medians (measured)",
                _format.table(["ranks", "method", "bytes", "host", "waiting", "attention"], runs, left=2),
                "waiting: in the broadcast, the lateness of other ranks included",
                "",
                f"bytes that leave in a step at batch {last.batch}, blocks of {last.block_size} (computed)",
                _format.table(["ranks", "full", "difference"], sent, left=0),
                f"device: {self.device}; ranks beyond its {os.cpu_count()} cores wait for each other",
            ]
        )


def run(quick: bool, progress: Callable[[int, int], object] | None = None) -> RanksBench:
    """All sizes, or, when `quick`, one batch and two ranks."""
    batches, sizes = (BATCHES[:1], BLOCK_SIZES[:1]) if quick else (BATCHES, BLOCK_SIZES)
    jobs = [(batch, size) for batch in batches for size in sizes]
    many = [(ranks, method) for ranks in (RANKS[:1] if quick else RANKS) for method in METHODS]
    tell = progress or (lambda done, total: None)
    messages, runs = [], {}
    for batch, size in jobs:
        workload = workloads.named(WORKLOAD, 8 * batch)
        messages.append(message_cost(workload, batch, size, steps=100 if quick else 1_000))
        tell(len(messages), len(jobs) + len(many))
    for ranks, method in many:
        runs[ranks, method] = served_cost(ranks, method, 40 if quick else 300, max_seqs=16)
        tell(len(messages) + len(runs), len(jobs) + len(many))
    return RanksBench(messages, runs, cpu_device())
