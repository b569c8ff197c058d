"""Check again what a class handed in: a folder with a folder for each learner, one row for each exercise.

A learner's folder holds the lessons, as nbgrader and nbgitpuller leave them, or modules such as solutions.py.
All is read before anything is run; then each answer runs in processes of its own, and a row is written as
soon as it is known. Nothing is written into the folder, and no progress.json is believed.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import secrets
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagedlab import __version__, _env, _format
from pagedlab.arguments import UsageError
from pagedlab.progress import FILE

if TYPE_CHECKING:
    from pagedlab.exercises.handed_in import HandedIn
    from pagedlab.exercises.report import CheckReport, Exercise

HELP = "check what a class handed in, exercise by exercise"
RIGHT, WRONG, NOT_RUN, MISSING = STATUSES = ("right", "wrong", "could not be run", "not handed in")
_WIDTH, _INDENT = 110, " " * 8


@dataclass(frozen=True)
class Row:
    """What became of one exercise of one learner.

    `mistake` names it where it is a known one, with what to think about; `why` says what was tried and came
    out, or why nothing was. With `seed`, `exercises.check` tries the same inputs again. `progress` is
    "agrees", "says solved", "says not solved", "cannot be read", or "" where the learner's file says nothing.
    `report` is the whole report, as `CheckReport.to_dict` gives it.
    """

    learner: str
    exercise: str
    status: str
    passed: int | None
    total: int | None
    score: str
    mistake: str
    why: str
    file: str
    seed: int
    progress: str
    report: dict[str, Any] | None = field(repr=False, default=None)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="the class's: one folder for each learner"
    )
    parser.add_argument("--csv", action="store_true", help="print the rows as CSV and nothing else")
    text = "what the inputs are drawn from; the one of an earlier run repeats it (default: another each time)"
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), metavar="N", help=text)
    text = "seconds for the checks of one exercise (default: the exercise's own, 10 or 60)"
    parser.add_argument("--seconds", type=float, metavar="S", help=text)


def command(args: argparse.Namespace) -> int:
    if args.json and args.csv:
        raise UsageError("--json and --csv: choose one")
    if not hasattr(os, "fwalk"):
        raise UsageError("needs Linux or macOS: processes here cannot be limited")
    if args.seconds is not None and not args.seconds > 0:
        raise UsageError(f"--seconds {args.seconds:g}: must be more than 0")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a class is judged on what every machine has
    _env.prepare()
    from pagedlab import exercises
    from pagedlab.exercises import handed_in, sandbox

    for gap in sandbox.gaps():
        print(f"{args.prog}: a submission could {gap}", file=sys.stderr)
    try:
        learners = handed_in.read_class(args.folder, args.seed)
    except ValueError as error:
        raise UsageError(str(error)) from None
    tasks = [exercises.get(name) for name in exercises.names()]
    tasks = [replace(each, seconds=args.seconds or each.seconds) for each in tasks]
    rows: list[Row] = []
    show = _csv() if args.csv else (lambda row: None) if args.json else _text
    try:
        for learner, exercise in itertools.product(learners, tasks):
            rows.append(grade(learner, exercise))
            show(rows[-1])
            sys.stdout.flush()
    finally:  # Ctrl-C loses nothing that is known
        complete = len(rows) == len(learners) * len(tasks)
        if args.json:
            record = {"pagedlab": __version__, "seed": args.seed, "complete": complete}
            print(json.dumps(record | {"rows": [asdict(row) for row in rows]}, indent=2, allow_nan=False))
        elif not args.csv and rows:
            print(summary(rows), f"Seed {args.seed}.", sep="\n")
    return 0


def grade(handed_in: HandedIn, exercise: Exercise) -> Row:
    """Run one exercise's checks on what a learner handed in."""
    status, report, why, file = MISSING, None, handed_in.troubles.get(exercise.name, ""), ""
    if exercise.name in handed_in.answers:
        *answer, file = handed_in.answers[exercise.name]
        report, why = _checked(exercise, *answer, file=f"{handed_in.learner}/{file}", seed=handed_in.seed)
        status = NOT_RUN if report is None else RIGHT if report.passed else WRONG
    elif why:
        status = NOT_RUN
    return Row(
        learner=handed_in.learner,
        exercise=exercise.name,
        status=status,
        passed=report.public_passed if report else None,
        total=report.public_total if report else None,
        score=report.summary if report else "",
        mistake=next((each.hint for each in report.parts() if each.hint), "") if report else "",
        why=why,
        file=file,
        seed=handed_in.seed,
        progress=_agreement(handed_in.solved.get(exercise.name), status == RIGHT),
        report=report.to_dict() if report else None,
    )


