"""A pytest plugin for nbval: what each lesson took, and that it lives within a small machine's memory.

    pytest --nbval-lax -p lesson_costs lessons

The peak is that of the kernel's process (the system counts it, so nothing is missed between two looks). Time
is shown and never judged: this machine may be busy.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

MOST_MIB = 953
_peaks: dict[str, float] = {}
_seconds: dict[str, float] = {}


def _peak_mib(pid: int) -> float | None:
    """The largest resident memory a process ever had, where the system tells."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    lines = [line.split() for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0][1]) / 1024 if lines else None


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
        peak = _peak_mib(kernel.km.provisioner.pid)
        if peak is not None:
            _peaks[Path(str(item.parent.path)).name] = peak  # type: ignore[union-attr]
    yield


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not _seconds:
        return
    terminalreporter.section("lessons")
    for name, seconds in _seconds.items():
        peak = f"{_peaks[name]:7,.0f} MiB" if name in _peaks else "   not known"
        terminalreporter.write_line(f"{name:42} {seconds:6.1f} s  peak of its kernel {peak}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    heavy = {name: peak for name, peak in _peaks.items() if peak > MOST_MIB}
    if heavy:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print(f"\nabove {MOST_MIB} MiB: {heavy}")
