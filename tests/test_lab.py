"""The learner's copy of the lessons: brought up to date where that is safe, left alone where it is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pagedlab import cli, lab
from pagedlab.lab import WRITTEN, LabError, copy_lessons

FIRST, SECOND = lab.FIRST_LESSON, "01-more.ipynb"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "shipped"
    (folder / "data").mkdir(parents=True)
    (folder / FIRST).write_text("first, version 1")
    (folder / SECOND).write_text("second, version 1")
    (folder / "data" / "lengths.csv").write_text("1,2,3")
    return folder


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return tmp_path / "mine"


def test_everything_is_copied_but_hidden_files_and_what_lessons_write(source: Path, mine: Path) -> None:
    for name in WRITTEN:
        (source / name).write_text("somebody else's")
    (source / ".ipynb_checkpoints").mkdir()
    (source / ".ipynb_checkpoints" / FIRST).write_text("old")
    copied = copy_lessons(mine, source)
    assert copied.written == (FIRST, SECOND, "data/lengths.csv")
    assert (mine / "data" / "lengths.csv").read_text() == "1,2,3"
    assert not (mine / ".ipynb_checkpoints").exists()
    assert not any((mine / name).exists() for name in WRITTEN)


def test_copying_again_changes_nothing(source: Path, mine: Path) -> None:
    copy_lessons(mine, source)
    before = (mine / FIRST).stat().st_mtime_ns
    copied = copy_lessons(mine, source)
    assert copied.unchanged == (FIRST, SECOND, "data/lengths.csv")
    assert not (copied.written or copied.updated or copied.kept or copied.beside)
    assert (mine / FIRST).stat().st_mtime_ns == before


def test_an_untouched_copy_is_brought_up_to_date(source: Path, mine: Path) -> None:
    copy_lessons(mine, source)
    (source / FIRST).write_text("first, version 2")
    assert copy_lessons(mine, source).updated == (FIRST,)
    assert (mine / FIRST).read_text() == "first, version 2"


def test_an_edited_copy_is_left_alone(source: Path, mine: Path) -> None:
    copy_lessons(mine, source)
    (mine / FIRST).write_text("my answer")
    copied = copy_lessons(mine, source)
    assert (copied.kept, copied.beside) == ((FIRST,), ())
    assert (mine / FIRST).read_text() == "my answer"


def test_a_new_version_of_an_edited_lesson_goes_beside_it(source: Path, mine: Path) -> None:
    copy_lessons(mine, source)
    (mine / FIRST).write_text("my answer")
    (source / FIRST).write_text("first, version 2")
    copied = copy_lessons(mine, source)
    ((name, new),) = copied.beside
    assert name == FIRST
    assert new.startswith("00-start-here.new-") and new.endswith(".ipynb")
    assert (mine / FIRST).read_text() == "my answer"
    assert (mine / new).read_text() == "first, version 2"
    assert f"{FIRST} has your changes; the new version is {new}" in str(copied)
    # Said once; from then on the edited copy is simply kept, and so are edits of the new one.
    (mine / new).write_text("my second answer")
    again = copy_lessons(mine, source)
    assert (again.kept, again.beside) == ((FIRST,), ())
    assert (mine / new).read_text() == "my second answer"


def test_a_folder_that_was_full_already_loses_nothing(source: Path, mine: Path) -> None:
    mine.mkdir()
    (mine / FIRST).write_text("someone's own notebook of that name")
    (mine / "notes.txt").write_text("notes")
    copied = copy_lessons(mine, source)
    assert [name for name, _ in copied.beside] == [FIRST]
    assert (mine / FIRST).read_text() == "someone's own notebook of that name"
    assert (mine / "notes.txt").read_text() == "notes"


@pytest.mark.parametrize("damage", ["", "[1, 2]", "{not json", "[" * 100_000, '{"00-start-here.ipynb": 7}'])
def test_a_damaged_manifest_counts_every_file_as_edited(source: Path, mine: Path, damage: str) -> None:
    copy_lessons(mine, source)
    (mine / lab.MANIFEST).write_text(damage)
    (source / FIRST).write_text("first, version 2")
    assert [name for name, _ in copy_lessons(mine, source).beside] == [FIRST]
    assert (mine / FIRST).read_text() == "first, version 1"


def test_a_link_to_what_is_away_is_the_learners(source: Path, mine: Path) -> None:
    mine.mkdir()
    (mine / FIRST).symlink_to("my-answers-elsewhere.ipynb")
    copied = copy_lessons(mine, source)
    assert copied.kept == (FIRST,) and copied.written == (SECOND, "data/lengths.csv")
    assert os.readlink(mine / FIRST) == "my-answers-elsewhere.ipynb"


def test_a_home_that_is_nobodys_is_one_line(source: Path) -> None:
    with pytest.raises(LabError, match="cannot find ~nobody-of-this-name/x"):
        copy_lessons(Path("~nobody-of-this-name/x"), source)


def test_a_deleted_lesson_comes_back(source: Path, mine: Path) -> None:
    copy_lessons(mine, source)
    (mine / SECOND).unlink()
    assert copy_lessons(mine, source).written == (SECOND,)


def test_the_shipped_folder_itself_is_used_in_place(source: Path) -> None:
    before = sorted(source.rglob("*"))
    assert copy_lessons(source, source).in_place
    assert sorted(source.rglob("*")) == before


def test_a_failed_write_leaves_the_old_file_and_says_why(
    source: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_lessons(mine, source)
    (source / FIRST).write_text("first, version 2")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device", str(mine / FIRST))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(LabError, match="cannot write lessons to .*mine: No space left on device"):
        copy_lessons(mine, source)
    assert (mine / FIRST).read_text() == "first, version 1"
    assert not list(mine.glob(".pagedlab-*.part")), "no half-written file stays behind"


@pytest.mark.parametrize("blocked", ["file", "file/below", "file/below/deep"])
def test_an_unwritable_folder_is_one_line_and_exit_code_2(
    source: Path, tmp_path: Path, blocked: str, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "shipped_lessons", lambda: source)
    (tmp_path / "file").write_text("a file where a folder should be")
    assert cli.main(["lab", str(tmp_path / blocked), "--copy-only"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pagedlab lab: cannot write lessons to ") and err.count("\n") == 1


def test_a_permission_denied_is_the_same_one_line(
    source: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(self: Path, *args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(LabError, match="cannot write lessons to .*: Permission denied"):
        copy_lessons(mine, source)


def test_json_says_what_was_copied(source: Path, mine: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "shipped_lessons", lambda: source)
    assert cli.main(["lab", str(mine), "--copy-only", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["folder"] == str(mine.resolve())
    assert record["written"] == [FIRST, SECOND, "data/lengths.csv"]


def test_the_lab_opens_on_the_first_lesson_and_asks_nothing_of_the_network(
    source: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "shipped_lessons", lambda: source)
    started: list[list[str]] = []
    monkeypatch.setattr(
        lab, "open_lab", lambda folder, **how: started.append(lab.lab_arguments(folder, **how))
    )
    assert cli.main(["lab", str(mine), "--no-browser", "--port", "0"]) == 0
    (arguments,) = started
    assert f"--ServerApp.root_dir={mine.resolve()}" in arguments
    assert f"--LabApp.default_url=/lab/tree/{FIRST}" in arguments
    assert {"--no-browser", "--ServerApp.port=0", "--ServerApp.ip=127.0.0.1"} <= set(arguments)
    assert "--LabApp.news_url=None" in arguments


@pytest.mark.parametrize("port", ["-1", "65536", "8888x", "1.5", ""])
def test_a_port_that_is_none_is_refused(port: str, capsys) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main(["lab", "--port", port])
    assert exit_.value.code == 2
    assert "is not a port number from 0 to 65535" in capsys.readouterr().err


def test_missing_jupyterlab_is_one_line(run_python, source: Path, tmp_path: Path) -> None:
    (tmp_path / "jupyterlab.py").write_text("raise ImportError('No module named jupyterlab')")
    code = (
        "import sys, pathlib; sys.path.insert(0, '.'); from pagedlab import cli, lab; "
        f"lab.shipped_lessons = lambda: pathlib.Path({str(source)!r}); sys.exit(cli.main(['lab', 'copy']))"
    )
    ran = run_python("-c", code)
    assert ran.returncode == 2
    assert "JupyterLab is not installed" in ran.stderr and ran.stderr.count("\n") == 1


def test_a_home_that_jupyter_cannot_write_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app = pytest.importorskip("jupyterlab.labapp").LabApp

    def refuse(argv: list[str]) -> None:
        raise PermissionError(13, "Permission denied", "/nonexistent")

    monkeypatch.setattr(app, "launch_instance", refuse)
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    with pytest.raises(LabError, match="denied: '/nonexistent'; set HOME to a folder of your own"):
        lab.open_lab(tmp_path)
