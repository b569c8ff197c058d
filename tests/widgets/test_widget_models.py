"""The widgets as Python sees them: what is sent, what is refused, what is remembered."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipywidgets
import pytest
import traitlets

from pagedlab_widgets import (
    AccessibleNames,
    BarTable,
    BlockMap,
    Predict,
    Row,
    Segment,
    Trace,
    TraceBuilder,
    named,
)

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


def run(frames: int = 10, label: str = "paged") -> Trace:
    builder = TraceBuilder(label, 4, 16)
    for f in range(frames):
        builder.write(f % 4, builder.owner(f"request {f}"), 5, 1)
        builder.end_frame()
    return builder.build()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What any widget sends to the page, from here on."""
    messages: list[dict[str, Any]] = []

    def note(self: ipywidgets.Widget, message: dict[str, Any], buffers: Any = None) -> None:
        messages.append({**message, "buffers": buffers or []})

    monkeypatch.setattr(ipywidgets.Widget, "_send", note)
    return messages


# -- the package


def test_importing_the_package_imports_no_widget(run_python: RunPython) -> None:
    heavy = "('anywidget', 'numpy', 'plotly')"
    done = run_python("-c", f"import sys, pagedlab_widgets; print([m for m in {heavy} if m in sys.modules])")
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_name_that_is_not_there_is_answered_with_those_that_are() -> None:
    import pagedlab_widgets

    assert "BlockMap" in dir(pagedlab_widgets)
    with pytest.raises(AttributeError, match="it has AccessibleNames, A"):
        _ = pagedlab_widgets.BlockMaps  # type: ignore[attr-defined]


# -- the block map


def test_new_runs_and_the_frame_they_clamp_travel_in_one_message(sent: list[dict[str, Any]]) -> None:
    block_map = BlockMap(run(100), frame=80)
    sent.clear()
    block_map.show(run(50, "a"), run(30, "b"))
    assert [sorted(message["state"]) for message in sent] == [["frame", "panels"]]
    assert (block_map.frame, block_map.frames) == (49, 50)
    assert [trace.label for trace in block_map.traces] == ["a", "b"]


def test_a_trace_travels_as_bytes(sent: list[dict[str, Any]]) -> None:
    trace = run()
    block_map = BlockMap()
    block_map.show(trace)
    assert [bytes(buffer) for buffer in sent[-1]["buffers"]] == [trace.events]


def test_the_frame_stays_where_the_new_run_has_it() -> None:
    block_map = BlockMap(run(100), frame=30)
    block_map.show(run(60))
    assert block_map.frame == 30


@pytest.mark.parametrize(("asked", "shown"), [(-5, 0), (3, 3), (10**9, 9)])
def test_a_frame_is_clamped_to_the_run(asked: int, shown: int) -> None:
    block_map = BlockMap(run(10))
    block_map.frame = asked
    assert block_map.frame == shown


def test_a_map_of_nothing_has_no_frames() -> None:
    assert (BlockMap().frame, BlockMap().frames) == (0, 0)
    assert repr(BlockMap()) == "BlockMap(no run; frame 0 of 0)"


def test_maps_have_timelines_of_their_own_unless_one_is_named() -> None:
    assert BlockMap().timeline != BlockMap().timeline
    assert BlockMap(timeline="lesson").timeline == "lesson"


def test_a_map_shows_traces_only_and_keeps_what_it_showed() -> None:
    block_map = BlockMap(run())
    with pytest.raises(TypeError, match="not str"):
        block_map.show("run")  # type: ignore[arg-type]
    assert block_map.frames == 10


# -- the bar table


def test_bars_are_shares_of_the_longest_or_of_the_scale() -> None:
    rows = [Row("a", (Segment("x", 3), Segment("y", 1))), Row("b", (Segment("x", 2),))]
    shares = [
        [segment["share"] for segment in row["segments"]]
        for row in BarTable("t", {"x": "X", "y": "Y"}, rows).rows
    ]
    assert shares == [[0.75, 0.25], [0.5]]
    scaled = BarTable("t", {"x": "X", "y": "Y"}, rows, scale=8).rows
    assert scaled[1]["segments"][0]["share"] == 0.25


def test_a_spread_is_part_of_the_longest_bar() -> None:
    table = BarTable("t", {"x": "X"}, [Row("a", (Segment("x", 2, low=1, high=4),))], unit="ms")
    assert table.rows[0]["segments"][0] == {
        "kind": "x", "value": 2, "share": 0.5, "text": "2 ms", "low": 0.25, "high": 1.0,
    }  # fmt: skip


def test_rows_and_their_words_travel_in_one_message(sent: list[dict[str, Any]]) -> None:
    table = BarTable("t", {"x": "X"})
    sent.clear()
    table.show([Row("a", (Segment("x", 1),))], word="measured", device="this machine", status="")
    assert [sorted(message["state"]) for message in sent] == [["device", "rows", "word"]]


