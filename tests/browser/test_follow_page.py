"""The block map's other half: who holds what. Following a sequence, its table and arrows, copies on
their way, the list of events, zoom, loops, and what moves together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from lab import Notebook

if TYPE_CHECKING:
    from playwright.sync_api import Locator

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)> " + "x" * 10_000
RIGHT_TO_LEFT = "\u202eevil\u0645"

MANAGER = f"""
import ipywidgets
from IPython.display import display
from pagedlab import BlockManager
from pagedlab_widgets import BlockMap, paged_trace

m = BlockManager(48, 4, prefix_caching=True, num_host_blocks=16)
prompt = list(range(20))
m.allocate("A", prompt + [1, 2, 3])
m.fork("A", "B")
m.append("B", [5])                      # copy-on-write
m.append("A", [6])
m.free("A")                             # its cached blocks stay, those that B does not hold are kept
m.swap_out("B")
m.allocate({HOSTILE!r}, [9] * 150)      # evicts
m.allocate({RIGHT_TO_LEFT!r}, [8] * 9)
m.swap_in("B")
kinds = [type(event).__name__ for event in m.events]
one = BlockMap(paged_trace(m.events, label="a pool"))
display(one)
"""

LINKED = """
slider = ipywidgets.IntSlider(max=99)
big = [BlockManager(200, 4) for _ in range(2)]
for manager in big:
    for i in range(50):
        manager.allocate(f"request {i}", 7)
        manager.append(f"request {i}", 2)
left, right = (BlockMap(paged_trace(manager.events), timeline="shared") for manager in big)
ipywidgets.jslink((left, "frame"), (slider, "value"))
display(left, right, slider)
"""

LONG = """
from pagedlab import serving, workloads
run = serving.simulate(workloads.named("azure-conversation"), num_slots=16_384 * 16, block_size=16,
                       max_events=100_000)
