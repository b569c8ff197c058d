"""The block map in JupyterLab: by mouse, by keyboard, from Python, in both themes, without a kernel."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lab import Notebook

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)>"

MAKE = f"""
from IPython.display import display
from pagedlab_widgets import BlockMap, TraceBuilder

def run(label, reserve, frames=200, blocks=64):
    builder = TraceBuilder(label, blocks, 16)
    name = lambda i: {HOSTILE!r} if i == 0 else f"request {{i}}"
    for f in range(frames):
        block, lap = f % blocks, f // blocks
        builder.write(block, builder.owner(name(f // 3)), (f * 5) % 17, 1 + (f % 7 == 0))
        if lap and f % 5 == 0:
            builder.write((block + 20) % blocks, 0, 0, 0)
        for ahead in range(reserve):
            builder.write((block + 1 + ahead) % blocks, builder.owner(name(f // 3)), 0, 1)
        builder.end_frame()
    return builder.build()

paged, reserved = run("paged, blocks of 16", 0), run("reserve <b>to</b> the longest", 4, frames=150)
both = BlockMap(paged, reserved)
"""

CELLS = [
    MAKE,
    "display(both)",
    "display(both)",
    "display(BlockMap(), BlockMap(TraceBuilder('still', 4, 16).build()))",
]


@pytest.fixture(scope="module")
def notebook(open_notebook: Callable[..., Notebook]) -> Notebook:
    return open_notebook("block-map.ipynb", *CELLS)


class View:
    """One view of the map, found by the names its controls have."""

    def __init__(self, notebook: Notebook, cell: int) -> None:
        self.notebook = notebook
        self.root = notebook.cell(cell).locator(".pl-block-map").first
        self.scrub = self.root.get_by_role("slider", name="Step")
        self.play = self.root.get_by_role("button", name=re.compile("Play|Pause"))
        self.canvas = self.root.get_by_role("application", name="paged, blocks of 16")
        self.tip = self.root.locator(".pl-tip")

    @property
    def frame(self) -> int:
        return int(self.root.get_attribute("data-frame") or -1)

    @property
    def playing(self) -> bool:
        return self.root.get_attribute("data-playing") == "true"

    def wait_frame(self, frame: int) -> None:
        until = time.monotonic() + 5
        while self.frame != frame:
            assert time.monotonic() < until, f"frame {self.frame}, not {frame}"
            time.sleep(0.02)

    def panel(self, number: int) -> dict[str, int]:
        names = ("used", "stored", "held", "shared")
        panel = self.root.locator(".pl-panel").nth(number)
        return {name: int(panel.get_attribute(f"data-{name}") or -1) for name in names}

    def selected(self) -> str:
        return self.root.locator(".pl-block").first.inner_text()

    def pixel(self, block: int) -> list[int]:
        """The colour in the middle of a block of the first panel."""
        script = """(canvas, [x, y]) => {
          const k = canvas.width / canvas.clientWidth;
          return [...canvas.getContext('2d').getImageData(Math.round(x * k), Math.round(y * k), 1, 1).data];
        }"""
        pixel: list[int] = self.canvas.evaluate(script, list(self.place(block)))
        return pixel

    def place(self, block: int) -> tuple[float, float]:
        """Where a block is on the canvas: asked of the cursor that the keyboard moves."""
        self.canvas.focus()
        self.canvas.press("Home")
        for _ in range(block):
            self.canvas.press("ArrowRight")
        cursor = self.root.locator(".pl-cursor").first
        x, y, size = cursor.evaluate("cursor => [cursor.offsetLeft, cursor.offsetTop, cursor.offsetWidth]")
        return x + size / 2, y + size / 2

    def bar(self) -> tuple[Any, Callable[[float], tuple[float, float]]]:
        """The mouse, and where on the page the scrub bar has a share of its length."""
        self.scrub.scroll_into_view_if_needed()
        box = self.scrub.bounding_box()
        assert box
        x, y, width, height = (box[side] for side in ("x", "y", "width", "height"))
        return self.root.page.mouse, lambda share: (x + width * share, y + height / 2)


@pytest.fixture
def view(notebook: Notebook) -> Iterator[View]:
    view = View(notebook, 1)
    notebook.eventually("both.frame", view.frame)  # what the test before left to be saved is saved
    notebook.run_code("both.show(paged, reserved); both.frame = 50")
    notebook.command_mode()
    view.wait_frame(50)
    yield view
    if view.playing:
        view.play.click()


def test_the_page_shows_what_python_counts(notebook: Notebook, view: View) -> None:
    for frame in (0, 50, 149, 199):
        notebook.run_code(f"both.frame = {frame}")
        view.wait_frame(frame)
        for number, trace in enumerate(("paged", "reserved")):
            counts = notebook.python(f"vars({trace}.counts(min({frame}, {trace}.frames - 1)))")
            assert view.panel(number) == counts


def test_the_scrub_bar_is_dragged_both_ways_and_python_follows(notebook: Notebook, view: View) -> None:
    mouse, at = view.bar()
    mouse.move(*at(0.25))
    mouse.down()
    mouse.move(*at(0.9), steps=15)
    far = view.frame
    mouse.move(*at(0.1), steps=15)
    near = view.frame
    mouse.up()
    assert near < 50 < far
    notebook.eventually("both.frame", view.frame)
    assert view.panel(0) == notebook.python(f"vars(paged.counts({view.frame}))")


def test_a_long_drag_sends_at_most_five_messages_a_second(notebook: Notebook, view: View) -> None:
    mouse, at = view.bar()
    mouse.move(*at(0.1))
    mouse.down()
    notebook.watch.messages.clear()
    start = time.monotonic()
    for step in range(60):
        mouse.move(*at(0.1 + step / 80))
        time.sleep(0.01)
    mouse.up()
    time.sleep(0.4)
    sent = [
        message for message in notebook.watch.messages if message.startswith("sent") and "comm_msg" in message
    ]
    assert 1 <= len(sent) <= 2 + 5 * (time.monotonic() - start)


def test_the_scrub_bar_answers_the_keyboard_in_command_mode(notebook: Notebook, view: View) -> None:
    view.scrub.focus()
    cell = notebook.active_cell
    for key, frame in (("ArrowRight", 51), ("ArrowLeft", 50), ("ArrowLeft", 49), ("Home", 0), ("End", 199)):
        view.scrub.press(key)
        assert view.frame == frame
    for key in ("ArrowDown", "ArrowUp", " "):
        view.scrub.press(key)
    assert view.scrub.get_attribute("aria-valuetext") == "step 199 of 199"
    assert notebook.active_cell == cell
    notebook.eventually("both.frame", 199)


def test_the_buttons_step_both_ways_and_stop_at_the_ends(notebook: Notebook, view: View) -> None:
    back, forward = (view.root.get_by_role("button", name=f"Step {way}") for way in ("back", "forward"))
    forward.click()
    forward.press("Enter")
    assert view.frame == 52
    back.click()
    assert view.frame == 51
    notebook.run_code("both.frame = 199")
    view.wait_frame(199)
    forward.press("Enter")
    assert (view.frame, forward.get_attribute("aria-disabled")) == (199, "true")


def test_the_canvas_is_walked_with_the_arrow_keys(notebook: Notebook, view: View) -> None:
    view.canvas.focus()
    cell = notebook.active_cell
    for key, block in (("ArrowRight", 0), ("ArrowRight", 1), ("End", 63), ("ArrowRight", 63), ("Home", 0)):
        view.canvas.press(key)
        assert view.selected().startswith(f"Block {block}: ")
    view.canvas.press("ArrowDown")
    columns = int(re.findall(r"\d+", view.selected())[0])
    assert columns >= 8
    view.canvas.press("ArrowUp")
    assert view.selected().startswith("Block 0: ")
    assert notebook.active_cell == cell
    view.root.get_by_role("status").filter(has_text="Block 0: ").wait_for(state="attached")


def test_time_moves_from_the_canvas_and_the_chosen_block_is_told_anew(view: View) -> None:
    view.canvas.focus()
    view.canvas.press("Home")
    for _ in range(51):
        view.canvas.press("ArrowRight")
    assert view.selected() == "Block 51: free"
    view.canvas.press(".")
    assert view.frame == 51
    assert view.selected() == "Block 51: request 17; held, none of its 16 slots stores a token"
    view.canvas.press(",")
    assert (view.frame, view.selected()) == (50, "Block 51: free")


def test_play_and_pause_by_space_and_no_message_in_between(notebook: Notebook, view: View) -> None:
    view.root.get_by_role("combobox", name="Speed").select_option("60")
    view.canvas.focus()
    view.root.evaluate("""el => {
      window.painted = [];
      el.addEventListener('pl:painted', event => window.painted.push(event.detail));
    }""")
    notebook.eventually("both.frame", 50)
    notebook.watch.messages.clear()
    cell = notebook.active_cell
    view.canvas.press(" ")
    time.sleep(1.2)
    assert view.playing
    assert notebook.watch.messages == []
    view.canvas.press(" ")
    assert not view.playing
    stopped = view.frame
    notebook.eventually("both.frame", stopped)
    assert stopped > 60
    assert notebook.active_cell == cell
    frames = view.root.page.evaluate("window.painted.filter(d => d.cause === 'play').map(d => d.frame)")
    assert frames == sorted(frames) and len(set(frames)) > 10


def test_a_step_paints_the_blocks_that_changed_and_no_other(notebook: Notebook, view: View) -> None:
    notebook.run_code("""def changed(f):
        both_runs = [(trace, min(f, trace.frames - 1), min(f + 1, trace.frames - 1)) for trace in both.traces]
        return sum(int((t.blocks(a) != t.blocks(b)).any(axis=1).sum()) for t, a, b in both_runs)""")
    view.root.evaluate("el => el.addEventListener('pl:painted', event => { window.last = event.detail; })")
    for frame, key in ((50, "."), (51, "."), (51, ","), (50, ",")):
        view.canvas.press(key)
        after = frame + 1 if key == "." else frame
        view.root.page.wait_for_function(f"() => window.last?.frame === {after}")
        assert view.root.page.evaluate("window.last.blocks") == notebook.python(f"changed({frame})") > 0
        assert view.root.page.evaluate("window.last.ms") > 0


def test_the_button_plays_and_stops_at_the_end(notebook: Notebook, view: View) -> None:
    notebook.run_code("both.frame = 195")
    view.wait_frame(195)
    view.root.get_by_role("button", name="Play").click()
    view.root.locator("xpath=self::*[@data-frame='199' and @data-playing='false']").wait_for()
    notebook.eventually("both.frame", 199)


def test_pointing_at_a_block_tells_of_it_and_a_name_is_only_text(view: View) -> None:
    x, y = view.place(0)
    view.canvas.hover(position={"x": x, "y": y})
    assert view.tip.inner_text().split("\n") == [
        "Block 0", f"{HOSTILE} and 1 other", "held, none of its 16 slots stores a token, shared by 2",
    ]  # fmt: skip
    assert view.tip.locator("img").count() == 0
    assert view.root.get_by_role("heading").count() == 0
    view.root.get_by_text("reserve <b>to</b> the longest", exact=True).wait_for()
    view.scrub.hover()
    assert view.tip.is_hidden()


def test_a_click_chooses_a_block(view: View) -> None:
    x, y = view.place(7)
    view.canvas.press("Home")
    view.canvas.click(position={"x": x, "y": y})
    assert view.selected().startswith("Block 7: ")


def test_python_moves_the_map_and_replaces_what_it_shows(notebook: Notebook, view: View) -> None:
    notebook.run_code("both.show(run('another', 1, frames=40, blocks=16))")
    view.wait_frame(39)
    assert view.root.locator(".pl-panel").count() == 1
    view.root.get_by_text("16 blocks of 16 slots").wait_for()
    assert notebook.python("both.frame") == 39


def test_a_new_run_leaves_the_keyboard_and_the_speed_where_they_were(notebook: Notebook, view: View) -> None:
    speed = view.root.get_by_role("combobox", name="Speed")
    speed.select_option("5")
    view.canvas.focus()
    notebook.run_code("both.show(run('paged, blocks of 16, anew', 1), reserved)")
    view.root.get_by_text("paged, blocks of 16, anew").wait_for()
    assert view.canvas.evaluate("canvas => canvas === document.activeElement")
    assert speed.input_value() == "5"


def test_the_map_follows_the_theme(notebook: Notebook, view: View) -> None:
    colours = {}
    for theme in ("Light", "Dark"):
        notebook.theme(theme)
        time.sleep(0.3)
        free = view.pixel(60)
        expected = view.root.evaluate("""el => {
          const context = document.createElement('canvas').getContext('2d');
          context.fillStyle = getComputedStyle(el).getPropertyValue('--pl-free').trim();
          context.fillRect(0, 0, 1, 1);
          return [...context.getImageData(0, 0, 1, 1).data];
        }""")
        assert free == expected
        colours[theme] = sum(free[:3])
    notebook.theme("Light")
    assert colours["Light"] > 600 > 300 > colours["Dark"]


def test_less_motion_means_two_pictures_a_second(view: View) -> None:
    page = view.root.page
    page.emulate_media(reduced_motion="reduce")
    view.root.get_by_role("combobox", name="Speed").select_option("60")
    seen = set()
    view.play.click()
    until = time.monotonic() + 1.2
    while time.monotonic() < until:
        seen.add(view.frame)
        time.sleep(0.02)
    view.play.click()
    page.emulate_media(reduced_motion="no-preference")
    assert 2 <= len(seen) <= 4


def test_the_map_fits_the_width_it_gets(view: View) -> None:
    page = view.root.page
    wide = view.canvas.bounding_box()
    page.set_viewport_size({"width": 800, "height": 1000})
    page.wait_for_function(
        "el => el.querySelector('.pl-panels').style.gridTemplateColumns.startsWith('repeat(1')",
        arg=view.root.element_handle(),
    )
    narrow, root = view.canvas.bounding_box(), view.root.bounding_box()
    page.set_viewport_size({"width": 1400, "height": 1000})
    assert wide and narrow and root
    assert narrow["x"] + narrow["width"] <= root["x"] + root["width"]


def test_nothing_to_show_is_said(notebook: Notebook) -> None:
    notebook.cell(3).get_by_text("No run to show yet.").wait_for()
    notebook.cell(3).get_by_text("Nothing happened in this run").wait_for()


def test_two_views_are_one_map_and_one_may_go(notebook: Notebook, view: View) -> None:
    other = View(notebook, 2)
    other.wait_frame(50)
    view.root.get_by_role("combobox", name="Speed").select_option("20")
    view.play.click()
    other.root.locator("xpath=self::*[@data-playing='true']").wait_for()
    notebook.page.wait_for_function("el => Number(el.dataset.frame) > 55", arg=other.root.element_handle())
    other.play.click()
    assert not view.playing and view.frame == other.frame
    notebook.eventually("both.frame", other.frame)

    gone = other.root.element_handle()
    notebook.page.evaluate("""() => {
      const { content } = window.jupyterapp.shell.currentWidget;
      content.widgets[2].model.clearExecution();
    }""")
    other.root.wait_for(state="detached")
    kept = gone.get_attribute("data-frame")
    notebook.run_code("both.frame = 7")
    view.wait_frame(7)
    assert gone.get_attribute("data-frame") == kept != "7"


def test_a_reload_shows_the_map_as_it_was(notebook: Notebook, view: View) -> None:
    view.scrub.press("End")
    notebook.eventually("both.frame", 199)
    notebook.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    notebook.page.reload()
    notebook.wait_ready()
    view.root.wait_for()
    view.wait_frame(199)
    assert view.panel(0) == notebook.python("vars(paged.counts(199))")
    view.scrub.press("Home")
    notebook.eventually("both.frame", 0)


def test_without_a_kernel_everything_plays_on(notebook: Notebook, view: View) -> None:
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    notebook.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.sessionContext.session")
    view.scrub.focus()
    view.scrub.press("Home")
    assert view.frame == 0
    view.canvas.press(".")
    view.play.click()
    time.sleep(0.4)
    view.play.click()
    assert view.frame > 1
    x, y = view.place(3)
    view.canvas.hover(position={"x": x, "y": y})
    assert view.tip.is_visible()
    time.sleep(0.3)  # a page error would be one that comes when the frame is saved
