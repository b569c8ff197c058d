"""A JupyterLab of its own, with notebooks open in a real browser: what `bench --ui` and the tests drive.

    with serve(folder) as server:                     # private configuration, nothing of the user's is read
        page = LabPage.open(context.new_page(), server, "lesson.ipynb")
        page.run_all()                                # fails on the first cell that fails

The browser is a Chromium of this machine, driven by Playwright; neither is a dependency of this package.
"""

from __future__ import annotations

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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pagedlab.lab import lab_arguments
from pagedlab_kernels.inside.child import environment

if TYPE_CHECKING:
    from playwright.sync_api import Page

_FOLDERS = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "IPYTHONDIR": "ipython",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
}

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
        empty: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {"kernelspec": kernel},
            "cells": [empty | {"id": f"cell-{i}", "source": source} for i, source in enumerate(cells)],
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
        *(sys.executable, "-m", "jupyterlab", *lab_arguments(root, browser=False, port=0)),
        *(f"--IdentityProvider.token={token}", "--LabApp.expose_app_in_browser=True"),
    ]
    log = private / "server.log"
    with log.open("w") as out:
        own = environment(**{key: str(private / name) for key, name in _FOLDERS.items()})
        process = subprocess.Popen(command, stdout=out, stderr=out, env=own, start_new_session=True)
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
class LabPage:
    """One notebook, open in one page."""

    page: Page

    @classmethod
    def open(cls, page: Page, server: Server, name: str) -> Self:
        opened = cls(page)
        page.goto(f"{server.url}lab/tree/{name}?token={server.token}&reset")
        opened.wait_ready()
        return opened

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
        self.on_panel("void window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        self.on_panel("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.wait_for_function(_ALL_RUN, timeout=timeout * 1000)
        errors = self.page.evaluate(_ERRORS)
        if errors:
            raise AssertionError(f"cells failed: {errors}")

    def on_panel(self, script: str) -> Any:
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
