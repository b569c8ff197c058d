"""One HTML page from a lesson: it plays, scrubs, steps and takes guesses with the network off and no kernel.

The lesson is run once, in a folder of its own, and what its cells showed is written down: text as text, HTML
with nothing in it that could run (`safe_html`), widgets with the state that they had. `data/page/host.js`
then stands in for the kernel. Widgets that live in the page go on working; ipywidgets controls, which ask
the kernel, are shown as they stood and say so.

Several pages may share their scripts and styles: `Assets` with a folder writes each of them once.
"""

from __future__ import annotations

import argparse
import hashlib
import html
import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from pagedlab import _format
from pagedlab.arguments import writable
from pagedlab.lab import LabError, shipped_lessons
from pagedlab.safe_html import cleaned, code_style, inside, json_inside, picture, preformatted
from pagedlab.safe_html import highlighted as highlighted
from pagedlab.safe_html import markdown as markdown

HELP = "one HTML file from a lesson, to be read with the network off and no kernel"
TIMEOUT_S = 600
VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
PLOT = "application/vnd.plotly.v1+json"
# What is measured in the background belongs into the page: wait for it, as a reader would.
_SETTLE = """
import sys as _sys, time as _time
_until = _time.monotonic() + 120
def _works(widget):
    text = getattr(widget, "text" if type(widget).__name__ == "Activity" else "status", "")
    return isinstance(text, str) and bool(text)
while "ipywidgets" in _sys.modules and _time.monotonic() < _until and any(
    map(_works, list(_sys.modules["ipywidgets.widgets.widget"]._instances.values()))
):
    _time.sleep(0.1)
"""


class ExportError(LabError):
    """The lesson cannot be made into a page; the message says why."""


@dataclass
class Assets:
    """Where scripts and styles go: into each page, or, with a `folder`, each once into that folder.

    `url` is the folder's address as the pages have it.
    """

    folder: Path | None = None
    url: str = "assets"
    inside: dict[str, str] = field(default_factory=dict, repr=False)

    def add(self, text: str, suffix: str) -> tuple[str, str]:
        """Take in a file: its name, and its address, "" inside the page."""
        name = f"{hashlib.sha256(text.encode()).hexdigest()[:16]}{suffix}"
        if self.folder is None:
            self.inside[name] = text
            return name, ""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / name).exists():
            (self.folder / name).write_text(text, encoding="utf-8")
        return name, f"{self.url}/{name}"

    def style(self, text: str) -> str:
        """The tag of a style sheet."""
        _, url = self.add(text, ".css")
        link = f'<link rel="stylesheet" href="{html.escape(url)}">'
        return link if url else f"<style>{inside(text)}</style>"

    def script(self, text: str, kind: str = "module") -> str:
        """The tag of a script."""
        _, url = self.add(text, ".js")
        address = f' src="{html.escape(url)}"' if url else ""
        return f'<script type="{kind}"{address}>{"" if url else inside(text)}</script>'


@dataclass(frozen=True)
class Page:
    """A page, and what is in it."""

    lesson: str
    html: str
    widgets: int
    seconds: float

    @property
    def bytes(self) -> int:
        return len(self.html.encode())


def find(lesson: str) -> Path:
    """The notebook of that path, or the shipped lesson whose name begins so ("01"). Raises ExportError."""
    if Path(lesson).suffix == ".ipynb":
        if not Path(lesson).is_file():
            raise ExportError(f"no notebook at {lesson}")
        return Path(lesson)
    shipped = sorted(shipped_lessons().glob("*.ipynb"))
    found = [path for path in shipped if path.stem.startswith(lesson)]
    if len(found) != 1:
        names = ", ".join(path.stem for path in shipped)
        raise ExportError(f"{len(found) or 'no'} lessons begin with {lesson!r}; there are {names}")
    return found[0]


def page(notebook: Path, assets: Assets | None = None, *, timeout: float = TIMEOUT_S) -> Page:
    """Run a notebook and make a page of it; a cell may take `timeout` seconds.

    Raises ExportError for a notebook that cannot be read or run.
    """
    assets = assets or Assets()
    start = time.monotonic()
    done = _run(notebook, timeout)
    state = done.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    shown = _Shown(assets, state)
    body = "\n".join(shown.cell(cell) for cell in done.cells)
    text = document(shown.title or notebook.stem, body, assets, own("note.html"), shown)
    return Page(notebook.stem, text, len(shown.models()), time.monotonic() - start)


def document(
    title: str, body: str, assets: Assets, note: str = "", shown: _Shown | None = None, style: str = ""
) -> str:
    """A page around `body`, which is HTML, as is `note` above it; `shown` is what the body needs of widgets.

    In the header stands `<!--site-->`, for a site's way around.
    """
    shown = shown or _Shown(assets, {})
    models = shown.models()
    styles = (own("page.css"), code_style(), *shown.styles, *filter(None, [style]))
    parts = {
        "title": html.escape(title),
        "style": "\n".join(map(assets.style, styles)),
        "note": note,
        "body": body,
        "data": json_inside({"models": models, "modules": shown.modules}),
        "modules": "\n".join(
            f'<script type="application/json" id="{name}">{json_inside(text)}</script>'
            for name, text in assets.inside.items()
            if name in shown.modules
        ),
        "host": "\n".join(shown.plotly() + [assets.script(own("host.js"))]),
    }
    text = own("page.html")
    for name, value in parts.items():
        text = text.replace(f"<!--{name}-->", value)
    return text


def own(name: str) -> str:
    """A file that the pages are made of."""
    return (files("pagedlab") / "data" / "page" / name).read_text(encoding="utf-8")


