"""Exercises and their checks.

    >>> from pagedlab import exercises
    >>> exercises.names()
    ('waste',)
    >>> print(exercises.check("waste", lambda lengths, block_size, reserve_to: (0, 0)).summary)
    1 of 6 public checks passed

A check runs the learner's callable in a child process on inputs of its own, compares plain data here,
and answers with what was tried, what was expected and what came back. Where an answer is one that a
known mistake gives, the finding says which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pagedlab.exercises.report import CheckReport, Exercise, Finding, check_exercise
from pagedlab.exercises.waste import WASTE

__all__ = ["CheckReport", "Finding", "check", "hints", "names"]

_EXERCISES: dict[str, Exercise] = {exercise.name: exercise for exercise in (WASTE,)}


def names() -> tuple[str, ...]:
    """The exercises that exist."""
    return tuple(_EXERCISES)


def hints(name: str) -> tuple[str, ...]:
    """What to think about, from a nudge to the way itself."""
    return _get(name).hints


def check(name: str, solution: Callable[..., Any], *, seed: int | None = None) -> CheckReport:
    """Run `solution` on the exercise's public checks.

    Some inputs are drawn afresh each time; `seed` makes them the same again. Raises `KeyError` for an
    unknown exercise and `TypeError` for a solution that cannot be called; whatever the solution itself
    does is in the report.
    """
    exercise = _get(name)
    if not callable(solution):
        raise TypeError(f"the solution of {name!r} must be a function or a class, got {solution!r}")
    return check_exercise(exercise, solution, seed)


def _get(name: str) -> Exercise:
    try:
        return _EXERCISES[name]
    except KeyError:
        raise KeyError(f"no exercise {name!r}; there are {', '.join(_EXERCISES)}") from None
