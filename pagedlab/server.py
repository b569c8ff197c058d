"""A server in steps: requests wait, are admitted, grow by a token a step, and leave.

One step is one forward pass, in this order:

    leave      what finished in the last step gives its memory back
    arrive     requests whose time has come join the waiting line
    grow       every running request stores the token it produced last; if there is no memory for it,
               the newest running request is preempted: it loses its memory and waits in front
    admit      from the front of the line while memory lasts, unless somebody was preempted
    measure    what is held, stored and wasted
    produce    every running request produces a token; the last one is never stored

With a token budget, prompts are computed in chunks: those that decode take a token each, the newest
request what is left of the budget, and it produces nothing before all its tokens are known.

In most steps little of this happens to anybody, and a run that keeps no event log looks only at the
requests for whom something is due, and jumps over steps in which nothing is (`pagedlab.batch`). Every
figure, table and block is the same as when each token is stored at its step, which is what a run with
a log does; tests compare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pagedlab.batch import Batch, Line
from pagedlab.contiguous import ContiguousManager
from pagedlab.events import EventLog
from pagedlab.manager import BlockManager
from pagedlab.memory import Memory, Refusal, Request
from pagedlab.policies import Rules
from pagedlab.steps import Row, StepRecorder, Steps
from pagedlab.steptime import Clock, StepTime
from pagedlab.workloads import Workload

UNFINISHED, REFUSED = -1, -2


class Tokens(NamedTuple):
    """Where the tokens of a run came from, so far.

    `computed + cached == prefilled + decoded + recomputed`, after every step of every run.
    """

    prefilled: int
    """Tokens of prompts, stored by requests that run or have finished."""
    decoded: int
    """Produced tokens, stored by the same."""
    recomputed: int
    """Tokens that preemptions threw away: whoever lost them starts anew."""
    cached: int
    """Tokens that were there already when their request was admitted."""
    computed: int
    """Tokens that went through the model."""


class Run:
    """A simulation that can be stepped; `serving.simulate` makes one and steps it to its end.

    `first_step` and `finish_step` (int64, one a request) are the steps of its first and last token,
    `UNFINISHED` before them, `REFUSED` for a request that an empty pool could not hold. `cached` are the
    tokens that each found in the cache when it was first admitted. `now` is the
    next step; steps are numbered through idle time unless their length varies. With `every_token` each
    token is stored at its step; without, the manager is told when it matters or when somebody looks.
    """

    def __init__(
        self,
        workload: Workload,
        policy: str,
        memory: Memory,
        rules: Rules,
        step_time: StepTime | None,
        every_token: bool,
    ) -> None:
        count = len(workload)
        self.policy, self.workload, self.step_time = policy, workload, step_time
        self.first_step = np.full(count, UNFINISHED, dtype=np.int64)
        self.finish_step = np.full(count, UNFINISHED, dtype=np.int64)
        self.preemptions = np.zeros(count, dtype=np.int64)
        self.cached = np.zeros(count, dtype=np.int64)
        self.refusals: list[Refusal] = []
        self.recomputed_tokens = self.cached_tokens = 0
        self.now = 0
        self.stopped: str | None = None
        self._memory = memory
        self._budget = rules.token_budget or math.inf
        self._max_seqs = min(rules.max_seqs or count, self._budget)
        self._batch = Batch(memory, every_token)
        self._leaving: Sequence[Request] = ()
        self._may_admit = True  # False while the head of the line is known not to fit
        self._recorder = StepRecorder(reserves=memory.growth is None)
        self._clock = Clock(step_time)
        self._waiting = Line(workload, self._clock.arrivals(workload))

    # ---- asking ------------------------------------------------------------------------------

    @property
    def manager(self) -> BlockManager | ContiguousManager:
        """The manager, told of every token that the running have stored."""
        self._batch.settle(self.now - 1)
        return self._memory.manager

    @property
    def events(self) -> EventLog:
        """The manager's log, one closed step for each step of the run."""
        return self._memory.manager.events

    @property
    def running(self) -> list[Request]:
        """The requests that run, in order of admission."""
        return list(self._batch.running.values())

    @property
    def waiting(self) -> list[Request]:
        """The requests in line, the next one first."""
        return list(self._waiting)

    @property
    def busy_steps(self) -> int:
        """Steps so far in which somebody ran or waited."""
        return self._recorder.count

    @property
    def steps(self) -> Steps:
        """What each of those steps looked like."""
        return self._recorder.steps()

    @property
    def finished(self) -> int:
        """Requests that have all their tokens."""
        return int((self.finish_step >= 0).sum())

    @property
    def refused(self) -> int:
        """Requests that would not fit into an empty pool; `refusals` has the numbers."""
        return len(self.refusals)

    @property
    def done(self) -> int:
        """Requests that have finished or been refused."""
        return self._waiting.arrived - len(self._batch) - len(self._waiting)

    @property
    def complete(self) -> bool:
        """Whether every request has finished or been refused.

        The last to finish hold their memory still, as the log of the last step shows it: it would come
        back in the next step.
        """
        return not (self._batch.running or self._waiting or self._waiting.next_arrival is not None)

    @property
    def tokens(self) -> Tokens:
        """Where the tokens came from, so far."""
        done = self.finish_step >= 0
        prefilled = int(self.workload.prompt[done].sum())
        decoded = int(self.workload.output[done].sum()) - self.finished
        for request in self._batch.running.values():
            stored = self._batch.stored_by(request, self.now - 1)
            prefilled += min(stored, request.prompt)
            decoded += max(0, stored - request.prompt)
        return Tokens(prefilled, decoded, self.recomputed_tokens, self.cached_tokens, self._recorder.computed)

    # ---- stepping ----------------------------------------------------------------------------

    def advance(self, at_most: int) -> None:
        """The steps before something happens, then the step in which it does; `at_most` in all."""
        quiet = self._quiet_until(self.now + at_most - 1) - self.now
        if quiet > 0:
            batch = self._batch
            batch.stored += batch.decoding
            self._measure(quiet, 0, batch.decoding)
            batch.stored += batch.decoding * (quiet - 1)
            self.now += quiet
            self._clock.skip_steps(quiet)
        self.step()

    def step(self) -> None:
        """One step, as the head of this module tells it."""
        arrival = self._waiting.next_arrival
        if arrival is not None and not (self._batch.running or self._waiting):
            self.now = self._clock.wait_until(arrival, self.now)
        self._leave()
        self._arrive()
        preempted, computed = self._grow()
        if not preempted:
            computed += self._admit(self._budget - computed)
        if self._batch.running or self._waiting:
            self._measure(1, preempted, computed)
            self._clock.pass_step(computed, self._batch.stored)
            self._produce()
            self.events.end_step()
            self.now += 1

    def _quiet_until(self, at_most: int) -> int:
        """The next step in which anything happens but growth that needs no memory."""
        if self._leaving or (self._waiting and self._may_admit):
            return self.now
        until = self._batch.quiet_until(self.now, at_most)
        arrival = self._waiting.next_arrival
        return until if arrival is None else min(until, self._clock.step_of(arrival, self.now))

    def _leave(self) -> None:
        for request in self._leaving:
            self._memory.release(request)
            self._may_admit = True
        self._leaving = ()

    def _arrive(self) -> None:
        line = self._waiting
        while line.next_arrival is not None and line.next_arrival <= self._clock.reading:
            request = line.arrive()
            refusal = self._memory.refusal(request)
            if refusal is None:
                line.join(request)
            else:
                self.refusals.append(refusal)
                self.first_step[request.id] = self.finish_step[request.id] = REFUSED

    def _grow(self) -> tuple[int, int]:
        """Preempted requests, and tokens computed for the others."""
        batch, now, preempted = self._batch, self.now, 0
        for request in batch.to_grow(now):
            while request.id in batch.running and not batch.grow(request, now):
                self._preempt(batch.newest)
                preempted += 1
        computed = batch.decoding
        batch.stored += computed
        request_in_chunks = batch.prefilling
        if request_in_chunks is not None:
            rest = request_in_chunks.known - request_in_chunks.stored
            chunk = int(min(rest, self._budget - computed))
            if batch.prefill(chunk, now):
                computed += chunk
                self._note_first_token(request_in_chunks)
            else:
                self._preempt(request_in_chunks)
                preempted += 1
        return preempted, computed

    def _preempt(self, request: Request) -> None:
        """The newest loses its memory, comes back to the front of the line and starts anew."""
        self.recomputed_tokens += self._batch.preempt(request, self.now)
        self.preemptions[request.id] += 1
        self._waiting.come_back(request)
        self._may_admit = True

    def _admit(self, budget: float) -> int:
        """Tokens computed for those admitted."""
        computed = 0
        while self._waiting and self._may_admit and computed < budget:
            request = self._waiting.first
            most = int(min(request.known, budget - computed))
            full = len(self._batch) >= self._max_seqs
            admitted = None if full else self._memory.admit(request, most)
            if admitted is None:
                self._may_admit = False  # until somebody leaves or is preempted
                break
            tokens, cached = admitted
            self._waiting.leave()
            self._batch.add(request, tokens, self.now)
            self.cached_tokens += cached
            if cached and self.first_step[request.id] == UNFINISHED:
                self.cached[request.id] = cached
            computed += tokens - cached
            self._note_first_token(request)
        return computed

    def _note_first_token(self, request: Request) -> None:
        if request is not self._batch.prefilling and not request.produced:
            self.first_step[request.id] = self.now

    def _measure(self, count: int, preempted: int, computed: int) -> None:
        memory, batch = self._memory, self._batch
        external = memory.in_useless_holes(self._waiting.first) if self._waiting else 0
        self._recorder.add(
            Row(
                repeats=count,
                running=len(batch),
                waiting=len(self._waiting),
                held=memory.held(),
                stored=batch.stored,
                final=batch.final,
                external=external,
                preempted=preempted,
                computed=computed,
            )
        )

    def _produce(self) -> None:
        self._leaving = self._batch.finish(self.now)
        for request in self._leaving:
            self.finish_step[request.id] = self.now
