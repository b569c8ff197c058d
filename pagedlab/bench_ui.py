"""How fast a block map of 16,384 blocks and 100,000 events answers in a browser.

A JupyterLab of its own, a Chromium without a window. The widget itself tells when a change is on the screen
(`pl:painted` in `static/block_map.js`), with the time since the key press; messages to and from the kernel
are counted on their way.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pagedlab import _format, machine
from pagedlab.browser import CHROMIUM_ARGUMENTS, LabPage, find_chromium, serve
from pagedlab.comparison import Spread

BLOCKS, EVENTS, SPEED = 16_384, 100_000, 60
RUN = f"""
from pagedlab import serving, workloads
from pagedlab_widgets import BlockMap, paged_trace
run = serving.simulate(workloads.named("azure-conversation"), num_slots=16 * {BLOCKS}, block_size=16,
                       max_events={EVENTS})
trace = paged_trace(run.events)
print(len(run.events), len(trace.events), trace.frames)
"""
WARM_UP, SHOW = "BlockMap(trace)", "shown = BlockMap(trace)\nshown"
_FIRST_SHOW = """async () => {
  const panel = window.jupyterapp.shell.currentWidget, cell = panel.content.widgets[2];
  cell.model.clearExecution();
  panel.content.activeCellIndex = 2;
  await new Promise(then => setTimeout(then, 300));
  const start = performance.now();
  window.jupyterapp.commands.execute('notebook:run-cell');
  const drawn = () => [...cell.node.querySelectorAll('.pl-canvas canvas')].some(canvas => canvas.width > 300);
  while (!drawn()) await new Promise(then => requestAnimationFrame(then));
  await new Promise(then => requestAnimationFrame(() => setTimeout(then)));
  return performance.now() - start;
}"""
_WATCH = (
    "map => { window.painted = []; map.addEventListener('pl:painted', e => window.painted.push(e.detail)); }"
)


class NoBrowser(RuntimeError):
    """No browser can be driven here; the message says what to install."""


@dataclass(frozen=True)
class UiBench:
    """One run. Times in seconds; `blocks_painted` is the median for a key press."""

    blocks: int
    events: int
    frames: int
    trace_bytes: int
    key_to_paint: Spread
    blocks_painted: int
    steps_per_second: float
    messages_while_playing: int
    first_show: Spread
    browser: str
    device: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        def told(spread: Spread) -> str:
            quartiles = " - ".join(map(_format.seconds, (spread.q1, spread.q3)))
            return f"{_format.seconds(spread.median)} ({quartiles})"

        rows = [
            ["key press to paint, one step", told(self.key_to_paint), "16 ms"],
            [f"steps a second, played at {SPEED}", f"{self.steps_per_second:.0f}", "50"],
            ["first show, from running the cell", told(self.first_show), "1 s"],
            ["messages to or from the kernel while playing", str(self.messages_while_playing), "0"],
            ["the run on the wire", _format.size(self.trace_bytes), "1 MB"],
        ]
        return "\n".join(
            [
                f"block map: {self.blocks:,} blocks, {self.events:,} events in {self.frames:,} steps",
                _format.table(["measured (quartiles)", "here", "aim"], rows),
                f"a step paints {self.blocks_painted:,} blocks (median): those that changed",
                f"{self.browser}; {self.device}",
            ]
        )


def run(*, presses: int = 100, shows: int = 5, seconds: float = 4.0) -> UiBench:
    """Open the map, press keys, let it play. Raises NoBrowser where no browser can be driven."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NoBrowser("this drives a browser: pip install playwright") from None
    chromium = find_chromium()
    if chromium is None:
        raise NoBrowser("no Chromium found: install one, or name it in PAGEDLAB_CHROMIUM")
    with (
        tempfile.TemporaryDirectory(prefix="pagedlab-bench-") as folder,
        serve(Path(folder)) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
        page = browser.new_page(viewport={"width": 1400, "height": 1100})
        messages: list[object] = []
        page.on("websocket", lambda socket: _count(socket, messages))
        server.write_notebook("bench.ipynb", RUN, WARM_UP, SHOW)
        lab = LabPage.open(page, server, "bench.ipynb")
        lab.run_all()
        events, size, frames = map(
            int, page.locator(".jp-Cell").nth(0).locator("pre").last.inner_text().split()
        )
        first = [page.evaluate(_FIRST_SHOW) / 1e3 for _ in range(shows)]
        shown = page.locator(".jp-Cell").nth(2).locator(".pl-block-map")
        shown.evaluate(_WATCH)
        pressed = _press(page, shown, presses)
        rate, sent = _play(page, shown, seconds, messages)
        return UiBench(
            *(BLOCKS, events, frames, size),
            key_to_paint=Spread.of([paint["ms"] / 1e3 for paint in pressed]),
            blocks_painted=int(statistics.median(paint["blocks"] for paint in pressed)),
            steps_per_second=rate,
            messages_while_playing=sent,
            first_show=Spread.of(first),
            browser=f"Chromium {browser.version}, no window",
            device=machine.cpu_device(),
        )


def _press(page: Any, shown: Any, presses: int) -> list[dict[str, Any]]:
    """Steps by the keyboard, one at a time; what the widget told of each."""
    scrub = shown.get_by_role("slider", name="Step")
    scrub.press("Home")
    page.evaluate("window.painted.length = 0")
    for pressed in range(1, presses + 1):
        scrub.press("ArrowRight")
        page.wait_for_function("count => window.painted.length >= count", arg=pressed)
    return page.evaluate("window.painted")


def _play(page: Any, shown: Any, seconds: float, messages: list[object]) -> tuple[float, int]:
    """Steps painted a second while it plays, and messages meanwhile."""
    shown.get_by_role("combobox", name="Speed").select_option(str(SPEED))
    page.wait_for_timeout(500)  # the last step is on its way to the kernel
    shown.get_by_role("button", name="Play").click()
    page.wait_for_timeout(300)
    page.evaluate("window.painted.length = 0")
    messages.clear()
    page.wait_for_timeout(1e3 * seconds)
    painted, sent = page.evaluate("new Set(window.painted.map(paint => paint.frame)).size"), len(messages)
    shown.get_by_role("button", name="Pause").click()
    return painted / seconds, sent


def _count(socket: Any, messages: list[object]) -> None:
    if "/channels" in socket.url:
        for direction in ("framesent", "framereceived"):
            socket.on(direction, lambda frame: messages.append(frame))