trace = paged_trace(run.events)
long = BlockMap(trace, frame=200, speed=60)
display(long)
"""


@pytest.fixture(scope="module")
def notebook(open_notebook: Callable[..., Notebook]) -> Notebook:
    return open_notebook("follow.ipynb", MANAGER, LINKED, LONG)


@pytest.fixture
def view(notebook: Notebook) -> Locator:
    view = notebook.cell(0).locator(".pl-block-map")
    # What the test before left to be saved is saved.
    notebook.eventually("one.frame", int(view.get_attribute("data-frame") or 0))
    notebook.run_code("one.follow = ''; one.frame = 0")
    expect(view).to_have_attribute("data-frame", "0")
    return view


def goto(notebook: Notebook, view: Locator, kind: str) -> int:
    """Show the first event of a kind; its frame."""
    frame = int(notebook.python(f"kinds.index({kind!r})"))
    notebook.run_code(f"one.frame = {frame}")
    expect(view).to_have_attribute("data-frame", str(frame))
    return frame


def table(view: Locator) -> list[list[str]]:
    rows = view.get_by_role("grid", name="Block table").locator(".pl-rows [role=row]")
    return [row.get_by_role("gridcell").all_inner_texts() for row in rows.all()]


def test_the_event_of_the_step_is_named_beside_it(notebook: Notebook, view: Locator) -> None:
    expect(view.locator(".pl-now")).to_have_text("allocate A: 23 tokens in blocks 0, 1, 2, 3 and 2 more")
    goto(notebook, view, "Fork")
    expect(view.locator(".pl-now")).to_have_text("fork B shares 6 blocks of A")


def test_a_chip_follows_a_sequence_and_its_table_is_the_managers(notebook: Notebook, view: Locator) -> None:
    goto(notebook, view, "CopyOnWrite")
    chip = view.get_by_role("button", name="B", exact=True)
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "true")
    notebook.eventually("one.follow", "B")
    expected = notebook.python("m.events.state_at(one.frame).tables['B']")
    assert [int(block) for _, block, _ in table(view)] == expected
    assert [stored for *_, stored in table(view)] == ["4 of 4"] * 5 + ["3 of 4"]
    expect(view.locator(".pl-link")).to_have_count(6)
    # The entry that this step changed has the strong arrow, and it ends at the copy.
    expect(view.locator(".pl-link.pl-strong")).to_have_count(1)
    chip.press("Enter")
    expect(chip).to_have_attribute("aria-pressed", "false")
    expect(view.get_by_role("grid", name="Block table")).to_be_hidden()


def test_an_arrow_ends_at_its_block(notebook: Notebook, view: Locator) -> None:
    goto(notebook, view, "CopyOnWrite")
    notebook.run_code("one.follow = 'B'")
    expect(view.locator(".pl-link.pl-strong")).to_have_count(1)
    view.get_by_role("grid", name="Block table").press("End")
    view.get_by_role("grid", name="Block table").press("Enter")
    expect(view.locator(".pl-block")).to_contain_text("Block 6: B")
    end, cursor = view.locator(".pl-link.pl-strong").evaluate("""path => {
      const { x, y } = path.getPointAtLength(path.getTotalLength()).matrixTransform(path.getScreenCTM());
      const box = path.closest('.pl-stage').querySelector('.pl-cursor').getBoundingClientRect();
      return [[x, y], [box.right, (box.top + box.bottom) / 2]];
    }""")
    assert abs(end[0] - cursor[0]) < 4 and abs(end[1] - cursor[1]) < 4


def test_what_is_not_followed_is_grey(notebook: Notebook, view: Locator) -> None:
    saturation = """(canvas) => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      let coloured = 0;
      for (let i = 0; i < data.length; i += 4) {
        const rgb = data.slice(i, i + 3);
        coloured += Math.max(...rgb) - Math.min(...rgb) > 60;
      }
      return coloured;
    }"""
    canvas = view.locator(".pl-canvas canvas").first
    before = canvas.evaluate(saturation)
    notebook.run_code("one.follow = 'B'")
    expect(view.locator("[data-following]")).to_have_count(1)
    assert canvas.evaluate(saturation) == 0 < before
    goto(notebook, view, "CopyOnWrite")
    assert canvas.evaluate(saturation) > 0


def test_a_block_leads_to_its_sequence_by_keyboard(notebook: Notebook, view: Locator) -> None:
    canvas = view.get_by_role("application")
    canvas.focus()
    canvas.press("Home")
    view.get_by_role("button", name="Follow A").wait_for()
    canvas.press("Enter")
    notebook.eventually("one.follow", "A")
    canvas.press("Escape")
    notebook.eventually("one.follow", "")


def test_a_copy_is_an_arrow_and_moves_when_one_steps_onto_it(notebook: Notebook, view: Locator) -> None:
    frame = goto(notebook, view, "CopyOnWrite")
    expect(view.locator(".pl-copy")).to_have_count(1)
    notebook.run_code(f"one.frame = {frame - 1}")
    expect(view.locator(".pl-copy")).to_have_count(0)
    view.evaluate("""el => {
      window.flights = 0;
      const count = node => { window.flights += node.className === 'pl-ghost'; };
      new MutationObserver(changes => changes.forEach(change => change.addedNodes.forEach(count)))
        .observe(el, { childList: true, subtree: true });
    }""")
    forward = view.get_by_role("button", name="Step forward")
    forward.click()
    expect(view.locator(".pl-copy")).to_have_count(1)
    assert view.page.evaluate("window.flights") == 1
    expect(view.locator(".pl-ghost")).to_have_count(0)
    view.page.emulate_media(reduced_motion="reduce")
    view.get_by_role("button", name="Step back").click()
    forward.click()
    expect(view.locator(".pl-copy")).to_have_count(1)
    view.page.emulate_media(reduced_motion="no-preference")
    assert view.page.evaluate("window.flights") == 1


def test_kept_evicted_and_swapped_are_shown_and_told(notebook: Notebook, view: Locator) -> None:
    goto(notebook, view, "SwapOut")
    expect(view.locator(".pl-count-kept b")).not_to_have_text("0")
    expect(view.locator(".pl-away")).to_have_text("on the host: B")
    goto(notebook, view, "Evict")
    expect(view.locator(".pl-evicted").first).to_be_attached()
    goto(notebook, view, "SwapIn")
    expect(view.locator(".pl-away")).to_have_text("")


def test_an_event_is_jumped_to_from_the_list(notebook: Notebook, view: Locator) -> None:
    fold = view.locator("details", has_text="Events").first
    fold.locator("summary").press("Enter")
    fold.get_by_role("combobox", name="Kind of event").select_option(label="copy-on-write (1)")
    events = fold.get_by_role("grid", name="Events")
    events.press("Enter")
    copied = notebook.python("kinds.index('CopyOnWrite')")
    expect(view).to_have_attribute("data-frame", str(copied))
    expect(events.locator("[aria-current=step]")).to_contain_text("B: entry 5, block 5 copied to block 6")
    fold.get_by_role("combobox", name="Kind of event").select_option(label="fork (1)")
    events.locator(".pl-rows [role=row]").first.click()
    expect(view).to_have_attribute("data-frame", str(notebook.python("kinds.index('Fork')")))


def test_every_block_can_be_read_in_a_table(notebook: Notebook, view: Locator) -> None:
    goto(notebook, view, "CopyOnWrite")
    fold = view.locator("details", has_text="Blocks as a table")
    fold.locator("summary").click()
    rows = fold.get_by_role("grid", name="Blocks of a pool").locator(".pl-rows [role=row]")
    expect(rows.nth(5).get_by_role("gridcell")).to_have_text(["5", "A", "3 of 4", "1", ""])
    expect(rows.nth(6).get_by_role("gridcell")).to_have_text(["6", "B", "3 of 4", "1", ""])


def test_hostile_names_are_text_and_stay_inside_their_lines(notebook: Notebook, view: Locator) -> None:
    notebook.run_code("one.frame = kinds.index('Allocate', 1)")
    width = view.evaluate("el => el.scrollWidth - el.clientWidth")
    assert width == 0
    expect(view.locator(".pl-now")).to_contain_text("<img src=x onerror=alert(1)> xx")
    assert view.locator("img").count() == 0
    assert len(view.locator(".pl-now").inner_text()) < 200
    chips = view.locator(".pl-chip")
    assert all(chip.bounding_box()["width"] < 300 for chip in chips.all())  # type: ignore[index]
    assert chips.last.inner_text() == RIGHT_TO_LEFT


@pytest.mark.parametrize("way", ["keys", "buttons"])
def test_blocks_become_larger_and_smaller(view: Locator, way: str) -> None:
    canvas = view.get_by_role("application")
    width = canvas.evaluate("canvas => canvas.clientWidth")

    def zoom(name: str, key: str) -> None:
        if way == "keys":
            canvas.press(key)
        else:
            view.get_by_role("button", name=name).click()

    zoom("Larger blocks", "+")
    larger = canvas.evaluate("canvas => canvas.clientWidth")
    assert larger > width
    zoom("Smaller blocks", "-")
    assert canvas.evaluate("canvas => canvas.clientWidth") == width


def test_the_strip_of_the_run_is_dragged(notebook: Notebook, view: Locator) -> None:
    strip = view.locator(".pl-history")
    strip.scroll_into_view_if_needed()
    box = strip.bounding_box()
    assert box
    mouse, y = view.page.mouse, box["y"] + box["height"] / 2
    mouse.move(box["x"] + 1, y)
    mouse.down()
    mouse.move(box["x"] + box["width"] - 1, y, steps=5)
    mouse.up()
    expect(view).to_have_attribute("data-frame", str(notebook.python("one.frames - 1")))


def test_a_loop_begins_anew(notebook: Notebook, view: Locator) -> None:
    view.get_by_role("button", name="Loop").click()
    notebook.run_code("one.frame = one.frames - 2")
    view.get_by_role("combobox", name="Speed").select_option("5")
    view.get_by_role("button", name="Play").click()
    notebook.page.wait_for_function("el => Number(el.dataset.frame) < 8", arg=view.element_handle())
    assert view.get_attribute("data-playing") == "true"
    view.get_by_role("button", name="Pause").click()
    view.get_by_role("button", name="Loop").click()


def test_maps_of_one_timeline_move_together_and_a_slider_with_them(notebook: Notebook) -> None:
    left, right = (notebook.cell(1).locator(".pl-block-map").nth(i) for i in range(2))
    left.get_by_role("slider", name="Step").press("End")
    for view in (left, right):
        expect(view).to_have_attribute("data-frame", "99")
    notebook.eventually("(left.frame, right.frame, slider.value)", (99, 99, 99))
    right.get_by_role("slider", name="Step").press("Home")
    right.get_by_role("combobox", name="Speed").select_option("20")
    right.get_by_role("button", name="Play").click()
    notebook.page.wait_for_function("el => Number(el.dataset.frame) > 5", arg=left.element_handle())
    expect(notebook.cell(1).locator(".widget-readout")).not_to_have_text("0")
    left.get_by_role("button", name="Pause").click()
    assert left.get_attribute("data-frame") == right.get_attribute("data-frame")


def test_a_long_run_of_many_blocks_plays_without_the_kernel_and_paints_what_changed(
    notebook: Notebook,
) -> None:
    view = notebook.cell(2).locator(".pl-block-map")
    assert notebook.python("(trace.num_blocks, len(run.events) >= 100_000)") == (16_384, True)
    view.scroll_into_view_if_needed()
    view.evaluate("""el => {
      window.painted = [];
      el.addEventListener('pl:painted', event => window.painted.push(event.detail));
    }""")
    canvas = view.get_by_role("application")
    canvas.focus()
    notebook.eventually("long.frame", 200)
    notebook.watch.messages.clear()
    canvas.press(" ")
    notebook.page.wait_for_function("() => window.painted.length > 30")
    assert notebook.watch.messages == []
    canvas.press(" ")
    painted: list[dict[str, Any]] = notebook.page.evaluate(
        "window.painted.filter(({ cause }) => cause === 'play')"
    )
    frames = [200, *(paint["frame"] for paint in painted)]
    notebook.run_code(f"""
states = [trace.blocks(frame) for frame in {frames[:6]}]
changed = [int((a != b).any(axis=1).sum()) for a, b in zip(states, states[1:])]""")
    assert [paint["blocks"] for paint in painted[:5]] == notebook.python("changed")


def test_high_contrast_uses_the_systems_colours(notebook: Notebook, view: Locator) -> None:
    page = notebook.page
    page.emulate_media(forced_colors="active")
    page.wait_for_timeout(300)
    free = view.locator(".pl-canvas canvas").first.evaluate("""canvas => {
      const [r, g, b] = canvas.getContext('2d').getImageData(canvas.width - 4, canvas.height - 4, 1, 1).data;
      const probe = document.createElement('canvas').getContext('2d');
      probe.fillStyle = 'Canvas';
      probe.fillRect(0, 0, 1, 1);
      return [[r, g, b], [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3)];
    }""")
    page.emulate_media(forced_colors="none")
    assert free[0] == free[1]
