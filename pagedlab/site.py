"""Every lesson as a page of one static site, with a start page, the glossary and the claims' verdicts.

All pages share one copy of the scripts and styles and ask nothing of any other host. The lessons are run on
the machine that makes the site, so what they show as measured was measured there; they say so themselves.
Browsers load shared scripts over http only: to read the site at home, `python -m http.server -d FOLDER`.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from pagedlab import claims_command, export
from pagedlab.lab import shipped_lessons

HELP = "every lesson, the glossary and the claims' verdicts as a static site"
GLOSSARY = "glossary.md"


def make(folder: Path, lessons: list[Path], *, report: bool) -> dict[str, int]:
    """Write the site into `folder`, with the claims' verdicts where `report`: bytes of each page by its name.

    Raises ExportError for a lesson that does not run, OSError where nothing can be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    assets = export.Assets(folder / "assets")
    written = {}

    def write(name: str, text: str) -> None:
        (folder / name).write_text(text, encoding="utf-8")
        written[name] = len(text.encode())

    for lesson in lessons:
        write(f"{lesson.stem}.html", _linked(export.page(lesson, assets).html))
    glossary = _prose((shipped_lessons() / GLOSSARY).read_text(encoding="utf-8"), "glossary", assets)
    write("glossary.html", re.sub(r'(<h\d id=")([^"]+)', _anchor, glossary))
    write("index.html", _prose(_start(lessons, report), "index", assets))
    if report:
        write("claims.html", _claims())
    return written


def _start(lessons: list[Path], report: bool) -> str:
    """The start page: each lesson by its title with the question that it answers."""
    lines = ["# pagedlab", "A textbook chapter on the limits of PagedAttention that you can run.", ""]
    for lesson in lessons:
        first = "".join(json.loads(lesson.read_text(encoding="utf-8"))["cells"][0]["source"])
        question = re.search(r"\*\*Question\.\*\* (.+?)(?:\n\n|$)", first, re.DOTALL)
        lines += [f"## [{first.splitlines()[0].removeprefix('# ')}]({lesson.name})", ""]
        lines += [question[1] if question else "", ""]
    lines += ["## More", "", f"- [Glossary]({GLOSSARY}): the words of the lessons"]
    if report:
        lines.append("- [The chapter's claims](claims.html): each with its verdict from one machine")
    return "\n".join(lines)


def _prose(text: str, name: str, assets: export.Assets) -> str:
    """Markdown as a page like the lessons': a notebook of one cell."""
    cell = {"id": name, "cell_type": "markdown", "metadata": {}, "source": text}
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    with tempfile.TemporaryDirectory(prefix="pagedlab-site-") as place:
        notebook = Path(place) / f"{name}.ipynb"
        notebook.write_text(json.dumps(book), encoding="utf-8")
        return _linked(export.page(notebook, assets).html)


def _linked(page: str) -> str:
    return page.replace(f'href="{GLOSSARY}', 'href="glossary.html')


def _anchor(heading: re.Match[str]) -> str:
    """A heading's name as the lessons' links have it."""
    return f"{heading[1]}{heading[2].lower().replace(',', '')}"


def _claims() -> str:
    """The report on every claim, run quickly here and now."""
    from pagedlab import claims, machine
    from pagedlab.claims import Verdict, page

    start = time.monotonic()
    rows = [claims_command.measure(claim.id, quick=True) for claim in claims.all()]
    verdicts = [Verdict.from_dict(row) for row in rows]
    return page.page(verdicts, page.summary(verdicts, machine.describe().device, time.monotonic() - start))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to")
    parser.add_argument(
        "lessons", nargs="*", metavar="LESSON", help="how their names begin: 01 (default: all)"
    )
    parser.add_argument("--no-claims", action="store_true", help="leave the claims' verdicts out")


def command(args: argparse.Namespace) -> int:
    chosen = [export.find(lesson) for lesson in args.lessons]
    chosen = chosen or sorted(shipped_lessons().glob("*.ipynb"))
    written = make(args.folder, chosen, report=not args.no_claims)
    total = sum(file.stat().st_size for file in args.folder.rglob("*") if file.is_file())
    found: dict[str, Any] = {"folder": str(args.folder), "pages": written, "bytes": total}
    print(
        json.dumps(found, indent=2) if args.json else f"{args.folder}: {len(written)} pages, {total:,} bytes"
    )
    return 0
