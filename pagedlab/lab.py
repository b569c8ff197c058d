"""The learner's copy of the lessons, and JupyterLab opened on it.

The lessons that ship with the package are never run in place: a learner writes into them. They are copied to
a working folder, where `MANIFEST` remembers the hash of every file as it was handed out. That tells three
cases apart when a newer pagedlab comes along:

    learner's file      shipped file      what happens
    as handed out       any               brought up to date
    edited              as handed out     left alone
    edited              changed too       left alone; the new one is put beside it as NAME.new-HASH.ipynb

Running a notebook changes its file as well, and outputs are the learner's too. Nothing is ever written over
bytes that this module did not write itself.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pagedlab
from pagedlab import _whole

HELP = "copy the lessons to a working folder and open JupyterLab on the first"
MANIFEST = ".pagedlab-lessons.json"
FIRST_LESSON = "00-start-here.ipynb"
DEFAULT_FOLDER = "pagedlab-lessons"
WRITTEN = ("progress.json", "verdicts.jsonl", "claims.html")
"""What lessons write beside themselves: a learner's own, never handed out."""
# What JupyterLab assumes until the learner's own settings say otherwise: no question about news on the first
# start.
SETTINGS = Path(__file__).with_name("data") / "jupyter"


class LabError(Exception):
    """The lessons cannot be copied or opened; the message says why and what to do."""


@dataclass(frozen=True)
class Copied:
    """What happened to each lesson file, by path relative to `folder`; `beside` maps a kept file to the new
    one."""

    folder: str
    in_place: bool
    written: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    beside: tuple[tuple[str, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "beside": dict(self.beside)}

    def __str__(self) -> str:
        if self.in_place:
            return f"Lessons in {self.folder}: these are the originals, edited in place."
        counts = {
            "new": self.written,
            "brought up to date": self.updated,
            "unchanged": self.unchanged,
            "with your changes, left alone": self.kept,
        }
        lines = [
            f"Lessons in {self.folder}: " + ", ".join(f"{len(n)} {what}" for what, n in counts.items() if n)
        ]
        lines += [f"  {name} has your changes; the new version is {new}" for name, new in self.beside]
        return "\n".join(lines)


def shipped_lessons() -> Path:
    """The folder of the lessons that came with this package: inside a wheel's, beside a clone's library.

    Raises LabError when neither is there.
    """
    package = Path(pagedlab.__path__[0])
    for folder in (package / "_lessons", package.parent / "lessons"):
        if folder.is_dir() and any(folder.glob("*.ipynb")):
            return folder
    raise LabError(f"no lessons came with this pagedlab ({package}); install it again: pip install pagedlab")


def copy_lessons(folder: Path, source: Path | None = None) -> Copied:
    """Bring the lessons in `folder` up to date without touching a learner's edits.

    `source` is where the lessons come from, the shipped ones unless given. When `folder` is that folder
    itself nothing is copied. Raises LabError when the folder cannot be made or written; what was already
    copied stays, and calling again finishes the work.
    """
    source = source or shipped_lessons()
    try:
        folder = folder.expanduser().resolve()
        if folder == source.resolve():
            return Copied(str(folder), in_place=True)
        folder.mkdir(parents=True, exist_ok=True)
        handed_out = _read_manifest(folder)
        done: dict[str, list[Any]] = {
            field: [] for field in ("written", "updated", "unchanged", "kept", "beside")
        }
        for path in _lesson_files(source):
            name = path.relative_to(source).as_posix()
            done_as, entry = _bring(folder, name, path.read_bytes(), handed_out.get(name))
            done[done_as].append(entry)
            handed_out[name] = _hash(path.read_bytes())
        _whole.write(folder / MANIFEST, json.dumps(handed_out, indent=1, sort_keys=True).encode())
    except OSError as error:
        at = f" ({error.filename})" if error.filename and str(error.filename) != str(folder) else ""
        raise LabError(f"cannot write lessons to {folder}: {error.strerror or error}{at}") from error
    except RuntimeError as error:  # ~somebody whom nobody knows here, or a link to itself
        raise LabError(f"cannot find {folder}: {error}") from error
    return Copied(str(folder), False, **{field: tuple(names) for field, names in done.items()})


def open_lab(folder: Path, *, browser: bool = True, port: int | None = None) -> None:
    """Run JupyterLab on the first lesson in `folder` until the learner stops it.

    It listens on this machine only and asks nothing of the network: no news, no update check, no extension
    catalogue. Raises LabError when JupyterLab is not installed or finds no home to write to.
    """
    try:
        from jupyterlab.labapp import LabApp
    except ImportError as error:
        raise LabError(f"JupyterLab is not installed ({error}); pip install jupyterlab") from error
    searched = (str(SETTINGS), os.environ.get("JUPYTER_CONFIG_PATH", ""))
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, searched))
    try:
        LabApp.launch_instance(argv=lab_arguments(folder, browser=browser, port=port))
    except PermissionError as error:
        raise LabError(f"JupyterLab cannot write: {error}; set HOME to a folder of your own") from error


