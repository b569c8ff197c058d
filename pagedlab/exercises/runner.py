"""Runs a learner's code where it can do no harm: in a process of its own, with limits.

    fork     Linux: the child begins as a copy of this process, so that anything can be handed over
    spawn    elsewhere, and where a GPU is in use, which does not survive a fork: a fresh Python, and the code
             goes there by cloudpickle
    here     a browser has no processes: the code runs in ours, without limits

A child, whose side `answering` is, answers in lines of JSON, each behind a token that it was given, so that
stray writes are no answers; nothing that comes from it is ever unpickled. When the calls are over, the
child's whole process group is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagedlab.exercises import answering
from pagedlab.exercises.answering import LONGEST_ANSWER, PRINTED, Calls, Job
from pagedlab.exercises.plain import brief, unpack
from pagedlab_kernels.inside.child import environment

SECONDS = 10.0
"""For all calls together."""
START_SECONDS = 60.0
"""For a fresh Python to import what the code needs."""
_BECOME_SUBREAPER = 36


@dataclass(frozen=True)
class Outcome:
    """What one call did, in words in `text`.

    `kind` is "returned" (`value` is the answer), "raised" (`value` names the exception's class), "ended" (the
    process did, or its time) or "unreached". `printed` is what the call wrote to standard output and standard
    error, its first `PRINTED` characters.
    """

    kind: str
    value: Any
    text: str
    printed: str = ""


def way() -> str:
    """How code is run here: "fork", "spawn" or "here"."""
    if sys.platform == "emscripten":
        return "here"
    torch = sys.modules.get("torch")
    on_gpu = torch is not None and torch.cuda.is_initialized()
    return "fork" if sys.platform.startswith("linux") and not on_gpu else "spawn"


def run(job: Job, calls: Calls, *, seconds: float = SECONDS) -> list[Outcome]:
    """Call `job` once with each of `calls`; one outcome each, whatever it does.

    A call that ends the process does not end the check: the others go on in a new one.
    """
    outcomes: list[Outcome] = []
    left = seconds
    while len(outcomes) < len(calls):
        rest = calls[len(outcomes) :]
        inbox = _Inbox(len(rest))
        ending = {"here": _here, "fork": _forked, "spawn": _spawned}[way()](job, rest, left, inbox)
        outcomes += inbox.outcomes
        left -= time.monotonic() - inbox.started
        if not inbox.full:
            too_long = f"no answer within {seconds:g} seconds: an endless loop?"
            outcomes.append(Outcome("ended", None, inbox.failed or ending or too_long, inbox.printed))
        if not (inbox.full or (ending and inbox.ready and left > 0)):
            break
    return outcomes + [Outcome("unreached", None, "not reached")] * (len(calls) - len(outcomes))


@contextlib.contextmanager
def none_left_behind() -> Iterator[None]:
    """On Linux a child of a child is ours once its parent is gone; what came to us so is ended at the end."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_BECOME_SUBREAPER, 1, 0, 0, 0)
    before = _children()
    try:
        yield
    finally:
        patience = time.monotonic() + 5
        while (left := _children() - before) and time.monotonic() < patience:
            for child in left:
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, os.WNOHANG)


def _children() -> set[int]:
    found = set[int]()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            if int(file.read_text(errors="replace").rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(file.parent.name))
    return found


# -- The three ways. Each fills the inbox and says how the child ended; "" when its time was over.


def _here(job: Job, calls: Calls, seconds: float, inbox: _Inbox) -> str:
    for arguments in calls:
        answering.call(job, arguments, inbox.take)
    return ""


def _forked(job: Job, calls: Calls, seconds: float, inbox: _Inbox) -> str:
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    # What a fork calls would swallow a Ctrl-C, and in the child it would unwind the parent's stack.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        child = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        raise
    if child == 0:
        os.close(read_end)
        os.setpgid(0, 0)
        answering.serve(write_end, inbox.token, lambda: (job, calls))
    os.close(write_end)
    with contextlib.suppress(OSError):  # whichever of the two comes first
        os.setpgid(child, child)

    def alive() -> bool:  # asked without reaping: until then nobody else can be given its number
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None

    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        ending = _listen(read_end, inbox, seconds, alive)
        wait_until = time.monotonic() + 1  # the pipe may close a moment before the process ends
        while ending is None and not inbox.full and alive() and time.monotonic() < wait_until:
            time.sleep(0.005)
        killed_here = alive()
    finally:
        os.close(read_end)
        _kill_group(child)
        _, status = os.waitpid(child, 0)
    if ending is None:
        ending = "it closed its way to answer" if killed_here else _how(os.waitstatus_to_exitcode(status))
    return ending