def _run(notebook: Path, timeout: float) -> Any:
    """The notebook with its outputs; its own file and its folder stay as they are."""
    try:
        import nbclient
        import nbformat
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    except ImportError as error:
        raise ExportError(f"a lesson runs in Jupyter, which is not installed: {error}") from error
    try:
        content: Any = nbformat.read(notebook, as_version=4)
    except Exception as error:  # nbformat raises whatever it stumbles over in JSON of another form
        raise ExportError(f"{notebook} is no notebook: {error}") from error
    content.cells.append(nbformat.v4.new_code_cell(_SETTLE))
    with tempfile.TemporaryDirectory(prefix="pagedlab-export-") as folder:
        for beside in notebook.parent.glob("*.csv"):
            shutil.copy(beside, folder)
        quiet, there = ["--log-level=ERROR"], {"metadata": {"path": folder}}  # no word of how it talks to us
        client = nbclient.NotebookClient(
            content, timeout=timeout, kernel_name="python3", extra_arguments=quiet, resources=there
        )
        try:
            client.execute()
        except CellExecutionError as error:
            raise ExportError(f"{notebook.name}: a cell failed: {error.ename}: {error.evalue}") from error
        except (TimeoutError, CellTimeoutError, DeadKernelError) as error:
            raise ExportError(f"{notebook.name}: {str(error) or 'a cell took too long'}") from error
    content.cells.pop()
    return content


class _Shown:
    """What cells show, as HTML, and what of the widgets' state that takes."""

    def __init__(self, assets: Assets, state: Mapping[str, Any]) -> None:
        self.title = ""
        self.styles: dict[str, None] = {}
        self.modules: dict[str, str] = {}
        self._assets, self._state = assets, state
        self._wanted: set[str] = set()
        self._plots = 0

    def cell(self, cell: Any) -> str:
        if cell.cell_type == "markdown":
            if not self.title and cell.source.startswith("# "):
                self.title = cell.source.splitlines()[0][2:].strip()
            return f'<section class="text">{markdown(cell.source)}</section>'
        if cell.cell_type != "code" or not cell.source.strip():
            return ""
        outputs = "".join(self._output(output) for output in cell.outputs)
        code = f"<details open><summary>Code</summary>{highlighted(cell.source)}</details>"
        return f'<section class="cell">{code}<div class="outputs">{outputs}</div></section>'

    def models(self) -> dict[str, Any]:
        """The state of every widget shown, of all that they hold, and of those that only name others."""
        links, models = ("LinkModel", "DirectionalLinkModel"), dict[str, Any]()
        waiting = [id for id in self._state if id in self._wanted or self._state[id]["model_name"] in links]
        while waiting:
            id = waiting.pop()
            if id not in models:
                text = json.dumps(self._state[id]["state"])
                waiting += [other for other in self._state if f'"IPY_MODEL_{other}"' in text]
                models[id] = self._model(self._state[id])
        return models

    def plotly(self) -> list[str]:
        """The script that draws plotly's figures, if there are any."""
        if not self._plots:
            return []
        from plotly.offline import get_plotlyjs

        return [self._assets.script(get_plotlyjs(), "text/javascript")]

    def _model(self, model: Mapping[str, Any]) -> dict[str, Any]:
        state = dict(model["state"])
        module, style = state.pop("_esm", None), state.pop("_css", None)
        if isinstance(module, str):
            state["_module"], url = self._assets.add(module, ".js")
            self.modules[state["_module"]] = url
        if isinstance(style, str):
            self.styles[style] = None
        if "HTML" in model["model_name"]:
            state["value"] = cleaned(state.get("value", ""))
        kept = {"name": model["model_name"], "state": state}
        return {**kept, "buffers": model["buffers"]} if model.get("buffers") else kept

    def _output(self, output: Any) -> str:
        if output.output_type == "stream":
            return preformatted(output.text)
        data = output.get("data", {})
        if VIEW in data:
            self._wanted.add(data[VIEW]["model_id"])
            return f'<div class="widget" data-model="{html.escape(data[VIEW]["model_id"])}"></div>'
        if PLOT in data:
            self._plots += 1
            figure = html.escape(json.dumps(data[PLOT], separators=(",", ":")))
            return f'<div class="plot" role="img" data-figure="{figure}"></div>'
        if "text/markdown" in data:
            return f'<div class="text">{markdown(data["text/markdown"])}</div>'
        if "text/html" in data:
            return f'<div class="text">{cleaned(data["text/html"])}</div>'
        for kind in ("image/svg+xml", "image/png", "image/jpeg"):
            if kind in data:
                return picture(kind, data[kind], data.get("text/plain", ""))
        return preformatted(data.get("text/plain", ""))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a notebook's path, or how a lesson's name begins: 01"
    parser.add_argument("lesson", metavar="LESSON", help=text)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to (default: LESSON.html)")
    text = "put scripts and styles there, once for all pages, instead of into the page"
    parser.add_argument("--assets", type=Path, metavar="FOLDER", help=text)


def command(args: argparse.Namespace) -> int:
    notebook = find(args.lesson)
    target = args.output or Path(f"{notebook.stem}.html")
    writable("--output", target)
    if args.assets:
        args.assets.mkdir(parents=True, exist_ok=True)
    assets = Assets(args.assets, args.assets.name) if args.assets else Assets()
    made = page(notebook, assets)
    target.write_text(made.html, encoding="utf-8")
    record = {"file": str(target), "bytes": made.bytes, "widgets": made.widgets, "seconds": made.seconds}
    told = f"{target}: {_format.size(made.bytes)}, {made.widgets} widgets, made in "
    print(json.dumps(record, indent=2) if args.json else told + _format.seconds(made.seconds))
    return 0