def lab_arguments(folder: Path, *, browser: bool = True, port: int | None = None) -> list[str]:
    """JupyterLab's command line for `open_lab`."""
    arguments = [
        f"--ServerApp.root_dir={folder}",
        f"--LabApp.default_url=/lab/tree/{FIRST_LESSON}",
        "--ServerApp.ip=127.0.0.1",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
    ]
    if not browser:
        arguments.append("--no-browser")
    if port is not None:
        arguments.append(f"--ServerApp.port={port}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # a container's only user is often root
        arguments.append("--allow-root")
    return arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(DEFAULT_FOLDER),
        metavar="FOLDER",
        help=f"working folder, your edits in it are never overwritten (default: {DEFAULT_FOLDER})",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the server's address, open nothing")
    parser.add_argument("--port", type=_port, help="port of the server (default: the first free from 8888)")
    parser.add_argument("--copy-only", action="store_true", help="copy the lessons and stop there")


def command(args: argparse.Namespace) -> int:
    copied = copy_lessons(args.folder)
    print(json.dumps(copied.to_dict(), indent=2) if args.json else copied, flush=True)
    if not args.copy_only:
        open_lab(Path(copied.folder), browser=not args.no_browser, port=args.port)
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number from 0 to 65535")
    return int(text)


def _bring(folder: Path, name: str, content: bytes, handed_out: str | None) -> tuple[str, Any]:
    """Settle one file; says which list of `Copied` it belongs to and the entry for it."""
    target = folder / name
    if not os.path.lexists(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _whole.write(target, content)
        return "written", name
    if not target.exists():
        return "kept", name  # a link of the learner's to what is away at the moment
    theirs, shipped = _hash(target.read_bytes()), _hash(content)
    if theirs == shipped:
        return "unchanged", name
    if theirs == handed_out:
        _whole.write(target, content)
        return "updated", name
    if handed_out == shipped:
        return "kept", name
    beside = target.with_name(f"{target.stem}.new-{shipped[:8]}{target.suffix}")
    if not os.path.lexists(beside):
        _whole.write(beside, content)
    return "beside", (name, beside.relative_to(folder).as_posix())


def _lesson_files(source: Path) -> list[Path]:
    def shown(path: Path) -> bool:
        parts = path.relative_to(source).parts
        return path.name not in WRITTEN and not any(part.startswith((".", "_")) for part in parts)

    return sorted(path for path in source.rglob("*") if path.is_file() and shown(path))


def _read_manifest(folder: Path) -> dict[str, str]:
    """Hashes by file name; a manifest that is gone or damaged only means that every file counts as edited."""
    try:
        read = json.loads((folder / MANIFEST).read_text())
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return {k: v for k, v in read.items() if isinstance(v, str)} if isinstance(read, dict) else {}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
