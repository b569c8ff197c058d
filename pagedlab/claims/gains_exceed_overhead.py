"""Claim: for most workloads the memory that paging gains far exceeds what its indexing costs.

Requests with the lengths of real traces are served from equal memory under four policies. The gain is the
tokens a second that paging serves more than another policy, its kernel for nothing; the cost is what it
loses when reading a cached token takes longer by the ratio measured here. The trap is the opponent: against
reserving for the longest request the gain is large, against an oracle that knows every length it is none.
"""

from __future__ import annotations

from dataclasses import dataclass

from pagedlab import _format, serving, workloads
from pagedlab.claims import reading
from pagedlab.claims.reading import ratio
from pagedlab.claims.verdict import Claim, Measurement, Outcome, Verdict
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
FAR = 3
"""A gain of so many times the cost far exceeds it."""
FREE = "paged, kernel for nothing"


@dataclass(frozen=True)
class Served:
    """One workload under one policy."""

    workload: str
    policy: str
    running: float
    tokens_per_s: float


def run(quick: bool) -> Verdict:
    """Time the kernel, then serve each workload under each policy."""
    requests = 2_000 if quick else None
    free = [serve(name, policy, 1.0, requests) for name in POOLS for policy in (FREE, *OPPONENTS)]

    def serve_and_judge(comparison: Comparison) -> Verdict:
        dearer = comparison.ratio(f"paged {BLOCK}").median
        return judge([*free, *(serve(name, "paged", dearer, requests) for name in POOLS)], comparison)

    return reading.sweep(quick, (BLOCK,), serve_and_judge)


def serve(name: str, policy: str, dearer: float, requests: int | None) -> Served:
    """Simulate; a step takes what a published fit says, reading the cache `dearer` times as long."""
    fit = figure("d1").values
    step_time = StepTime(
        round(1e6 * fit["bf16_floor_ms"]), 20_000, round(1e6 * dearer * fit["bf16_slope_ms"])
    )
    workload = workloads.named(name, requests)
    paged = policy in ("paged", FREE)
    run = serving.simulate(
        workload,
        "paged" if paged else policy,
        num_slots=POOLS[name],
        block_size=BLOCK,
        rules=Rules(watermark=0.01) if paged else Rules(holes=False),
        step_time=step_time,
        record=False,
    )
    steps = serving.uncut(run).steps
    seconds = step_time.of_steps(steps).sum() / 1e9
    return Served(name, policy, steps.mean("running"), float(workload.output.sum() / seconds))


def judge(served: list[Served], comparison: Comparison) -> Verdict:
    """The verdict on served workloads: paged with its kernel's cost, and without it, beside the others."""
    if reading.slower(comparison, f"paged {BLOCK}") is None:
        return reading.unreadable(ID, comparison, ROWS)
    by = {(run.workload, run.policy): run for run in served}
    names = list(dict.fromkeys(run.workload for run in served))
    costs = {name: 1 - by[name, "paged"].tokens_per_s / by[name, FREE].tokens_per_s for name in names}
    gains = {
        (name, policy): by[name, FREE].tokens_per_s / by[name, policy].tokens_per_s - 1
        for name in names
        for policy in OPPONENTS
    }
    enough = {name: FAR * max(cost, 0) for name, cost in costs.items()}
    far = [policy for policy in OPPONENTS if all(gains[name, policy] > enough[name] for name in names)]
    if len(far) == len(OPPONENTS):
        outcome, condition = Outcome.HOLDS, "on every workload, against every policy"
    elif "reserve" in far:
        outcome, condition = Outcome.HOLDS_WHEN, f"memory would be given out by {' or '.join(far)}"
    else:
        outcome, condition = Outcome.FAILS_HERE, "on some workload not even against reserving for the longest"
    most = _format.percent(max(costs.values()))
    conditions = [condition, f"the kernel costs at most {most} of the tokens a second"]
    for policy in OPPONENTS:
        low, high = (_format.percent(end(gains[name, policy] for name in names)) for end in (min, max))
        conditions.append(f"against {policy} the memory gains {low} to {high} of the tokens a second")
    conditions.append(
        "simulated: steps take a published fit for Llama-3.1-8B on an H100, 20 us a prompt token is assumed; "
        "contiguous memory is moved together at no cost, which is kind to it"
    )
    measured = [ratio(comparison, f"paged {BLOCK}", f"time of attention, blocks of {BLOCK}, of {TWIN}")]
    for name in names:
        lost = 100 * costs[name]
        measured.append(Measurement(f"{name}: tokens a second lost to the kernel", lost, "%", "simulated"))
        for policy in OPPONENTS:
            more = by[name, FREE].running / by[name, policy].running
            measured.append(Measurement(f"{name}: requests running, of {policy}", more, "times", "simulated"))
            gain = 100 * gains[name, policy]
            what = f"{name}: tokens a second gained on {policy}"
            measured.append(Measurement(what, gain, "%", "simulated"))
    return reading.told(ID, outcome, conditions, measured, ROWS, [comparison])


CLAIM = Claim(ID, "for most workloads the memory gained far exceeds what indexing costs", run)
