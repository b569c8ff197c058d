"""How the tables of right and wrong solutions are tried."""

from __future__ import annotations

from pagedlab import exercises


def assert_passes(name, solution):
    for seed in ("a", "b"):
        report = exercises.check(name, solution, seed=seed, progress=None)
        total = report.public_total
        assert report.passed and report.public_passed == total, str(report)
        assert report.smallest is None and not report.findings


def assert_recognised(name, solution, words):
    """It fails, and the smallest failing input comes with the hint that names the mistake."""
    report = exercises.check(name, solution, seed=words, progress=None)
    assert not report.passed and report.public_passed < report.public_total
    assert report.smallest is not None and words in report.smallest.hint, str(report)
