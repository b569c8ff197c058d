"""A lesson as one page: what is in it, what is not, and what is said when it cannot be made."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pagedlab import export
from pagedlab.cli import main

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")

HOSTILE = "</script><img src=x onerror=alert(1)>"
WIDGETS = f"""
from pagedlab import BlockManager
from pagedlab_widgets import BlockMap, paged_trace
import ipywidgets
m = BlockManager(4, 4)
m.allocate({HOSTILE!r}, 6)
hidden = BlockMap()
slider = ipywidgets.IntSlider(description="Blocks")
shown = BlockMap(paged_trace(m.events, label="</style>"))
ipywidgets.VBox([shown, slider, ipywidgets.HTML("<b onclick=x>bold</b>")])
"""
CELLS = [
    "# A title <b>\n\nSee [the next](02-next.ipynb) and <script>alert(1)</script>.",
    WIDGETS,
    "print('<i>', open('progress.json', 'w').write('{}'))",
    "from IPython.display import HTML\n"
    f"HTML('<style>th {{{{ top: 7px }}}}</style><table onclick=x><tr><th>{HOSTILE}</th></tr></table>')",
    "BlockMap()",
]


def write(path: Path, *cells: str) -> Path:
    make = {True: nbformat.v4.new_markdown_cell, False: nbformat.v4.new_code_cell}
    notebook = nbformat.v4.new_notebook(cells=[make[cell.startswith("#")](cell) for cell in cells])
    nbformat.write(notebook, path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lessons")


@pytest.fixture(scope="module")
def made(folder: Path) -> export.Page:
    return export.page(write(folder / "small.ipynb", *CELLS))


def data(page: str) -> dict:
    return json.loads(page.partition('id="data">')[2].partition("</script>")[0])


def test_a_page_holds_the_widgets_shown_and_each_script_once(made: export.Page) -> None:
    models = data(made.html)["models"]
    names = sorted(model["name"] for model in models.values())
    assert names.count("AnyModel") == 2, "the map that no cell shows stays out"
    assert {"VBoxModel", "IntSliderModel", "HTMLModel"} <= set(names)
    assert made.html.count("class Painter") == 1
    assert made.widgets == len(models)


def test_nothing_of_a_name_is_markup_and_nothing_fetches(made: export.Page) -> None:
    elements: list[tuple[str, list[tuple[str, str | None]]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: elements.append((tag, attributes))  # type: ignore[method-assign]
    parser.feed(made.html)
    assert "img" not in {tag for tag, _ in elements}
    assert not [name for _, attributes in elements for name, _ in attributes if name.startswith("on")]
    (markup,) = (m["state"] for m in data(made.html)["models"].values() if m["name"] == "HTMLModel")
    assert markup["value"] == "<b>bold</b>"
    assert made.html.count("</style>") == made.html.count("<style>")
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", made.html)
    assert "default-src 'none'" in made.html
    assert made.html.count("top: 7px") == 1, "in the cell's code, and not as words of its table"


def test_the_title_and_the_links_are_those_of_pages(made: export.Page) -> None:
    assert "<title>A title &lt;b&gt;</title>" in made.html
    assert 'href="02-next.html"' in made.html
    assert "<script>alert(1)" not in made.html


def test_the_folder_of_a_lesson_stays_as_it_is(made: export.Page, folder: Path) -> None:
    assert [path.name for path in folder.iterdir()] == ["small.ipynb"]
    assert not nbformat.read(folder / "small.ipynb", 4).cells[1].outputs
    assert "&lt;i&gt; 2" in made.html


def test_pages_share_their_scripts_in_a_folder(folder: Path, tmp_path: Path) -> None:
    assets = export.Assets(tmp_path / "assets", "../assets")
    notebook = write(tmp_path / "one.ipynb", CELLS[0], "from pagedlab_widgets import BlockMap\nBlockMap()")
    page = export.page(notebook, assets)
    before = sorted(path.name for path in assets.folder.iterdir())
    assert len(page.html) < 10_000
    for name in re.findall(r'"\.\./assets/([^"]+)"', page.html):
        assert name in before
    export.page(notebook, assets)
    assert sorted(path.name for path in assets.folder.iterdir()) == before


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (["1 / 0"], "a cell failed: ZeroDivisionError: division by zero"),
        (["import time; time.sleep(60)"], "cell.*timed out"),
        (["import os; os._exit(1)"], "[Kk]ernel died"),
    ],
)
def test_a_lesson_that_does_not_run_is_no_page(tmp_path: Path, cells: list[str], says: str) -> None:
    with pytest.raises(export.ExportError, match=says):
        export.page(write(tmp_path / "bad.ipynb", *cells), timeout=3)


def test_a_lesson_is_found_by_how_its_name_begins() -> None:
    assert export.find("00").stem == "00-start-here"
    for wrong, says in (
        ("99", "no lessons begin with '99'; there are 00-start"),
        ("0", "lessons begin with"),
    ):
        with pytest.raises(export.ExportError, match=says):
            export.find(wrong)


def test_the_command_writes_a_file_or_says_why_not(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    notebook = write(tmp_path / "n.ipynb", "# N", "print(1)")
    assert main(["export", str(notebook), "-o", str(tmp_path / "n.html"), "--json"]) == 0
    out, err = capfd.readouterr()
    assert err == "", "nothing of the kernel's own"
    record = json.loads(out)
    assert record["bytes"] == (tmp_path / "n.html").stat().st_size
    (tmp_path / "no.ipynb").write_text("{")
    (tmp_path / "odd.ipynb").write_text('{"cells": 3}')
    for lesson in (tmp_path / "no.ipynb", tmp_path / "odd.ipynb", tmp_path / "missing.ipynb"):
        assert main(["export", str(lesson)]) == 2
        assert "pagedlab export: " in capfd.readouterr().err
