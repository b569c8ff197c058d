"""A pytest plugin for nbval: what each lesson took, and that it lives within a small machine's memory.

    pytest --nbval-lax -p lesson_costs lessons

Both are the system's own counts of the kernel's process, so nothing is missed between two looks. The time on
the clock is shown and not judged: this machine may be busy. What a busy machine does not change much is the
time that its cores worked, for the kernel and all processes that it started: that is judged. The browser's
tests run a lesson's cells once more; at the limit, both take a machine of two cores 90 seconds, which leaves
30 for what runs on one core alone, of the two minutes that a lesson may take in CI. A cell that hangs works
no core: `--nbval-cell-timeout` ends it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

MOST_MIB, MOST_CORE_S = 953, 90
_peaks: dict[str, float] = {}
_core_seconds: dict[str, float] = {}
_seconds: dict[str, float] = {}


def _take(pid: int, name: str) -> None:
    """The largest resident memory that a process ever had, and the time of cores, where the system tells."""
    try:
        status, stat = (Path(f"/proc/{pid}/{file}").read_text() for file in ("status", "stat"))
    except OSError:
        return
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    ticks = stat.rpartition(")")[2].split()[11:15]  # its own, then of children that have ended
    _peaks[name] = int(peak) / 1024
    _core_seconds[name] = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    start = time.perf_counter()
    yield
    kernel = getattr(item.parent, "kernel", None)
    if kernel is None:
        return
    name = Path(str(item.parent.path)).name  # type: ignore[union-attr]
    _seconds[name] = _seconds.get(name, 0.0) + time.perf_counter() - start


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Any:
    kernel = getattr(item.parent, "kernel", None)
    if kernel is not None:
        _take(kernel.km.provisioner.pid, Path(str(item.parent.path)).name)  # type: ignore[union-attr]
    yield


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not _seconds:
        return
    terminalreporter.section("lessons")
    for name, seconds in _seconds.items():
        cost = "its kernel is not known"
        if name in _peaks:
            cost = f"cores worked {_core_seconds[name]:5.1f} s  peak of its kernel {_peaks[name]:7,.0f} MiB"
        terminalreporter.write_line(f"{name:42} {seconds:6.1f} s  {cost}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    for found, most, unit in ((_peaks, MOST_MIB, "MiB"), (_core_seconds, MOST_CORE_S, "s of a core")):
        above = {name: round(value) for name, value in found.items() if value > most}
        if above:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            print(f"\nabove {most} {unit}: {above}")
