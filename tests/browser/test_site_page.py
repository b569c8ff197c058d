"""The site, served by a plain web server: its pages lead to each other, play, and ask no other host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from access import violations

from pagedlab import cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert cli.main(["site", str(folder), "02", "--no-claims"]) == 0
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


def test_the_start_page_can_be_read_by_all(page: Page) -> None:
    assert not violations(page, "body")


def test_scripts_and_styles_are_there_once(folder: Path) -> None:
    scripts = [file.read_bytes() for file in (folder / "assets").iterdir()]
    assert len(set(scripts)) == len(scripts) > 2
    texts = [file.read_text(encoding="utf-8") for file in folder.glob("*.html")]
    assert len(texts) == 3 and not any("<style>" in text for text in texts)
