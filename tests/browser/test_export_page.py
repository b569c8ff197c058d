"""Exported lessons, opened from a file with the network off: they play, scrub, step and take guesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from access import violations
from driving import drive

from pagedlab import export
from pagedlab.lab import shipped_lessons

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

# How far each line of a chart stands out from what it is drawn on, as WCAG counts it.
CONTRASTS = """() => {
  const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
  const light = (colour) => {
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map((value) => (value / 255) ** 2.2);
    return 0.05 + 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [...document.querySelectorAll(".pl-chart .pl-box > svg .pl-stroke")].map((line) => {
    const below = getComputedStyle(line.closest(".pl-box")).backgroundColor;
    const both = [getComputedStyle(line).stroke, below].map(light);
    return Math.max(...both) / Math.min(...both);
  });
}"""
OFTEN = ("00", "01")
LESSONS = [
    name if name in OFTEN else pytest.param(name, marks=pytest.mark.release)
    for name in sorted(path.name[:2] for path in shipped_lessons().glob("*.ipynb"))
]


@pytest.fixture(scope="module")
def open_page(context: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Page]]:
    """A shipped lesson as a page, open in a browser without a network; made and opened once."""
    folder, offline, pages = tmp_path_factory.mktemp("pages"), context.browser.new_context(), {}
    offline.set_offline(True)
    offline.set_default_timeout(15_000)
    complaints: list[str] = []

    def open_(lesson: str) -> Page:
        if lesson not in pages:
            path: Path = folder / f"{lesson}.html"
            path.write_text(export.page(export.find(lesson)).html, encoding="utf-8")
            page = pages[lesson] = offline.new_page()
            page.on("pageerror", lambda error: complaints.append(f"{lesson}: {error}"))
            page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
            page.on("request", lambda asked: _note(asked.url, path, complaints))
            page.goto(path.as_uri())
            page.locator("html[data-ready]").wait_for()
        assert not complaints
        return pages[lesson]

    yield open_
    offline.close()
    assert not complaints


def _note(url: str, path: Path, complaints: list[str]) -> None:
    if not url.startswith(("blob:", "data:")) and url != path.as_uri():
        complaints.append(f"asked for {url}")


def test_a_map_plays_scrubs_and_steps(open_page: Callable[[str], Page]) -> None:
    page = open_page("00")
    view = page.locator(".pl-block-map")
    scrub = view.get_by_role("slider", name="Step")
    scrub.press("End")
    last = view.get_attribute("data-frame")
    view.get_by_role("button", name="Step back").click()
    expect(view).to_have_attribute("data-frame", str(int(last or 0) - 1))
    scrub.press("Home")
    view.get_by_role("combobox", name="Speed").select_option("20")
    view.get_by_role("button", name="Play").click()
    expect(view).to_have_attribute("data-frame", str(last))
    view.get_by_role("button", name="A again").click()
    expect(view.get_by_role("grid", name="Block table of A again")).to_be_visible()


def test_a_guess_reveals_the_answer(open_page: Callable[[str], Page]) -> None:
    page = open_page("01")
    answer = page.locator(".pl-bar-table", has_text="room for the longest")
    expect(answer).to_contain_text("Commit to a guess above")
    question = page.locator(".pl-predict", has_text="room for the longest")
    question.get_by_role("spinbutton").fill("40")
    question.get_by_role("button", name="Commit").press("Enter")
    for heading in ("your guess", "here (computed)", "to compare"):
        expect(answer.get_by_role("rowheader", name=heading)).to_be_visible()


def test_what_asks_a_kernel_is_shown_and_says_so(open_page: Callable[[str], Page]) -> None:
    page = open_page("01")
    expect(page.get_by_text("Block size (tokens): 16").first).to_be_visible()
    expect(page.get_by_text("asks a kernel").first).to_be_visible()
    expect(page.locator(".pl-bar-table", has_text="One decode step")).to_contain_text("measured")
    expect(page.locator("[data-status]")).to_have_count(0)


@pytest.mark.parametrize("lesson", OFTEN)
def test_axe_finds_nothing_serious_in_a_page(open_page: Callable[[str], Page], lesson: str) -> None:
    page = open_page(lesson)
    page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    for name in ("Dark", "Light"):
        page.get_by_role("button", name=name, exact=True).click()
        assert violations(page, "html") == []


def test_the_page_has_a_light_and_a_dark_side(open_page: Callable[[str], Page]) -> None:
    page = open_page("00")
    colours = set()
    for name in ("Dark", "Light"):
        page.get_by_role("button", name=name, exact=True).click()
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2


def test_a_plotly_figure_is_drawn_offline_in_the_colours_of_the_page(context: Any, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    figure = (
        "import plotly.graph_objects as go\ngo.Figure(go.Scatter(x=[1, 2], y=[3, 4]), {'title': 'A <b>'})"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(figure)])
    nbformat.write(notebook, tmp_path / "plot.ipynb")
    (tmp_path / "plot.html").write_text(export.page(tmp_path / "plot.ipynb").html, encoding="utf-8")
    page = context.new_page()
    page.goto((tmp_path / "plot.html").as_uri())
    page.locator("html[data-ready]").wait_for()
    plot = page.get_by_role("img", name="A <b>")
    colours = set()
    for name in ("Dark", "Light"):
        page.get_by_role("button", name=name, exact=True).click()
        tick = plot.locator(".xtick text").first
        expect(tick).to_be_visible()
        colours.add(tick.evaluate("text => getComputedStyle(text).fill"))
    assert len(colours) == 2
    page.close()


def test_lines_and_timelines_stand_out_where_contrast_is_asked_for(
    open_page: Callable[[str], Page],
) -> None:
    page = open_page("01")
    asked: list[dict[str, Any]] = [{"forced_colors": "active"}, {"contrast": "more"}]
    for media in asked:
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme, **media)  # type: ignore[arg-type]
            expect(page.locator("html")).to_have_attribute("data-theme", scheme)
            contrasts = page.evaluate(CONTRASTS)
            assert len(contrasts) > 2 and min(contrasts) >= 4, (media, scheme, contrasts)
        track = page.locator(".pl-scrub").first.evaluate("e => getComputedStyle(e).forcedColorAdjust")
        assert track == ("none" if "forced_colors" in media else "auto")
        page.emulate_media(forced_colors="none", contrast="no-preference", color_scheme="light")


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_whole_lesson_plays_scrubs_steps_and_takes_guesses(
    open_page: Callable[[str], Page], lesson: str
) -> None:
    page = open_page(lesson)
    expect(page.get_by_text("This page needs no network and no kernel.")).to_be_visible()
    used = drive(page)
    assert used["questions"] and sum(used.values()) > 1