def test_rows_of_zeros_and_no_rows_are_drawn() -> None:
    table = BarTable("t", {"x": "X"}, [Row("a", (Segment("x", 0),))])
    assert table.rows[0]["segments"][0]["share"] == 0
    table.show([])
    assert table.rows == []


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Segment("x", -1), "value of segment 'x'"),
        (lambda: Segment("x", float("nan")), "finite"),
        (lambda: Segment("x", 1, low=0.5), "both ends"),
        (lambda: Segment("x", 1, low=2, high=3), "outside its spread"),
        (lambda: BarTable("t", {}), "1 to 6 kinds"),
        (lambda: BarTable("t", {str(i): "" for i in range(7)}), "not 7"),
        (lambda: BarTable("t", {"x": "X"}, scale=0), "scale"),
        (
            lambda: BarTable("t", {"x": "X"}, [Row("a", (Segment("z", 1),))]),
            r"kind of a segment of row 'a' must be one of x, got 'z'",
        ),
        (lambda: BarTable("t", {"x": "X"}, [Row("a", (Segment("x", 9),))], scale=8), "does not fit"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_a_refused_row_leaves_the_table_as_it_was() -> None:
    table = BarTable("t", {"x": "X"}, [Row("a", (Segment("x", 1),))])
    with pytest.raises(ValueError):
        table.show([Row("b", (Segment("z", 1),))], status="measuring")
    assert (table.rows[0]["label"], table.status) == ("a", "")


# -- names


def test_a_named_control_is_the_same_control() -> None:
    slider = ipywidgets.IntSlider()
    assert named(slider, " Block size ") is slider
    names = _names().names
    assert [names[mark] for mark in slider._dom_classes] == ["Block size"]
    named(slider, "Pool")
    assert [_names().names[mark] for mark in slider._dom_classes] == ["Pool"]


def test_a_closed_control_is_forgotten_and_a_closed_register_made_anew() -> None:
    slider = named(ipywidgets.IntSlider(), "Block size")
    mark = slider._dom_classes[0]
    slider.close()
    assert mark not in _names().names
    _names().close()
    other = named(ipywidgets.IntSlider(), "Pool")
    assert _names().names[other._dom_classes[0]] == "Pool"


def test_a_name_is_text_and_belongs_to_a_widget() -> None:
    with pytest.raises(ValueError, match="a name is text"):
        named(ipywidgets.IntSlider(), "  ")
    with pytest.raises(TypeError, match="not int"):
        named(3, "Block size")  # type: ignore[type-var]


def _names() -> AccessibleNames:
    from pagedlab_widgets import names

    assert names._shared is not None
    return names._shared


# -- predictions


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "progress.json"


def test_a_guess_is_there_again_and_can_be_taken_back(path: Path) -> None:
    Predict("waste", "How much?", path=path).guess = 40
    again = Predict("waste", "How much?", path=path)
    assert (again.guess, again.message) == (40.0, "")
    assert Predict("other", "How much?", path=path).guess is None
    again.clear()
    assert json.loads(path.read_text())["predictions"] == {}
    assert Predict("waste", "How much?", path=path).guess is None


def test_by_default_guesses_are_kept_in_the_working_folder(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    Predict("waste", "How much?").guess = 40
    assert json.loads(path.read_text())["predictions"] == {"waste": 40.0}


def test_a_broken_file_is_told_of_and_left_alone_and_the_guess_counts(path: Path) -> None:
    path.write_text("{oops")
    question = Predict("waste", "How much?", path=path)
    assert "is not JSON" in question.message
    question.guess = 40
    assert question.guess == 40 and "as long as this notebook runs" in question.message
    assert path.read_text() == "{oops"
    path.unlink()
    question.guess = 41
    assert question.message == ""


@pytest.mark.parametrize("kept", ["text", 400, None, True, [1]])
def test_a_kept_guess_that_does_not_fit_the_question_is_not_shown(path: Path, kept: object) -> None:
    path.write_text(json.dumps({"predictions": {"waste": kept}}))
    question = Predict("waste", "How much?", path=path)
    assert question.guess is None
    assert ("does not count" in question.message) == (kept is not None)


def test_a_guess_out_of_range_is_refused(path: Path) -> None:
    question = Predict("waste", "How much?", path=path)
    for value in (-1, 101, float("nan")):
        with pytest.raises(traitlets.TraitError, match="between 0 and 100"):
            question.guess = value
    assert not path.exists()


@pytest.mark.parametrize("arguments", [("", "q"), ("k", "q", "%", 5, 5), ("k", "q", "%", 0, float("inf"))])
def test_a_question_that_cannot_be_answered_is_refused(arguments: tuple[Any, ...], path: Path) -> None:
    with pytest.raises(ValueError):
        Predict(*arguments, path=path)
