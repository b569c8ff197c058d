"""The other widgets in JupyterLab: names for controls, the bar table, predictions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lab import Notebook, Server

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.browser

CONTROLS = """
import ipywidgets as w
from IPython.display import display
from pagedlab_widgets import BarTable, Predict, Row, Segment, named

size = w.SelectionSlider(options=[1, 2, 4, 8, 16, 32], value=8, description="Block size")
size = named(size, "Block size in tokens")
pool = named(w.IntSlider(value=64, min=1, max=256), "Pool size")
lengths = named(w.IntRangeSlider(value=(2, 5), min=0, max=9), "Lengths")
trace = named(w.Dropdown(options=["azure", "uniform"]), "Workload")
policy = named(w.RadioButtons(options=["paged", "reserve"]), "Policy")
seed = named(w.IntText(value=3), "Seed")
box = w.VBox([size, pool, lengths, trace, policy, seed])
display(box)
"""

TABLE = """
table = BarTable("Where the slots went", {"stored": "store a token", "empty": "empty"}, unit="%", scale=100,
                 heading="Policy", bar_heading="Share of the slots held", word="simulated")
table.show([Row("paged", (Segment("stored", 95), Segment("empty", 5))),
            Row("<b>reserve</b>", (Segment("stored", 20), Segment("empty", 80)), note="<i>as reported</i>")])
