"""Exercises and their checks.

    >>> from pagedlab import exercises
    >>> print(exercises.check("waste", lambda lengths, block_size, reserve_to: (0, 0), progress=None).summary)
    1 of 6 public checks passed

A check runs the learner's code in a process of its own on inputs drawn for this learner and this moment,
compares plain data here, and answers with what was tried, what was expected and what came back, on the
smallest input that it can find. Where an answer is one that a known mistake gives, the finding says which.

    runner, handover          how the code gets to a process of its own, and what comes of it
    answering, plain          what that process does, and what may come back
    report, checking, shrink  what an exercise is; how one is checked; smaller inputs that still fail
    waste, allocator, ...     one module for each exercise
    solutions                 a right answer to each, for teachers and for the checks
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

from pagedlab.exercises.checking import check_exercise
from pagedlab.exercises.report import CheckReport, Exercise, Finding
from pagedlab.progress import FILE, ProgressError, learner_seed, record_check

__all__ = ["CheckReport", "Finding", "check", "hints", "names"]

_NAMES = (
    "waste", "allocator", "copy-on-write", "kv-bytes", "token-address", "paged-decode", "transactions",
    "crossover", "block-size", "online-softmax", "merge-splits", "bug-museum", "effective-bandwidth",
    "table-diff",
)  # fmt: skip


def names() -> tuple[str, ...]:
    """The exercises that exist, in the order of the lessons."""
    return _NAMES


def hints(name: str) -> tuple[str, str, str]:
    """What to think about, from a nudge to the way itself."""
    return get(name).hints


def check(
    name: str,
    solution: Callable[..., Any],
    *,
    seed: int | str | None = None,
    progress: str | os.PathLike[str] | None = FILE,
) -> CheckReport:
    """Run the exercise's public checks on `solution`, a function or a class.

    Each check is tried on one input that stays the same for this learner and on others drawn afresh; `seed`
    fixes them all. What was found is kept in the file `progress`, unless that is None. Raises `KeyError` for
    an unknown exercise and `TypeError` for a solution that cannot be called; whatever the solution itself
    does is in the report.
    """
    exercise = get(name)
    if not callable(solution):
        raise TypeError(f"the solution of {name!r} must be a function or a class, got {solution!r}")
    own, unkept = seed, None
    try:
        if progress is not None and seed is None:
            own = learner_seed(path=progress)
    except ProgressError as error:
        unkept = error
    report = check_exercise(exercise, solution, own, fixed=seed is not None)
    try:
        if progress is not None and unkept is None:
            passed = report.public_total if report.passed else report.public_passed
            record_check(name, passed, report.public_total, path=progress)
    except ProgressError as error:
        unkept = error
    return report.remarked(f"This was not kept: {unkept}") if unkept else report


def get(name: str) -> Exercise:
    """The exercise itself; raises `KeyError` with the names that exist."""
    if name not in _NAMES:
        raise KeyError(f"no exercise {name!r}; there are {', '.join(_NAMES)}")
    return import_module(f"pagedlab.exercises.{name.replace('-', '_')}").EXERCISE
