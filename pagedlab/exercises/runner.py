"""Runs a learner's code where it can do no harm: in a forked child, with limits.

The child sends JSON lines: what a call prints, as it prints it, then the call's answer. So what came
before a crash or an endless loop is kept, and the parent never unpickles anything. Of what a call prints
through Python the first characters are kept (`PRINTED`), the rest is dropped. Where a process cannot fork
(Windows, a browser), the code runs here, without limits on time or memory.
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
PRINTED = 500
"""Characters that are kept of what one call prints."""
_MEMORY_BYTES = 2 << 30
_LONGEST_ANSWER = 1 << 20


@dataclass(frozen=True)
class Outcome:
    """What one call did: it returned a value, or `text` says what happened instead.

    `printed` is what it wrote to standard output and standard error, its first `PRINTED` characters.
    """

    returned: bool
    value: Any
    text: str
    printed: str = ""


def run(
    solution: Callable[..., Any], calls: Sequence[tuple[Any, ...]], *, seconds: float = SECONDS
) -> list[Outcome]:
    """Call `solution` once with each of `calls`; one outcome each, whatever it does."""
    if not hasattr(os, "fork"):
        lines: list[str] = []
        for arguments in calls:
            _answer(solution, arguments, lines.append)
        return _outcomes(lines)[0]
    lines, ending = _in_a_child(solution, calls, seconds)
    outcomes, printed = _outcomes(lines)
    del outcomes[len(calls) :]
    if len(outcomes) < len(calls):
        outcomes.append(Outcome(False, None, ending, printed))
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
        received, in_time = _read_until(
            read_end, time.monotonic() + seconds, 2 * _LONGEST_ANSWER * len(calls)
        )
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
        if "torch" in sys.modules:  # the parent's pool of threads did not come along: waiting for it hangs
            sys.modules["torch"].set_num_threads(1)
        with contextlib.suppress(ValueError, OSError):
            in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (in_use + _MEMORY_BYTES, resource.RLIM_INFINITY))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        with open(write_end, "wb", buffering=0) as pipe:
            for arguments in calls:
                _answer(solution, arguments, lambda line: pipe.write((line + "\n").encode()))
    finally:
        os._exit(0)


class _Head(io.TextIOBase):
    """A stream that passes on the first `PRINTED` characters written to it."""

    def __init__(self, pass_on: Callable[[str], object]) -> None:
        self._pass_on, self._left = pass_on, PRINTED

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if text and self._left:
            kept = text[: self._left]
            self._left -= len(kept)
            self._pass_on(kept.encode("utf-8", "replace").decode())  # a lone surrogate cannot be shown
        return len(text)


def _answer(solution: Callable[..., Any], arguments: tuple[Any, ...], send: Callable[[str], object]) -> None:
    """One call: JSON lines of what it prints, then one of its answer."""
    head = _Head(lambda text: send(json.dumps({"printed": text})))
    try:
        with contextlib.redirect_stdout(head), contextlib.redirect_stderr(head):
            value = plain(solution(*arguments))
        line = json.dumps({"value": value})
    except BaseException as error:  # also SystemExit: nothing that a solution does ends the check
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f" (line {last.lineno} of {last.name})" if last.name != "_answer" else ""
        line = json.dumps({"error": f"{type(error).__name__}: {str(error)[:300]}{where}"})
    if len(line) > _LONGEST_ANSWER:
        line = json.dumps({"error": f"an answer of {len(line):,} characters"})
    send(line)


def _outcomes(lines: Sequence[str]) -> tuple[list[Outcome], str]:
    """One outcome for each answer among the lines, and what was printed after the last."""
    outcomes: list[Outcome] = []
    printed = ""
    for line in lines:
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            message = {"error": "an answer that cannot be read"}
        if "printed" in message:
            printed += message["printed"]
            continue
        outcomes.append(_outcome(message, printed))
        printed = ""
    return outcomes, printed


def _outcome(message: dict[str, Any], printed: str) -> Outcome:
    if "error" in message:
        return Outcome(False, None, message["error"], printed)
    text = repr(message["value"])
    return Outcome(True, message["value"], text if len(text) <= 200 else text[:197] + "...", printed)


def plain(value: Any) -> Any:
    """The value as numbers, text and lists, whatever library it came from."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy arrays and scalars, torch tensors
        return plain(value.tolist())
    raise TypeError(f"the answer is a {type(value).__name__}; numbers or lists of numbers are expected")
