"""Checks a solution: draws inputs, has it tried on them elsewhere, judges the answers here, reports.

Each public check is tried on three inputs. The first is drawn from the learner's own seed, so that it is the
same the next time, and a class can compare notes but no answers. The others are drawn afresh every time: a
solution that remembers inputs does not get through.
"""

from __future__ import annotations

import importlib.util
import json
import random
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from pagedlab.exercises import runner
from pagedlab.exercises.plain import plain
from pagedlab.exercises.report import Arguments, CheckReport, Convert, Exercise, Finding, Misconception
from pagedlab.exercises.runner import Outcome
from pagedlab.exercises.shrink import shrink, smaller

TRIES = 3
"""Inputs of one public check."""
_TOGETHER = 15
"""Smaller inputs that one child tries; the simplest come first."""


@dataclass(frozen=True)
class Try:
    """One input, what came of it and what should have: views of the answers, or None where there is none."""

    check: int
    arguments: Arguments
    outcome: Outcome
    expected: Any
    got: Any
    right: bool

    @property
    def size(self) -> int:
        return len(json.dumps(self.arguments))


def check_exercise(
    exercise: Exercise,
    solution: Callable[..., Any],
    seed: int | str | None,
    *,
    fixed: bool = False,
) -> CheckReport:
    """Run the public checks of one exercise; with `fixed`, `seed` decides all inputs."""
    drawn = _draw(exercise, seed, fixed)
    best: tuple[list[Try], dict[int, Misconception], str] | None = None
    for form in _forms(exercise):
        tries = _attempt(exercise, solution, form, drawn)
        known = _recognise(exercise, tries)
        if best is None or _right(tries) > _right(best[0]):
            best = tries, known, form
        if all(each.right or each.outcome.kind == "ended" or n in known for n, each in enumerate(tries)):
            break
    assert best is not None
    tries, known, form = best
    return _report(exercise, tries, known, partial(_attempt, exercise, solution, form))


def _right(tries: Sequence[Try]) -> int:
    return sum(each.right for each in tries)


def _draw(exercise: Exercise, seed: int | str | None, fixed: bool) -> list[tuple[int, Arguments]]:
    own, fresh = random.Random(seed), random.Random(f"{seed}, the others" if fixed else None)
    drawn: list[tuple[int, Arguments]] = []
    for number, check in enumerate(exercise.checks):
        for rng in [own] + [fresh] * (TRIES - 1):
            arguments = check.draw(rng)
            if (number, arguments) not in drawn:
                drawn.append((number, arguments))
    return drawn


def _forms(exercise: Exercise) -> list[str]:
    """The first form that there is, and others whose library is loaded: nobody else can be expecting them."""
    library = {"arrays": "numpy", "tensors": "torch", "gpu tensors": "torch"}
    there = [f for f in exercise.forms if f == "lists" or importlib.util.find_spec(library[f])]
    if there[0] == "tensors":
        import torch  # noqa: F401  (here once, rather than in every child)
    loaded = [form for form in there[1:] if form == "lists" or library[form] in sys.modules]
    if "gpu tensors" in loaded and not sys.modules["torch"].cuda.is_available():
        loaded.remove("gpu tensors")
    return there[:1] + loaded


def converter(form: str) -> Convert:
    """What turns lists of numbers, and lists of such rows, into the form's sequence and leaves all else."""

    def convert(value: Any) -> Any:
        if form == "lists" or not isinstance(value, list):
            return value
        import numpy

        try:
            array = numpy.array(value)
        except ValueError:  # rows of unlike lengths
            return [convert(item) for item in value]
        if array.dtype.kind not in "if":
            return value
        if form == "arrays":
            return array
        import torch

        return torch.from_numpy(array).to("cuda" if form == "gpu tensors" else "cpu")

    return convert


def _attempt(
    exercise: Exercise,
    solution: Any,
    form: str,
    drawn: Sequence[tuple[int, Arguments]],
) -> list[Try]:
    job = partial(exercise.drive, solution, converter(form))
    order = list(range(len(drawn)))
    if exercise.shuffled:
        random.shuffle(order)
    ran = runner.run(job, [drawn[n][1] for n in order], seconds=exercise.seconds)
    outcomes = dict(zip(order, ran, strict=True))
    return [_judged(exercise, each, outcomes[n]) for n, each in enumerate(drawn)]


def _judged(exercise: Exercise, drawn: tuple[int, Arguments], outcome: Outcome) -> Try:
    number, arguments = drawn
    expected, got = _view(exercise, exercise.reference, json.dumps(arguments)), None
    if outcome.kind == "returned":
        try:
            got = exercise.view(outcome.value, *arguments)
        except Exception:  # it has not the shape of an answer
            got = outcome.value
    right = outcome.kind == "returned" and exercise.same(got, expected)
    return Try(number, arguments, outcome, expected, got, right)


@lru_cache(maxsize=1 << 13)
def _view(exercise: Exercise, solution: Callable[..., Any], arguments: str) -> Any:
    """The view of what a solution of our own answers to arguments in JSON, which can be remembered."""
    given = json.loads(arguments)
    answer = plain(exercise.drive(solution, converter(_forms(exercise)[0]), *given))
    return exercise.view(answer, *given)


