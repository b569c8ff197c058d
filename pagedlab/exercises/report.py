"""What an exercise is made of, what a check of it finds, and how that reads."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Any

from pagedlab.exercises.answering import PRINTED
from pagedlab.exercises.plain import brief
from pagedlab.exercises.runner import SECONDS

Arguments = tuple[Any, ...]
Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class Check:
    """One public check: what it is about, and what draws the arguments (plain data) of one try."""

    about: str
    draw: Callable[[random.Random], Arguments]


@dataclass(frozen=True)
class Misconception:
    """A known mistake, recognised by the answers it gives: `solution` makes the same mistake.

    `variants` make it too, and come to other answers.
    """

    hint: str
    solution: Callable[..., Any]
    variants: tuple[Callable[..., Any], ...] = ()


def call(solution: Callable[..., Any], convert: Convert, *arguments: Any) -> Any:
    """The plain way to try a solution: call it."""
    return solution(*map(convert, arguments))


def same(got: Any, expected: Any, *, rel_tol: float = 1e-6, abs_tol: float = 1e-9) -> bool:
    """Whether two plain values agree: numbers within rounding, whatever their type; truth values are none.

    >>> same([3.0, 0.1 + 0.2], [3, 0.3]), same(True, 1), same([3], 3)
    (True, False, False)
    """
    if isinstance(expected, list | tuple):
        alike = partial(same, rel_tol=rel_tol, abs_tol=abs_tol)
        return isinstance(got, list | tuple) and len(got) == len(expected) and all(map(alike, got, expected))
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in (got, expected)):
        return type(got) is type(expected) and bool(got == expected)
    try:
        close = got == expected or math.isclose(got, expected, rel_tol=rel_tol, abs_tol=abs_tol)
        return close or (math.isnan(got) and math.isnan(expected))  # a mistake's NaN, never a right answer
    except OverflowError:
        return False


near = partial(same, rel_tol=1e-4, abs_tol=1e-5)
"""For answers that single precision is enough for."""


def tally(right: Sequence[bool]) -> tuple[bool, int, int, str]:
    """Of the checks that passed and did not: whether that is enough, how many of how many, and in words."""
    return all(right), sum(right), len(right), f"{sum(right)} of {len(right)} public checks passed"


def differ(exercise: Exercise, arguments: Arguments, expected: Any, got: Any) -> tuple[str, str, str]:
    """What was tried, expected and got, in words: the call with the names that the solution's own has."""
    names = inspect.signature(exercise.reference).parameters
    tried = ", ".join(f"{name}={brief(value, 240)}" for name, value in zip(names, arguments, strict=False))
    return tried, brief(expected), brief(got)


@dataclass(frozen=True, eq=False)
class Exercise:
    """A task with its public checks, the right answer and the known wrong ones.

    A try runs `drive(solution, convert, *arguments)` in the learner's process. Its plain answer and that of
    the `reference` go through `view(answer, *arguments)`, which leaves of an answer only what must be right
    (a block's number need not, how many there are must), and then `same` decides. `valid(*arguments)` says
    what the task allows, for an input that is being shrunk. `forms` are the kinds of sequence that solutions
    may expect; one that fails with the first is tried with the next. A mistake is known by giving the same
    answer; where answers that share a mistake may still differ, `alike(expected, got, predicted)` says so.
    Where no mistake explains all, `advice(*arguments)` is the hint. `remark` says something of right answers.
    Where `shuffled`, the number of a call says nothing about its input.
    """

    name: str
    hints: tuple[str, str, str]
    checks: tuple[Check, ...]
    reference: Callable[..., Any]
    misconceptions: tuple[Misconception, ...]
    drive: Callable[..., Any] = call
    view: Callable[..., Any] = lambda answer, *arguments: answer
    same: Callable[[Any, Any], bool] = same
    valid: Callable[..., bool] = lambda *arguments: True
    alike: Callable[[Any, Any, Any], bool] = lambda expected, got, predicted: False
    differ: Callable[[Exercise, Arguments, Any, Any], tuple[str, str, str]] = differ
    picture: Callable[..., str] = lambda *arguments: ""
    advice: Callable[..., str] | None = None
    remark: Callable[[Sequence[Any]], str] = lambda answers: ""
    tally: Callable[[Sequence[bool]], tuple[bool, int, int, str]] = tally
    forms: tuple[str, ...] = ("lists", "arrays", "tensors")
    seconds: float = SECONDS
    shuffled: bool = False


@dataclass(frozen=True)
class Finding:
    """One check that did not pass; `printed` is the beginning of what the solution printed in it.

    `kind` is how the try came out, as a `runner.Outcome` says it.
    """

    about: str
    tried: str
    expected: str
    got: str
    hint: str = ""
    printed: str = ""
    picture: str = ""
    kind: str = "returned"

    def rows(self) -> Iterator[tuple[str, str]]:
        """What there is to say, by name."""
        yield "tried", self.tried
        yield "", self.picture
        yield "expected", self.expected
        yield "got", self.got
        more = f"\n... (its first {PRINTED} characters)" if len(self.printed) >= PRINTED else ""
        yield "printed", self.printed.rstrip("\n") + more
        yield "hint", self.hint

    def __str__(self) -> str:
        lines = [self.about]
        for name, text in self.rows():
            for number, line in enumerate(text.splitlines()):
                lines.append(f"  {'' if number else name:<9} {line}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        left, pre = (
            "style='text-align:left;vertical-align:top'",
            "style='margin:0;white-space:pre-wrap;background:none'",
        )
        rows = "".join(
            f"<tr><th {left}>{name}</th><td {left}><pre {pre}>{escape(text)}</pre></td></tr>"
            for name, text in self.rows()
            if text
        )
        return f"<p><b>{escape(self.about)}</b></p><table>{rows}</table>"


@dataclass(frozen=True)
class CheckReport:
    """What a check found; `print` it, or let the notebook show it.

    `smallest` is the smallest input that was found to fail, in the same way as the first of `findings` where
    the way is known.
    """

    passed: bool
    summary: str
    findings: tuple[Finding, ...]
    public_passed: int
    public_total: int
    smallest: Finding | None = None
    remarks: tuple[str, ...] = ()

    def remarked(self, remark: str) -> CheckReport:
        """The same with one more remark."""
        return replace(self, remarks=(*self.remarks, remark))

    def parts(self) -> tuple[Finding, ...]:
        """The findings as they are shown: the smallest first, and no hint twice."""
        said: set[str] = set()
        shown = []
        for finding in self.findings if self.smallest is None else (self.smallest, *self.findings):
            shown.append(replace(finding, hint="") if finding.hint in said else finding)
            said.add(finding.hint)
        return tuple(shown)

    def __str__(self) -> str:
        return "\n\n".join([self.summary, *self.remarks, *map(str, self.parts())])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{escape(text)}</p>" for text in (self.summary, *self.remarks))
        first, rest = self.parts()[:1], self.parts()[1:]
        folded = "".join(finding._repr_html_() for finding in rest)
        if rest:
            folded = f"<details><summary>{len(rest)} more to look at</summary>{folded}</details>"
        return said + "".join(finding._repr_html_() for finding in first) + folded

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "passed": self.passed,
            "summary": self.summary,
            "public_passed": self.public_passed,
            "public_total": self.public_total,
            "remarks": list(self.remarks),
            "smallest": None if self.smallest is None else vars(self.smallest),
            "findings": [vars(finding) for finding in self.findings],
        }
