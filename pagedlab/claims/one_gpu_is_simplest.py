"""Claim: a single GPU needs none of this.

True of messages: one rank runs the same schedule, sends nothing and answers the same. What it gives up is
room: the blocks that fit beside a model's weights are those of one GPU, and for some models there are none.
"""

from __future__ import annotations

from pagedlab import published
from pagedlab.claims import reading
from pagedlab.claims.verdict import Claim, Measurement, Outcome, Verdict
from pagedlab.machine import cpu_device
from pagedlab.parallel.launch import RanksRun
from pagedlab.parallel.launch import run as run_ranks
from pagedlab.parallel.plan import Plan

ID = "one-gpu-is-simplest"
TOLERANCE = 2e-6
MODELS = ("llama-3.1-8b", "llama-3.1-70b")


def run(quick: bool) -> Verdict:
    """The same schedule by one rank and by two (quick) or four."""
    steps, many = (40, 2) if quick else (500, 4)
    return judge(run_ranks(Plan(ranks=1, steps=steps)), run_ranks(Plan(ranks=many, steps=steps)))


def judge(alone: RanksRun, together: RanksRun) -> Verdict:
    """The verdict on two runs of one schedule."""
    sent_alone, sent_together = _sent(alone), _sent(together)
    both_end = all(run.ending is not None and run.ending.complete for run in (alone, together))
    alike = both_end and max(alone.largest_error, together.largest_error) <= TOLERANCE
    conditions = [
        f"one rank sent {sent_alone:,} bytes over {alone.plan.steps} steps, {together.plan.ranks} ranks "
        f"{sent_together:,}, for the same answers"
        if alike
        else "the answers of one rank and of several are not the same",
        "one GPU must hold the weights and leave room for blocks: " + "; ".join(map(_room, MODELS)),
    ]
    holds = alike and sent_alone == 0 < sent_together
    rows = (
        Measurement("messages of one rank", sent_alone, "bytes", "measured"),
        Measurement(f"messages of {together.plan.ranks} ranks", sent_together, "bytes", "measured"),
        Measurement("largest difference in an answer", together.largest_error, "(absolute)", "measured"),
    )
    outcome = Outcome.HOLDS_WHEN if holds else Outcome.FAILS_HERE
    device = f"{together.plan.ranks} processes over {together.plan.transport}, {cpu_device()}"
    return Verdict(ID, outcome, tuple(conditions), rows, (published.figure("e13"),), device)


def _sent(run: RanksRun) -> int:
    return sum(record["message_bytes"] for record in run.of_rank(0)) * max(1, run.plan.ranks - 1)


def _room(model: str) -> str:
    try:
        return f"{reading.fit_beside(model):,} tokens beside {model} on one H100 SXM (computed)"
    except ValueError:
        return f"{model} in bf16 does not fit on one H100 SXM"


CLAIM = Claim(ID, "a single GPU needs none of this coordination", run)
