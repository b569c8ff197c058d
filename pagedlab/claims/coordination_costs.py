"""Claim: allocation must be coordinated between GPUs, and that costs communication.

It need not be much. The same served batch is told to the ranks as full tables, as differences, and not at
all: replicas decide alike and compare a digest now and then. Bytes are exact. Times are of processes on one
machine: they say what the host does, nothing of a network.
"""

from __future__ import annotations

from collections.abc import Mapping

from pagedlab import published, workloads
from pagedlab.claims.verdict import Claim, Measurement, Outcome, Verdict
from pagedlab.machine import cpu_device
from pagedlab.parallel.cost import BLOCK_SIZE, WORKLOAD, MessageCost, RunCost, message_cost, served_cost
from pagedlab.parallel.plan import METHODS

ID = "coordination-costs"
BATCH = 64


def run(quick: bool) -> Verdict:
    """Bytes at batch 64; times of two ranks, 40 steps of batch 16, or four ranks, 300 steps of batch 64."""
    cost = message_cost(workloads.named(WORKLOAD, 400), BATCH, BLOCK_SIZE, 200 if quick else 2_000)
    ranks, steps, batch = (2, 40, 16) if quick else (4, 300, 64)
    runs = {method: served_cost(ranks, method, steps, batch) for method in METHODS}
    return judge(cost, runs, f"{ranks} processes over gloo, {cpu_device()}")


def judge(cost: MessageCost, runs: Mapping[str, RunCost], device: str) -> Verdict:
    """The verdict on the bytes of a step and the times of three runs, by method."""
    quiet = runs["replicas"].message_bytes < 1 + cost.difference_bytes
    conditions = [
        f"full tables take {cost.full_bytes:,.0f} bytes a step and rank at batch {cost.batch}, differences "
        f"{cost.saving:,.0f} times less, replicas 8 bytes now and then",
        "every rank but the sender gets the message, so bytes grow with the ranks, by any method (computed)",
    ]
    if quiet:
        conditions.append("replicas must decide alike: same requests, same order, nothing random, no clock")
    rows = [
        Measurement(f"{method}: {what}", value, unit, word)
        for method, run in runs.items()
        for what, value, unit, word in (
            ("message", run.message_bytes, "bytes a step", "computed"),
            ("host time", 1e6 * run.host_s, "us a step", "measured"),
            ("sending and waiting", 1e6 * run.waited_s, "us a step", "measured"),
        )
    ]
    rows.append(Measurement("attention itself", 1e6 * runs["full"].attention_s, "us a step", "measured"))
    outcome = Outcome.HOLDS_WHEN if quiet and cost.saving >= 10 else Outcome.HOLDS
    if outcome is Outcome.HOLDS_WHEN:
        conditions.insert(0, "full tables are what costs: told as differences, or not at all, little is left")
    figures = tuple(published.figure(id) for id in ("e2", "e3", "e4"))
    return Verdict(ID, outcome, tuple(conditions), tuple(rows), figures, device)


CLAIM = Claim(ID, "blocks must be allocated in agreement, which costs communication", run)
