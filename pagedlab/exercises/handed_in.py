"""What a class handed in: the files of each learner's folder, read without running or following any.

A folder holds the lessons, as nbgrader and nbgitpuller leave them, or modules such as solutions.py, which go
first. An exercise that is as the lesson gave it has not been handed in.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagedlab import _format
from pagedlab.exercises import runner
from pagedlab.exercises.submission import read
from pagedlab.lab import shipped_lessons
from pagedlab.progress import FILE

_LARGEST = 8 << 20
_FILES, _DEPTH = 60, 4
"""Of a learner's folder."""
_LINK = "a link, which is not followed"


@dataclass(frozen=True)
class HandedIn:
    """A learner's answers by exercise, each its source, expression and file, and why there is none.

    `solved` is what the learner's progress.json says of an exercise: true, false, or what is neither. `seed`
    is what the learner's inputs are drawn from.
    """

    learner: str
    seed: int
    answers: Mapping[str, tuple[str, str, str]]
    troubles: Mapping[str, str]
    solved: Mapping[str, Any]


def read_class(folder: Path, seed: int) -> list[HandedIn]:
    """Every learner's, by name. Raises ValueError where there is none, OSError where it cannot be listed."""
    entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    entries = [each for each in entries if each.is_symlink() or each.is_dir()]
    learners = [Path(each.path) for each in entries if not each.name.startswith(".")]
    if not learners:
        raise ValueError(f"{folder} has no folder in it; one for each learner is expected")
    lessons = {}
    for lesson in sorted(shipped_lessons().glob("*.ipynb")):
        for exercise, (answer, digest) in read(lesson.read_bytes(), lesson.name, {})["found"].items():
            lessons[exercise] = lesson.name, answer, digest
    return [_handed_in(learner, seed, lessons) for learner in learners]


def _handed_in(folder: Path, seed: int, lessons: Mapping[str, tuple[str, str, str]]) -> HandedIn:
    files, refused = _files(folder)
    kept = [name for name in files if Path(name).name == FILE]
    solved = _solved(files[kept[0]] if kept else b"{}", lessons)
    codes = sorted(files.keys() - kept, key=lambda name: (name.endswith(".ipynb"), name))
    usual = {exercise: answer for exercise, (_, answer, _) in lessons.items()}
    answers, troubles = dict[str, tuple[str, str, str]](), dict[str, str]()
    for name, got in zip(codes, runner.run(read, [(files[n], n, usual) for n in codes]), strict=True):
        if got.kind != "returned":
            refused[name] = got.text
            continue
        for exercise, (answer, digest) in got.value["found"].items():
            if exercise in lessons and digest != lessons[exercise][2]:
                answers.setdefault(exercise, (got.value["source"], answer, name))
        troubles |= {exercise: f"{name}: {why}" for exercise, why in got.value["broken"].items()}
    for exercise, (lesson, _, _) in lessons.items():
        others = {each for each, _, _ in lessons.values()} - {lesson}
        whys = [f"{name}: {why}" for name, why in refused.items() if Path(name).name not in others]
        if whys:
            troubles.setdefault(exercise, "; ".join(whys)[:300])
    own = int(hashlib.sha256(f"{seed}/{os.fsencode(folder.name)!r}".encode()).hexdigest()[:8], 16)
    return HandedIn(folder.name, own, answers, troubles, solved)


def _solved(progress: bytes, exercises: Iterable[str]) -> dict[str, Any]:
    try:
        kept = json.loads(progress).get("exercises", {})
        return {exercise: entry["solved"] for exercise, entry in kept.items()}
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return dict.fromkeys(exercises, "cannot be read")


def _files(folder: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """Code and progress by path in the folder, and why others were not read."""
    files, refused = dict[str, bytes](), dict[str, str]()
    if folder.is_symlink():
        return files, {folder.name: _LINK}
    # Through open folders, so that nothing is swapped for a link on the way.
    walk = os.fwalk(folder, onerror=lambda error: refused.update({str(error.filename): _why(error)}))
    for root, folders, names, at in walk:
        inside = Path(root).relative_to(folder)
        for name in folders:
            if stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
                refused[str(inside / name)] = _LINK
        deep = len(inside.parts) >= _DEPTH
        folders[:] = [] if deep else sorted(name for name in folders if not name.startswith((".", "__")))
        for name in sorted(names):
            if name != FILE and (name.startswith(".") or not name.endswith((".py", ".ipynb"))):
                continue
            try:
                if len(files) >= _FILES:
                    raise ValueError(f"more than {_FILES} files")
                files[str(inside / name)] = _content(name, at)
            except (OSError, ValueError) as error:
                refused[str(inside / name)] = _why(error)
    return files, refused


def _content(name: str, folder: int) -> bytes:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("is no file")
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"has more than {_format.size(_LARGEST)}")
    return content


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return _LINK if error.errno == errno.ELOOP else str(error.strerror)
    return str(error)
