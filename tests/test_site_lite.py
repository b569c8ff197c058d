"""The lessons for a browser run where there is no torch, no kernel and no thread; and what is published of
Pyodide is what its list says, or nothing is.

The browser itself is driven by `release/run_site.py`, which needs pieces that `make site` fetches.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from pathlib import Path

import pytest

from pagedlab import site_lite
from pagedlab.export import ExportError
from pagedlab.lab import shipped_lessons

LESSONS = [path for path in sorted(shipped_lessons().glob("*.ipynb")) if site_lite.address(path)]
LIKE_A_BROWSER = """
import json, sys, threading, time
import ipywidgets, IPython, multiprocessing.connection, subprocess, tqdm
from importlib.machinery import PathFinder
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in {"torch", "triton", "numba", "plotly", "pandas", "cloudpickle"}:
            return super().find_spec(name, path, target)
def no_thread(self):
    raise RuntimeError("can't start new thread")
sys.meta_path[sys.meta_path.index(PathFinder)] = Without
threading.Thread.start = no_thread
sys.platform = "emscripten"
vars(time).pop("thread_time_ns", None)
time.process_time = lambda: 0.0
names = {"display": IPython.display.display}
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        exec("".join(cell["source"]), names)
print("ran whole")
"""


def test_the_lessons_that_a_browser_runs_are_there() -> None:
    assert len(LESSONS) == len(site_lite.LESSONS) == 5
    assert site_lite.address(Path("05-one-look-up-too-many.ipynb")) is None


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_for_the_browser_runs_where_it_would(lesson: Path, run_python) -> None:
    for needed in ("ipywidgets", "anywidget"):
        pytest.importorskip(needed)
    ran = run_python("-c", LIKE_A_BROWSER, str(lesson))
    assert ran.stdout.endswith("ran whole\n"), ran.stderr[-2000:]


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """Pieces of the right names: Pyodide with one package, whose file lies inside an archive."""
    runtime, wheels = tmp_path / "node/node_modules/pyodide", tmp_path / "wheels"
    for folder in (runtime, wheels, tmp_path / "bin"):
        folder.mkdir(parents=True)
    for name in site_lite.RUNTIME:
        (runtime / name).write_bytes(b"x")
    entry = {"file_name": "numpy-2.whl", "sha256": hashlib.sha256(b"numpy").hexdigest(), "depends": []}
    released = dict.fromkeys(site_lite.RELEASED, entry)
    (runtime / "pyodide-lock.json").write_text(json.dumps({"info": {}, "packages": released}))
    with zipfile.ZipFile(wheels / "carries-1-py3-none-any.whl", "w") as archive:
        archive.writestr("carries/numpy-2.whl", "numpy")
    for name in ("pagedlab", *site_lite.IMPORTED):
        with zipfile.ZipFile(wheels / f"{name}-1-py3-none-any.whl", "w") as archive:
            archive.writestr(f"{name}/__init__.py", "")
    return tmp_path


def test_the_list_names_what_lies_beside_it_and_nothing_else(parts: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pyodide"
    site_lite.publish_pyodide(folder, parts)
    packages = json.loads((folder / "pyodide-lock.json").read_text())["packages"]
    for entry in packages.values():
        assert hashlib.sha256((folder / entry["file_name"]).read_bytes()).hexdigest() == entry["sha256"]
    assert packages["pagedlab"]["imports"] == ["pagedlab"]
    assert set(packages["pagedlab"]["depends"]) < set(packages)
    listed = {entry["file_name"] for entry in packages.values()}
    assert listed | {*site_lite.RUNTIME, "pyodide-lock.json"} == {path.name for path in folder.iterdir()}


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for JupyterLite")
def test_folders_may_be_given_from_here(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (parts / "bin/jupyter-lite").write_text('#!/bin/sh\nmkdir -p "$5" && touch "$5/made"\n')
    (parts / "bin/jupyter-lite").chmod(0o755)
    monkeypatch.chdir(parts)
    site_lite.build(Path("site"), Path())
    assert (parts / "site" / site_lite.FOLDER / "made").is_file()


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("node/node_modules/pyodide", "pyodide: `make site` fetches it"),
        ("wheels/carries-1-py3-none-any.whl", "no numpy-2.whl of Pyodide's release"),
        ("wheels/psygnal-1-py3-none-any.whl", "no wheels of psygnal"),
        ("bin/jupyter-lite", "jupyter-lite: `make site` fetches it"),
    ],
)
def test_a_missing_piece_is_named(parts: Path, tmp_path: Path, missing: str, says: str) -> None:
    if (parts / missing).exists():
        (parts / missing).rename(parts / "away")
    with pytest.raises(ExportError, match=says):
        site_lite.build(tmp_path / "site", parts)


def test_a_file_that_is_not_what_the_list_says_is_refused(parts: Path, tmp_path: Path) -> None:
    (parts / "wheels/carries-1-py3-none-any.whl").unlink()
    (parts / "wheels/numpy-2.whl").write_bytes(b"another numpy")
    with pytest.raises(ExportError, match="sha256"):
        site_lite.publish_pyodide(tmp_path / "pyodide", parts)
