"""Claim: for most workloads the memory that paging gains far exceeds what its indexing costs.

Requests with the lengths of real traces are served from equal memory under four policies, and the paged
run pays for its kernel: reading a cached token takes longer by the ratio measured here. What counts is
tokens a second. The trap is the opponent: against reserving for the longest request the gain is large,
against an oracle that knows every length in advance it is a few percent, and the kernel can eat it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pagedlab import _format, serving, workloads
from pagedlab.claims import reading
from pagedlab.claims.verdict import Claim, Measurement, Outcome, Verdict, figures
from pagedlab.comparison import Comparison
from pagedlab.decoding import TWIN
from pagedlab.published import figure
from pagedlab.serving import Rules, StepTime

ID = "gains-exceed-overhead"
ROWS = ("s1", "d11", "d1", "b2")
BLOCK = 16
POOLS = {"azure-conversation": 65_536, "azure-code": 65_536, "mooncake-conversation": 1_048_576}
"""Slots: what fits beside Llama-3.1-8B differs by GPU; long documents need the larger pool to run at all."""
OPPONENTS = ("reserve", "power-of-two", "exact")
FAR = 1.5
"""A gain in tokens a second that "far exceeds"."""


@dataclass(frozen=True)
class Served:
    """One workload under one policy."""

    workload: str
    policy: str
    running: float
    tokens_per_s: float


def run(quick: bool) -> Verdict:
    """Time the kernel, then serve each workload under each policy."""

    def serve_and_judge(comparison: Comparison) -> Verdict:
        dearer = comparison.ratio(f"paged {BLOCK}").median
        served = [
            serve(name, policy, dearer if policy == "paged" else 1.0, 2_000 if quick else None)
            for name in POOLS
            for policy in ("paged", *OPPONENTS)
        ]
        return judge(served, comparison)

    return reading.sweep(quick, (BLOCK,), serve_and_judge)


def serve(name: str, policy: str, dearer: float, requests: int | None) -> Served:
    """Simulate; a step takes what a published fit says, reading the cache `dearer` times as long."""
    fit = figure("d1").values
    step_time = StepTime(
        round(1e6 * fit["bf16_floor_ms"]), 20_000, round(1e6 * dearer * fit["bf16_slope_ms"])
    )
    workload = workloads.named(name, requests)
    rules = Rules(watermark=0.01) if policy == "paged" else Rules(holes=False)
    run = serving.simulate(
        workload,
        policy,
        num_slots=POOLS[name],
        block_size=BLOCK,
        rules=rules,
        step_time=step_time,
        record=False,
    )
    seconds = step_time.of_steps(run.steps).sum() / 1e9
    return Served(name, policy, run.steps.mean("running"), float(workload.output.sum() / seconds))


def judge(served: list[Served], comparison: Comparison) -> Verdict:
    """The verdict on served workloads, the kernel's cost being in them already."""
    if reading.slower(comparison, f"paged {BLOCK}") is None:
        return reading.unreadable(ID, comparison, ROWS)
    by = {(run.workload, run.policy): run for run in served}
    names = list(dict.fromkeys(run.workload for run in served))
    gains = {
        opponent: {name: by[name, "paged"].tokens_per_s / by[name, opponent].tokens_per_s for name in names}
        for opponent in OPPONENTS
    }
    far = [opponent for opponent in OPPONENTS if min(gains[opponent].values()) > FAR]
    if len(far) == len(OPPONENTS):
        outcome, condition = Outcome.HOLDS, "on every workload, against every policy"
    elif "reserve" in far:
        outcome, condition = Outcome.HOLDS_WHEN, f"the opponent is {' or '.join(far)}, on every workload"
    else:
        outcome, condition = Outcome.FAILS_HERE, "on some workload not even against reserving for the longest"
    conditions = [condition] + [
        _in_words(opponent, gains[opponent]) for opponent in OPPONENTS if opponent not in far
    ]
    conditions.append(
        "simulated: steps take a published fit for Llama-3.1-8B on an H100, 20 us a prompt token is assumed; "
        "contiguous memory is moved together at no cost, which is kind to it"
    )
    measured = [
        reading.ratio(comparison, f"paged {BLOCK}", f"time of attention, blocks of {BLOCK}, of {TWIN}", TWIN)
    ]
    for name in names:
        for opponent in OPPONENTS:
            more = by[name, "paged"].running / by[name, opponent].running
            measured.append(
                Measurement(f"{name}: requests running, of {opponent}", more, "times", "simulated")
            )
            what = f"{name}: tokens a second, of {opponent}"
            measured.append(Measurement(what, gains[opponent][name], "times", "simulated"))
    return Verdict(
        ID,
        outcome,
        tuple(conditions),
        tuple(measured),
        figures(*ROWS),
        comparison.device,
        records=(comparison,),
    )


def _in_words(opponent: str, gains: Mapping[str, float]) -> str:
    low, high = (_format.significant(end) for end in (min(gains.values()), max(gains.values())))
    return f"against {opponent} it is {low} to {high} times the tokens a second, the kernel's cost included"


CLAIM = Claim(ID, "for most workloads the memory gained far exceeds what indexing costs", run)
