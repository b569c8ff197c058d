"""Fixtures for tests in a browser: one JupyterLab and one Chromium for all, and no page that misbehaves
unseen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest
from lab import CHROMIUM_ARGUMENTS, Notebook, Server, find_chromium, serve

Open = Callable[..., Notebook]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("lab")) as server:
        yield server


def _cannot(reason: str) -> NoReturn:
    """Without a browser: a skip on a learner's machine, a failure where the tests must run."""
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def context() -> Iterator[Any]:
    """A browser's context: its pages share the cache, so that JupyterLab is loaded once."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _cannot("no playwright: pip install playwright")
    chromium = find_chromium()
    if chromium is None:
        _cannot("no Chromium: install one (Debian: apt-get install chromium) or name it in PAGEDLAB_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        context.set_default_timeout(15_000)
        yield context
        browser.close()


@pytest.fixture(scope="module")
def open_notebook(context: Any, lab: Server, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Write a notebook of cells, open it and run it. Pages stay open for all tests of a module."""
    pages = []

    def open_(name: str, *cells: str) -> Notebook:
        lab.write_notebook(name, *cells)
        pages.append(context.new_page())
        notebook = Notebook.open(pages[-1], lab, name)
        _OPEN.append(notebook)
        notebook.run_all()
        return notebook

    yield open_
    for page in pages:
        page.close()
    _OPEN.clear()


_OPEN: list[Notebook] = []


@pytest.fixture(autouse=True)
def no_page_misbehaves() -> Iterator[None]:
    """Fails a test in which a page raised an error or asked another machine for something."""
    yield
    complaints = [complaint for notebook in _OPEN for complaint in notebook.watch.complaints()]
    assert not complaints, "\n".join(complaints)
