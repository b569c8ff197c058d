"""The lessons in JupyterLab, as a reader meets them: run, drag, read the change from the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from access import violations
from driving import choose, move
from lab import REPOSITORY, Notebook, Server

if TYPE_CHECKING:
    from playwright.sync_api import Locator

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

LESSONS = REPOSITORY / "lessons"


@pytest.fixture(scope="module")
def open_lesson(context: Any, lab: Server) -> Iterator[Any]:
    """Open a copy of a lesson and run all of it. The page stays open for the tests of this module."""
    pages: dict[str, Notebook] = {}

    def open_(name: str) -> Notebook:
        if name not in pages:
            shutil.copy(LESSONS / name, lab.root / name)
            pages[name] = Notebook.open(context.new_page(), lab, name)
            pages[name].run_all()
        return pages[name]

    yield open_
    for notebook in pages.values():
        complaints = notebook.watch.complaints()
        notebook.page.close()
        assert not complaints, "\n".join(complaints)


@pytest.fixture
def explorer(open_lesson: Any) -> Locator:
    notebook = open_lesson("01-where-did-the-memory-go.ipynb")
    notebook.command_mode()
    output = notebook.page.locator(".jp-Cell", has=notebook.page.locator(".pl-block-map")).first
    output.scroll_into_view_if_needed()
    return output


def _notebook(open_lesson: Any) -> Notebook:
    return open_lesson("01-where-did-the-memory-go.ipynb")


def _wasted(explorer: Locator) -> float:
    """The waste of paging, as the page says it."""
    table = explorer.get_by_role("table").filter(has_text="Memory held").first
    row = table.get_by_role("row").filter(
        has=explorer.page.get_by_role("rowheader", name="paged", exact=True)
    )
    return float(row.get_by_role("cell").last.inner_text().split()[0])


@pytest.mark.parametrize("lesson", sorted(path.name for path in LESSONS.glob("*.ipynb")))
def test_a_lesson_runs_from_top_to_bottom(open_lesson, lesson):
    notebook = open_lesson(lesson)
    assert not notebook.watch.complaints()


@pytest.mark.parametrize("lesson", sorted(path.name for path in LESSONS.glob("*.ipynb")))
def test_axe_finds_nothing_serious_in_the_widgets_of_a_lesson(open_lesson, lesson):
    notebook = open_lesson(lesson)
    notebook.page.evaluate("document.querySelectorAll('.pl-widget details').forEach(e => { e.open = true; })")
    for theme in ("Dark", "Light"):
        notebook.theme(theme)
        assert violations(notebook.page, ".jp-OutputArea-output") == []


def test_the_answer_appears_once_a_guess_is_committed(explorer, open_lesson):
    page = explorer.page
    answers = page.locator(".pl-bar-table", has_text="room for the longest")
    expect(answers).to_contain_text("Commit to a guess above")
    question = page.locator(".pl-predict", has_text="room for the longest")
    question.get_by_role("spinbutton").fill("40")
    question.get_by_role("button", name="Commit").click()
    expect(answers.get_by_role("rowheader", name="your guess")).to_be_visible()
    expect(answers.get_by_role("rowheader", name="here (computed)")).to_be_visible()


def test_the_keyboard_moves_the_block_size_and_the_waste_follows(explorer, open_lesson):
    notebook = _notebook(open_lesson)
    slider = explorer.get_by_role("slider", name="Block size in tokens")
    before = _wasted(explorer)
    slider.focus()
    slider.press("ArrowRight")
    notebook.eventually("explorer.block_size.value", 32)
    expect(explorer.get_by_text("paged, blocks of 32", exact=True).first).to_be_visible()
    assert 1.8 * before < _wasted(explorer) < 2.2 * before
    slider.press("ArrowLeft")
    notebook.eventually("explorer.block_size.value", 16)
    expect(explorer.get_by_text("paged, blocks of 16", exact=True).first).to_be_visible()
    assert _wasted(explorer) == before


def test_the_mouse_drags_the_block_size_and_the_waste_follows(explorer, open_lesson):
    notebook, page = _notebook(open_lesson), explorer.page
    slider = explorer.get_by_role("slider", name="Block size in tokens")
    box = slider.bounding_box()
    track = slider.locator("xpath=ancestor::*[contains(@class, 'noUi-target')]").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(track["x"] + track["width"] - 2, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    notebook.eventually("explorer.block_size.value", 256)
    expect(explorer.get_by_text("paged, blocks of 256", exact=True).first).to_be_visible()
    assert _wasted(explorer) > 5
    notebook.run_code("explorer.block_size.value = 16")
    expect(explorer.get_by_text("paged, blocks of 16", exact=True).first).to_be_visible()


def test_the_cost_of_the_tables_shown_is_measured_and_named(explorer):
    cost = explorer.get_by_role("table").filter(has_text="One decode step").first
    expect(cost.get_by_role("rowheader", name="paged, blocks of 16")).to_be_visible(timeout=60_000)
    expect(cost.get_by_role("rowheader", name="contiguous")).to_be_visible()
    shown = explorer.locator(".pl-bar-table").filter(has_text="One decode step")
    expect(shown).to_contain_text("measured")
    expect(shown).to_contain_text("cores")


def test_replaying_asks_nothing_of_the_kernel(explorer, open_lesson):
    notebook = _notebook(open_lesson)
    expect(explorer.locator(".pl-activity")).to_have_attribute("data-state", "idle", timeout=60_000)
    play = explorer.get_by_role("button", name="Play")
    shown = explorer.locator(".pl-block-map")
    notebook.watch.messages.clear()
    start = int(shown.get_attribute("data-frame"))
    play.click()
    expect(shown).not_to_have_attribute("data-frame", str(start))
    explorer.page.wait_for_function(
        "([map, start]) => Number(map.dataset.frame) > start + 5", arg=[shown.element_handle(), start]
    )
    assert notebook.watch.messages == []
    explorer.get_by_role("button", name="Pause").click()
    frame = int(shown.get_attribute("data-frame"))
    notebook.eventually("explorer.map.frame", frame)


def test_a_file_with_a_hostile_name_is_text(explorer, open_lesson):
    notebook = _notebook(open_lesson)
    name = "<img src=x onerror=alert(1)>.csv"
    content = b"num_prefill_tokens,num_decode_tokens\n" + b"700,50\n80,20\n" * 50
    _upload(explorer, name, content)
    notebook.eventually("len(explorer.requests)", 100)
    expect(explorer.get_by_text(f"100 requests read from {name}.")).to_be_visible()
    assert explorer.locator("img[src=x]").count() == 0
    _upload(explorer, "bad.csv", b"<script>,b\n1,2\n")
    expect(explorer.get_by_text("Not read, nothing was changed: bad.csv, line 1")).to_be_visible()
    assert notebook.python("len(explorer.requests)") == 100
    explorer.get_by_role("combobox", name="Workload").select_option("azure-conversation")
    notebook.eventually("len(explorer.requests)", 19_366)


def _upload(explorer: Locator, name: str, content: bytes) -> None:
    with explorer.page.expect_file_chooser() as waiting:
        explorer.get_by_role("button", name="Your trace (.csv)").click()
    waiting.value.set_files({"name": name, "mimeType": "text/csv", "buffer": content})


@pytest.mark.parametrize("theme", ["Dark", "Light"])
def test_text_and_bars_stand_out_in_both_themes(explorer, open_lesson, theme):
    notebook = _notebook(open_lesson)
    notebook.theme(theme)
    colours = explorer.locator(".pl-bar-table th").first.evaluate(
        "e => [e, document.body].map(getComputedStyle).map((s, i) => i ? s.backgroundColor : s.color)"
    )
    assert _contrast(*colours) >= 4.5


def _contrast(*colours: str) -> float:
    """The contrast ratio of WCAG between two CSS colours."""

    def luminance(colour: str) -> float:
        channels = [float(c) / 255 for c in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted(map(luminance, colours))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("lesson", sorted(path.name for path in LESSONS.glob("*.ipynb")))
def test_what_a_lesson_lets_one_move_moves_and_changes_what_is_shown(open_lesson, lesson):
    notebook = open_lesson(lesson)
    moved = move(notebook.page)
    assert any(moved.values()) or choose(notebook.page), "a lesson with nothing to move"
    assert not notebook.watch.complaints()
