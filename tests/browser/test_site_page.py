"""The site, served by a plain web server: its pages lead to each other, play, and ask no other host."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from access import violations

import pagedlab
import pagedlab_kernels
import pagedlab_widgets
from pagedlab import claims_command, cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)>"
KINDS = ("index", "mine", "glossary", "claims", "api", "pagedlab.waste", "source.pagedlab.table")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nbformat = pytest.importorskip("nbformat")
    folder, beside = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("beside")
    cell = nbformat.v4.new_markdown_cell(f"# Mine\n\nA zebra is `{HOSTILE}`.")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), beside / "mine.ipynb")
    record = claims_command.run(["short-blocks", "workload-fit"], quick=True)
    (beside / "verdicts.json").write_text(json.dumps(record))
    made = ["02", str(beside / "mine.ipynb"), "--verdicts", str(beside / "verdicts.json")]
    assert cli.main(["site", str(folder), *made]) == 0
    return folder


@pytest.fixture
def page(context: Any, folder: Path) -> Iterator[Page]:
    """The start page; what it asks of another host is refused, and fails the test."""
    complaints: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_port}/"
        page = context.browser.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda asked: complaints.append(f"failed: {asked.url}"))
        page.route(
            lambda url: not url.startswith((home, "data:", "blob:")),
            lambda route: (complaints.append(route.request.url), route.abort()),
        )
        page.goto(home)
        page.locator("html[data-ready]").wait_for()
        yield page
        page.close()
        server.shutdown()
    assert not complaints


def test_from_the_start_page_to_a_lesson_that_plays_and_to_its_words(page: Page) -> None:
    page.get_by_role("link", name="02 · Build the allocator").click()
    page.locator("html[data-ready]").wait_for()
    assert page.get_by_text("This widget cannot be shown").count() == 0
    for place in page.locator("[data-model]").all():
        expect(place.locator("> *").first).to_be_attached()
    page.locator("a[href='glossary.html#block-table']").first.click()
    expect(page.locator("#block-table")).to_be_in_viewport()


def test_a_search_by_keyboard_leads_to_words_lessons_claims_and_names(page: Page) -> None:
    for asked, title, kind, address in (
        ("block table", "Block table", "word", "glossary.html#block-table"),
        ("build allocator", "02 · Build the allocator", "lesson", "02-build-the-allocator.html#"),
        ("50 to 100", "a sequence of 50 to 100 tokens fits in one or two blocks", "claim", "#short-blocks"),
        ("blockmanager.free", "BlockManager.free", "API", "pagedlab.html#BlockManager.free"),
    ):
        page.keyboard.press("/")
        search = page.get_by_role("searchbox", name="Search")
        expect(search).to_be_focused()
        search.fill(asked)
        first = page.get_by_role("search").get_by_role("link").first
        expect(first).to_contain_text(f"{title}{kind}: ")
        expect(page.get_by_role("search").get_by_role("status")).to_have_text(re.compile(r"^\d+ found$"))
        search.press("ArrowDown")
        expect(first).to_be_focused()
        page.keyboard.press("ArrowUp")
        expect(search).to_be_focused()
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{address}*")
        page.locator("html[data-ready]").wait_for()


def test_what_a_search_finds_is_text_and_what_it_does_not_find_it_says(page: Page) -> None:
    search = page.get_by_role("searchbox", name="Search")
    search.fill("zebra onerr")
    found = page.get_by_role("search").get_by_role("link")
    expect(found).to_contain_text(f"A zebra is {HOSTILE}")
    search.fill("zebra onerr crossing")
    expect(page.get_by_role("search").get_by_role("status")).to_have_text("1 found with 2 of 3 words")
    search.fill("[zebra(")
    expect(page.get_by_role("search").get_by_role("status")).to_have_text("nothing found")
    expect(found).to_have_count(0)
    search.press("Escape")
    expect(search).to_have_value("")
    assert page.locator("img").count() == 0


def test_verdicts_say_where_and_when_and_names_lead_to_their_source(page: Page, folder: Path) -> None:
    page.get_by_role("navigation", name="Site").get_by_role("link", name="Claims").click()
    told = re.compile(r"2 claims in .* Device: .* Measured quickly, until \d{4}-")
    expect(page.get_by_text(told)).to_be_visible()
    expect(page.get_by_role("link", name="Claims")).to_have_attribute("aria-current", "page")
    page.goto(page.url.replace("claims.html", "pagedlab.html#BlockManager.fork"))
    page.locator("[id='BlockManager.fork'] .source").click()
    page.wait_for_url("**/source.pagedlab.*")
    code = page.locator("main pre").inner_text().splitlines()
    assert "def fork(" in code[int(page.url.rpartition("-")[2]) - 1]


def test_every_kind_of_page_can_be_read_by_all_in_either_theme(page: Page) -> None:
    home, colours = page.url, set()
    for kind in KINDS:
        page.goto(f"{home}{kind}.html")
        page.locator("html[data-ready]").wait_for()
        for name in ("Dark", "Light"):
            page.get_by_role("button", name=name, exact=True).click()
            colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert not violations(page, "html"), kind
        assert page.title() and page.locator("h1").count() == 1 and page.locator("main").count() == 1
    assert len(colours) == 2


def test_no_page_scrolls_sideways_in_a_narrow_window(page: Page) -> None:
    home = page.url
    page.set_viewport_size({"width": 390, "height": 844})
    for name in (*KINDS, "02-build-the-allocator", "pagedlab.exercises", "pagedlab.workloads"):
        page.goto(f"{home}{name}.html")
        page.locator("html[data-ready]").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


def test_a_theme_once_chosen_stays(page: Page) -> None:
    page.get_by_role("button", name="Dark", exact=True).click()
    page.get_by_role("link", name="Glossary").first.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_every_public_name_is_there_and_every_link_leads_somewhere(folder: Path) -> None:
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.html")}
    ids = {name: set(re.findall(r' id="([^"]+)"', text)) for name, text in texts.items()}
    for package in (pagedlab, pagedlab_kernels, pagedlab_widgets):
        pages = {name.removeprefix("pagedlab.").removesuffix(".html") for name in texts}
        names = {name for name in package.__all__ if not name.startswith("__")}
        assert not names - ids[f"{package.__name__}.html"] - pages
    scripts = [file.read_text(encoding="utf-8") for file in (folder / "assets").glob("*.js")]
    (index,) = (text for text in scripts if text.startswith("export default [["))
    addresses = [row[3] for row in json.loads(index.removeprefix("export default ")[:-1])]
    lost = []
    for name, text in texts.items():
        for address in [*re.findall(r'<a [^>]*href="([^"]+)"', text), *addresses]:
            file, _, anchor = address.partition("#")
            there = ids.get(file or name)
            left_out = there is None and re.match(r"https?:|\d\d-", address)
            if not left_out and (there is None or (anchor and anchor not in there)):
                lost.append((name, address))
    assert len(addresses) > 400 and not lost


def test_scripts_and_styles_are_there_once(folder: Path) -> None:
    scripts = [file.read_bytes() for file in (folder / "assets").iterdir()]
    assert len(set(scripts)) == len(scripts) > 2
    texts = [file.read_text(encoding="utf-8") for file in folder.glob("*.html")]
    assert len(texts) > 50 and not any("<style>" in text for text in texts)
