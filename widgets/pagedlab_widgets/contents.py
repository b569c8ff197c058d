"""The lessons of a folder and how far a reader has come: read from the notebooks and `progress.json`."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from IPython.display import Markdown

from pagedlab.progress import FILE, Progress, ProgressError

_TITLE = re.compile(r"^# (\d\d) · (.+)$", re.MULTILINE)
_QUESTION = re.compile(r"\*\*Question\.\*\*\s+(.+?)(?:\n\n|\Z)", re.DOTALL)
_GUESS = re.compile(r"\bPredict\(\s*\"([\w-]+)\"")
_EXERCISE = re.compile(r"\bexercises\.check\(\s*\"([\w-]+)\"")


@dataclass(frozen=True)
class Lesson:
    """One notebook: its file name, number, title, question, and the keys of its guesses and exercises."""

    file: str
    number: str
    title: str
    question: str
    guesses: tuple[str, ...]
    exercises: tuple[str, ...]


def lessons(folder: str | os.PathLike[str] = ".") -> list[Lesson]:
    """The lessons of a folder, in order. Notebooks that are none of this course's are left out.

    >>> import tempfile
    >>> lessons(tempfile.gettempdir() + "/no such folder")
    []
    """
    found = []
    for path in sorted(Path(folder).glob("[0-9][0-9]-*.ipynb")):
        try:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            prose, code = (
                "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == kind)
                for kind in ("markdown", "code")
            )
        except (OSError, ValueError, LookupError, TypeError):
            continue
        title = _TITLE.search(prose)
        if title is None:
            continue
        question = _QUESTION.search(prose)
        asked = " ".join(question[1].split()) if question else ""
        keys = (tuple(dict.fromkeys(pattern.findall(code))) for pattern in (_GUESS, _EXERCISE))
        found.append(Lesson(path.name, title[1], title[2].strip(), asked, *keys))
    return found


def course(folder: str | os.PathLike[str] = ".") -> Markdown:
    """The table of lessons, with the guesses that were made and the exercises that were solved.

    A progress file that cannot be read is named under the table, and nothing counts as done.
    """
    progress, message = Progress(Path(folder) / FILE), ""
    rows = ["| lesson | what you will be able to answer | guesses | exercises |", "|---|---|---|---|"]
    for lesson in lessons(folder):
        try:
            made = sum(progress.get("predictions", key) is not None for key in lesson.guesses)
            solved = [_exercise(progress, name) for name in lesson.exercises]
        except ProgressError as error:
            made, solved, message = 0, list(lesson.exercises), str(error)
        guesses = f"{made} of {len(lesson.guesses)}" if lesson.guesses else ""
        link = f"[{lesson.number} · {lesson.title}]({lesson.file})"
        rows.append(f"| {link} | {lesson.question} | {guesses} | {', '.join(solved)} |")
    note = message or "Kept in `progress.json` beside the lessons; nothing leaves this machine."
    return Markdown("\n".join([*rows, "", note]))


def _exercise(progress: Progress, name: str) -> str:
    kept = progress.get("exercises", name)
    if not isinstance(kept, dict):
        return name
    if kept.get("solved") is True:
        return f"**{name} ✓ solved**"
    return f"{name}, {kept.get('passed', 0)} of {kept.get('total', '?')} checks"
