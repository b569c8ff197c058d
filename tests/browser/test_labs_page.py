"""The labs in JupyterLab, by mouse and by keyboard: who may write, what a look-up costs, the two walls."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from access import violations
from lab import Notebook

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

SHARING = """
from pagedlab_widgets import CopyOnWriteLab

lab = CopyOnWriteLab(block_size=4, prompt=10)
lab
"""

OVERHEAD = """
from pagedlab_widgets import OverheadExplorer

overhead = OverheadExplorer("uniform", context=32, batch=2, measure=False)
overhead
"""

WALLS = """
from pagedlab_widgets import TwoWalls

walls = TwoWalls()
walls
"""


@pytest.fixture(scope="module")
def notebook(open_notebook: Callable[..., Notebook]) -> Notebook:
    return open_notebook("labs.ipynb", SHARING, OVERHEAD, WALLS)


# -- who may write here


def test_forks_and_appends_by_mouse_move_the_writer_and_python_sees_it(notebook: Notebook) -> None:
    lab = notebook.cell(0)
    lab.get_by_role("button", name="Fork A").click()
    expect(lab.get_by_text("10 tokens in blocks 0 ×2, 1 ×2, 2 ×2; attention is")).to_have_count(2)
    lab.get_by_role("button", name="Append to B").click()
    expect(lab.get_by_text("11 tokens in blocks 0 ×2, 1 ×2, 3; attention is")).to_be_visible()
    expect(lab.get_by_text("B stored a token: 1 block copied, 32.0 KiB written in")).to_be_visible()
    notebook.eventually("lab.shown.manager.table('B')", (0, 1, 3))
    shared = lab.locator(".pl-panel").get_attribute("data-shared")
    assert shared == "2"


def test_the_same_by_keyboard_and_the_focus_stays_where_it_was(notebook: Notebook) -> None:
    lab = notebook.cell(0)
    fork = lab.get_by_role("button", name="Fork A")
    fork.focus()
    fork.press("Enter")
    notebook.eventually("lab.sequences", ("A", "B", "C"))
    expect(lab.get_by_role("button", name="Fork C")).to_be_visible()
    expect(fork).to_be_focused()
    lab.get_by_role("button", name="Finish C").press(" ")
    notebook.eventually("lab.sequences", ("A", "B"))
    expect(lab.get_by_role("button", name="Fork C")).to_have_count(0)


def test_every_mode_has_the_same_story_at_its_own_price(notebook: Notebook) -> None:
    lab = notebook.cell(0)
    table = lab.get_by_role("table", name="The same clicks under every mode")
    expect(table.get_by_role("row").filter(has_text="eager copy")).to_contain_text("6 blocks copied")
    expect(table.get_by_role("row").filter(has_text="append-only")).to_contain_text("4 tokens computed again")
    lab.get_by_role("combobox", name="How forks share").select_option("eager copy")
    expect(lab.get_by_text("eager copy, blocks of 4")).to_be_visible()
    expect(lab.get_by_text("11 tokens in blocks 3, 4, 5; attention is")).to_be_visible()
    lab.get_by_role("combobox", name="How forks share").select_option("copy-on-write")


def test_a_copy_that_is_left_out_makes_the_answer_wrong(notebook: Notebook) -> None:
    lab = notebook.cell(0)
    lab.get_by_role("checkbox", name="Make the copies").uncheck()
    notebook.eventually("lab.sequences", ("A",))
    lab.get_by_role("button", name="Sample 3 more").click()
    notebook.eventually("lab.sequences", ("A", "B", "C", "D"))
    lab.get_by_role("button", name="Append to B").click()
    expect(lab.locator("strong", has_text="it read a block that was never copied")).to_have_count(1)
    lab.get_by_role("checkbox", name="Make the copies").check()
    notebook.eventually("lab.sequences", ("A",))


# -- what a look-up costs


def test_a_step_is_set_by_keyboard_and_measured_in_the_background(notebook: Notebook) -> None:
    explorer = notebook.cell(1)
    context = explorer.get_by_role("slider", name="Context in tokens")
    context.focus()
    context.press("ArrowRight")
    notebook.eventually("overhead.context.value", 64)
    explorer.get_by_role("combobox", name="Layout of a block").select_option("NHD")
    expect(explorer.get_by_text("8 look-ups a layer, a block table of 32 B (computed).")).to_be_visible()
    explorer.get_by_role("button", name="Measure again").press("Enter")
    row = explorer.get_by_role("row").filter(has_text="paged, blocks of 16")
    expect(row).to_contain_text("NHD, blocks shuffled", timeout=60_000)
    notebook.eventually("overhead.cost.word, overhead._step.activity.text", ("measured", ""))


def test_every_block_size_is_measured_by_a_click_and_read_out_on_one_chart(notebook: Notebook) -> None:
    explorer = notebook.cell(1)
    chart = explorer.locator(".pl-chart")
    expect(chart).to_have_attribute("data-lines", "2")
    explorer.get_by_role("button", name="Measure every block size").click()
    expect(chart).to_have_attribute("data-lines", "4", timeout=60_000)
    slider = chart.get_by_role("slider", name="What a block size costs: block size")
    slider.press("End")
    for cost in ("block size 256: memory wasted", "block table", "host builds the table", "kernel"):
        expect(chart.locator(".pl-readout")).to_contain_text(cost)
    notebook.eventually("overhead.costs.cursor", 256.0)
    notebook.eventually("len(overhead.costs.lines)", 4)


# -- full or slow


def test_fewer_bytes_move_both_walls_by_mouse_and_by_keyboard(notebook: Notebook) -> None:
    output = notebook.cell(2)
    wall = output.locator(".pl-wall text", has_text="memory:")
    expect(wall).to_have_text("memory: 416 fit")
    output.get_by_role("combobox", name="Precision of K and V").select_option("fp8")
    expect(wall).to_have_text("memory: 833 fit")
    notebook.eventually("walls.walls.capacity.tokens", 853_568)
    heads = output.get_by_role("combobox", name="KV heads")
    heads.focus()
    heads.press("1")  # typing chooses; an arrow would open the list of the system
    expect(wall).to_have_text("memory: 6,668 fit")
    notebook.eventually("walls.kv_heads.value", 1)
    expect(output.get_by_role("row").filter(has_text="as set")).to_contain_text("6,668 sequences")


def test_a_model_that_does_not_fit_is_told_of_in_the_chart(notebook: Notebook) -> None:
    output = notebook.cell(2)
    output.get_by_role("combobox", name="Model", exact=True).select_option("llama-3.1-70b")
    expect(output.get_by_text("Nothing runs with what is set: no block fits")).to_be_visible()
    expect(output.locator(".pl-chart")).to_have_attribute("data-lines", "0")
    output.get_by_role("combobox", name="GPUs that share the model").select_option("8")
    expect(output.locator(".pl-chart")).to_have_attribute("data-lines", "2")
    slider = output.get_by_role(
        "slider", name="Tokens a second, dashed where memory is full: sequences at once"
    )
    slider.press("Home")
    expect(output.locator(".pl-chart .pl-readout")).to_contain_text("sequences at once 1: as published")


def test_axe_finds_nothing_serious_in_the_labs(notebook: Notebook) -> None:
    for number in range(3):
        notebook.cell(number).locator(".jp-Cell-outputArea").evaluate("area => { area.id = 'axe'; }")
        assert violations(notebook.page, "#axe") == []
        notebook.cell(number).locator(".jp-Cell-outputArea").evaluate("area => { area.id = ''; }")
