"""Compare how long things take, in a way that survives a busy machine.

    round 1   B  A' A  C        every round runs every case once, in an order drawn anew (and seeded);
    round 2   A  C  B  A'       A' is the baseline a second time: A'/A is what "no difference" looks like;
    round 3   C  A' A  B        ratios are taken within a round, where both sides saw the same machine.

A drift of the machine (a neighbour, a clock that steps down) falls on all cases alike. What is reported is
the median and the quartiles, and a ratio inside the noise floor is called "no difference seen". The record
names the device, threads, versions and layouts, since a time means nothing without them. Whether a case finds
its data in a cache is a condition too: COLD pushes all data out before every sample, WARM runs the case once
before it. Nothing here imports torch unless a GPU is timed.
"""

from __future__ import annotations

import contextlib
import gc
import math
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pagedlab import machine
from pagedlab.comparison import AS_LEFT, COLD, WARM, Comparison, Timing

if TYPE_CHECKING:
    import numpy as np

MAX_CALLS = 10_000


@dataclass(frozen=True)
class Case:
    """Something to time. `layout` says where its data lie; `bytes_moved` is what one call must read and
    write."""

    name: str
    call: Callable[[], object]
    layout: str = ""
    bytes_moved: int | None = None


class CaseFailed(RuntimeError):
    """A case raised while it was timed; the message names the case, `__cause__` is what it raised."""


class Clock(Protocol):
    """What measures: `measure` runs a call some times and returns the seconds it all took, `evict` leaves
    nothing in the caches that a case could use."""

    name: str
    device: str

    def measure(self, call: Callable[[], object], calls: int) -> float: ...

    def evict(self) -> None: ...


class HostClock:
    """The host's monotonic clock, for work that is done when the call returns."""

    name = "perf_counter"

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.device = machine.cpu_device()
        self._now = now
        self._filler: np.ndarray | None = None

    def measure(self, call: Callable[[], object], calls: int) -> float:
        start = self._now()
        for _ in range(calls):
            call()
        return self._now() - start

    def evict(self) -> None:
        if self._filler is None:
            import numpy as np

            # Not zeros: the system backs those with one page until they are written.
            self._filler = np.ones(machine.beyond_caches() // 8)
        self._filler.max()  # reading is enough: a cache makes room for what is read


class CpuTimeClock(HostClock):
    """The CPU time of this process: what other work on the machine takes is not in it. For work on one
    thread, because the times of several would add up; on Windows too coarse to be of use, in a browser 0."""

    name = "CPU time"

    def __init__(self) -> None:
        super().__init__(time.process_time)


class CudaClock:
    """CUDA events around the calls, for work that a GPU still does when the call returns."""

    name = "CUDA events"

    def __init__(self, index: int = 0) -> None:
        import torch

        self.device = machine.gpu_device(index)
        self._cuda, self._index = torch.cuda, index
        self._filler = torch.zeros(machine.beyond_caches(), dtype=torch.uint8, device=f"cuda:{index}")

    def measure(self, call: Callable[[], object], calls: int) -> float:
        with self._cuda.device(self._index):
            start, end = (self._cuda.Event(enable_timing=True) for _ in range(2))
            self._cuda.synchronize()
            start.record()
            for _ in range(calls):
                call()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) / 1e3

    def evict(self) -> None:
        self._filler.max()  # reading is enough: a cache makes room for what is read


