"""Ranks as processes on this machine: started, listened to, and never left behind.

Every rank is `python -m pagedlab.parallel` with the environment that torchrun would give it, so what runs
here runs under torchrun on several machines. This process holds the store where the ranks meet, since it
outlives any of them, and the other end of their standard input: when it goes, they go.
"""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from pagedlab.parallel.plan import SAID_WHY, Plan
from pagedlab_kernels.inside.child import environment


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    `culprit` is the rank at fault, `last_step` the step it was in, `why` what was found, all None for a run
    that did all its steps; `took_s` is the time from the first sign of the end to the end of the last rank.
    """

    complete: bool
    culprit: int | None = None
    last_step: int | None = None
    why: str | None = None
    told: tuple[int, ...] = ()
    """Ranks that ended by themselves and named the culprit."""
    took_s: float = 0.0


@dataclass
class RanksRun:
    """All that a run said: a record a rank and step, the shards, and how it ended."""

    plan: Plan
    records: list[dict[str, Any]] = field(default_factory=list)
    shards: list[dict[str, Any]] = field(default_factory=list)
    ending: Ending | None = None

    def of_rank(self, rank: int) -> list[dict[str, Any]]:
        """The records of one rank, in the order of steps."""
        return [record for record in self.records if record["rank"] == rank]

    @property
    def largest_error(self) -> float:
        """Between what all ranks answered together and what rank 0 answered alone; needs `verify`."""
        return max((record["error"] for record in self.records if "error" in record), default=0.0)

    @property
    def steps_in_step(self) -> int:
        """Steps after which every rank held the same tables."""
        digests: dict[int, list[str]] = {}
        for record in self.records:
            digests.setdefault(record["step"], []).append(record["digest"])
        return sum(len(seen) == self.plan.ranks and len(set(seen)) == 1 for seen in digests.values())


class Ranks:
    """The processes of a plan. Start them, listen, and close: `with Ranks(plan) as ranks: ...`."""

    def __init__(self, plan: Plan) -> None:
        self.outcome = RanksRun(plan)
        self._lines: queue.Queue[tuple[int, str | None]] = queue.Queue()
        self._errors: dict[int, list[str]] = {}
        self._readers: list[threading.Thread] = []  # of what each rank says on standard error
        self._faults: list[dict[str, Any]] = []
        self._ended: list[int] = []  # ranks, in the order in which they ended
        self._ended_at: float | None = None
        self._late = False
        self._processes: list[subprocess.Popen[str]] = []
        self._closed = False
        self._turn = threading.Lock()  # no process starts once it is closed

    def __enter__(self) -> Ranks:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start every rank and return at once; none when it was closed before."""
        # Ctrl-C in the middle of importing torch would leave half of it behind, and it cannot be imported
        # twice; it reaches the main thread alone, which only waits here.
        distributed = ThreadPoolExecutor(1).submit(import_module, "torch.distributed").result()
        try:
            self._store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
            for rank in range(self.outcome.plan.ranks):
                with self._turn:
                    if self._closed:
                        break
                    self._processes.append(self._spawn(rank))
                for read in (self._read_out, self._read_err):
                    reader = threading.Thread(target=read, args=(rank, self._processes[rank]), daemon=True)
                    reader.start()
                self._readers.append(reader)
        except BaseException:
            self.close()
            raise

    def _spawn(self, rank: int) -> subprocess.Popen[str]:
        plan = self.outcome.plan
        told = environment(
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE=str(plan.ranks),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(self._store.port),
            TORCHELASTIC_USE_AGENT_STORE="True",
            PAGEDLAB_LAUNCHED="1",
            OMP_NUM_THREADS="1",
            NUMBA_NUM_THREADS="1",
        )
        return subprocess.Popen(
            [sys.executable, "-m", "pagedlab.parallel", "--plan", plan.to_json()],
            env=told,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            process_group=0,  # Ctrl-C is for the launcher, which ends them; a kernel that is interrupted, too
        )

    def _read_out(self, rank: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._lines.put((rank, line))
        self._lines.put((rank, None))

    def _read_err(self, rank: int, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        kept = self._errors.setdefault(rank, [])
        with process.stderr:
            for line in process.stderr:
                kept.append(line)
                del kept[:-20]

    def listen(self) -> Iterator[dict[str, Any]]:
        """Each record as it comes, until every rank has ended; then `outcome.ending` is there."""
        open_ranks = set(range(len(self._processes)))
        while open_ranks:
            rank, line = self._next_line()
            if line is None:
                open_ranks.discard(rank)
                self._ended.append(rank)
                if open_ranks and self._ended_at is None:
                    self._ended_at = time.monotonic()
                continue
            record = _record(line)
            if record is None:
                continue
            if "fault" in record:
                self._faults.append(record)
                self._ended_at = self._ended_at or time.monotonic()
            elif "step" in record:
                self.outcome.records.append(record)
            else:
                self.outcome.shards.append(record)
            yield record
        self.outcome.ending = self._ending()

    def _next_line(self) -> tuple[int, str | None]:
        """What a rank says next; once one has ended, the others have their patience to follow it."""
        plan = self.outcome.plan
        while True:
            try:
                return self._lines.get(timeout=0.2)
            except queue.Empty:
                patience = 2 * plan.patience_s
                self._late = self._ended_at is not None and time.monotonic() - self._ended_at > patience
                if self._late:
                    self._kill()

    def _ending(self) -> Ending:
        if self._closed:
            return Ending(complete=False, why="it was stopped")
        codes = [process.wait() for process in self._processes]
        if not any(codes):
            return Ending(complete=True)
        took = time.monotonic() - (self._ended_at or time.monotonic())
        told = tuple(sorted(fault["rank"] for fault in self._faults))
        failed = [rank for rank in self._ended if codes[rank]]
        rank = next((rank for rank in failed if codes[rank] not in SAID_WHY), failed[0])
        stood_still = self._late  # and was killed here: the others know more of it than its code says
        if self._faults and (stood_still or codes[rank] in SAID_WHY):
            fault = min(self._faults, key=lambda fault: fault["fault"] != "out of step")
            return Ending(False, fault["culprit"], fault["last_step"], fault["why"], told, took)
        last = max((record["step"] for record in self.outcome.of_rank(rank)), default=-1) + 1
        return Ending(False, rank, last, self._last_words(rank, codes[rank]), told, took)

    def _last_words(self, rank: int, code: int) -> str:
        if code < 0:
            return f"its process died of {signal.Signals(-code).name}"
        self._readers[rank].join(timeout=1.0)
        said = "".join(self._errors.get(rank, [])).strip().splitlines()
        return said[-1] if said else f"its process ended with code {code}"

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()

    def close(self) -> None:
        """End every rank, whatever it is doing, and wait until it is gone; none starts any more."""
        with self._turn:
            self._closed = True
            self._kill()
        for process in self._processes:
            process.wait()
            assert process.stdin is not None
            process.stdin.close()


def _record(line: str) -> dict[str, Any] | None:
    """What a rank said in a line; a line that a kill cut short, or that a library printed, says nothing."""
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) and "rank" in said else None


def run(plan: Plan) -> RanksRun:
    """Run a plan to its end on this machine. Ctrl-C ends every rank first.

    >>> outcome = run(Plan(ranks=2, steps=5))
    >>> outcome.ending.complete, outcome.steps_in_step, outcome.largest_error < 1e-5
    (True, 5, True)
    """
    with Ranks(plan) as ranks:
        for _ in ranks.listen():
            pass
        return ranks.outcome
