"""What a server would do with the trace: simulated on the real block manager, over a bounded window.

The window is the first `WINDOW` requests, so that an answer takes seconds whatever the length of the trace.
"Full" is the part of a run in which somebody waits: before it the pool fills, after it the pool drains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pagedlab import serving
from pagedlab.advice.block_cost import Hits
from pagedlab.policies import Rules
from pagedlab.server import Run
from pagedlab.steptime import StepTime
from pagedlab.workloads import Workload

WINDOW = 5_000
MAX_STEPS = {False: 2_000_000, True: 500_000}
"""Steps after which a run is cut short: with all requests waiting, and timed, where each costs time."""
WATERMARKS = (0.0, 0.01, 0.02, 0.05)
POLICIES = {
    "paged": "blocks as tokens come",
    "virtual": "virtual memory, granules as tokens come",
    "power-of-two": "contiguous, next power of two (knowing the output's length)",
    "reserve": "contiguous, as long as the longest request",
}


@dataclass(frozen=True)
class Pool:
    """What is served from: slots, block size, the limit on requests, and how long a step takes."""

    slots: int
    block_size: int
    max_running: int
    step_time: StepTime


@dataclass(frozen=True)
class Served:
    """One simulated run in figures; `full_running` is None when nobody ever waited."""

    requests: int
    full_running: float | None
    peak_running: int
    peak_held_share: float
    preemptions: int
    recomputed_tokens: int
    seconds: float
    refused: int
    cut_short: bool


def serve(
    workload: Workload, pool: Pool, policy: str = "paged", *, timed: bool = False, **rules: float
) -> Served:
    """Serve the window, all requests waiting from the start, or arriving as recorded (`timed`)."""
    window = workload.first(WINDOW)
    chosen = Rules(max_seqs=pool.max_running, **rules)  # type: ignore[arg-type]
    if policy in ("reserve", "power-of-two"):
        chosen = replace(chosen, holes=False)  # kind to them: holes never stand in the way
    run = serving.simulate(
        window,
        policy,
        num_slots=pool.slots,
        block_size=pool.block_size,
        rules=chosen,
        step_time=pool.step_time if timed else None,
        max_steps=MAX_STEPS[timed],
        record=False,
    )
    return _figures(serving.uncut(run), pool)


def _figures(run: Run, pool: Pool) -> Served:
    steps = run.steps
    full = steps.waiting > 0
    return Served(
        len(run.workload),
        float(steps.running[full].mean()) if full.any() else None,
        int(steps.running.max(initial=0)),
        float(steps.held.max(initial=0)) / pool.slots,
        int(steps.preempted.sum()),
        run.recomputed_tokens,
        float(pool.step_time.of_steps(steps).sum()) / 1e9,
        run.refused,
        run.stopped is not None,
    )


def best_watermark(workload: Workload, pool: Pool) -> tuple[float, dict[float, Served]]:
    """The share kept free at admission that finishes first, the least on a tie, and every run."""
    runs = {share: serve(workload, pool, watermark=share) for share in WATERMARKS}
    return min(runs, key=lambda share: (runs[share].seconds, share)), runs


def found_in_pool(workload: Workload, pool: Pool, seen: Hits) -> Hits:
    """What of the prefixes seen before this pool would still have in its cache, by request.

    A prefix is found only while nobody has taken its blocks, so a full pool finds less than was ever seen,
    often many times less: this, not the unlimited cache, is what a server pays for. It is counted in units of
    one hash each, by a manager whose blocks are such units: what it cannot see is a match that ends inside a
    unit, nor that a pool of large blocks holds a little less.
    """
    size, window = seen.tokens_per_hash, workload.first(WINDOW)
    hashes = window.prefix_hashes
    assert hashes is not None
    units = replace(
        window,
        prompt=np.diff(hashes.starts),
        output=-(-window.output // size),
        arrival_ns=None,
        prefix_hashes=replace(hashes, tokens_per_hash=1),
    )
    run = serving.simulate(
        units,
        num_slots=max(1, pool.slots // size),
        block_size=1,
        rules=Rules(max_seqs=pool.max_running, prefix_caching=True),
        max_steps=200_000,
        record=False,
    )
    begun = serving.uncut(run).first_step != serving.UNFINISHED
    tokens = np.minimum(run.cached * size, window.prompt)[begun]
    return Hits(tokens, float(tokens.sum() / window.prompt[begun].sum()), size)
