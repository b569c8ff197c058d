"""A process beside this one, in which things are timed.

What a kernel times in a thread of its own it times badly: the reader's next click runs on the same cores
and waits for the same interpreter. So the timing happens in a second process, one for a kernel. It starts
with the first task, keeps what it made for the next one, and ends with the kernel, or after `IDLE_S` without
a task.

A task is a function of some module (the process imports it) that takes `should_stop` and `progress` besides
its arguments. Tasks and answers travel through a pipe that nobody else can write to.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

IDLE_S = 120.0
GRACE_S = 5.0
"""Seconds that a task has to stop when asked; after that its process is ended."""
_STOP = "stop"


class Stopped(RuntimeError):
    """The task was stopped before it had an answer."""


class WorkerDied(RuntimeError):
    """The process ended in the middle of a task: most often, the system took its memory back."""


class Worker:
    """Runs one task at a time, in a process of its own."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    def run(
        self,
        task: Callable[..., Any],
        *arguments: Any,
        should_stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int], object] = lambda done, of: None,
    ) -> Any:
        """The task's answer, once it is this one's turn; `progress(done, of)` is called as the task goes on.

        Raises what the task raises (as `RuntimeError` what only its modules know), `Stopped` and
        `WorkerDied`.
        """
        with self._turn:
            if should_stop():
                raise Stopped("stopped before it began")
            pipe = self._send((task, arguments))
            try:
                answer, error = self._wait(pipe, should_stop, progress)
            except BaseException:  # what it still sends belongs to nobody
                self.close()
                raise
            if error is not None:
                raise error
            return answer

    def close(self) -> None:
        """End the process; the next task starts another."""
        if self._process is not None:
            self._process.terminate()
            self._process.join()
            self._process = None

    def _send(self, message: object) -> Connection:
        """Give the message to a process that is alive."""
        if self._process is not None and self._process.is_alive() and self._pipe is not None:
            with contextlib.suppress(OSError):  # it was just leaving for want of work
                self._pipe.send(message)
                return self._pipe
        spawned = multiprocessing.get_context("spawn")  # a fork of a kernel would inherit its threads' locks
        self._pipe, theirs = spawned.Pipe()
        self._process = spawned.Process(target=_serve, args=(theirs,), daemon=True, name="pagedlab measuring")
        self._process.start()
        theirs.close()
        self._pipe.send(message)
        return self._pipe

    def _wait(
        self, pipe: Connection, should_stop: Callable[[], bool], progress: Callable[[int, int], object]
    ) -> tuple[Any, Exception | None]:
        """The answer, or the error that came instead."""
        until: float | None = None
        while True:
            try:
                if pipe.poll(0.03):
                    kind, *values = pipe.recv()
                    if kind != "progress":
                        return values[0], values[1]
                    progress(*values)
                elif until is None and should_stop():
                    until = time.monotonic() + GRACE_S
                    pipe.send(_STOP)
            except (EOFError, OSError):
                raise WorkerDied("the measuring process ended in the middle of its work") from None
            if until is not None and time.monotonic() > until:
                raise Stopped("it did not stop when asked, so its process was ended")


WORKER = Worker()
"""The one of this kernel: two measurements at once would time each other."""


def _serve(pipe: Connection) -> None:
    """The process: tasks one after the other, until nobody wants any."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the kernel's interrupt goes to all its processes
    with contextlib.suppress(EOFError, OSError):  # the kernel has gone
        while pipe.poll(IDLE_S):
            message = pipe.recv()
            if message != _STOP:  # a late one, for a task that had finished already
                pipe.send(_answer(pipe, *message))


def _answer(pipe: Connection, task: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[object, ...]:
    stopped = False

    def should_stop() -> bool:
        nonlocal stopped
        stopped = stopped or (pipe.poll() and pipe.recv() == _STOP)
        return stopped

    def progress(done: int, of: int) -> None:
        pipe.send(("progress", done, of))

    try:
        return "done", task(*arguments, should_stop=should_stop, progress=progress), None
    except EOFError:
        raise
    except Exception as error:
        known = type(error).__module__ in ("builtins", "pagedlab.cost")
        return "done", None, error if known else RuntimeError(str(error))