def _mistaken(exercise: Exercise, solution: Callable[..., Any], arguments: Arguments) -> tuple[str, Any]:
    """What a mistake comes to: ("returned", view of the answer) or ("raised", the class)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of 0 / 0 and the like: being wrong is its task
            return "returned", _view(exercise, solution, json.dumps(arguments))
    except Exception as error:
        return "raised", type(error).__name__


# -- What is known of a wrong answer.


def _explains(exercise: Exercise, misconception: Misconception, tried: Try) -> bool:
    """Whether the mistake gives this answer."""
    for solution in (misconception.solution, *misconception.variants):
        kind, answer = _mistaken(exercise, solution, tried.arguments)
        if kind != tried.outcome.kind:
            continue
        if tried.outcome.value == answer if kind == "raised" else exercise.same(tried.got, answer):
            return True
        if kind == "returned" and not tried.right and exercise.alike(tried.expected, tried.got, answer):
            return True
    return False


def _recognise(exercise: Exercise, tries: Sequence[Try]) -> dict[int, Misconception]:
    """The mistake behind each wrong answer, by its place in `tries`, where one is known.

    One that explains every wrong answer is taken. Failing that, there may be several mistakes: each answer
    gets the one that explains most, if that is a third of them and no single one; unless the exercise has
    advice for each. A mistake that would have spoiled more than a fifth of the right answers is another one.
    """
    wrong = [n for n, e in enumerate(tries) if not e.right and e.outcome.kind in ("returned", "raised")]
    right = [each for each in tries if each.right]
    explained: dict[Misconception, list[int]] = {}
    agreeing: dict[Misconception, int] = {}
    for mistake in exercise.misconceptions if wrong else ():
        places = [n for n in wrong if _explains(exercise, mistake, tries[n])]
        if len(places) == len(wrong) or len(places) >= max(2, len(wrong) / 3):
            agreeing[mistake] = sum(_explains(exercise, mistake, each) for each in right)
            if agreeing[mistake] >= 0.8 * len(right):
                explained[mistake] = places
    ranked = sorted(explained, key=lambda m: (-len(explained[m]), -agreeing[m]))
    if ranked and len(explained[ranked[0]]) == len(wrong):
        return dict.fromkeys(wrong, ranked[0])
    if exercise.advice is not None:
        return {}
    return {n: mistake for mistake in reversed(ranked) for n in explained[mistake]}


def _in_general(tries: Sequence[Try]) -> str:
    """A hint for what goes wrong in any exercise."""
    answers = [each.outcome.value for each in tries if each.outcome.kind == "returned"]
    if answers and all(isinstance(answer, str) for answer in answers):
        return "the answer is text: numbers are asked for, without words or units"
    if len(answers) > 1 and all(answer == answers[0] for answer in answers):
        if answers[0] is None:
            return "the answer is always None: does every path end in a return?"
        return "the answer is the same for every input: it does not depend on the arguments"
    return ""


# -- The report.


def _report(
    exercise: Exercise,
    tries: Sequence[Try],
    known: dict[int, Misconception],
    again: Callable[[list[tuple[int, Arguments]]], list[Try]],
) -> CheckReport:
    general = "" if known else _in_general(tries)

    def hint(place: int) -> str:
        if place in known:
            return known[place].hint
        return general or (exercise.advice(*tries[place].arguments) if exercise.advice else "")

    wrong: dict[int, list[int]] = {}
    for place, each in enumerate(tries):
        if not each.right:
            wrong.setdefault(each.check, []).append(place)

    simplest = [
        min(places, key=lambda place: (tries[place].outcome.kind == "unreached", tries[place].size))
        for places in wrong.values()
    ]
    findings = tuple(
        _finding(exercise, exercise.checks[tries[n].check].about, tries[n], hint(n)) for n in simplest
    )
    shrinkable = [n for n in simplest if tries[n].outcome.kind in ("returned", "raised")]
    smallest = None
    if shrinkable:
        start = min(shrinkable, key=lambda place: (place not in known, tries[place].size))
        smallest = _smallest(exercise, tries[start], known.get(start), hint(start), again)
    enough, passed, total, summary = exercise.tally(
        [number not in wrong for number in range(len(exercise.checks))]
    )
    remarks = [] if wrong else [exercise.remark([each.outcome.value for each in tries])]
    if runner.way() == "here":
        remarks.append("It ran in this process, as a browser has no other: without limits on time or memory.")
    return CheckReport(enough, summary, findings, passed, total, smallest, tuple(filter(None, remarks)))


def _finding(exercise: Exercise, about: str, tried: Try, hint: str) -> Finding:
    words, expected, got = exercise.differ(exercise, tried.arguments, tried.expected, tried.got)
    if tried.outcome.kind != "returned":
        got = tried.outcome.text
    elif got == expected:  # they differ by less than the words show
        expected, got = repr(tried.expected), repr(tried.got)
    return Finding(about, words, expected, got, hint, tried.outcome.printed, kind=tried.outcome.kind)


def _smallest(
    exercise: Exercise,
    start: Try,
    mistake: Misconception | None,
    hint: str,
    again: Callable[[list[tuple[int, Arguments]]], list[Try]],
) -> Finding | None:
    """The smallest input that fails as `start` does, with its picture; None where inputs have no size."""

    patience = time.monotonic() + max(10.0, exercise.seconds / 3)

    def first_failing(candidates: Sequence[Arguments]) -> tuple[Arguments, Try] | None:
        for first in range(0, len(candidates), _TOGETHER):
            if time.monotonic() > patience:
                return None
            for each in again([(start.check, given) for given in candidates[first : first + _TOGETHER]]):
                if each.right or each.outcome.kind != start.outcome.kind:
                    continue
                if mistake is None or _explains(exercise, mistake, each):
                    return each.arguments, each
        return None

    if next(smaller(start.arguments), None) is None:
        return None
    found = shrink(start.arguments, exercise.valid, first_failing)
    arguments, tried = found or (start.arguments, start)
    finding = _finding(exercise, "the smallest input that was found to fail", tried, hint)
    return replace(finding, picture=exercise.picture(*arguments))
