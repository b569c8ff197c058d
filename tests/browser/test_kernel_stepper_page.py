"""The kernel stepper and the lane view in JupyterLab: by mouse, by keyboard, edited, in both themes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lab import Notebook

pytestmark = pytest.mark.browser

RECORDED = """
from pagedlab import kernel_cases
from pagedlab_widgets import KernelStepper, LaneView
live, kernel_cases.live = kernel_cases.live, lambda: False
recorded = KernelStepper(kernel_cases.CASES["paged, 3 splits"])
kernel_cases.live = live
recorded
"""
LANES = """
near, far = [4 * lane for lane in range(64)], [256 * lane for lane in range(32)]
lanes = LaneView({"one after the other": (near, 4), "<b>a row</b> apart": (far, 4)}, word="assumed")
lanes
"""
LIVE = """
case = kernel_cases.KernelCase(length=40, block_size=8)
stepper = KernelStepper(case)
stepper
"""

CONTRAST = """lane => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const light = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = getComputedStyle(lane), [a, b] = [light(style.color), light(style.backgroundColor)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


@pytest.fixture(scope="module")
def notebook(open_notebook: Callable[..., Notebook]) -> Notebook:
    return open_notebook("kernel-stepper.ipynb", RECORDED, LANES)


@pytest.fixture
def root(notebook: Notebook) -> Any:
    notebook.run_code("recorded.step = 0")
    root = notebook.cell(0).locator(".pl-stepper")
    expect(root, "data-frame", "0")
    return root


def expect(root: Any, name: str, value: str, timeout: float | None = None) -> None:
    """Wait until an attribute has the value; `timeout` in ms."""
    root.and_(root.page.locator(f"[{name}='{value}']")).wait_for(timeout=timeout)


def side(root: Any, number: int) -> Any:
    return root.locator(".pl-side").nth(number)


def test_mouse_and_keyboard_step_both_sides_and_python_hears_of_it(notebook: Notebook, root: Any) -> None:
    root.get_by_role("button", name="Step forward").click()
    expect(root, "data-frame", "1")
    slider = root.get_by_role("slider", name="Step")
    slider.press("ArrowRight")
    expect(root, "data-frame", "2")
    slider.press(".")
    expect(root, "data-frame", "3")
    slider.press(",")
    expect(root, "data-frame", "2")
    notebook.eventually("recorded.step", 2)
    lines = [side(root, i).get_attribute("data-line") for i in (0, 1)]
    assert lines[0] == lines[1] and int(lines[0]) > 0
    assert root.locator(".pl-code [data-at]").count() == 1


def test_a_tile_is_looked_up_read_and_scored(notebook: Notebook, root: Any) -> None:
    paged, twin = side(root, 0), side(root, 1)
    root.get_by_role("button", name="Next tile").click()
    expect(paged, "data-tile", "0")
    slider = root.get_by_role("slider", name="Step")
    for _ in range(12):
        if paged.get_attribute("data-lit") == "64":
            break
        slider.press("ArrowRight")
    table = notebook.python("recorded.cases[0].table[:4]")
    lit = paged.locator(".pl-block[data-state=lit] > b").all_inner_texts()
    assert sorted(map(int, lit)) == sorted(table)
    assert twin.get_attribute("data-lit") == "64"
    assert "loads keys: 4,096 B in 8 requests, 128 sectors" in paged.inner_text()
    assert paged.locator(".pl-lane-picture").get_attribute("data-sectors") == "16"

    paged.get_by_text("Addresses of this load").click()
    assert paged.locator(".pl-fold tbody tr").count() == 64
    assert f"block {table[0]}, slot 0, head 0" in paged.locator(".pl-fold tbody").inner_text()
    notebook.run_code("recorded.step = 18")
    expect(root, "data-frame", "18")
    assert paged.locator(".pl-scores rect").count() == 2 * 64
    assert paged.get_by_role("img", name="Scores of query head 0: 64 of 150 tokens").count() == 1


def test_the_merge_weighs_the_splits(notebook: Notebook, root: Any) -> None:
    tree = root.get_by_role("group", name="Splits and their merge")
    assert "split 2 not run yet" in tree.inner_text()
    notebook.run_code("recorded.step = recorded.frames - 1")
    expect(root, "data-frame", str(notebook.python("recorded.frames - 1")))
    assert "split 2 tokens 128\u2013149" in tree.inner_text()
    assert tree.locator("tbody tr").count() == 2
    assert tree.locator(".pl-ways path[data-open]").count() == 0


def test_a_recording_says_so_and_cannot_be_edited(root: Any) -> None:
    assert side(root, 0).locator(".pl-word").inner_text() == "recorded"
    assert root.get_by_role("button", name="Run").is_disabled()
    assert "Triton is needed" in root.locator(".pl-status").inner_text()


def test_playing_moves_the_page_alone(notebook: Notebook, root: Any) -> None:
    root.get_by_label("Speed").select_option("60")
    root.get_by_role("button", name="Play").click()
    expect(root, "data-frame", str(notebook.python("recorded.frames - 1")))
    notebook.eventually("recorded.step", notebook.python("recorded.frames - 1"))


def test_a_step_is_told_to_screen_readers(root: Any) -> None:
    root.get_by_role("button", name="Next tile").click()
    root.locator("[role=status]", has_text="contiguous twin: line").wait_for(state="attached")


def test_lanes_are_chosen_and_paged_through(notebook: Notebook) -> None:
    view = notebook.cell(1).locator(".pl-lane-view")
    picture = view.locator(".pl-lane-picture")
    expect(picture, "data-sectors", "4")
    view.get_by_role("button", name="Next request").click()
    assert "request 2 of 2: 32 lanes" in view.inner_text()
    view.get_by_label("Load").select_option("<b>a row</b> apart")
    expect(picture, "data-sectors", "32")
    notebook.eventually("lanes.chosen", 1)
    assert view.locator("b", has_text="a row").count() == 0  # a name is text
    assert view.locator(".pl-lane").count() == 32


@pytest.mark.parametrize("theme", ["Dark", "Light"])
def test_lanes_of_every_colour_can_be_read_in_either_theme(notebook: Notebook, theme: str) -> None:
    notebook.theme(theme)
    ratios = notebook.cell(1).locator(".pl-lane").evaluate_all(f"lanes => lanes.map({CONTRAST})")
    assert len(ratios) == 32 and min(ratios) >= 4.5


def test_an_edited_table_and_kernel_are_run_and_shown(open_notebook: Callable[..., Notebook]) -> None:
    pytest.importorskip("triton")
    notebook = open_notebook("edited.ipynb", RECORDED, LIVE)
    root = notebook.cell(1).locator(".pl-stepper")
    told = root.get_by_role("textbox", name="Block table that the kernel is told")
    told.fill("1, 2")
    told.press("Enter")
    assert "must be 5 whole numbers" in root.get_by_role("alert").inner_text()

    table = notebook.python("list(case.table)")
    told.fill(", ".join(map(str, [*table[:-1], 99])))
    told.press("Enter")
    root.get_by_text("out of bounds of keys").wait_for(timeout=60_000)
    assert root.locator(".pl-entries li[data-wild]").all_inner_texts() == ["99"]

    root.get_by_role("button", name="Edit the kernel").click()
    text = root.get_by_role("textbox", name="The kernels' source, to edit")
    text.fill(text.input_value().replace("score = tl.dot(", "score = 0 * tl.dot("))
    told.fill(", ".join(map(str, table)))
    root.get_by_role("button", name="Run", exact=True).click()
    notebook.eventually("(stepper.wait(), stepper.status, stepper.trouble)[1:]", ("", ""))
    values = "[x for s in stepper.sides[0]['stops'] for r in s['values'].get('score', []) for x in r]"
    notebook.eventually(f"set(map(float, {values})) - {{float('-inf')}}", {0.0}, timeout=60)

    root.get_by_role("button", name="Undo all").click()
    notebook.eventually("stepper.source == stepper.original['source']", True)
    expect(root, "data-status", "ready", timeout=60_000)
