"""A learner's progress: written whole or not at all, and a file that does not read is never overwritten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pagedlab.progress import FILE, Progress, ProgressError, record_check


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "progress.json"


def test_nothing_is_kept_before_something_is_and_no_file_is_made_by_asking(path: Path) -> None:
    assert Progress(path).get("predictions", "waste") is None
    Progress(path).clear("predictions", "waste")
    assert not path.exists()


def test_what_is_set_is_there_for_the_next_reader(path: Path) -> None:
    Progress(path).set("predictions", "waste", 40.5)
    Progress(path).set("exercises", "waste", {"passed": True})
    assert Progress(path).get("predictions", "waste") == 40.5
    assert json.loads(path.read_text()) == {
        "predictions": {"waste": 40.5},
        "exercises": {"waste": {"passed": True}},
    }


def test_two_notebooks_keep_their_keys_in_one_file(path: Path) -> None:
    first, second = Progress(path), Progress(path)
    first.set("predictions", "a", 1)
    second.set("predictions", "b", 2)
    first.set("predictions", "c", 3)
    assert [second.get("predictions", key) for key in "abc"] == [1, 2, 3]


def test_what_another_version_wrote_stays(path: Path) -> None:
    path.write_text('{"notes": ["mine"], "predictions": {"old": 1}}')
    Progress(path).set("predictions", "new", 2)
    assert json.loads(path.read_text())["notes"] == ["mine"]
    assert Progress(path).get("predictions", "old") == 1


def test_clear_forgets_one_key_or_all_of_a_kind(path: Path) -> None:
    progress = Progress(path)
    for key in "abc":
        progress.set("predictions", key, 1)
    progress.set("exercises", "a", True)
    progress.clear("predictions", "a")
    assert [progress.get("predictions", key) for key in "abc"] == [None, 1, 1]
    progress.clear("predictions")
    assert [progress.get("predictions", key) for key in "abc"] == [None, None, None]
    assert progress.get("exercises", "a") is True


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{oops", "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1, 2]", "no JSON object"),
        (b'{"predictions": 3}', "no object under 'predictions'"),
    ],
)
def test_a_file_that_does_not_read_is_never_overwritten(path: Path, content: bytes, says: str) -> None:
    path.write_bytes(content)
    for change in (
        lambda progress: progress.set("predictions", "waste", 1),
        lambda progress: progress.clear("predictions"),
        lambda progress: progress.get("predictions", "waste"),
    ):
        with pytest.raises(ProgressError, match=says) as error:
            change(Progress(path))
        assert str(path) in str(error.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize("value", [float("nan"), object(), "\ud800"])
def test_what_json_cannot_say_is_refused_and_changes_nothing(path: Path, value: object) -> None:
    Progress(path).set("predictions", "waste", 1)
    with pytest.raises((TypeError, ValueError)):
        Progress(path).set("predictions", "waste", value)
    assert Progress(path).get("predictions", "waste") == 1
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_place_that_cannot_be_written_is_named_and_no_draft_stays(path: Path) -> None:
    with pytest.raises(ProgressError, match="cannot write"):
        Progress(path.parent / "missing" / "progress.json").set("predictions", "waste", 1)
    folder = path.parent / "folder"
    folder.mkdir()
    with pytest.raises(ProgressError, match="cannot read"):
        Progress(folder).set("predictions", "waste", 1)
    assert [file.name for file in path.parent.iterdir()] == ["folder"]


def test_an_unknown_kind_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="predictions and exercises, not 'grades'"):
        Progress(path).set("grades", "waste", 1)


def test_a_link_stays_a_link(path: Path) -> None:
    real = path.with_name("real.json")
    real.write_text("{}")
    path.symlink_to(real)
    Progress(path).set("predictions", "waste", 1)
    assert path.is_symlink()
    assert Progress(real).get("predictions", "waste") == 1


def test_a_check_is_kept_in_the_working_folder_and_solved_stays(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    for passed, solved in ((2, False), (5, True), (3, True)):
        record_check("waste", passed, 5)
        expected = {"passed": passed, "total": 5, "solved": solved}
        assert json.loads(path.read_text())["exercises"]["waste"] == expected
    assert path.name == FILE


def test_a_check_mends_an_entry_that_is_none_and_refuses_counts_that_no_check_has(path):
    path.write_text('{"exercises": {"waste": "solved"}}')
    record_check("waste", 1, 2, path=path)
    for passed, total in ((-1, 5), (6, 5), (0, 0)):
        with pytest.raises(ValueError, match="0 <= passed <= total"):
            record_check("waste", passed, total, path=path)
    assert Progress(path).get("exercises", "waste") == {"passed": 1, "total": 2, "solved": False}
