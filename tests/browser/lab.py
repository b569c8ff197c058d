"""A JupyterLab of its own for the tests: a server on a free port of this machine, notebooks opened in a
real browser.

    with serve(folder) as server:                     # private configuration, nothing of the user's is read
        notebook = Notebook.open(context.new_page(), server, "lesson.ipynb")
        notebook.run_all()                            # fails on the first cell that fails
        notebook.python("slider.value")               # asks the kernel

`Watch` notes what a page must not do: fail, or talk to anyone but this machine.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

REPOSITORY = Path(__file__).resolve().parents[2]
IMPORT_PATHS = [REPOSITORY, REPOSITORY / "kernels", REPOSITORY / "widgets"]

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]

SETTINGS: dict[str, dict[str, Any]] = {
    # Cells that are scrolled away stay in the page, or a test would have to scroll to find them.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}


def find_chromium() -> str | None:
    """The browser to test with: $PAGEDLAB_CHROMIUM, or the first Chromium on the path."""
    names = [os.environ.get("PAGEDLAB_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


@dataclass(frozen=True)
class Server:
    url: str
    token: str
    root: Path

    def write_notebook(self, name: str, *cells: str) -> str:
        """A notebook of code cells in the server's folder."""
        notebook = {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
            "cells": [
                {
                    "id": f"cell-{i}",
                    "cell_type": "code",
                    "source": source,
                    "metadata": {},
                    "outputs": [],
                    "execution_count": None,
                }
                for i, source in enumerate(cells)
            ],
        }
        (self.root / name).write_text(json.dumps(notebook), encoding="utf-8")
        return name


@contextlib.contextmanager
def serve(root: Path, timeout: float = 90.0) -> Iterator[Server]:
    """A running JupyterLab over `root`; it and its kernels end with the block."""
    private = Path(tempfile.mkdtemp(prefix="pagedlab-jupyter-"))
    token = secrets.token_hex(16)
    overrides = private / "config" / "labconfig" / "default_setting_overrides.json"
    overrides.parent.mkdir(parents=True)
    overrides.write_text(json.dumps(SETTINGS), encoding="utf-8")
    command = [
        *(
            sys.executable,
            "-m",
            "jupyterlab",
            "--no-browser",
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.port=0",
        ),
        *(f"--ServerApp.root_dir={root}", f"--IdentityProvider.token={token}", "--ServerApp.allow_root=True"),
        *("--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
        *("--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"),
    ]
    log = private / "server.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=_environment(private), start_new_session=True
        )
        try:
            yield Server(_address(process, private / "runtime", token, log, timeout), token, root)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            shutil.rmtree(private, ignore_errors=True)


def _environment(private: Path) -> dict[str, str]:
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    }
    path = os.pathsep.join([*map(str, IMPORT_PATHS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, **{key: str(private / name) for key, name in folders.items()}, "PYTHONPATH": path}


def _address(process: subprocess.Popen[bytes], runtime: Path, token: str, log: Path, timeout: float) -> str:
    """The server chose its port; its runtime file says which."""
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"JupyterLab ended at once:\n{log.read_text()}")
        for file in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(OSError, ValueError):
                url = str(json.loads(file.read_text())["url"])
                urllib.request.urlopen(f"{url}api?token={token}", timeout=2).close()
                return url
        time.sleep(0.05)
    raise TimeoutError(f"JupyterLab did not answer within {timeout} s:\n{log.read_text()}")


@dataclass
class Watch:
    """What a page did: errors, requests that left this machine, messages to and from the kernel."""

    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list, repr=False)

    def attach(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.errors.append(f"{error.message}\n{error.stack or ''}"))
        page.on("request", lambda request: self._note(request.url))
        page.on("websocket", self._listen)

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
class Notebook:
    """One notebook, open in one page."""

    page: Page
    watch: Watch

    @classmethod
    def open(cls, page: Page, server: Server, name: str) -> Notebook:
        notebook = cls(page, Watch())
        notebook.watch.attach(page)
        page.goto(f"{server.url}lab/tree/{name}?token={server.token}&reset")
        notebook.wait_ready()
        return notebook

    def wait_ready(self) -> None:
        """Wait for the application, the notebook and an idle kernel (after opening and after a reload)."""
        # Waiting in the page, not here: JupyterLab may load itself once more to reset its workspace.
        self.page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)", timeout=60_000)
        self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook").wait_for(timeout=60_000)
        self.page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'",
            timeout=60_000,
        )

    def run_all(self, timeout: float = 120.0) -> None:
        """Run every cell, as if for the first time, and wait; fails with what a cell raised."""
        self._panel("void window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        self._panel("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.wait_for_function(_ALL_RUN, timeout=timeout * 1000)
        errors = self.page.evaluate(_ERRORS)
        assert not errors, f"cells failed: {errors}"

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
        self._panel("panel.content.activeCellIndex = 0; panel.content.mode = 'command'")

    @property
    def active_cell(self) -> int:
        return int(self._panel("return panel.content.activeCellIndex"))

    def theme(self, name: str) -> None:
        """`Light` or `Dark`."""
        change = "window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab %s' })"
        self._panel("return " + change % name)
        light = "true" if name == "Light" else "false"
        self.page.locator(f"body[data-jp-theme-light='{light}']").wait_for(state="attached")

    def cell(self, number: int) -> Locator:
        """A cell with its output."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell").nth(number)

    def _panel(self, script: str) -> Any:
        """Run JavaScript that may use `panel`, the notebook on top."""
        return self.page.evaluate(
            f"() => {{ const panel = window.jupyterapp.shell.currentWidget; {script}; }}"
        )


_CODE_CELLS = """
  const panel = window.jupyterapp.shell.currentWidget;
  const code = panel.content.widgets.map(cell => cell.model)
    .filter(cell => cell.type === 'code' && cell.sharedModel.getSource().trim());
  const errors = code.flatMap((cell, i) => cell.outputs.toJSON()
    .filter(output => output.output_type === 'error')
    .map(output => `cell ${i}: ${output.ename}: ${output.evalue}`));
"""

_ERRORS = f"() => {{ {_CODE_CELLS} return errors; }}"

_ALL_RUN = f"""() => {{
  {_CODE_CELLS}
  return panel.sessionContext.session.kernel.status === 'idle'
    && (errors.length || code.every(c => c.executionCount !== null && c.executionState !== 'running'));
}}"""

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
