"""The whole course as a static site: lessons, glossary, claims' verdicts, the library's names, and a search.

All pages share one copy of the scripts and styles and ask nothing of any other host. The lessons are run on
the machine that makes the site, so what they show as measured was measured there; they say so themselves.
Verdicts are measured there too, or taken from an earlier run, and the page says when and where.
Browsers load shared scripts over http only: to read the site at home, `python -m http.server -d FOLDER`.
"""

from __future__ import annotations

import argparse
import html
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pagedlab import claims_command, export, site_api, site_lite
from pagedlab.arguments import UsageError
from pagedlab.lab import shipped_lessons

HELP = "every lesson, the glossary, the claims' verdicts and the API as a static site with a search"
GLOSSARY = "glossary.md"
_PLACES = {"index": "pagedlab", "glossary": "Glossary", "claims": "Claims", "api": "API"}


class _Site:
    """The pages so far, and what a search finds on them."""

    def __init__(self, assets: export.Assets) -> None:
        self.assets = assets
        self.pages: dict[str, str] = {}
        self.index: list[tuple[str, str, str, str]] = []
        """Kind, title, text and address of each thing that can be found."""

    def add(self, name: str, page: str) -> None:
        """Take in a page; its links to the glossary's file lead to the glossary's page."""
        self.pages[name] = page.replace(f'href="{GLOSSARY}', 'href="glossary.html')

    def add_text(self, name: str, title: str, body: str, style: str = "") -> None:
        """Make a page of HTML that is ours."""
        self.add(name, export.document(title, body, self.assets, style=style))

    def find_sections(self, kind: str, name: str, body: str, title: str = "") -> None:
        """Have what stands below each heading found; `title` is what all of the page belongs to."""
        parts = re.split(r'<h\d id="([^"]+)">(.*?)</h\d>', body, flags=re.DOTALL)
        for anchor, heading, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            names = dict.fromkeys(filter(None, [title, _plain(heading)]))
            self.index.append((kind, " · ".join(names), _plain(text), f"{name}.html#{anchor}"))

    def write(self, folder: Path) -> dict[str, int]:
        """Put every page into the folder, each with the way around: bytes by the page's file."""
        style, script = self.assets.style(export.own("site.css")), self.assets.script(export.own("search.js"))
        _, index = self.assets.add(f"export default {json.dumps(self.index, separators=(',', ':'))};", ".js")
        search = export.own("search.html").replace("<!--index-->", index)
        places = {f'href="{place}.html"': title for place, title in _PLACES.items() if place in self.pages}
        links = "".join(f"<a {place}>{title}</a>" for place, title in places.items())
        around = f'{style}<nav aria-label="Site">{links}{search}</nav>{script}'
        written = {}
        for name, page in self.pages.items():
            here = f'href="{name}.html"'
            text = page.replace("<!--site-->", around.replace(here, f'{here} aria-current="page"'))
            (folder / f"{name}.html").write_text(text, encoding="utf-8")
            written[f"{name}.html"] = len(text.encode())
        return written


def make(
    folder: Path, lessons: list[Path], verdicts: Mapping[str, Any] | None, lite: bool = False
) -> dict[str, int]:
    """Write the site into `folder`: bytes of each page by its name.

    `verdicts` is what `claims_command.run` returned, here or elsewhere; without it there is no page of them.
    With `lite` the start page leads to the lessons that can be run there, which `site_lite` writes.
    Raises ExportError for a lesson that does not run, OSError where nothing can be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    site = _Site(export.Assets(folder / "assets"))
    start = export.markdown(_start(lessons, bool(verdicts), lite))
    site.add_text("index", "pagedlab", f'<div class="text">{start}</div>')
    for lesson in lessons:
        page = export.page(lesson, site.assets)
        site.add(lesson.stem, page.html)
        texts = re.findall(r'<section class="text">(.*?)</section>', page.html, re.DOTALL)
        site.find_sections("lesson", lesson.stem, "".join(texts), _title(lesson))
    glossary = export.markdown((shipped_lessons() / GLOSSARY).read_text(encoding="utf-8"))
    glossary = re.sub(r'(<h\d id=")([^"]+)', _anchor, glossary)
    site.add_text("glossary", "Glossary", f'<div class="text">{glossary}</div>')
    site.find_sections("word", "glossary", glossary)
    if verdicts:
        _add_claims(site, verdicts)
    api = site_api.read()
    for name, body in api.bodies.items():
        site.add_text(name, name, body)
    for name, file in api.sources.items():
        code = export.highlighted(file.read_text(encoding="utf-8"), lineanchors="line", linenos="inline")
        site.add_text(f"source.{name}", name, f"<h1>{name}</h1>{code}")
    site.index += [("API", name, text, address) for (name, text), address in api.found.items()]
    return site.write(folder)


def _first(lesson: Path) -> str:
    return "".join(json.loads(lesson.read_text(encoding="utf-8"))["cells"][0]["source"])


def _title(lesson: Path) -> str:
    return _first(lesson).splitlines()[0].removeprefix("# ")


def _start(lessons: list[Path], claims: bool, lite: bool) -> str:
    """The start page: each lesson by its title with the question that it answers."""
    lines = ["# pagedlab", "A textbook chapter on the limits of PagedAttention that you can run.", ""]
    lines += ["These are its lessons as they ran on the machine that made this site: pictures move,"]
    lines += ["guesses are taken, and no kernel is needed.", ""]
    for lesson in lessons:
        question = re.search(r"\*\*Question\.\*\* (.+?)(?:\n\n|$)", _first(lesson), re.DOTALL)
        lines += [f"## [{_title(lesson)}]({lesson.name})", "", question[1] if question else "", ""]
        if lite and (address := site_lite.address(lesson)):
            lines += [f"[Run it here, in this browser: nothing to install]({address})", ""]
    lines += ["## More", "", f"- [Glossary]({GLOSSARY}): the words of the lessons"]
    if claims:
        lines.append("- [The chapter's claims](claims.html): each with its verdict from one machine")
    lines.append("- [The library](api.html): every public name, with its source")
    return "\n".join(lines)


def _anchor(heading: re.Match[str]) -> str:
    """A heading's name as the lessons' links have it."""
    return f"{heading[1]}{heading[2].lower().replace(',', '')}"


def _plain(markup: str) -> str:
    """What a reader sees of HTML, in one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())


