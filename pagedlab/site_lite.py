"""The lessons that need no torch, to be run in a browser: JupyterLite, served from the site and nothing else.

Its pieces lie in one folder, which `make site` fills:

    bin/jupyter-lite            JupyterLite, in an environment of its own
    node/node_modules/pyodide   Python for browsers, with the list of its packages and their hashes
    wheels/                     pagedlab and what it imports; and, as files or inside an archive, those
                                packages of Pyodide's own release that it needs (numpy has no other build)

What is published is Pyodide with a list of packages cut down to what lies beside it, each with its hash: a
cell that imports pagedlab loads it from there. Nothing is ever asked of another host.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pagedlab.export import ExportError
from pagedlab.lab import shipped_lessons

LESSONS = ("01", "02", "03", "04", "08")
"""Where the memory goes, the allocator, sharing, the size of a token, the size of a block."""
FOLDER = "lite"
RUNTIME = ("pyodide.js", "pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip")
_LIST = "pyodide-lock.json"
RELEASED = ("micropip", "ssl", "sqlite3", "ipython", "jedi", "numpy")
"""Of Pyodide's release: what JupyterLite's kernel starts with, and numpy."""
IMPORTED = ("anywidget", "comm", "ipywidgets", "psygnal", "tqdm", "typing_extensions")
_KERNEL = "@jupyterlite/pyodide-kernel-extension:kernel"


def address(lesson: Path) -> str | None:
    """Where on the site that lesson can be run, or None for one that cannot."""
    name = lesson.name.replace(".", "%2E")  # no link to a page of the lesson
    return f"{FOLDER}/lab/index.html?path={name}" if lesson.name.startswith(LESSONS) else None


def build(site: Path, parts: Path) -> None:
    """Write JupyterLite into `site`/lite from the pieces in `parts`.

    Raises ExportError that names the first piece that is missing or is not what its hash says.
    """
    target, parts = (site / FOLDER).resolve(), parts.resolve()  # JupyterLite works in a folder of its own
    with tempfile.TemporaryDirectory(prefix="pagedlab-lite-") as place:
        source = Path(place)
        _lessons(source / "files")
        publish_pyodide(source / "static" / "pyodide", parts)
        (source / "jupyter-lite.json").write_text(json.dumps(_settings()), encoding="utf-8")
        command = [_part(parts, "bin/jupyter-lite"), "build", "--lite-dir", source, "--output-dir", target]
        command += ["--contents", source / "files", "--apps", "lab", "--no-sourcemaps", "--no-libarchive"]
        ran = subprocess.run([*map(str, command)], cwd=source, capture_output=True, text=True, check=False)
        if ran.returncode:
            last = (ran.stderr or ran.stdout).strip().splitlines()[-1:]
            raise ExportError(f"jupyter lite build ended with {ran.returncode}: {' '.join(last)}")


def _lessons(folder: Path) -> None:
    """The lessons as they are handed out, for the one kernel that is there."""
    folder.mkdir()
    for path in shipped_lessons().glob("*.ipynb"):
        if address(path):
            book = json.loads(path.read_text(encoding="utf-8"))
            book["metadata"]["kernelspec"] = {"name": "python", "display_name": "Python (Pyodide)"}
            (folder / path.name).write_text(json.dumps(book), encoding="utf-8")
    shutil.copy(shipped_lessons() / "glossary.md", folder)


def _settings() -> dict[str, Any]:
    kernel = {"disablePyPIFallback": True, "loadPyodideOptions": {"packages": ["micropip"]}}
    return {
        "jupyter-lite-schema-version": 0,
        "jupyter-config-data": {"appName": "pagedlab", "litePluginSettings": {_KERNEL: kernel}},
    }


def publish_pyodide(folder: Path, parts: Path) -> None:
    """Pyodide's runtime, the packages it needs here, and the list of just these."""
    folder.mkdir(parents=True)
    runtime = _part(parts, "node/node_modules/pyodide")
    for name in RUNTIME:
        shutil.copy(_part(runtime, name), folder)
    released = json.loads(_part(runtime, _LIST).read_text(encoding="utf-8"))
    packages: dict[str, Any] = {}
    waiting = list(RELEASED)
    while waiting:
        name = _key(waiting.pop())
        if name not in packages:
            entry = packages[name] = released["packages"][name]
            waiting += entry["depends"]
            (folder / entry["file_name"]).write_bytes(_released(entry, parts))
    for name in IMPORTED:
        packages[_key(name)] = _own(name, [], folder, parts)
    packages["pagedlab"] = _own("pagedlab", ["numpy", *map(_key, IMPORTED)], folder, parts)
    listed = {"info": released["info"], "packages": packages}
    (folder / _LIST).write_text(json.dumps(listed), encoding="utf-8")


def _key(name: str) -> str:
    """A package's name as the list has it."""
    return name.replace("_", "-").lower()


def _own(name: str, depends: list[str], folder: Path, parts: Path) -> dict[str, Any]:
    """Publish the wheel of that name: its entry in the list."""
    found = sorted(_part(parts, "wheels").glob(f"{name}-*-none-any.whl"))
    if len(found) != 1:
        raise ExportError(
            f"{len(found) or 'no'} wheels of {name} in {parts / 'wheels'}; `make site` brings one"
        )
    wheel = found[0]
    shutil.copy(wheel, folder)
    with zipfile.ZipFile(wheel) as archive:
        tops = {entry.split("/")[0].removesuffix(".py") for entry in archive.namelist()}
    return {
        "name": _key(name),
        "version": wheel.name.split("-")[1],
        "file_name": wheel.name,
        "install_dir": "site",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "package_type": "package",
        "imports": sorted(top for top in tops if top.isidentifier()),
        "depends": depends,
    }


def _released(entry: dict[str, Any], parts: Path) -> bytes:
    """A file of Pyodide's release: the one with the hash that Pyodide's list has for it."""
    for content in _named(entry["file_name"], _part(parts, "wheels")):
        if hashlib.sha256(content).hexdigest() == entry["sha256"]:
            return content
    wanted = f"{entry['file_name']} of Pyodide's release (sha256 {entry['sha256'][:12]})"
    raise ExportError(f"no {wanted} in {parts / 'wheels'}: put the file there")


def _named(name: str, folder: Path) -> Iterator[bytes]:
    """The contents of every file of that name, in the folder or inside an archive there."""
    if (folder / name).is_file():
        yield (folder / name).read_bytes()
    for path in filter(zipfile.is_zipfile, sorted(folder.glob("*.whl"))):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(inside) for inside in archive.namelist() if inside.endswith(f"/{name}"))


def _part(folder: Path, name: str) -> Path:
    """A piece that must be there."""
    if not (folder / name).exists():
        raise ExportError(f"JupyterLite lacks {folder / name}: `make site` fetches it with pip and npm")
    return folder / name
