"""Serving a workload from a pool, whatever the policy: `simulate` and what it needs to be told.

    simulate(workload, policy, num_slots=..., rules=Rules(...), step_time=StepTime(...)) -> Run

The steps themselves are told in `pagedlab.server`, the policies in `pagedlab.policies`, the time that a
step takes in `pagedlab.steptime`. Nothing here is random: the same workload gives the same run.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pagedlab._bar import bar
from pagedlab.inputs import at_least
from pagedlab.memory import Refusal, Request
from pagedlab.policies import POLICIES, Rules, memory_for
from pagedlab.server import REFUSED, UNFINISHED, Run, Tokens
from pagedlab.steps import Steps
from pagedlab.steptime import ASSUMED, StepTime, fit
from pagedlab.workloads import Workload

__all__ = [
    "ASSUMED", "POLICIES", "REFUSED", "UNFINISHED", "Refusal", "Request", "Rules", "Run", "StepTime", "Steps",
    "Tokens", "fit", "simulate", "start",
]  # fmt: skip

_WITHOUT_END = 1 << 62


def start(
    workload: Workload,
    policy: str = "paged",
    *,
    num_slots: int,
    block_size: int = 16,
    rules: Rules | None = None,
    step_time: StepTime | None = None,
    record: bool = True,
) -> Run:
    """A run before its first step, for those who want to step it themselves; arguments as `simulate`."""
    rules = rules or Rules()
    memory = memory_for(workload, policy, num_slots, block_size, rules, record=record)
    return Run(workload, policy, memory, rules, step_time, every_token=record or rules.prefix_caching)


def simulate(
    workload: Workload,
    policy: str = "paged",
    *,
    num_slots: int,
    block_size: int = 16,
    rules: Rules | None = None,
    step_time: StepTime | None = None,
    max_steps: int | None = None,
    max_events: int | None = None,
    record: bool = True,
    progress: bool = False,
    should_stop: Callable[[], bool] | None = None,
) -> Run:
    """Serve a workload from a pool of `num_slots` slots and return the run, complete or cut short.

    `policy` is one of `POLICIES`; `block_size` matters to "paged" alone, whose pool is
    `num_slots // block_size` blocks. `rules` bound the batch (`policies.Rules`). Without `step_time`
    every request is there from the start; with it, requests arrive as recorded while steps take that
    long: as assumed, as measured elsewhere (`fit`) or as measured here (`pagedlab.measured_steps`). With
    `record=False` no event is kept and the run is many times faster; its figures, tables and blocks are
    the same.

    A request that an empty pool could not hold is refused, never waited for: `Run.refusals` has the
    numbers. The run ends early after `max_steps` steps, once `max_events` events are logged, when
    `should_stop()` says so (asked between steps), or on Ctrl-C; then `Run.stopped` says which, and all
    up to there is kept. `progress` shows a bar on standard error.

    Raises `ValueError` for a policy, pool, rule or limit that cannot be, `TypeError` for a count that is no
    integer.

    >>> from pagedlab.workloads import parse
    >>> run = simulate(parse("input_length,output_length\\n4,5\\n4,5\\n"), num_slots=12, block_size=4)
    >>> run.finish_step.tolist(), run.steps.running.tolist()
    ([4, 8], [2, 1, 1, 1, 1, 1, 1, 1, 1])
    >>> run.tokens
    Tokens(prefilled=8, decoded=8, recomputed=4, cached=0, computed=20)
    """
    for name, most in (("max_steps", max_steps), ("max_events", max_events)):
        if most is not None:
            at_least(0, most, name)
    run = start(
        workload,
        policy,
        num_slots=num_slots,
        block_size=block_size,
        rules=rules,
        step_time=step_time,
        record=record,
    )
    limit = _WITHOUT_END if max_steps is None else max_steps
    looks = {"desc": f"serving {workload.name}", "unit": " requests"}
    with _interrupts() as interrupted, bar(progress, len(workload), **looks) as more:
        while not run.complete:
            if run.busy_steps >= limit:
                run.stopped = "max_steps"
            elif max_events is not None and len(run.events) >= max_events:
                run.stopped = "max_events"
            elif interrupted():
                run.stopped = "interrupted"
            elif should_stop is not None and should_stop():
                run.stopped = "should_stop"
            if run.stopped:
                break
            done = run.done
            run.advance(limit - run.busy_steps)
            more(run.done - done)
    return run


def uncut(run: Run) -> Run:
    """The run, unless Ctrl-C cut it short: then `KeyboardInterrupt`, lest anybody take it for the whole."""
    if run.stopped == "interrupted":
        raise KeyboardInterrupt
    return run


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Ctrl-C, kept until it is asked about: in the middle of a step it would leave half a step behind.

    Python delivers it to the main thread alone, and only there can it be caught.
    """
    seen: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        seen.append(number)

    in_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if in_main else None
    if before is None:  # another thread, or a handler that Python could not put back
        yield lambda: False
        return
    signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, before)