def _spawned(job: Job, calls: Calls, seconds: float, inbox: _Inbox) -> str:
    from pagedlab.exercises.handover import pickled

    posix = os.name == "posix"
    child = subprocess.Popen(
        [sys.executable, "-c", "from pagedlab.exercises import answering; answering.serve_stdin()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        process_group=0 if posix else None,
    )
    assert child.stdin is not None and child.stdout is not None
    letter = inbox.token.encode() + pickled((job, calls))
    try:
        if not posix:  # no select on pipes
            inbox.feed(child.communicate(letter, timeout=START_SECONDS + seconds)[0])
            return _how(child.wait())
        with contextlib.suppress(BrokenPipeError), child.stdin:
            child.stdin.write(letter)
        ending = _listen(child.stdout.fileno(), inbox, seconds, lambda: child.poll() is None)
        return _how(child.wait(1)) if ending is None and not inbox.full else ending or ""
    except subprocess.TimeoutExpired:
        return ""
    finally:
        _kill_group(child.pid) if posix else child.kill()
        child.stdout.close()
        child.wait()


def _kill_group(child: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)


def _how(code: int) -> str:
    if code == -signal.SIGKILL:
        return "the process was killed (SIGKILL), as happens when the machine's memory is used up"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"the process died of {signal.Signals(-code).name}"
    return f"the process ended without an answer (exit code {code})"


# -- Our side of the pipe.


class _Inbox:
    """A child's messages, as far as they have come: the outcomes, and what was printed since the last."""

    def __init__(self, expected: int) -> None:
        self.token = secrets.token_hex(answering.TOKEN // 2)
        self.outcomes: list[Outcome] = []
        self.printed = ""
        self.ready = False
        self.failed = ""
        self.started = time.monotonic()
        self.room = (2 * expected + 1) * LONGEST_ANSWER
        self._expected = expected
        self._rest = b""

    @property
    def full(self) -> bool:
        return len(self.outcomes) >= self._expected

    def feed(self, chunk: bytes) -> None:
        """Take in bytes as they came: lines, parts of lines, anything."""
        self.room -= len(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > 2 * LONGEST_ANSWER:
            self.room = 0
        for line in lines:
            _, token, text = line.decode("utf-8", "replace").rpartition(self.token)
            if token:
                self.take(text)

    def take(self, text: str) -> None:
        """Take in one message."""
        try:
            message = unpack(text)
        except ValueError:
            message = {"raised": "", "text": "an answer that cannot be read"}
        match message:
            case {"ready": True} if not self.ready:  # once: else whoever finds the token resets the clock
                self.ready, self.started = True, time.monotonic()
            case {"failed": str(text)}:
                self.failed = f"it cannot be started in a process of its own: {text}"
            case {"printed": str(text)}:
                self.printed = (self.printed + text)[:PRINTED]
            case {"value": value} if not self.full:
                self._add("returned", value, brief(value, 200))
            case {"raised": str(name), "text": str(text)} if not self.full:
                self._add("raised", name, text)

    def _add(self, kind: str, value: Any, text: str) -> None:
        self.outcomes.append(Outcome(kind, value, text, self.printed))
        self.printed = ""


def _listen(descriptor: int, inbox: _Inbox, seconds: float, alive: Callable[[], bool]) -> str | None:
    """Read until all is answered or the child is gone (None), or say why not: "" when the time was over."""
    while not inbox.full:
        deadline = inbox.started + (seconds if inbox.ready else START_SECONDS)
        left = deadline - time.monotonic()
        if left <= 0:
            return ""
        if inbox.room <= 0:
            return "it wrote more than a check reads"
        gone = not alive()  # a child of the child may hold the pipe open
        if select.select([descriptor], [], [], 0 if gone else min(left, 0.1))[0]:
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return None
            inbox.feed(chunk)
        elif gone:
            return None
    return None