times = [Row("paged", (Segment("time", 5, low=4, high=8),))]
time_table = BarTable("Time", {"time": "median"}, times, unit="ms", word="measured", device="two threads")
display(table, time_table)
"""

PREDICT = """
question = Predict("waste", "How much is <b>wasted</b>?")
broken = Predict("other", "And here?", path="broken.json")
display(question, broken)
"""

ANSWER = """
from pagedlab.published import Figure
from pagedlab_widgets import beside
published = Figure("x", "R", "", {"percent": [5, 20]}, "an H100", "a paper")
beside(question, 10, "measured", published, "percent")
"""


@pytest.fixture(scope="module")
def notebook(open_notebook: Callable[..., Notebook], lab: Server) -> Notebook:
    (lab.root / "broken.json").write_text("{oops")
    return open_notebook("controls.ipynb", CONTROLS, TABLE, PREDICT, ANSWER)


# -- names


@pytest.mark.parametrize(
    ("name", "trait", "key", "value"),
    [
        ("Block size in tokens", "size.value", "ArrowRight", 16),
        ("Pool size", "pool.value", "ArrowLeft", 63),
        ("Lengths, from", "lengths.value", "ArrowRight", (3, 5)),
        ("Lengths, to", "lengths.value", "ArrowRight", (3, 6)),
    ],
)
def test_a_slider_has_a_name_and_its_arrow_keys_in_command_mode(
    notebook: Notebook, name: str, trait: str, key: str, value: object
) -> None:
    notebook.command_mode()
    handle = notebook.cell(0).get_by_role("slider", name=name, exact=True)
    handle.focus()
    cell = notebook.active_cell
    handle.press(key)
    notebook.eventually(trait, value)
    said = str(value) if isinstance(value, int) else " – ".join(map(str, value))  # type: ignore[call-overload]
    expect(handle).to_have_attribute("aria-valuetext", said)
    assert notebook.active_cell == cell


def test_lists_fields_and_groups_have_names_too(notebook: Notebook) -> None:
    output = notebook.cell(0)
    output.get_by_role("combobox", name="Workload").select_option("uniform")
    notebook.eventually("trace.value", "uniform")
    output.get_by_role("radiogroup", name="Policy").get_by_label("reserve").check()
    notebook.eventually("policy.value", "reserve")
    expect(output.get_by_role("spinbutton", name="Seed")).to_have_value("3")
    expect(output.get_by_role("textbox", name="Pool size, value")).to_be_visible()


def test_a_control_shown_later_or_renamed_is_named_as_well(notebook: Notebook) -> None:
    notebook.run_code("late = named(w.IntSlider(value=1), 'Late'); box.children = [*box.children, late]")
    late = notebook.cell(0).get_by_role("slider", name="Late")
    expect(late).to_have_attribute("aria-valuetext", "1")
    late.press("ArrowRight")
    notebook.eventually("late.value", 2)
    notebook.run_code("named(pool, 'Blocks in the pool')")
    expect(notebook.cell(0).get_by_role("slider", name="Blocks in the pool")).to_have_count(1)


# -- the bar table


def test_the_chart_is_a_table_that_a_screen_reader_reads(notebook: Notebook) -> None:
    table = notebook.cell(1).get_by_role("table", name="Where the slots went")
    headings = ["Policy", "Share of the slots held", "store a token", "empty", "Note"]
    for heading in headings:
        expect(table.get_by_role("columnheader", name=heading)).to_have_count(1)
    row = table.get_by_role("row").filter(has=notebook.page.get_by_role("rowheader", name="<b>reserve</b>"))
    assert row.get_by_role("cell").all_inner_texts() == ["", "20 %", "80 %", "<i>as reported</i>"]
    assert table.locator("tbody b, tbody i").count() == 0


def test_bars_are_as_long_as_their_shares_and_change_in_place(notebook: Notebook) -> None:
    widget = notebook.cell(1).locator(".pl-bar-table").first
    bars = widget.locator(".pl-segment")
    kept = widget.locator("tbody tr").first.element_handle()
    share = "bar => Math.round(100 * bar.offsetWidth / bar.parentElement.offsetWidth)"
    time.sleep(0.2)  # bars glide to their length
    assert [bar.evaluate(share) for bar in bars.all()] == [95, 5, 20, 80]
    notebook.run_code(
        "table.show([Row('paged', (Segment('stored', 50), Segment('empty', 10))),"
        " Row('reserve', (Segment('stored', 20),), note='less')], word='measured', status='measuring …')"
    )
    expect(widget.get_by_role("status")).to_have_text("measuring …")
    expect(widget.locator(".pl-word")).to_have_text("measured")
    time.sleep(0.2)
    assert [bar.evaluate(share) for bar in bars.all()] == [50, 10, 20]
    assert kept.evaluate("row => row.isConnected && row.innerText.includes('50 %')")


def test_a_measured_bar_shows_its_spread_and_its_device(notebook: Notebook) -> None:
    widget = notebook.cell(1).locator(".pl-bar-table").nth(1)
    left, width = widget.locator(".pl-spread").evaluate(
        "spread => [spread.offsetLeft, spread.offsetWidth].map(x => x / spread.parentElement.offsetWidth)"
    )
    assert (round(left, 1), round(width, 1)) == (0.5, 0.5)
    expect(widget).to_contain_text("measured")
    expect(widget).to_contain_text("two threads")


# -- predictions


def test_a_guess_is_committed_and_kept_and_is_there_after_a_reload(notebook: Notebook, lab: Server) -> None:
    notebook.command_mode()
    form = notebook.cell(2).locator(".pl-predict").first
    field = form.get_by_role("spinbutton", name="How much is <b>wasted</b>?")
    for refused in ("", "101"):
        field.fill(refused)
        form.get_by_role("button", name="Commit").click()
        expect(form.get_by_role("alert")).to_have_text("Give a number between 0 and 100.")
    field.fill("41")
    field.press("ArrowUp")
    field.press("Enter")
    expect(form).to_have_attribute("data-guess", "42")
    expect(form).to_contain_text("Your guess: 42 %")
    notebook.eventually("question.guess", 42.0)
    progress: Path = lab.root / "progress.json"
    assert json.loads(progress.read_text())["predictions"]["waste"] == 42.0

    notebook.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    notebook.page.reload()
    notebook.wait_ready()
    expect(form).to_have_attribute("data-guess", "42")
    expect(notebook.cell(3).get_by_role("rowheader", name="your guess")).to_be_visible()
    notebook.run_all()
    expect(form).to_have_attribute("data-guess", "42")
    assert notebook.python("question.guess") == 42.0


def test_the_answer_appears_with_the_guess_and_goes_with_it(notebook: Notebook) -> None:
    form = notebook.cell(2).locator(".pl-predict").first
    answer = notebook.cell(3).locator(".pl-bar-table")
    notebook.run_code("question.guess = None")
    expect(answer).to_contain_text("Commit to a guess above")
    assert answer.get_by_role("row").count() == 1
    # Longer than all others: they make room for it.
    for guess, shares in (("100", [100, 10, 5]), ("5", [25, 50, 25])):
        notebook.run_code(f"question.guess = {guess}")
        expect(answer.get_by_role("rowheader")).to_have_count(3)
        expect(answer.get_by_role("rowheader").first).to_have_text("your guess")
        expect(answer.get_by_role("row").nth(1)).to_contain_text("off by " + {"100": "90", "5": "5"}[guess])
        share = "bar => Math.round(100 * bar.offsetWidth / bar.parentElement.offsetWidth)"
        time.sleep(0.3)  # bars glide to their length
        assert [bar.evaluate(share) for bar in answer.locator(".pl-segment").all()] == shares
    form.get_by_role("button", name="Change my guess").click()
    expect(answer).to_contain_text("Commit to a guess above")
    notebook.run_code("question.guess = 42")


def test_a_guess_can_be_changed(notebook: Notebook, lab: Server) -> None:
    form = notebook.cell(2).locator(".pl-predict").first
    form.get_by_role("button", name="Change my guess").click()
    notebook.eventually("question.guess", None)
    assert "waste" not in json.loads((lab.root / "progress.json").read_text())["predictions"]
    field = form.get_by_role("spinbutton")
    expect(field).to_be_focused()
    field.fill("7.5")
    form.get_by_role("button", name="Commit").click()
    notebook.eventually("question.guess", 7.5)


def test_a_broken_file_is_told_of_and_left_alone(notebook: Notebook, lab: Server) -> None:
    form = notebook.cell(2).locator(".pl-predict").nth(1)
    expect(form.get_by_role("alert")).to_contain_text("is not JSON")
    form.get_by_role("spinbutton").fill("3")
    form.get_by_role("button", name="Commit").click()
    expect(form.get_by_role("alert")).to_contain_text("Your guess counts, but only")
    assert (lab.root / "broken.json").read_text() == "{oops"


def test_without_its_kernel_nothing_seems_to_go_on_and_a_guess_still_counts(notebook: Notebook) -> None:
    table, form = (
        notebook.cell(1).locator(".pl-bar-table").first,
        notebook.cell(2).locator(".pl-predict").first,
    )
    notebook.run_code("question.guess = None; table.status = 'measuring …'")
    expect(table).to_have_attribute("data-status", "measuring …")
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    expect(table.get_by_role("status")).to_contain_text("the kernel that computed this has stopped")
    expect(table).not_to_have_attribute("data-status", "measuring …")
    form.get_by_role("spinbutton").fill("12")
    form.get_by_role("button", name="Commit").click()
    expect(form.get_by_role("alert")).to_contain_text("Kept in this page only")
    expect(notebook.cell(3).get_by_role("rowheader", name="your guess")).to_be_visible()
    notebook.wait_ready()
    notebook.run_all()
    notebook.eventually("question.guess", None)
