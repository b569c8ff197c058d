"""The site as `make site` wrote it, read and run as a stranger would: `make release-test` starts this.

Every page opens and shows its widgets. In the lessons that run in the browser every cell does and a right
answer passes; of one of them the main control is moved, and its exercise answered wrong, too. What is asked
of another host is refused, and ends the run. There is a limit to the size of it all. Times are told, not
judged.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, Route, expect, sync_playwright

from pagedlab import site_lite
from pagedlab.browser import CHROMIUM_ARGUMENTS, SETTINGS, LabPage, find_chromium
from pagedlab.exercises.solutions import allocator

MOST_BYTES = 80_000_000
RIGHT = f"{inspect.getsource(allocator)}\nMyAllocator = Allocator"
ROUNDED_UP = "-(-tokens // self.block_size)"
PATIENCE_MS = 90_000


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path, context: BrowserContext) -> Iterator[str]:
    """The address of the folder; at the end, nothing may have been asked of another host or have failed."""
    complaints: list[str] = []

    def refuse(route: Route) -> None:
        complaints.append(f"another host: {route.request.url}")
        route.abort()

    def expose(route: Route) -> None:  # JupyterLite, for `LabPage` to drive; it is off in what is published
        answer = route.fetch()
        settings = answer.json()
        settings["jupyter-config-data"] |= {"exposeAppInBrowser": True, "settingsOverrides": SETTINGS}
        route.fulfill(response=answer, json=settings)

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_port}/"
        context.route(lambda url: not url.startswith((home, "data:", "blob:")), refuse)
        context.route(f"{home}{site_lite.FOLDER}/jupyter-lite.json*", expose)
        context.on("weberror", lambda error: complaints.append(f"on a page: {error.error}"))
        yield home
        server.shutdown()
    assert not complaints, complaints


def read(page: Page, home: str, folder: Path) -> None:
    """Open every page, in a window of a telephone's width: none scrolls sideways."""
    start = time.monotonic()
    page.set_viewport_size({"width": 390, "height": 844})
    names = sorted(file.name for file in folder.glob("*.html"))
    for name in names:
        page.goto(f"{home}{name}")
        page.locator("html[data-ready]").wait_for()
        assert page.get_by_text("This widget cannot be shown").count() == 0, name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        for place in page.locator("[data-model]").all():
            expect(place.locator("> *").first).to_be_attached()
    page.set_viewport_size({"width": 1280, "height": 900})
    print(f"{len(names)} pages read: {time.monotonic() - start:.1f} s", flush=True)


def run(page: Page, home: str) -> None:
    """From the start page into the lesson that builds the allocator: its cells, its map, its exercise."""
    page.goto(home)
    link = page.locator("a[href*='path=02-']")
    start = time.monotonic()
    link.click()
    lesson = LabPage(page)
    lesson.wait_ready()
    print(f"JupyterLite's page and kernel: {time.monotonic() - start:.1f} s", flush=True)
    lesson.on_panel("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    scrub = page.locator(".pl-scrub").first
    scrub.fill("12", timeout=PATIENCE_MS)
    expect(page.get_by_text("step 12 / ").first).to_be_visible()
    print(f"the first lesson's timeline moved: {time.monotonic() - start:.1f} s", flush=True)
    lesson.run_all(timeout=240)
    print(f"every cell run twice: {time.monotonic() - start:.1f} s", flush=True)
    answers(lesson, "MyAllocator", RIGHT, "6 of 6 public checks passed")
    wrong = RIGHT.replace(ROUNDED_UP, "tokens // self.block_size")
    answers(lesson, "MyAllocator", wrong, "round up: the tokens after")
    expect(page.get_by_text("It ran in this process, as a browser has no other").first).to_be_attached()


def solve(lesson: LabPage, notebook: str) -> None:
    """Answer the lesson's exercise with the answer that pagedlab carries."""
    (found,) = re.findall(r'exercises\.check\(\\"([\w-]+)\\", (\w+)\)', notebook)
    module, name = found[0].replace("-", "_"), found[1]
    solution = f"from pagedlab.exercises.solutions.{module} import solution as {name}"
    answers(lesson, name, solution, re.compile(r"(\d+) of \1 public checks passed"))


def answers(lesson: LabPage, name: str, solution: str, says: str | re.Pattern[str]) -> None:
    """Write that solution into the cell where the name is, run it and the check: the report says so."""
    lesson.page.evaluate(_ANSWER, [name, solution])
    check = lesson.page.locator(".jp-CodeCell").filter(has_text="exercises.check(")
    expect(check.locator(".jp-OutputArea").get_by_text(says).first).to_be_attached(timeout=PATIENCE_MS)


_ANSWER = """async ([name, solution]) => {
  const app = window.jupyterapp, cells = app.shell.currentWidget.content;
  const code = cells.widgets.map(({ model }) => model.type === "code" && model.sharedModel.getSource());
  const of = (text) => code.findIndex((source) => source && source.includes(text));
  const exercise = of(name), check = of("exercises.check(");
  cells.widgets[exercise].model.sharedModel.setSource(solution);
  for (const cell of [exercise, check]) {
    cells.activeCellIndex = cell;
    await app.commands.execute("notebook:run-cell");
  }
}"""


def main() -> None:
    folder = Path(sys.argv[1])
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"the site: {size:,} bytes", flush=True)
    assert size < MOST_BYTES, f"{size:,} bytes: the limit is {MOST_BYTES:,}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_ARGUMENTS)
        context = browser.new_context()
        with served(folder, context) as home:
            page = context.new_page()
            read(page, home, folder)
            run(page, home)
            for file in sorted((folder / site_lite.FOLDER / "files").glob("*.ipynb")):
                start = time.monotonic()
                page.goto(f"{home}{site_lite.address(file)}&reset")
                lesson = LabPage(page)
                lesson.wait_ready()
                lesson.run_all(timeout=240)
                solve(lesson, file.read_text(encoding="utf-8"))
                print(f"{file.name}, cells and exercise: {time.monotonic() - start:.1f} s", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
