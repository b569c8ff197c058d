"""The widgets' JavaScript, tested by node's own runner; and that its modules join to one that parses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from node import find_node

from pagedlab_widgets.assets import STATIC, script

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def node() -> str:
    return find_node()


@pytest.mark.parametrize(
    "ci, ends", [("", pytest.skip.Exception), ("false", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_without_node_these_tests_are_skipped_but_not_in_ci(monkeypatch, tmp_path, ci, ends) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(ends, match="no node on the path"):
        find_node()


@pytest.mark.parametrize("file", sorted(HERE.glob("*.test.mjs")), ids=lambda file: file.name)
def test_in_node(node: str, file: Path) -> None:
    done = subprocess.run([node, "--test", str(file)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


WIDGETS = sorted(file.name for file in STATIC.glob("*.js") if "export default" in file.read_text("utf-8"))


@pytest.mark.parametrize("name", WIDGETS)
def test_a_widget_travels_as_one_module_that_parses(node: str, name: str, tmp_path: Path) -> None:
    joined = tmp_path / "joined.mjs"
    joined.write_text(script(name), encoding="utf-8")
    done = subprocess.run([node, "--check", str(joined)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_module_that_two_others_import_is_there_once() -> None:
    assert script("block_map.js").count("export default") == 1
    assert script("block_map.js").count("class Painter") == 1
    assert script("block_map.js").count("function setText(") == 1


def test_what_cannot_be_joined_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pagedlab_widgets.assets.STATIC", tmp_path)
    for line in ('import x from "./x.js";', 'import * as x from "elsewhere";', 'export { y } from "./y.js";'):
        (tmp_path / "bad.js").write_text(line + "\n")
        with pytest.raises(ValueError, match=r"bad\.js: cannot join"):
            script("bad.js")


def test_no_script_makes_markup_of_text() -> None:
    for file in STATIC.glob("*.js"):
        source = file.read_text(encoding="utf-8")
        for way in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
        ):
            assert way not in source, f"{file.name} uses {way}"
