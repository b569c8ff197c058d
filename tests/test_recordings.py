"""A recording reads back as what was measured, and a file that is none is told apart."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from pagedlab import recordings
from pagedlab.claims import indirection
from pagedlab.comparison import Comparison
from pagedlab.recordings import DRY_RUN, Recording, RecordingError, load, record
from pagedlab.timing import Case, compare


def measured() -> Comparison:
    cases = [
        Case("contiguous", lambda: sum(range(50)), "HND", 100),
        Case("paged 1", lambda: sum(range(300)), "HND", 100),
        Case("paged 16", lambda: sum(range(60)), "HND", 100),
        Case("read", lambda: sum(range(40)), "", 100),
    ]
    return compare(cases, limit="read", what="a step", repeats=15, min_time=0)


def test_a_recording_reads_back_sample_by_sample(tmp_path):
    made = record([measured(), measured()], tests={"summary": "9 passed"}, notes=["fp8 left out"])
    made.save(tmp_path / "a.json")
    assert load(tmp_path / "a.json") == made
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
    assert made.machine["versions"]["torch"] and len(made.kernels) == 64 and made.date.endswith("+00:00")


def test_a_recorded_comparison_is_judged_as_a_live_one(tmp_path):
    live = measured()
    record([live]).save(tmp_path / "a.json")
    kept = load(tmp_path / "a.json").comparisons[0]
    assert indirection.judge(kept) == indirection.judge(live)
    assert str(kept) == str(live) and kept.noise_floor == live.noise_floor


def test_rows_bear_the_word_recorded_and_the_device(tmp_path):
    made = record([measured()])
    rows = made.rows()
    assert [row["case"] for row in rows] == ["contiguous", "paged 1", "paged 16", "read"]
    assert {(row["word"], row["device"], row["date"]) for row in rows} == {
        ("recorded", made.device, made.date)
    }
    assert all(row["q1_s"] <= row["median_s"] <= row["q3_s"] for row in rows)
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert str(made).startswith("recorded 20") and "paged 16" in str(made)
    dry = record([measured()], kind=DRY_RUN)
    assert {row["word"] for row in dry.rows()} == {"dry run"}
    assert str(dry) == f"dry run {dry.date}: its times mean nothing"


def test_a_comparison_without_a_round_can_be_kept(tmp_path):
    stopped = compare({"a": lambda: None}, repeats=3, should_stop=lambda: True)
    record([stopped]).save(tmp_path / "a.json")
    kept = load(tmp_path / "a.json")
    assert kept.comparisons == (stopped,) and kept.rows() == []
    assert math.isnan(kept.comparisons[0]["a"].median)


def _broken(**changes):
    plain = json.loads(json.dumps(record([measured()]).to_dict()))
    plain.update(changes)
    return json.dumps({key: value for key, value in plain.items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is no recording: Expecting property name"),
        ("[]", "its format is not 'pagedlab recording 1'"),
        (_broken(format="pagedlab recording 9"), "its format is not"),
        (_broken(kind="guessed"), "kind must be 'measured' or 'dry run', got 'guessed'"),
        (_broken(date="yesterday"), "Invalid isoformat string"),
        (_broken(comparisons=...), "'comparisons' is missing"),
        (_broken(comparisons=[{"cases": []}]), "'again_s' is missing"),
        (_broken(comparisons=[{**measured().to_dict(), "again_s": [1.0]}]), "as many samples"),
        (_broken(comparisons=[{**measured().to_dict(), "limit": "copy"}]), "must be among the cases"),
        (_broken(colour="red"), "unexpected keyword argument 'colour'"),
    ],
)
def test_a_file_that_is_no_recording_says_what_is_wrong(tmp_path, text, says):
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(RecordingError, match="a.json is no recording") as error:
        load(file)
    assert says in str(error.value)


def test_what_is_shipped_was_measured_and_the_newest_comes_first(tmp_path, monkeypatch):
    assert all(recording.kind == recordings.MEASURED for recording in recordings.shipped())
    folder = tmp_path / "data" / "recorded" / "bench"
    folder.mkdir(parents=True)
    made = record([measured()])
    for name, date in (("b", "2026-01-02T00:00:00+00:00"), ("a", "2026-01-03T00:00:00+00:00")):
        dataclasses.replace(made, date=date).save(folder / f"{name}.json")
    monkeypatch.setattr(recordings, "files", lambda package: tmp_path)
    assert [kept.date[:10] for kept in recordings.shipped()] == ["2026-01-03", "2026-01-02"]
    assert isinstance(recordings.shipped()[0], Recording)
