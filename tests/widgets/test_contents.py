"""The table of lessons: what the folder holds, and what the reader did."""

from __future__ import annotations

import json
from pathlib import Path

from pagedlab.progress import Progress, record_check
from pagedlab_widgets import course
from pagedlab_widgets.contents import lessons

OURS = Path(__file__).parents[2] / "lessons"


def write(folder: Path, name: str, markdown: str, code: str = "") -> None:
    cells = [{"cell_type": "markdown", "source": [markdown]}, {"cell_type": "code", "source": [code]}]
    (folder / name).write_text(json.dumps({"cells": cells}))


def test_every_notebook_of_ours_is_a_lesson_with_a_question():
    found = lessons(OURS)
    assert [lesson.file for lesson in found] == sorted(path.name for path in OURS.glob("[0-9]*.ipynb"))
    assert all(lesson.title and lesson.question for lesson in found)
    assert found[1].exercises == ("waste",) and len(found[1].guesses) == 2


def test_guesses_and_solved_exercises_are_counted(tmp_path):
    write(
        tmp_path,
        "01-a.ipynb",
        "# 01 · A\n\n**Question.** Why\nso?\n\nMore.",
        'Predict("g", "?")\nexercises.check("e", f)',
    )
    text = course(tmp_path).data
    assert "| [01 · A](01-a.ipynb) | Why so? | 0 of 1 | e |" in text
    Progress(tmp_path / "progress.json").set("predictions", "g", 3.0)
    record_check("e", 1, 4, path=tmp_path / "progress.json")
    assert "| 1 of 1 | e, 1 of 4 checks |" in course(tmp_path).data
    record_check("e", 4, 4, path=tmp_path / "progress.json")
    assert "**e ✓ solved**" in course(tmp_path).data


def test_what_is_no_lesson_is_left_out_and_a_broken_progress_file_is_named(tmp_path):
    write(tmp_path, "07-mine.ipynb", "My own notes")
    (tmp_path / "08-broken.ipynb").write_text("{oops")
    (tmp_path / "09-list.ipynb").write_text("[]")
    write(tmp_path, "01-a.ipynb", "# 01 · A", 'exercises.check("e", f)')
    (tmp_path / "progress.json").write_text("{oops")
    text = course(tmp_path).data
    assert "08" not in text and "07" not in text and "01 · A" in text
    assert "progress.json is not JSON" in text