def compare(
    cases: Mapping[str, Callable[[], object]] | Iterable[Case],
    *,
    again: Callable[[], object] | None = None,
    limit: str | None = None,
    caches: str = AS_LEFT,
    what: str = "",
    repeats: int = 15,
    warmup: int = 2,
    min_time: float = 0.001,
    seed: int = 0,
    clock: Clock | None = None,
    should_stop: Callable[[], bool] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Comparison:
    """Time cases against each other in interleaved rounds.

    `cases` maps a name to a call without arguments, or lists `Case`s; the first is the baseline. A call
    faster than `min_time` seconds is repeated within a round to fill it. `again` does what the baseline does
    on other memory, where the place of data may matter: without it, the baseline itself runs a second time
    for the noise floor. `limit` names the case that only reads its bytes, as fast as can be: the others are
    also shown as a share of its speed. `caches` is AS_LEFT (by whichever case ran before), WARM, or COLD,
    which times one call a sample. `clock` is the host's unless a `CudaClock` is given. `should_stop` is asked
    before every sample, and Ctrl-C is heard: both keep the rounds that were finished (Ctrl-C before the first
    goes on as KeyboardInterrupt). `progress(done, repeats)` is called after each round.

    Raises ValueError or TypeError for cases or counts that make no sense, CaseFailed when a case raises.

    >>> result = compare({"sum": lambda: sum(range(100)), "max": lambda: max(range(100))}, repeats=3)
    >>> result.rounds, result["max"].median > 0
    (3, True)
    """
    listed = _checked_cases(cases, limit)
    if caches not in (AS_LEFT, WARM, COLD):
        raise ValueError(f"caches={caches!r}: must be one of {AS_LEFT!r}, {WARM!r}, {COLD!r}")
    for name, count in (("repeats", repeats), ("warmup", warmup)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"{name}={count!r}: must be a whole number of rounds, at least 1")
    if not 0 <= min_time < math.inf:
        raise ValueError(f"min_time={min_time!r}: must be a number of seconds, at least 0")
    ticking = clock or HostClock()
    second = replace(listed[0], call=again or listed[0].call)
    samples = _Samples(ticking, [*listed, second], caches, should_stop)
    stopped = ""
    try:
        with _no_collection():
            samples.warm_up(warmup, min_time)
            order = random.Random(seed)
            for done in range(repeats):
                samples.run_round(order)
                if progress:
                    progress(done + 1, repeats)
    except _Stop:
        stopped = "stopped as asked"
    except KeyboardInterrupt:
        if not samples.rounds:
            raise
        stopped = "interrupted"
    *timed, second_runs = zip(*samples.rounds, strict=True) if samples.rounds else [()] * (len(listed) + 1)
    return Comparison(
        what=what,
        baseline=second.name,
        timings=tuple(
            Timing(case.name, case.layout, case.bytes_moved, calls, tuple(seconds))
            for case, calls, seconds in zip(listed, samples.calls, timed, strict=False)
        ),
        again=tuple(second_runs),
        device=ticking.device,
        clock=ticking.name,
        threads=_threads(),
        versions=machine.versions(),
        warmup=warmup,
        planned=repeats,
        seed=seed,
        stopped=stopped,
        limit=limit or "",
        caches=caches,
    )


def deadline(seconds: float) -> Callable[[], bool]:
    """A `should_stop` that says yes once so many seconds have passed from now.

    >>> deadline(60)(), deadline(0)()
    (False, True)
    """
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


class _Stop(Exception):
    pass


class _Samples:
    """The rounds of a running comparison, the last case being the first once more; only whole ones count."""

    def __init__(
        self, clock: Clock, cases: list[Case], caches: str, should_stop: Callable[[], bool] | None
    ) -> None:
        self.clock, self.cases, self.caches, self.should_stop = clock, cases, caches, should_stop
        self.calls = [1] * len(cases)
        self.rounds: list[list[float]] = []

    def warm_up(self, rounds: int, min_time: float) -> None:
        for _ in range(rounds):
            once = [self._sample(index) for index in range(len(self.cases))]
        if self.caches != COLD:  # of several calls only the first would find nothing in a cache
            self.calls = [_calls_to_fill(min_time, seconds) for seconds in once]
        self.calls[-1] = self.calls[0]

    def run_round(self, order: random.Random) -> None:
        indices = list(range(len(self.cases)))
        order.shuffle(indices)
        taken = {index: self._sample(index) for index in indices}
        self.rounds.append([taken[index] for index in range(len(self.cases))])

    def _sample(self, index: int) -> float:
        if self.should_stop and self.should_stop():
            raise _Stop
        case, calls = self.cases[index], self.calls[index]
        try:
            if self.caches == COLD:
                self.clock.evict()
            elif self.caches == WARM:
                case.call()
            return self.clock.measure(case.call, calls) / calls
        except Exception as error:
            raise CaseFailed(f"case {case.name!r} failed: {type(error).__name__}: {error}") from error


def _calls_to_fill(min_time: float, once: float) -> int:
    if once >= min_time:
        return 1
    return min(MAX_CALLS, math.ceil(min_time / once)) if once > 0 else MAX_CALLS


def _checked_cases(
    cases: Mapping[str, Callable[[], object]] | Iterable[Case], limit: str | None
) -> list[Case]:
    listed = [Case(*item) for item in cases.items()] if isinstance(cases, Mapping) else list(cases)
    for case in listed:
        if not isinstance(case, Case) or not isinstance(case.name, str) or not callable(case.call):
            raise TypeError(f"cases: {case!r} is neither a Case nor a name with a call")
    names = [case.name for case in listed]
    if not names:
        raise ValueError("cases: there is nothing to time")
    if len(set(names)) < len(names):
        raise ValueError(f"cases: names must differ, got {', '.join(names)}")
    if limit is not None and limit not in names:
        raise ValueError(f"limit={limit!r}: not among the cases {', '.join(names)}")
    return listed


def _threads() -> dict[str, int]:
    """Threads of the pools that are loaded: what is not imported has no threads to count."""
    loaded = {name: sys.modules.get(name) for name in ("torch", "numba")}
    return {name: module.get_num_threads() for name, module in loaded.items() if module}


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """A garbage collection inside one sample would be charged to whoever happened to run."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
