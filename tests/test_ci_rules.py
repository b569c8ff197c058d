"""In CI a skipped browser test is a failure, and so is a run in which nothing ran: `conftest.py` sees to
it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

INI = "[pytest]\nmarkers =\n    browser: drives a browser\n"
PASSES = "def test_passes():\n    pass\n"
SKIPS = "import pytest\n\ndef test_plain():\n    pytest.skip('no trace here')\n"
BROWSER_SKIPS = """
import pytest

@pytest.mark.browser
def test_page():
    pytest.skip("no chromium here")
"""
QUIET = ("-p", "no:cacheprovider", "-p", "no:nbval", "-p", "no:hypothesispytest")
BROWSER_MODULE_SKIPS = """
import pytest

pytest.skip("no playwright here", allow_module_level=True)
pytestmark = pytest.mark.browser
"""


CASES = [
    ([PASSES, BROWSER_SKIPS], "", True, "1 passed, 1 skipped"),
    ([PASSES, BROWSER_SKIPS], "false", True, "1 passed, 1 skipped"),
    ([PASSES, BROWSER_SKIPS], "1", False, "a browser test may not be skipped in CI"),
    ([PASSES, BROWSER_MODULE_SKIPS], "", True, "1 passed, 1 skipped"),
    ([PASSES, BROWSER_MODULE_SKIPS], "true", False, "may not skip itself in CI"),
    ([PASSES, SKIPS], "true", True, "1 passed, 1 skipped"),
    ([SKIPS], "", True, "1 skipped"),
    ([SKIPS], "true", False, "no test ran: in CI that is a failure"),
    ([], "true", False, "no tests ran"),
]


@pytest.mark.parametrize(("tests", "ci", "passes", "said"), CASES)
def test_what_counts_as_a_pass(run_python, tmp_path, tests, ci, passes, said) -> None:
    lay_out(tmp_path, tests)
    ran = run_python("-m", "pytest", *QUIET, CI=ci)
    assert (ran.returncode == 0) == passes, ran.stdout
    assert said in ran.stdout


@pytest.mark.parametrize(("tests", "ci", "passes", "said"), [CASES[2], CASES[4], CASES[7]])
def test_the_same_counts_with_workers(run_python, tmp_path, tests, ci, passes, said) -> None:
    pytest.importorskip("xdist")
    lay_out(tmp_path, tests)
    ran = run_python("-m", "pytest", *QUIET, "-n", "1", CI=ci)
    assert (ran.returncode == 0) == passes, ran.stdout
    assert said in ran.stdout


def lay_out(folder: Path, tests: list[str]) -> None:
    (folder / "pytest.ini").write_text(INI)
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    for number, text in enumerate(tests):
        (folder / f"test_{number}.py").write_text(text)
