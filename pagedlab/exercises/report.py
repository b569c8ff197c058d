"""What an exercise is made of, and how a check of it reports."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pagedlab.exercises.runner import PRINTED, Outcome, plain, run

Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Trial:
    """One public check: what it is about, and the arguments to call the solution with."""

    about: str
    arguments: Arguments


@dataclass(frozen=True)
class Misconception:
    """A known mistake, recognised by the answers it gives: `answer` makes the same mistake."""

    hint: str
    answer: Callable[..., Any]


@dataclass(frozen=True)
class Exercise:
    """`trials` draws the public checks; `reference` answers them; `same` compares two answers."""

    name: str
    hints: tuple[str, ...]
    trials: Callable[[random.Random], Sequence[Trial]]
    reference: Callable[..., Any]
    same: Callable[[Any, Any], bool]
    misconceptions: tuple[Misconception, ...]


@dataclass(frozen=True)
class Finding:
    """One check that did not pass; `printed` is the beginning of what the solution printed in it."""

    about: str
    tried: str
    expected: str
    got: str
    hint: str = ""
    printed: str = ""

    def __str__(self) -> str:
        lines = [
            self.about,
            f"  tried     {self.tried}",
            f"  expected  {self.expected}",
            f"  got       {self.got}",
        ]
        for number, line in enumerate(self.printed.splitlines()):
            lines.append(f"  {'' if number else 'printed':<9} {line}")
        if len(self.printed) >= PRINTED:
            lines.append(f"{'':<12}... (its first {PRINTED} characters)")
        return "\n".join(lines + ([f"  hint      {self.hint}"] if self.hint else []))


@dataclass(frozen=True)
class CheckReport:
    """What a check found; `print` it, or let the notebook show it."""

    passed: bool
    summary: str
    findings: tuple[Finding, ...]
    public_passed: int
    public_total: int

    def __str__(self) -> str:
        return "\n\n".join([self.summary, *map(str, self.findings)])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def check_exercise(exercise: Exercise, solution: Callable[..., Any], seed: int | None) -> CheckReport:
    """Run the public checks of one exercise."""
    trials = exercise.trials(random.Random(seed))
    outcomes = run(solution, [trial.arguments for trial in trials])
    expected = [exercise.reference(*trial.arguments) for trial in trials]
    right = [
        outcome.returned and exercise.same(outcome.value, answer)
        for outcome, answer in zip(outcomes, expected, strict=True)
    ]
    hint = _recognise(exercise, trials, outcomes, right)
    findings = tuple(
        Finding(
            trial.about,
            _call(exercise, trial.arguments),
            _clip(plain(answer)),
            outcome.text,
            hint if outcome.returned else "",
            outcome.printed,
        )
        for trial, answer, outcome, passed in zip(trials, expected, outcomes, right, strict=True)
        if not passed
    )
    passed = sum(right)
    summary = f"{passed} of {len(trials)} public checks passed"
    return CheckReport(not findings, summary, findings, passed, len(trials))


def _recognise(
    exercise: Exercise, trials: Sequence[Trial], outcomes: Sequence[Outcome], right: Sequence[bool]
) -> str:
    """The hint of the mistake that gives every wrong answer seen, or nothing."""
    wrong = [
        (trial, outcome)
        for trial, outcome, passed in zip(trials, outcomes, right, strict=True)
        if outcome.returned and not passed
    ]
    if not wrong:
        return ""
    for misconception in exercise.misconceptions:
        if all(
            exercise.same(outcome.value, misconception.answer(*trial.arguments)) for trial, outcome in wrong
        ):
            return misconception.hint
    return ""


def _call(exercise: Exercise, arguments: Arguments) -> str:
    """The arguments with the names that they have in the exercise."""
    names = inspect.signature(exercise.reference).parameters
    return ", ".join(f"{name}={_clip(value)}" for name, value in zip(names, arguments, strict=True))


def _clip(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:100]} ... ({len(text):,} characters)"
