"""What the tests ask of a notebook in a browser, beside opening and running it.

    notebook = Notebook.open(context.new_page(), server, "lesson.ipynb")
    notebook.python("slider.value")               # asks the kernel

`Watch` notes what a page must not do: fail, or talk to anyone but this machine.
"""

from __future__ import annotations

import ast
import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pagedlab.browser import CHROMIUM_ARGUMENTS as CHROMIUM_ARGUMENTS
from pagedlab.browser import LabPage
from pagedlab.browser import Server as Server
from pagedlab.browser import find_chromium as find_chromium
from pagedlab.browser import serve as serve

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass
class Watch:
    """What a page did: errors, requests that left this machine, messages to and from the kernel."""

    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list, repr=False)

    def attach(self, page: Page) -> None:
        page.on("pageerror", lambda error: self._fault(f"{error.message}\n{error.stack or ''}"))
        page.on("request", lambda request: self._note(request.url))
        page.on("websocket", self._listen)

    def _fault(self, text: str) -> None:
        # JupyterLab 4.6 takes its splash screen off the page twice when it loads itself once more to reset a
        # workspace: one frame, in its core, and none of ours.
        frames = [line for line in text.splitlines() if line.strip().startswith("at ")]
        if "removeChild" in text and len(frames) == 1 and "/static/lab/jlab_core." in frames[0]:
            return
        self.errors.append(text)

    def _note(self, url: str) -> None:
        if urlsplit(url).scheme not in ("data", "blob") and urlsplit(url).hostname != "127.0.0.1":
            self.strangers.append(url)

    def _listen(self, socket: Any) -> None:
        self._note(socket.url)
        if "/channels" in socket.url:
            socket.on("framesent", lambda data: self.messages.append(f"sent {data!r:.1500}"))
            socket.on("framereceived", lambda data: self.messages.append(f"received {data!r:.1500}"))

    def complaints(self) -> list[str]:
        """What must not have happened, and forget it."""
        found = [f"page error: {error}" for error in self.errors] + [
            f"left the machine: {url}" for url in self.strangers
        ]
        self.errors.clear()
        self.strangers.clear()
        return found


@dataclass
class Notebook(LabPage):
    """One notebook, open in one page, and what the page does."""

    watch: Watch = field(default_factory=Watch)

    def __post_init__(self) -> None:
        self.watch.attach(self.page)

    def run_code(self, source: str) -> None:
        """Run code in the kernel, outside the cells."""
        failed = self.page.evaluate(_EXECUTE, [source, {}])["error"]
        assert not failed, failed

    def python(self, expression: str) -> Any:
        """The value of an expression in the kernel, if it is a literal, else its repr."""
        reply = self.page.evaluate(_EXECUTE, ["", {"value": expression}])
        assert not reply["error"], reply["error"]
        with contextlib.suppress(ValueError, SyntaxError):
            return ast.literal_eval(reply["value"])
        return reply["value"]

    def eventually(self, expression: str, value: Any, timeout: float = 5.0) -> None:
        """Wait until an expression in the kernel has this value: messages take their time."""
        until = time.monotonic() + timeout
        while (found := self.python(expression)) != value:
            assert time.monotonic() < until, f"{expression} is {found!r}, not {value!r}"
            time.sleep(0.05)

    def command_mode(self) -> None:
        """Select the first cell and leave its editor, as a reader who is about to use a widget has."""
        self.on_panel("panel.content.activeCellIndex = 0; panel.content.mode = 'command'")

    @property
    def active_cell(self) -> int:
        return int(self.on_panel("return panel.content.activeCellIndex"))

    def theme(self, name: str) -> None:
        """`Light` or `Dark`."""
        change = "window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab %s' })"
        self.on_panel("return " + change % name)
        light = "true" if name == "Light" else "false"
        self.page.locator(f"body[data-jp-theme-light='{light}']").wait_for(state="attached")

    def cell(self, number: int) -> Locator:
        """A cell with its output."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell").nth(number)


_EXECUTE = """async ([code, user_expressions]) => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const { content } = await kernel.requestExecute({ code, user_expressions, store_history: false }).done;
  const value = content.user_expressions?.value;
  const failed = content.status === 'error' ? content : value?.status === 'error' ? value : null;
  return {
    error: failed ? `${failed.ename}: ${failed.evalue}` : null,
    value: value?.data?.['text/plain'] ?? null,
  };
}"""