def summary(rows: Sequence[Row]) -> str:
    """How many learners are where with each exercise, and the mistakes named most."""
    counts = Counter((row.exercise, row.status) for row in rows)
    table = [
        [name, *(str(counts[name, status]) for status in STATUSES)]
        for name in dict.fromkeys(r.exercise for r in rows)
    ]
    named = Counter((row.exercise, row.mistake) for row in rows if row.mistake).most_common(5)
    said = [f"{many} x {name}: {mistake}" for (name, mistake), many in named]
    return "\n".join(["", _format.table(["exercise", *STATUSES], table), "", *said])


# -- One answer.


def _checked(
    exercise: Exercise, source: str, answer: str, *, file: str, seed: int
) -> tuple[CheckReport | None, str]:
    """The report, or None with the reason why nothing was to be seen of the answer."""
    from pagedlab.exercises import runner
    from pagedlab.exercises.checking import check_exercise
    from pagedlab.exercises.submission import Submission

    # The folder is there until none is left who could write into it.
    own = tempfile.TemporaryDirectory(prefix="pagedlab-grade-", ignore_cleanup_errors=True)
    with own as folder, runner.none_left_behind():
        submission = Submission(source, answer, file, folder, exercise.seconds, os.getpid())
        try:
            (made,) = runner.run(submission.makes, [()], seconds=exercise.seconds)
            if made.kind != "returned":
                return None, made.text
            report = check_exercise(exercise, submission, seed, fixed=True)
        except Exception as error:  # from a look at an answer that no check gives: a forged one
            return None, f"what came back is no answer to a check ({type(error).__name__}: {error})"
    if report.passed or not report.findings:
        return report, ""
    first = report.parts()[0]
    if not report.public_passed and all(each.kind in ("ended", "unreached") for each in report.findings):
        return None, first.got
    tried, expected, got = (
        " / ".join(text.split("\n"))[:200] for text in (first.tried, first.expected, first.got)
    )
    return report, f"{first.about}: tried {tried}, expected {expected}, got {got}"


def _agreement(solved: Any, right: bool) -> str:
    if solved is None:
        return ""
    if not isinstance(solved, bool):
        return "cannot be read"
    return "agrees" if solved == right else "says solved" if solved else "says not solved"


# -- Writing. Names and texts are the learners': nothing in them may move a cursor or become a formula.


def _text(row: Row) -> None:
    claim = f"; {FILE} {row.progress}" if row.progress not in ("", "agrees") else ""
    print(f"{_printable(row.learner):20} {row.exercise:20} {row.status:17} {row.score}{claim}".rstrip())
    for text in filter(None, (row.mistake, row.why)):
        print(
            *textwrap.wrap(_printable(text), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT),
            sep="\n",
        )


def _csv() -> Callable[[Row], None]:
    columns = [each.name for each in fields(Row) if each.name != "report"]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)

    def write(row: Row) -> None:
        writer.writerow(["" if (v := getattr(row, name)) is None else _cell(str(v)) for name in columns])

    return write


def _cell(text: str) -> str:
    """Text that a spreadsheet takes for text.

    >>> _cell("=cmd()"), _cell("6")
    ("'=cmd()", '6')
    """
    text = _printable(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _printable(text: str) -> str:
    """Text on one line, without what a terminal obeys.

    >>> _printable("a\\x1b[2J\\nb")
    'a\\\\x1b[2J\\\\nb'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
