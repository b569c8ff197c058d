"""Ranks in JupyterLab: run, scrub by key, break one, stop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lab import Notebook

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.browser

VIEW = """
from pagedlab.parallel import Plan
from pagedlab_widgets import RanksView
view = RanksView(Plan(ranks=2, steps=12, method="full"))
view
"""


@pytest.fixture(scope="module")
def notebook(open_notebook: Callable[..., Notebook]) -> Notebook:
    return open_notebook("ranks.ipynb", VIEW)


def test_ranks_run_break_and_stop_from_the_page(notebook):
    page = notebook.page
    picture = page.locator(".pl-ranks-view")
    status = picture.locator(".pl-ranks-status")
    run = page.locator("button.jupyter-button", has_text="Run")
    run.click()
    expect(status).to_contain_text("the same tables on every rank", timeout=90_000)
    expect(picture.locator(".pl-rank")).to_have_count(2)

    scrub = picture.get_by_role("slider", name="Step")
    scrub.focus()
    page.keyboard.press("End")
    expect(picture).to_have_attribute("data-step", "11")
    page.keyboard.press("ArrowLeft")
    expect(picture).to_have_attribute("data-step", "10")

    page.get_by_label("Fault").select_option("duplicate")
    page.get_by_role("checkbox").uncheck()
    run.click()
    expect(status).to_contain_text("nothing reported", timeout=90_000)
    expect(picture).to_have_attribute("data-parted", "1")
    expect(picture.locator(".pl-differs").first).to_be_visible()

    page.get_by_label("Fault").select_option("kill")
    page.get_by_role("checkbox").check()
    run.click()
    expect(status).to_contain_text("rank 1, step 4", timeout=90_000)
    expect(picture.locator('.pl-rank[data-rank="1"]')).to_have_attribute("data-state", "broken")


def test_after_a_restart_of_the_kernel_no_rank_seems_to_be_at_work(notebook):
    status = notebook.page.locator(".pl-ranks-view .pl-ranks-status")
    notebook.run_code("view.picture.busy, view.picture.status = True, '2 processes at work'")
    expect(status).to_have_text("2 processes at work")
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    expect(status).to_contain_text("the kernel that computed this has stopped")
    notebook.wait_ready()
