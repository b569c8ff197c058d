"""The child's side of a check: takes its limits, calls a learner's code, and answers in lines of JSON.

What a call prints is sent as it is printed, its first `PRINTED` characters, so that what came before a crash
or an endless loop is kept.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pagedlab.exercises.plain import pack, plain

PRINTED = 500
"""Characters that are kept of what one call prints."""
LONGEST_ANSWER = 1 << 20
TOKEN = 32
"""Characters of what stands before each answer."""
_MEMORY_BYTES = 2 << 30
_PIPE = 3
"""Where a child answers; next to the three standard ones it is the only file that it keeps."""

Job = Callable[..., Any]
Calls = Sequence[tuple[Any, ...]]


def serve(descriptor: int, token: str, load: Callable[[], tuple[Job, Calls]]) -> None:
    """All that a child does: takes its limits, answers each call behind the `token`, and ends."""
    try:
        _restrict(descriptor)
        with open(_PIPE, "wb") as pipe:

            def send(text: str) -> None:
                pipe.write(f"{token}{text}\n".encode())
                pipe.flush()

            try:
                job, calls = load()
            except BaseException as error:
                send(pack({"failed": _in_words(error)}))
                return
            send(pack({"ready": True}))
            for arguments in calls:
                call(job, arguments, send)
    finally:
        os._exit(0)


def serve_stdin() -> None:
    """What a spawned child does: reads its letter, answers on standard output, ends."""
    import pickle

    answers, letter = os.dup(1), sys.stdin.buffer.read()
    serve(answers, letter[:TOKEN].decode(), lambda: pickle.loads(letter[TOKEN:]))


def _restrict(descriptor: int) -> None:
    """Limits on memory; no file open but the pipe; no threads that did not come along."""
    import faulthandler

    faulthandler.disable()  # a crash is the parent's to report
    if "torch" in sys.modules:  # the parent's pool of threads did not come along: waiting for it hangs
        sys.modules["torch"].set_num_threads(1)
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        # Private memory, not address space: of that a GPU's driver reserves more than any machine has.
        data = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (data + _MEMORY_BYTES, data + _MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(descriptor, _PIPE)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.closerange(_PIPE + 1, 1 << 20)


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


def call(job: Job, arguments: tuple[Any, ...], send: Callable[[str], object]) -> None:
    """One call: messages of what it prints, then one of its answer."""
    process = os.getpid()
    head = _Head(lambda text: send(pack({"printed": text})))
    try:
        with contextlib.redirect_stdout(head), contextlib.redirect_stderr(head):
            message = pack({"value": plain(job(*arguments))})
        if len(message) > LONGEST_ANSWER:
            message = pack({"raised": "", "text": f"an answer of {len(message):,} characters"})
    except BaseException as error:  # also SystemExit: nothing that a solution does ends the check
        message = pack({"raised": type(error).__name__, "text": _in_words(error)})
    if os.getpid() != process:  # the solution forked, and this is its child coming back
        os._exit(0)
    send(message)


def _in_words(error: BaseException) -> str:
    """The exception with its message and the line of the learner's code that it came through last."""
    try:
        text = f"{type(error).__name__}: {error}"[:300]
    except BaseException:
        text = f"{type(error).__name__}, whose message cannot be shown"
    ours = (str(Path(__file__).parent.parent), str(Path(os.__file__).parent), sys.prefix)
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ours)
    ]
    if not frames:
        return text
    code = f": {frames[-1].line}" if frames[-1].line else ""
    return f"{text} (line {frames[-1].lineno} of {frames[-1].name}{code})"
