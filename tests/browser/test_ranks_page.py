"""Ranks in JupyterLab: run, scrub by key, break one, stop, interrupt, restart, shut down."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from children import LISTED, children_of, wait_until_gone
from lab import Notebook

if TYPE_CHECKING:
    from playwright.sync_api import Locator

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


# The last cell does nothing until it is told to.
LONG = (VIEW.replace("steps=12", "steps=10**6"), "go = False", "if go:\n    view.run()")
listed = pytest.mark.skipif(not LISTED, reason="Linux lists the children of a process")


@pytest.fixture(scope="module")
def long(open_notebook: Callable[..., Notebook]) -> Notebook:
    return open_notebook("long.ipynb", *LONG)


def shown(notebook: Notebook) -> Locator:
    return notebook.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .pl-ranks-status")


def press(notebook: Notebook, name: str) -> None:
    notebook.page.locator("button.jupyter-button", has_text=name).click()


def ranks_at_work(notebook: Notebook) -> list[int]:
    """Press *Run*; the processes, once both are there."""
    kernel = notebook.python("__import__('os').getpid()")
    press(notebook, "Run")
    expect(shown(notebook)).to_contain_text("at work", timeout=90_000)
    ranks = children_of(kernel)
    assert len(ranks) == 2
    return ranks


@listed
def test_an_interrupted_cell_leaves_no_rank_and_a_view_that_says_so_and_runs_again(long):
    kernel = long.python("__import__('os').getpid()")
    long.run_code("go = True")
    for moment in ("starting", "at work"):
        long.on_panel("panel.content.activeCellIndex = 2")
        long.on_panel("void window.jupyterapp.commands.execute('notebook:run-cell')")
        expect(shown(long)).to_contain_text(moment, timeout=90_000)
        long.page.locator("[data-command='notebook:interrupt-kernel']").first.click()
        expect(shown(long)).to_have_text("Ended early: interrupted. Every rank has ended.", timeout=60_000)
        expect(long.cell(2)).to_contain_text("KeyboardInterrupt")
        assert children_of(kernel) == []
        long.wait_ready()


@listed
def test_stop_ends_a_run_in_the_background_and_an_interrupt_does_not(long):
    ranks = ranks_at_work(long)
    long.page.locator("[data-command='notebook:interrupt-kernel']").first.click()
    long.wait_ready()
    assert children_of(long.python("__import__('os').getpid()")) == ranks
    press(long, "Stop")
    expect(shown(long)).to_have_text("Ended early: it was stopped.", timeout=60_000)
    for pid in ranks:
        wait_until_gone(pid)


@listed
@pytest.mark.parametrize("how", ["restartKernel", "shutdown"])
def test_ranks_go_with_their_kernel_and_the_view_says_that_it_has_stopped(long, how):
    ranks = ranks_at_work(long)
    long.page.evaluate(f"() => window.jupyterapp.shell.currentWidget.sessionContext.{how}()")
    expect(shown(long)).to_contain_text("the kernel that computed this has stopped")
    for pid in ranks:
        wait_until_gone(pid)
    if how == "restartKernel":
        long.wait_ready()
        long.run_all()
