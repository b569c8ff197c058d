"""A server in steps: requests wait, are admitted, grow by a token a step, and leave.

One step is one forward pass, in this order:

    leave      what finished in the last step gives its memory back
    arrive     requests whose time has come join the waiting line
    grow       every running request stores the token it produced last; if there is no block for it,
               the newest running request is preempted: it loses its blocks and waits in front
    admit      from the front of the line while memory lasts, unless somebody was preempted
    measure    what is held, stored and wasted
    produce    every running request produces a token; the last one is never stored

Time is the step, whatever the step holds: this counts memory, not seconds. No prefix is shared and a
prompt is admitted whole. The contiguous policies follow the same steps; what they hold never grows, so
nobody is preempted.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from pagedlab.events import EventLog
from pagedlab.policies import POLICIES, Memory, Request, memory_for
from pagedlab.workloads import Workload

__all__ = ["POLICIES", "REFUSED", "UNFINISHED", "Run", "Steps", "simulate"]

UNFINISHED, REFUSED = -1, -2


@dataclass
class Steps:
    """What each step looked like once it had grown and admitted: one entry a step."""

    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)
    internal: list[int] = field(default_factory=list)
    external: list[int] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.running)

    def mean(self, column: str) -> float:
        """Mean of a column over the steps, 0 when there were none."""
        values = getattr(self, column)
        return sum(values) / len(values) if values else 0.0


class Run:
    """A simulation that can be stepped; `simulate` makes one and steps it to its end."""

    def __init__(
        self, workload: Workload, policy: str, memory: Memory, max_seqs: int | None, step_ns: int | None
    ) -> None:
        self.policy = policy
        self.manager = memory.manager
        self.steps = Steps()
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.finish_step = np.full(len(workload), UNFINISHED, dtype=np.int64)
        self.recomputed_tokens = 0
        self.now = 0
        self._memory = memory
        self._max_seqs = max_seqs or len(workload)
        self._leaving: list[Request] = []
        self._stored = self._final = 0  # sums over the running
        prompts, outputs = workload.prompt.tolist(), workload.output.tolist()
        if step_ns is None or workload.arrival_ns is None:
            eligible = [0] * len(workload)
        else:
            eligible = (-(-workload.arrival_ns // step_ns)).tolist()
        self._to_come = deque(
            (step, Request(id, prompt, output))
            for id, (step, prompt, output) in enumerate(zip(eligible, prompts, outputs, strict=True))
        )

    @property
    def events(self) -> EventLog:
        """The manager's log, one closed step for each step of the run."""
        return self.manager.events

    @property
    def finished(self) -> int:
        """Requests that have all their tokens."""
        return int((self.finish_step >= 0).sum())

    @property
    def refused(self) -> int:
        """Requests that would not fit into an empty pool."""
        return int((self.finish_step == REFUSED).sum())

    @property
    def complete(self) -> bool:
        """Whether every request has finished or been refused."""
        return not (self.running or self.waiting or self._to_come)

    def step(self) -> None:
        """One step, as the head of this module tells it."""
        if not self.running and not self.waiting and self._to_come:
            self.now = max(self.now, self._to_come[0][0])  # nothing to do until somebody arrives
        self._leave()
        self._arrive()
        preempted = self._grow()
        if not preempted:
            self._admit()
        if self.running or self.waiting:
            self._measure(preempted)
            self._produce()
            self.events.end_step()
        self.now += 1

    def _leave(self) -> None:
        for request in self._leaving:
            self.manager.free(request.id)
        self._leaving.clear()

    def _arrive(self) -> None:
        while self._to_come and self._to_come[0][0] <= self.now:
            _, request = self._to_come.popleft()
            if self._memory.can_ever_hold(request):
                self.waiting.append(request)
            else:
                self.finish_step[request.id] = REFUSED

    def _grow(self) -> int:
        preempted = 0
        grow = self._memory.grow
        for request in list(self.running):
            while request.stored:  # 0 once it has been preempted itself
                if grow(request):
                    request.stored += 1
                    self._stored += 1
                    break
                self._preempt(self.running[-1])
                preempted += 1
        return preempted

    def _preempt(self, request: Request) -> None:
        self.running.remove(request)
        self.manager.free(request.id)
        self.waiting.appendleft(request)
        self.recomputed_tokens += request.stored
        self._stored -= request.stored
        self._final -= request.final
        request.stored = 0

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self._max_seqs:
            request = self.waiting[0]
            if not self._memory.admit(request):
                return
            self.running.append(self.waiting.popleft())
            request.stored = request.known
            self._stored += request.stored
            self._final += request.final

    def _measure(self, preempted: int) -> None:
        next_in_line = self.waiting[0] if self.waiting else None
        account = self._memory.measure(self._stored, self._final, next_in_line)
        steps = self.steps
        steps.running.append(len(self.running))
        steps.waiting.append(len(self.waiting))
        steps.held.append(account.held)
        steps.stored.append(self._stored)
        steps.reserved.append(account.reserved)
        steps.internal.append(account.internal)
        steps.external.append(account.external)
        steps.preempted.append(preempted)

    def _produce(self) -> None:
        for request in self.running:
            request.produced += 1
            if request.produced == request.output:
                self.finish_step[request.id] = self.now
                self._leaving.append(request)
                self._stored -= request.stored
                self._final -= request.final
        if self._leaving:
            self.running = [r for r in self.running if r.produced < r.output]


def simulate(
    workload: Workload,
    policy: str = "paged",
    *,
    num_slots: int,
    block_size: int = 16,
    max_seqs: int | None = None,
    step_ns: int | None = None,
    max_steps: int | None = None,
    max_events: int | None = None,
    record: bool = True,
) -> Run:
    """Serve a workload from a pool of `num_slots` slots and return the run, complete or cut short.

    `policy` is one of `POLICIES`; `block_size` matters to "paged" alone, whose pool is
    `num_slots // block_size` blocks. Without `step_ns` (nanoseconds a step) every request is there
    from the start. The run stops after `max_steps` steps or once `max_events` events are logged.
    A request that an empty pool could not hold is refused and counted, never waited for.

    >>> from pagedlab.workloads import parse
    >>> run = simulate(parse("input_length,output_length\\n4,5\\n4,5\\n"), num_slots=12, block_size=4)
    >>> run.finish_step.tolist(), run.steps.running
    ([4, 8], [2, 1, 1, 1, 1, 1, 1, 1, 1])
    """
    memory = memory_for(workload, policy, num_slots, block_size, record=record)
    run = Run(workload, policy, memory, max_seqs, step_ns)
    while not run.complete:
        if max_steps is not None and len(run.steps) >= max_steps:
            break
        if max_events is not None and len(run.events) >= max_events:
            break
        run.step()
    return run