def _add_claims(site: _Site, record: Mapping[str, Any]) -> None:
    from pagedlab.claims import Verdict, drawing, get, page

    verdicts = [Verdict.from_dict(row) for row in record["verdicts"]]
    note = page.summary(verdicts, record["machine"]["device"], record["seconds"])
    ended = datetime.fromisoformat(record["date"]).astimezone(UTC)
    note += f" Measured {'quickly' if record['quick'] else 'in full'}, until {ended:%Y-%m-%d %H:%M} UTC."
    site.add_text("claims", "The chapter on trial", page.body(verdicts, note), page.STYLE + drawing.STYLE)
    for verdict in verdicts:
        text = f"{verdict.claim}: {verdict.outcome.value}: {'; '.join(verdict.conditions)}"
        site.index.append(("claim", get(verdict.claim).says, text, f"claims.html#{verdict.claim}"))


def _verdicts(file: Path) -> dict[str, Any]:
    """An earlier run's verdicts from its file."""
    from pagedlab import claims

    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        for row in record["verdicts"]:
            claims.get(claims.Verdict.from_dict(row).claim)
        datetime.fromisoformat(record["date"])
        return {"machine": {"device": record["machine"]["device"]}} | {
            key: record[key] for key in ("date", "quick", "seconds", "verdicts")
        }
    except (ValueError, KeyError, TypeError) as error:
        what = f"--verdicts {file}: not what `pagedlab claims --json` prints"
        raise UsageError(f"{what}: {type(error).__name__}: {error}") from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to")
    parser.add_argument(
        "lessons", nargs="*", metavar="LESSON", help="how their names begin: 01 (default: all)"
    )
    text = (
        "lessons to be run in the browser, from the pieces of JupyterLite in there; `make site` fetches them"
    )
    parser.add_argument("--lite", type=Path, metavar="PARTS", help=text)
    verdicts = parser.add_mutually_exclusive_group()
    text = "what `pagedlab claims --json` printed, here or elsewhere (default: put them to the test now)"
    verdicts.add_argument("--verdicts", type=Path, metavar="FILE", help=text)
    verdicts.add_argument("--no-claims", action="store_true", help="leave the claims' verdicts out")


def command(args: argparse.Namespace) -> int:
    from pagedlab import claims

    chosen = [export.find(lesson) for lesson in args.lessons]
    chosen = chosen or sorted(shipped_lessons().glob("*.ipynb"))
    verdicts = _verdicts(args.verdicts) if args.verdicts else None
    args.folder.mkdir(parents=True, exist_ok=True)  # before the claims take their minutes
    if args.lite:  # first, because it takes least and most can be missing
        site_lite.build(args.folder, args.lite)
    if not (verdicts or args.no_claims):
        verdicts = claims_command.run([claim.id for claim in claims.all()], quick=True)
    written = make(args.folder, chosen, verdicts, bool(args.lite))
    total = sum(file.stat().st_size for file in args.folder.rglob("*") if file.is_file())
    found: dict[str, Any] = {"folder": str(args.folder), "pages": written, "bytes": total}
    print(
        json.dumps(found, indent=2) if args.json else f"{args.folder}: {len(written)} pages, {total:,} bytes"
    )
    return 0
