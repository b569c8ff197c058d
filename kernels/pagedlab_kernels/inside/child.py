"""Runs a program of this package in a fresh Python process, and brings back what it answered before it ended.

Interpreting and compiling exclude each other within a process, and a kernel under study may crash or never
end: both call for a process of its own. A program reads its job from a folder and appends JSON lines to a
file there, so that whatever ends it, the lines until then are kept. What it prints goes nowhere: a text of a
reader's may print without end. Nothing that it wrote is ever executed.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

JOB, ANSWERS, TENSORS, MESSAGES, DONE = "job.json", "answers.jsonl", "tensors.pt", "messages", "done"
MOST_BYTES = 32 << 20
"""Of answers, and of messages: hundreds of times what a kernel of ours needs."""
KERNELS = "triton_kernels.py"


def run(
    program: str,
    job: dict[str, Any],
    *,
    interpret: bool,
    seconds: float,
    prepare: Callable[[Path], None] = lambda folder: None,
) -> tuple[list[dict[str, Any]], str | None]:
    """Run `pagedlab_kernels.inside.<program>`; return its answers and, unless it ended well, how it ended.

    `prepare` may put more into the folder. The process finds modules where this one does, and gets a compile
    cache of its own, because a kernel found in a cache says nothing about the compiler.

    Raises ModuleNotFoundError where Triton is not installed.
    """
    if importlib.util.find_spec("triton") is None:
        raise ModuleNotFoundError("triton is not installed: it has packages for Linux only", name="triton")
    with tempfile.TemporaryDirectory(prefix="pagedlab-") as name:
        folder = Path(name)
        (folder / JOB).write_text(json.dumps(job), encoding="utf-8")
        prepare(folder)
        told = {"TRITON_INTERPRET": str(int(interpret)), "TRITON_CACHE_DIR": str(folder / "cache")}
        command = [sys.executable, "-m", f"{__package__}.{program}", name]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        with open(folder / MESSAGES, "wb") as messages:
            process = subprocess.Popen(
                command, env=environment(**told), stdin=pipe, stdout=nowhere, stderr=messages
            )
        with process:  # whose standard input is held open until it is over
            try:
                ending = _wait(process, folder, seconds)
            finally:
                process.kill()
        return read(folder / ANSWERS), ending


def serve(program: Callable[[Path], None]) -> None:
    """For a program: do the work in the folder of the command line, and leave word that all of it was done.

    Without that word nobody could tell: what is studied may end the process with any exit code.
    """
    end_with_parent()
    folder = Path(sys.argv[1])
    program(folder)
    (folder / DONE).touch()


def end_with_parent() -> None:
    """Whoever started this process holds the other end of its standard input: when that closes, it ends.

    So that nothing is left behind by a parent that is killed; nothing else can be read from there any more.
    """
    held = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def wait() -> None:
        while os.read(held, 4_096):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _wait(process: subprocess.Popen[bytes], folder: Path, seconds: float) -> str | None:
    """Wait for the end; say how it ended unless that was well."""
    until = time.monotonic() + seconds
    while process.poll() is None:
        if time.monotonic() > until:
            return f"no end within {seconds:g} seconds: an endless loop?"
        for name in (ANSWERS, MESSAGES):
            if (folder / name).exists() and (folder / name).stat().st_size > MOST_BYTES:
                what = name.partition(".")[0]
                return f"stopped: more than {MOST_BYTES >> 20} MB of {what}: an endless loop?"
        time.sleep(0.01)
    code = process.returncode
    if code < 0:
        return f"the process died of {signal.Signals(-code).name}"
    if (folder / DONE).exists():
        return None
    with open(folder / MESSAGES, "rb") as messages:
        messages.seek(max(0, messages.seek(0, os.SEEK_END) - 4096))
        last = messages.read().decode("utf-8", "replace").strip().splitlines()[-1:]
    if code and last:
        return last[0][:500]
    return f"the process ended before its work was done (exit code {code})"


def environment(**told: str) -> dict[str, str]:
    """What a fresh Python gets: our environment, modules where we find them, and what else it is `told`."""
    path = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path)
    return os.environ | {"PYTHONPATH": path} | told


def kernel_source() -> str:
    """The text of the Triton kernels, to read, or to edit for `address_trace`; it needs no Triton.

    >>> "def attention(" in kernel_source()
    True
    """
    return (Path(__file__).parent.parent / KERNELS).read_text(encoding="utf-8")


def kernel_hash(source: str | None = None) -> str:
    """The hash that recorded traces carry: of that text, or of the kernels as they are."""
    return hashlib.sha256((source or kernel_source()).encode()).hexdigest()[:16]


def read(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file of answers."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def take_kernels(source: str | None, folder: Path) -> ModuleType:
    """For a program: the module of kernels, or one made from a text and put in its place."""
    package, name = __package__.rpartition(".")[0], KERNELS.removesuffix(".py")
    if source is not None:
        path = folder / KERNELS
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"{package}.{name}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[f"{package}.{name}"] = module
        setattr(sys.modules[package], name, module)
        spec.loader.exec_module(module)
    return importlib.import_module(f"{package}.{name}")
