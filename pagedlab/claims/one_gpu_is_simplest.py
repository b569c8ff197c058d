"""Claim: a single GPU needs none of this.

True of messages: one rank runs the same schedule, sends nothing and answers the same. What it gives up is
room: the blocks that fit beside a model's weights are those of one GPU, and for some models there are none.
"""

from __future__ import annotations

from pagedlab import gpus, published
from pagedlab.claims.verdict import Claim, Measurement, Outcome, Verdict
from pagedlab.machine import cpu_device
from pagedlab.models import preset
from pagedlab.parallel.launch import Outcome as Run
from pagedlab.parallel.launch import run as run_ranks
from pagedlab.parallel.plan import Plan
from pagedlab.sizing import capacity

ID = "one-gpu-is-simplest"
TOLERANCE = 2e-6
GPU, FRACTION = "h100-sxm", 0.9
WEIGHT_BYTES = {"llama-3.1-8b": int(16.06e9), "llama-3.1-70b": int(141.1e9)}
"""In bf16: two bytes a parameter (assumed)."""


def run(quick: bool) -> Verdict:
    """The same schedule by one rank and by two (quick) or four."""
    steps, many = (40, 2) if quick else (500, 4)
    return judge(run_ranks(Plan(ranks=1, steps=steps)), run_ranks(Plan(ranks=many, steps=steps)))


def judge(alone: Run, together: Run) -> Verdict:
    """The verdict on two runs of one schedule."""
    sent_alone, sent_together = _sent(alone), _sent(together)
    both_end = all(run.ending is not None and run.ending.complete for run in (alone, together))
    alike = both_end and max(alone.largest_error, together.largest_error) <= TOLERANCE
    conditions = [
        f"one rank sent {sent_alone:,} bytes over {alone.plan.steps} steps, {together.plan.ranks} ranks "
        f"{sent_together:,}, for the same answers"
        if alike
        else "the answers of one rank and of several are not the same",
        "one GPU must hold the weights and leave room for blocks: " + "; ".join(map(_room, WEIGHT_BYTES)),
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


def _sent(run: Run) -> int:
    return sum(record["message_bytes"] for record in run.of_rank(0)) * max(1, run.plan.ranks - 1)


def _room(model: str) -> str:
    """How many tokens fit beside a model's weights on one GPU (computed)."""
    gpu = gpus.named(GPU)
    try:
        tokens = capacity(gpu.capacity_bytes, WEIGHT_BYTES[model], 0, FRACTION, preset(model)).tokens
    except ValueError:
        return f"{model} in bf16 does not fit on one {gpu.title}"
    return f"{tokens:,} tokens beside {model} on one {gpu.title} (computed)"


CLAIM = Claim(ID, "a single GPU needs none of this coordination", run)
