"""The requests that wait in line, and those that run: what is due for whom at which step.

A request that decodes stores one token a step, so that two things are known in advance: the steps at which
its last block is full and it needs memory, and the step of its last token. Both stand in an agenda. A
step that looks at the agenda alone meets the few requests for whom something happens.

At most one request is not decoding: the newest, while the tokens it knows are stored in chunks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from pagedlab.memory import Memory, Request
from pagedlab.workloads import Workload


class Line:
    """Requests in line: those that lost their memory, the newest in front, then those that never ran.

    One that never ran is a number until it is looked at, as there may be millions. `arrivals` are in order.
    """

    def __init__(self, workload: Workload, arrivals: Sequence[int]) -> None:
        self.arrived = 0
        """Requests whose time has come."""
        self._workload, self._arrivals = workload, arrivals
        self._waiting: deque[Request | int] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        return map(self._request, self._waiting)

    @property
    def next_arrival(self) -> int | None:
        """When the next one comes, None when all have."""
        return self._arrivals[self.arrived] if self.arrived < len(self._arrivals) else None

    def arrive(self) -> Request:
        """The next one is here; it is in line once it has joined."""
        self.arrived += 1
        return self._request(self.arrived - 1)

    def join(self, request: Request) -> None:
        """Wait behind all others."""
        self._waiting.append(request.id)

    def come_back(self, request: Request) -> None:
        """Wait before all others."""
        self._waiting.appendleft(request)

    @property
    def first(self) -> Request:
        """The one to be admitted next."""
        self._waiting[0] = first = self._request(self._waiting[0])
        return first

    def leave(self) -> None:
        """The first one was admitted."""
        self._waiting.popleft()

    def _request(self, entry: Request | int) -> Request:
        if isinstance(entry, Request):
            return entry
        prompt, output = int(self._workload.prompt[entry]), int(self._workload.output[entry])
        return Request(entry, prompt, output, self._arrivals[entry])


class Agenda:
    """Requests by the step at which something is due for them, in order of admission within a step.

    That order comes by itself: what falls on one step was entered either at the same earlier step, in
    order, or later by a request that was admitted later.

    >>> agenda = Agenda()
    >>> agenda.enter(7, Request(id=0, prompt=1, output=1, arrival=0))
    >>> agenda.next_step(now=3, default=99), len(agenda.pop(7)), agenda.next_step(now=8, default=99)
    (7, 1, 99)
    """

    def __init__(self) -> None:
        self._days: dict[int, list[Request]] = {}
        self._steps: list[int] = []

    def enter(self, step: int, request: Request) -> None:
        """Something is due for the request at that step."""
        day = self._days.get(step)
        if day is None:
            self._days[step] = [request]
            heappush(self._steps, step)
        else:
            day.append(request)

    def strike(self, step: int, request: Request) -> None:
        """Take an entry back; a step may be left without any."""
        self._days[step].remove(request)

    def pop(self, step: int) -> Sequence[Request]:
        """The requests of that step, which is over then."""
        return self._days.pop(step, ())

    def next_step(self, now: int, default: int) -> int:
        """The first step from `now` on with an entry."""
        steps = self._steps
        while steps and steps[0] < now:
            heappop(steps)
        return steps[0] if steps else default


class Batch:
    """The running requests, over the memory that holds their tokens.

    With `every_token` the memory is told of each token at its step. Without, it is told when a request
    needs a block, and of the rest when somebody looks (`settle`): the blocks are the same.
    """

    def __init__(self, memory: Memory, every_token: bool) -> None:
        self.running: dict[int, Request] = {}  # in order of admission
        self.stored = 0
        """Tokens stored by all of them, as of the last step that grew."""
        self.final = 0
        """Tokens that all of them will have stored in the end."""
        self.prefilling: Request | None = None
        self._memory, self._every_token = memory, every_token
        self._growth, self._last = Agenda(), Agenda()

    def __len__(self) -> int:
        return len(self.running)

    @property
    def decoding(self) -> int:
        """Requests that produce a token in every step."""
        return len(self.running) - (self.prefilling is not None)

    @property
    def newest(self) -> Request:
        """The one admitted last."""
        return next(reversed(self.running.values()))

    def stored_by(self, request: Request, step: int) -> int:
        """Tokens that a running request has stored once that step has grown."""
        if request is self.prefilling:
            return request.stored
        return request.final - (request.last_step - step)

    def quiet_until(self, now: int, at_most: int) -> int:
        """The first step from `now` on, `at_most` if there is none before, with more than growth that
        needs no memory."""
        if self._every_token or self.prefilling or not self.running:
            return now
        return min(self._last.next_step(now, at_most), self._growth.next_step(now, at_most), at_most)

    def settle(self, step: int) -> None:
        """Tell the memory of every token stored up to that step."""
        for request in self.running.values():
            self._store(request, self.stored_by(request, step) - request.stored)

    # ---- what a step does --------------------------------------------------------------------

    def to_grow(self, now: int) -> Sequence[Request]:
        """Decoding requests that may need memory in this step, oldest first."""
        if not self._every_token:
            return self._growth.pop(now)
        return [request for request in self.running.values() if request is not self.prefilling]

    def grow(self, request: Request, now: int) -> bool:
        """Store its token of this step; False when there is no memory for it."""
        if not self._store(request, self.stored_by(request, now) - request.stored):
            return False
        if self._memory.growth:
            self._plan_growth(request, now + self._memory.growth)
        return True

    def prefill(self, tokens: int, now: int) -> bool:
        """Store the next chunk of the request that is prefilling; False when there is no memory."""
        request = self.prefilling
        if request is None or not self._store(request, tokens):
            return False
        self.stored += tokens
        self._decode_if_known(request, now)
        return True

    def add(self, request: Request, tokens: int, now: int) -> None:
        """The request was admitted, `tokens` of what it knows are stored."""
        self.running[request.id] = request
        self.stored += tokens
        self.final += request.final
        request.stored = tokens
        self._decode_if_known(request, now)

    def preempt(self, request: Request, now: int) -> int:
        """Take the newest out, before it has grown in this step; the tokens it had stored are lost."""
        lost = self.stored_by(request, now - 1)
        if request is self.prefilling:
            self.prefilling = None
        else:
            request.produced = lost - request.prompt + 1
            self._last.strike(request.last_step, request)
            if request.next_growth > now:
                self._growth.strike(request.next_growth, request)
        self._remove(request, lost)
        self._memory.preempt(request)
        request.stored = 0
        return lost

    def finish(self, now: int) -> Sequence[Request]:
        """Take out those that produce their last token in this step; they hold their memory still."""
        finished = self._last.pop(now)
        for request in finished:
            self._store(request, request.final - request.stored)
            self._remove(request, request.final)
        return finished

    # ---- inside ------------------------------------------------------------------------------

    def _remove(self, request: Request, stored: int) -> None:
        del self.running[request.id]
        self.stored -= stored
        self.final -= request.final

    def _store(self, request: Request, tokens: int) -> bool:
        if tokens and not self._memory.store(request, tokens):
            return False
        request.stored += tokens
        return True

    def _decode_if_known(self, request: Request, now: int) -> None:
        """Once all its tokens are stored, it produces one a step, this step included."""
        if request.stored < request.known:
            self.prefilling = request
            return
        if request is self.prefilling:
            self.prefilling = None
        request.last_step = now + request.output - request.produced - 1
        self._last.enter(request.last_step, request)
        if self._memory.growth:
            self._plan_growth(request, now + 1 + -request.known % self._memory.growth)

    def _plan_growth(self, request: Request, step: int) -> None:
        """Enter the next step at which its last block is full and it has a token to store."""
        request.next_growth = 0
        if not self._every_token and step <= request.last_step:
            request.next_growth = step
            self._growth.enter(step, request)
