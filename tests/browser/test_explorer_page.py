"""The explorer's own parts in JupyterLab: the chart, the upload, work in the background."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from access import violations
from lab import Notebook

if TYPE_CHECKING:
    from playwright.sync_api import Locator

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

CHART = """
from pagedlab_widgets import Axis, Line, LineChart, Wall

chart = LineChart("Waste", Axis("block size", log=True), Axis("wasted, %"))
sizes = [1, 16, 256]
chart.show([Line("<b>paged</b>", sizes, [0, 0.6, 9.2], texts=["none", "little", "much"]),
            Line("as reported", [16], [2], "points", word="published")], [Wall("a <i>page</i>", x=64)])
chart
"""

EXPLORER = """
from pagedlab_widgets import FragmentationExplorer

explorer = FragmentationExplorer("uniform", num_slots=4_096, measure=False)
explorer
"""

WORK = """
import threading, time
from pagedlab_widgets import BarTable, Row, Segment
from pagedlab_widgets.measuring import Measuring
from pagedlab_widgets import measuring
from IPython.display import display

class Waiting:
    def run(self, task, *arguments, should_stop, progress):
        progress(2, 8)
        while not should_stop():
            time.sleep(0.01)
        raise measuring.Stopped()

measuring.WORKER = Waiting()
table = BarTable("cost", {"time": "time"})
work = Measuring(table, None, lambda: (), None)
display(work.activity)
work.soon()
"""


@pytest.fixture(scope="module")
def notebook(open_notebook: Callable[..., Notebook]) -> Notebook:
    return open_notebook("explorer.ipynb", CHART, EXPLORER, WORK)


# -- the chart


def test_a_chart_is_read_out_by_keyboard_and_python_hears_of_it(notebook: Notebook) -> None:
    chart = notebook.cell(0).locator(".pl-chart")
    slider = chart.get_by_role("slider", name="Waste: block size")
    slider.focus()
    slider.press("Home")
    expect(chart.locator(".pl-readout")).to_have_text("block size 1: <b>paged</b> none")
    slider.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "block size 16: <b>paged</b> little; as reported 2")
    notebook.eventually("chart.cursor", 16.0)
    notebook.run_code("chart.cursor = 256")
    expect(chart).to_have_attribute("data-at", "256")


def test_pointing_at_a_chart_reads_it_out_and_a_click_stays(notebook: Notebook) -> None:
    chart = notebook.cell(0).locator(".pl-chart")
    drawing = chart.locator(".pl-box > svg")
    box = drawing.bounding_box()
    drawing.hover(position={"x": 70, "y": 100})
    expect(chart).to_have_attribute("data-at", "1")
    drawing.click(position={"x": box["width"] / 2 + 20, "y": 100})
    expect(chart).to_have_attribute("data-at", "16")
    notebook.eventually("chart.cursor", 16.0)


def test_the_data_is_a_table_too_and_names_are_text(notebook: Notebook) -> None:
    chart = notebook.cell(0).locator(".pl-chart")
    chart.get_by_text("Data as a table").click()
    rows = chart.get_by_role("row")
    assert rows.all_inner_texts() == [
        "block size\t<b>paged</b>\tas reported", "1\tnone\t", "16\tlittle\t2", "256\tmuch\t",
    ]  # fmt: skip
    expect(chart.locator(".pl-legend")).to_contain_text("as reported (published)")
    expect(chart.locator(".pl-wall text")).to_have_text("a <i>page</i>")
    assert chart.locator("b, i").count() == 0


def test_every_line_lies_where_its_numbers_say(notebook: Notebook) -> None:
    marks = notebook.cell(0).locator(".pl-chart .pl-box > svg .pl-line-0 .pl-mark")
    places = [mark.bounding_box() for mark in marks.all()]
    left, middle, right = (box["x"] for box in places)
    assert middle - left == pytest.approx(right - middle, abs=2)
    assert places[0]["y"] > places[1]["y"] > places[2]["y"]


# -- the explorer


def test_the_chart_and_the_map_are_on_one_axis_of_time(notebook: Notebook) -> None:
    output = notebook.cell(1)
    slider = output.get_by_role("slider", name="Requests at once: step")
    slider.focus()
    slider.press("Home")
    slider.press("ArrowRight")
    expect(output.locator(".pl-block-map")).to_have_attribute("data-frame", "1")
    notebook.eventually("explorer.map.frame", 1)
    notebook.run_code("explorer.map.frame = 40")
    expect(output.locator(".pl-chart")).to_have_attribute("data-at", "40")
    notebook.watch.messages.clear()
    output.get_by_role("button", name="Play").press("Enter")
    chart = output.locator(".pl-chart")
    notebook.page.wait_for_function("chart => Number(chart.dataset.at) > 42", arg=chart.element_handle())
    assert notebook.watch.messages == []
    output.get_by_role("button", name="Pause").press("Enter")


def test_a_moment_is_explained_on_demand_and_follows_the_map(notebook: Notebook) -> None:
    output = notebook.cell(1)
    expect(output.get_by_text("Most of them: request")).to_have_count(0)
    output.get_by_role("button", name="Explain this moment").press("Enter")
    expect(output.get_by_text("Most of them: request")).to_have_count(3)
    notebook.run_code("explorer.map.frame = 41")
    expect(output.get_by_role("table", name="The pool at step 41")).to_be_visible()
    output.get_by_role("button", name="Explain this moment").click()
    expect(output.get_by_text("Most of them: request")).to_have_count(0)


def test_a_file_larger_than_a_message_may_be_arrives_whole_and_the_button_works_again(
    notebook: Notebook,
) -> None:
    output = notebook.cell(1)
    rows = 1_000_000
    _upload(output, "large.csv", b"num_prefill_tokens,num_decode_tokens\n" + b"1700,150,xx\n" * rows)
    notebook.eventually("len(explorer.requests)", rows, timeout=60)
    expect(output.get_by_text("1,000,000 requests read from large.csv.")).to_be_visible()
    expect(output.get_by_text("Served are the first 20,000 of 1,000,000 requests")).to_be_visible()
    _upload(output, "small.csv", b"num_prefill_tokens,num_decode_tokens\n700,50\n")
    notebook.eventually("len(explorer.requests)", 1)
    expect(output.get_by_text("1 request read from small.csv.")).to_be_visible()


def test_a_file_that_is_too_large_is_told_so_when_it_is_chosen(notebook: Notebook) -> None:
    output = notebook.cell(1)
    notebook.run_code("explorer.chooser.file.most, requests = 2**20, len(explorer.requests)")
    _upload(output, "huge.csv", b"7,5\n" * 300_000)
    expect(output.get_by_text("huge.csv has 2 MiB, at most 1 MiB travel from here")).to_be_visible()
    notebook.run_code("explorer.chooser.file.most = 2**27")
    _upload(output, "small.csv", b"num_prefill_tokens,num_decode_tokens\n700,50\n")
    expect(output.get_by_text("1 request read from small.csv.")).to_be_visible()


def _upload(output: Locator, name: str, content: bytes) -> None:
    with output.page.expect_file_chooser() as waiting:
        output.get_by_role("button", name="Your trace (.csv)").press("Enter")
    waiting.value.set_files({"name": name, "mimeType": "text/csv", "buffer": content})


def test_axe_finds_nothing_serious_in_chart_explorer_and_upload(notebook: Notebook) -> None:
    for number in range(2):
        notebook.cell(number).locator(".jp-Cell-outputArea").evaluate("area => { area.id = 'axe'; }")
        assert violations(notebook.page, "#axe") == []
        notebook.cell(number).locator(".jp-Cell-outputArea").evaluate("area => { area.id = ''; }")


# -- work in the background


def test_work_says_how_far_it_is_and_is_cancelled_by_its_button(notebook: Notebook) -> None:
    activity = notebook.cell(2).locator(".pl-activity")
    expect(activity.get_by_role("status")).to_have_text("measuring …")
    expect(activity.get_by_role("progressbar")).to_have_attribute("value", "2")
    activity.get_by_role("button", name="Cancel").press("Enter")
    expect(activity.get_by_role("status")).to_have_text("Cancelled.")
    expect(activity.get_by_role("button")).to_have_count(0)
    notebook.eventually("work.activity.text", "")


def test_a_page_that_is_loaded_again_shows_what_goes_on(notebook: Notebook) -> None:
    notebook.run_code("work.soon()")
    expect(notebook.cell(2).locator(".pl-activity")).to_have_attribute("data-state", "working")
    notebook.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    notebook.page.reload()
    notebook.wait_ready()
    activity = notebook.cell(2).locator(".pl-activity")
    expect(activity.get_by_role("status")).to_have_text("measuring …")
    activity.get_by_role("button", name="Cancel").click()
    notebook.eventually("work.activity.message", "Cancelled.")
    expect(activity.get_by_role("status")).to_have_text("Cancelled.")


def test_after_a_restart_of_the_kernel_nothing_seems_to_go_on(notebook: Notebook) -> None:
    notebook.run_code("work.soon()")
    activity = notebook.cell(2).locator(".pl-activity")
    expect(activity.get_by_role("status")).to_have_text("measuring …")
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    expect(activity.get_by_role("status")).to_contain_text("The kernel that computed this has stopped")
    expect(activity.get_by_role("button")).to_have_count(0)
    output = notebook.cell(1)
    _upload(output, "late.csv", b"input_length,output_length\n7,5\n")
    expect(output.get_by_text("There is no kernel to read it: run the cell again.")).to_be_visible()
    notebook.wait_ready()
    notebook.run_all()
    expect(activity.get_by_role("status")).to_have_text("measuring …")
    notebook.run_code("work.cancel()")
