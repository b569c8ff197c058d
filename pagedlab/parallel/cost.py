"""What keeping in step costs, before any process is started: bytes exactly, host time as it is here.

Bytes depend on the workload, the batch and the block size alone. The time of a message on its way, and of
waiting for a late rank, is measured by a run (`pagedlab.parallel.launch`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, median
from typing import TypeVar

from pagedlab.parallel.launch import RanksRun, run
from pagedlab.parallel.plan import Plan
from pagedlab.parallel.schedules import ServingSchedule
from pagedlab.parallel.tables import (
    NOTHING,
    decode_difference,
    decode_full,
    digest,
    encode_difference,
    encode_full,
)
from pagedlab.workloads import Workload

Answer = TypeVar("Answer")
WORKLOAD, BLOCK_SIZE = "azure-conversation", 16


@dataclass(frozen=True)
class MessageCost:
    """Means over the steps of one workload: bytes (computed) and host seconds (measured) a step.

    `padded_bytes` is the table as one int32 rectangle, as wide as its longest row; `full_bytes` and
    `difference_bytes` are whole messages; `*_host_s` is the time to encode and decode them once, with the
    digest on both sides.
    """

    workload: str
    batch: int
    block_size: int
    steps: int
    padded_bytes: float
    full_bytes: float
    difference_bytes: float
    full_host_s: float
    difference_host_s: float

    @property
    def saving(self) -> float:
        """How many times smaller the differences are than full tables."""
        return self.full_bytes / self.difference_bytes

    def sent_to(self, ranks: int) -> tuple[float, float]:
        """Bytes that leave in a step for `ranks` ranks, as full tables and as differences (computed).

        Every rank but the sender gets the whole message, whichever path it takes.
        """
        return (ranks - 1) * self.full_bytes, (ranks - 1) * self.difference_bytes


def message_cost(workload: Workload, batch: int = 64, block_size: int = 16, steps: int = 500) -> MessageCost:
    """Encode and decode `steps` steps of a workload, served `batch` requests at a time.

    Raises `ValueError` when the workload has no step.

    >>> from pagedlab import workloads
    >>> cost = message_cost(workloads.named("uniform", 64), batch=8, steps=40)
    >>> cost.steps, cost.saving > 10
    (40, True)
    """
    old, totals, count = NOTHING, [0.0] * 5, 0
    for new in islice(ServingSchedule(workload, block_size, batch), steps):
        full, full_s = _timed(encode_full, new)
        _, read_full_s = _timed(decode_full, full)
        small, small_s = _timed(encode_difference, old, new)
        _, read_small_s = _timed(decode_difference, old, small)
        _, digest_s = _timed(digest, new)
        widest = max((len(row.table) for row in new.rows.values()), default=0)
        figures = (4 * widest * len(new.rows), len(full), len(small))
        times = (full_s + read_full_s + 2 * digest_s, small_s + read_small_s + 2 * digest_s)
        totals = [total + value for total, value in zip(totals, (*figures, *times), strict=True)]
        old, count = new, count + 1
    if not count:
        raise ValueError(f"{workload.name} has no step to send")
    return MessageCost(workload.name, batch, block_size, count, *(total / count for total in totals))


@dataclass(frozen=True)
class RunCost:
    """Medians over steps and ranks of one run: bytes of a message, seconds of the rest.

    `host_s` is encoding or decoding and the digest, `waited_s` the broadcast or comparison, the lateness of
    other ranks included, `attention_s` a rank's share of the step itself.
    """

    message_bytes: float
    host_s: float
    waited_s: float
    attention_s: float


def run_cost(outcome: RanksRun) -> RunCost:
    """What a run's steps took, but for the first tenth, in which kernels are loaded.

    Raises `ValueError` when the run did not do all its steps.
    """
    ending, plan = outcome.ending, outcome.plan
    if ending is None or not ending.complete:
        raise ValueError(f"the run of {plan.method} did not end well: {ending}")
    records = [record for record in outcome.records if record["step"] >= plan.steps // 10]
    names = ("host_s", "waited_s", "attention_s")
    sent = fmean(record["message_bytes"] for record in records)
    return RunCost(sent, *(median(record[name] for record in records) for name in names))


def served_cost(ranks: int, method: str, steps: int, max_seqs: int) -> RunCost:
    """`run_cost` of so many ranks that serve `WORKLOAD`, `max_seqs` requests at a time."""
    plan = Plan(
        *(ranks, steps, method, WORKLOAD),
        num_blocks=4_096,
        block_size=BLOCK_SIZE,
        max_seqs=max_seqs,
        verify=False,
    )
    return run_cost(run(plan))


def _timed(call: Callable[..., Answer], *arguments: object) -> tuple[Answer, float]:
    start = time.perf_counter()
    answer = call(*arguments)
    return answer, time.perf_counter() - start
