"""What every lesson must be before anybody runs it: its frame, its links, its words, its short cells."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pagedlab import claims, exercises, published

LESSONS = Path(__file__).parents[1] / "lessons"
NOTEBOOKS = sorted(LESSONS.glob("[0-9]*.ipynb"))
GLOSSARY = LESSONS / "glossary.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FRAME = ("**Question.**", "## Predict", "## Play", "## Measure", "## Explain", "## Build", "## Decide")
WITHOUT_FRAME = ("00-start-here", "13-should-i-page")
"""The first lesson has nothing to decide yet, the last nothing to build."""
LONGEST_CELL = 15


def cells(notebook: Path, kind: str) -> list[str]:
    book = json.loads(notebook.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == kind]


def prose(notebook: Path) -> str:
    return "\n".join(cells(notebook, "markdown"))


def code(notebook: Path) -> str:
    return "\n".join(cells(notebook, "code"))


def anchors(page: Path) -> set[str]:
    """The headings of a page, as a link names them in JupyterLab and in a static page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {title.lower().replace(",", "").replace(" ", "-") for title in titles}


lesson = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


@lesson
def test_a_lesson_has_the_one_frame(notebook):
    if notebook.stem in WITHOUT_FRAME:
        return
    text = prose(notebook)
    places = [text.find(part) for part in FRAME]
    assert -1 not in places, [part for part, place in zip(FRAME, places, strict=True) if place < 0]
    assert places == sorted(places)


@lesson
def test_its_cells_are_short_and_stored_without_output(notebook):
    book = json.loads(notebook.read_text(encoding="utf-8"))
    assert "widgets" not in book["metadata"]
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            assert len("".join(cell["source"]).splitlines()) <= LONGEST_CELL, cell["source"]
            assert not cell["outputs"] and cell["execution_count"] is None


@lesson
def test_its_links_lead_somewhere(notebook):
    for target in LINK.findall(prose(notebook)):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        page = LESSONS / name
        assert page.exists(), target
        if anchor:
            assert anchor in anchors(page), f"{target}: {page.name} has no such heading"


@lesson
def test_it_names_figures_claims_and_exercises_that_exist(notebook):
    text = code(notebook)
    for figure in re.findall(r"published\.figure\(\"(\w+)\"\)", text):
        assert published.figure(figure)
    for claim in re.findall(r"claims\.get\(\"([\w-]+)\"\)", text):
        assert claims.get(claim)
    for exercise in re.findall(r"exercises\.(?:check|hints)\(\"([\w-]+)\"", text):
        assert exercise in exercises.names()


def test_every_claim_ends_a_lesson_and_every_exercise_has_one():
    text = "\n".join(map(code, NOTEBOOKS))
    missing = [claim.id for claim in claims.all() if f'"{claim.id}"' not in text]
    missing += [name for name in exercises.names() if f'check("{name}"' not in text]
    assert not missing


def test_every_term_of_the_glossary_is_linked_from_a_lesson():
    linked = {target.partition("#")[2] for path in NOTEBOOKS for target in LINK.findall(prose(path))}
    terms = {anchor for anchor in anchors(GLOSSARY) if anchor != "glossary"}
    assert len(terms) == GLOSSARY.read_text(encoding="utf-8").count("\n### ")
    assert not terms - linked


def test_the_lessons_are_numbered_without_a_gap():
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"{n:02d}" for n in range(14)]


def test_the_glossary_is_in_alphabetical_order():
    terms = re.findall(r"^### (.+)$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    assert terms == sorted(terms, key=str.lower)
