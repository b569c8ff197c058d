"""What all tests share: the environment kernels need, the files of real traces, and what counts as a pass in
CI.

The environment is settled here, at import, because pytest loads this file before any test or doctest can
import torch or triton, which choose between compiling and interpreting once and for all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
IMPORT_PATHS = [str(ROOT), str(ROOT / "kernels"), str(ROOT / "widgets")]
sys.path[:0] = [path for path in IMPORT_PATHS if path not in sys.path]

from pagedlab import _env  # noqa: E402  (the path above makes it importable from a bare clone)

_env.prepare()

# Doctests are looked for in every module but these: two of one name cannot both be imported by it.
collect_ignore_glob = ["conftest.py", "*/conftest.py"]

IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")


@pytest.fixture(scope="session")
def trace_path() -> Callable[[str], Path]:
    """Where a real trace lies, by file name; skips the test on a machine that has none.

    Traces are looked for in the folder that PAGEDLAB_TRACES names, or in `shared/traces` beside the clone.
    """
    named = os.environ.get("PAGEDLAB_TRACES")
    folder = Path(named) if named else ROOT.parent / "shared" / "traces"

    def find(name: str) -> Path:
        path = folder / name
        if not path.is_file():
            pytest.skip(f"no trace {name} in {folder}; set PAGEDLAB_TRACES to a folder that has it")
        return path

    return find


@pytest.fixture
def child_environment() -> dict[str, str]:
    """The environment of a fresh Python process: it finds the three packages, and settles Triton for
    itself."""
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return {**inherited, "PYTHONPATH": os.pathsep.join(IMPORT_PATHS)}


@pytest.fixture
def run_python(
    tmp_path: Path, child_environment: dict[str, str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python in such a process: `run_python("-c", code, SOME_VARIABLE="1")`."""

    def run(*arguments: str, cwd: Path = tmp_path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=cwd,
            env={**child_environment, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


# -- What counts as a pass where CI is set: a browser test ran, and at least one test ran at all.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    skipped = report.skipped and not hasattr(report, "wasxfail")
    if IN_CI and skipped and item.get_closest_marker("browser"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"a browser test may not be skipped in CI: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    report = yield
    # A module that skips itself whole leaves no test behind to be reported.
    skipped = report.skipped and isinstance(collector, pytest.Module)
    if IN_CI and skipped and "mark.browser" in collector.path.read_text(encoding="utf-8"):
        report.outcome, report.longrepr = "failed", f"{collector.nodeid} may not skip itself in CI"
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """pytest calls a session of nothing but skips a success; in CI that is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not IN_CI or reporter is None or exitstatus != pytest.ExitCode.OK:
        return
    if not any(reporter.stats.get(outcome) for outcome in ("passed", "xfailed", "xpassed")):
        reporter.write_line("no test ran: in CI that is a failure", red=True)
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
