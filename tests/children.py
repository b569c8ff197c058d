"""The processes that a test's process started, as Linux lists them, and whether they are gone."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

LISTED = Path("/proc/self/task").is_dir()


def children_of(pid: int) -> list[int]:
    """Processes that `pid` has started and not yet waited for."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found += [int(child) for child in task.read_text().split()]
    return found


def wait_until_gone(pid: int, seconds: float = 30.0) -> None:
    """A grandchild cannot be waited for; the system's own table of processes says when it has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} is still there")
