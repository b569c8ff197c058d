"""What the README says: its pictures are there, its lessons are those in the folder, and its commands run."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pagedlab import claims, cli, exercises

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "lessons/TEACHING.md")]
README = PAGES[0].read_text(encoding="utf-8")
SECTIONS = (
    *("What you will be able to decide", "The lessons", "On your machine", "What was measured"),
    *("How it is built", "How to contribute", "Licence and sources"),
)
LONG = ("bench", "export", "lab")
"""Commands of minutes, or without end, that have tests of their own: here they need only be spelled right."""


def fenced(language: str, page: Path = PAGES[0]) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    """Every `.venv/bin/...` line and inline `.venv/bin/...`, as words after the folder."""
    lines = [line for block in fenced("bash") for line in block.splitlines()]
    lines += re.findall(r"`(\.venv/bin/[^`]+)`", README)
    split = [shlex.split(line, comments=True) for line in lines]
    return [
        [words[0].removeprefix(".venv/bin/"), *words[1:]] for words in split if words and words[0] != "make"
    ]


def test_the_sections_come_in_their_order() -> None:
    assert tuple(re.findall(r"^## (.+)$", README, re.MULTILINE)) == SECTIONS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("https://"):
            assert (page.parent / target.partition("#")[0]).exists(), target


def test_every_lesson_is_listed_by_its_title() -> None:
    rows = dict(re.findall(r"^\| (\d\d) \| (.+?) \|", README, re.MULTILINE))
    for notebook in (ROOT / "lessons").glob("[0-9]*.ipynb"):
        title = re.search(r'"# (\d\d) · ([^"\\]+)', notebook.read_text(encoding="utf-8"))
        assert title and rows[title[1]] == title[2], notebook.name


def test_teachers_find_every_exercise() -> None:
    rows = re.findall(r"^\| \d\d \| `([\w-]+)` \|", PAGES[-1].read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(exercises.names())


def test_it_counts_the_claims_right() -> None:
    assert "all nineteen" in README and len(claims.all()) == 19


def test_the_two_commands_are_targets_of_make() -> None:
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    asked = [
        line.split()[1] for block in fenced("bash") for line in block.splitlines() if line[:5] == "make "
    ]
    assert asked == ["lab", "test"] and set(asked) <= set(targets)


@pytest.mark.slow
@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_its_commands_run(words: list[str], run_python: Callable[..., subprocess.CompletedProcess]) -> None:
    assert words[0] in ("pagedlab", "python")
    if words[0] == "pagedlab" and words[1] in LONG:
        assert cli.parser().parse_args(words[1:]).command == words[1]
        return
    pytest.importorskip("torch")
    if words[1] == "compile":
        pytest.importorskip("triton")
    ran = run_python(*(words[1:] if words[0] == "python" else ["-m", *words]))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.strip()


@pytest.mark.parametrize("code", [*fenced("python"), fenced("python", PAGES[-1])[0]])
def test_the_python_of_readme_and_teachers_page_runs(
    code: str, run_python: Callable[..., subprocess.CompletedProcess]
) -> None:
    pytest.importorskip("anywidget")
    ran = run_python("-c", code)
    assert ran.returncode == 0, ran.stderr
