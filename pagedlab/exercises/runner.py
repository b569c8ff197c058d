"""Runs a learner's code where it can do no harm: in a forked child, with limits.

The child sends one JSON line for each answer, so what came before a crash or an endless loop is kept,
and the parent never unpickles anything. What the code prints is dropped after a while. Where a process
cannot fork (Windows, a browser), the code runs here, without limits on time or memory.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 10.0
"""For all calls together."""
_MEMORY_BYTES = 2 << 30
_LONGEST_ANSWER = 1 << 20


@dataclass(frozen=True)
class Outcome:
    """What one call did: it returned a value, or `text` says what happened instead."""

    returned: bool
    value: Any
    text: str


def run(
    solution: Callable[..., Any], calls: Sequence[tuple[Any, ...]], *, seconds: float = SECONDS
) -> list[Outcome]:
    """Call `solution` once with each of `calls`; one outcome each, whatever it does."""
    if not hasattr(os, "fork"):
        return [_decode(_answer(solution, arguments)) for arguments in calls]
    lines, ending = _in_a_child(solution, calls, seconds)
    outcomes = [_decode(line) for line in lines[: len(calls)]]
    if len(outcomes) < len(calls):
        outcomes.append(Outcome(False, None, ending))
    return outcomes + [Outcome(False, None, "not reached")] * (len(calls) - len(outcomes))


def _in_a_child(
    solution: Callable[..., Any], calls: Sequence[tuple[Any, ...]], seconds: float
) -> tuple[list[str], str]:
    """The complete lines that the child wrote, and how it ended."""
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _be_the_child(solution, calls, write_end)
    os.close(write_end)
    try:
        received, in_time = _read_until(read_end, time.monotonic() + seconds, _LONGEST_ANSWER * len(calls))
    finally:
        os.close(read_end)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    lines = received.decode("utf-8", "replace").split("\n")[:-1]
    if not in_time:
        return lines, f"no answer within {seconds:g} seconds: an endless loop?"
    if os.WIFSIGNALED(status):
        return lines, f"the process died of {signal.Signals(os.WTERMSIG(status)).name}"
    return lines, "the process ended without an answer"


def _read_until(descriptor: int, deadline: float, most: int) -> tuple[bytes, bool]:
    """What arrives before the other side closes; False when the deadline or the limit came first."""
    received = bytearray()
    while (left := deadline - time.monotonic()) > 0 and len(received) <= most:
        if not select.select([descriptor], [], [], left)[0]:
            break
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            return bytes(received), True
        received += chunk
    return bytes(received), False


def _be_the_child(solution: Callable[..., Any], calls: Sequence[tuple[Any, ...]], write_end: int) -> None:
    try:
        import faulthandler
        import resource

        faulthandler.disable()  # a crash is the parent's to report
        with contextlib.suppress(ValueError, OSError):
            in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (in_use + _MEMORY_BYTES, resource.RLIM_INFINITY))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        with open(write_end, "wb", buffering=0) as pipe:
            for arguments in calls:
                pipe.write((_answer(solution, arguments) + "\n").encode())
    finally:
        os._exit(0)


def _answer(solution: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """One call, as a JSON line."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            value = _plain(solution(*arguments))
        line = json.dumps({"value": value})
    except BaseException as error:  # also SystemExit: nothing that a solution does ends the check
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f" (line {last.lineno} of {last.name})" if last.name != "_answer" else ""
        return json.dumps({"error": f"{type(error).__name__}: {str(error)[:300]}{where}"})
    if len(line) > _LONGEST_ANSWER:
        return json.dumps({"error": f"an answer of {len(line):,} characters"})
    return line


def _decode(line: str) -> Outcome:
    try:
        answer = json.loads(line)
    except ValueError:
        return Outcome(False, None, "an answer that cannot be read")
    if "error" in answer:
        return Outcome(False, None, answer["error"])
    text = repr(answer["value"])
    return Outcome(True, answer["value"], text if len(text) <= 200 else text[:197] + "...")


def _plain(value: Any) -> Any:
    """The value as numbers, text and lists, whatever library it came from."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy arrays and scalars, torch tensors
        return _plain(value.tolist())
    raise TypeError(f"the answer is a {type(value).__name__}; numbers or lists of numbers are expected")
