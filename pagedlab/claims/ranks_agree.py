"""Claim: with tensor parallelism every GPU holds the same block table, for its own share of the heads.

Ranks of their own processes run one random schedule. Their answers together must be those of one process.
Then one update is delivered twice: unchecked, the answers must come out wrong, or the table would not
matter; checked, it must be found. What all must agree on is also the pool: the smallest decides.
"""

from __future__ import annotations

from pagedlab import published
from pagedlab.claims.verdict import Claim, Measurement, Outcome, Verdict
from pagedlab.machine import cpu_device
from pagedlab.parallel.launch import RanksRun
from pagedlab.parallel.launch import run as run_ranks
from pagedlab.parallel.plan import Fault, Plan

ID = "ranks-agree"
TOLERANCE = 2e-6
"""Largest difference of float32 attention that is rounding."""


def run(quick: bool) -> Verdict:
    """Two ranks over 40 steps, or four over 500; then the same with a fault, unchecked and checked."""
    ranks, steps = (2, 40) if quick else (4, 500)
    fault = Fault("duplicate", 1, steps // 4)
    sound = run_ranks(Plan(ranks=ranks, steps=steps))
    unchecked = run_ranks(Plan(ranks=ranks, steps=steps, method="full", detect=False, fault=fault))
    checked = run_ranks(Plan(ranks=ranks, steps=steps, method="full", fault=fault))
    return judge(sound, unchecked, checked)


def judge(sound: RanksRun, unchecked: RanksRun, checked: RanksRun) -> Verdict:
    """The verdict on a sound run, and on two with the same fault."""
    together = _finished(sound) and sound.largest_error <= TOLERANCE
    in_step = sound.steps_in_step == sound.plan.steps
    matters = unchecked.largest_error > TOLERANCE
    found = checked.ending is not None and checked.ending.culprit == 1
    conditions = []
    if in_step and together:
        conditions.append(
            f"{sound.plan.ranks} ranks held the same tables after each of {sound.plan.steps} steps, and "
            "answered together as one process does"
        )
    else:
        conditions.append(f"tables were alike after {sound.steps_in_step} of {sound.plan.steps} steps only")
    if matters:
        conditions.append("a rank that is one update behind answers wrongly, and no error is raised")
    if found and checked.ending is not None:
        conditions.append(f"with numbered updates and a digest: rank 1, {checked.ending.why}")
    conditions.append("the ranks can use as many blocks as the smallest pool among them has")
    rows = (
        Measurement("difference to one process", sound.largest_error, "(absolute)", "measured"),
        Measurement("the same, one update behind", unchecked.largest_error, "(absolute)", "measured"),
    )
    holds = together and in_step and matters and found
    outcome = Outcome.HOLDS if holds else Outcome.FAILS_HERE
    device = f"{sound.plan.ranks} processes over {sound.plan.transport}, {cpu_device()}"
    return Verdict(ID, outcome, tuple(conditions), rows, (published.figure("e1"),), device)


def _finished(run: RanksRun) -> bool:
    return run.ending is not None and run.ending.complete


CLAIM = Claim(ID, "with tensor parallelism every GPU keeps the same block table, for its own heads", run)
