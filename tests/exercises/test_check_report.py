"""What a check says, and what it keeps."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pagedlab import exercises
from pagedlab.exercises import runner
from pagedlab.progress import Progress, learner_seed


def right(lengths, block_size, reserve_to):
    return sum(-x % block_size for x in lengths), sum(reserve_to - x for x in lengths)


def off_by_some(lengths, block_size, reserve_to):
    paged, reserved = right(lengths, block_size, reserve_to)
    return paged + 3 * (len(lengths) > 2), reserved


@pytest.fixture(autouse=True)
def a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_an_unknown_mistake_gets_no_made_up_hint():
    report = exercises.check("waste", off_by_some)
    assert not report.passed and not any(finding.hint for finding in report.parts())


def test_the_smallest_failing_input_is_looked_for():
    report = exercises.check("waste", off_by_some, seed=1)
    assert "tried     lengths=[1, 1, 1], block_size=1, reserve_to=1" in str(report.smallest)
    assert "paged [#]   reserved [#]" in report.smallest.picture
    assert "expected  [0, 0]" in str(report.smallest) and "got       [3, 0]" in str(report.smallest)


def test_shrinking_does_not_slip_to_another_mistake():
    def two_mistakes(lengths, block_size, reserve_to):
        if len(lengths) == 1:
            raise ValueError("one")
        return sum(x % block_size for x in lengths), right(lengths, block_size, reserve_to)[1]

    report = exercises.check("waste", two_mistakes, seed=1)
    assert "slots used" in report.smallest.hint and "ValueError" not in report.smallest.got


def test_a_table_of_remembered_inputs_does_not_pass():
    seen = {}

    def remembering(lengths, block_size, reserve_to):
        return seen.get((tuple(lengths), block_size, reserve_to), (0, 0))

    for seed in (1, learner_seed()):
        for _, (lengths, block_size, reserve_to) in exercises.checking._draw(
            exercises.get("waste"), seed, fixed=seed == 1
        ):
            seen[tuple(lengths), block_size, reserve_to] = right(lengths, block_size, reserve_to)
    assert exercises.check("waste", remembering, seed=1).passed
    assert not exercises.check("waste", remembering).passed


def test_a_learner_meets_the_first_inputs_again_and_another_learner_meets_others():
    def first_inputs(seed):
        drawn = exercises.checking._draw(exercises.get("waste"), seed, False)
        return [next(arguments for n, arguments in drawn if n == number) for number in range(6)]

    assert first_inputs(learner_seed()) == first_inputs(learner_seed()) != first_inputs(learner_seed() + 1)


def test_what_a_solution_prints_is_shown_where_it_was_wrong():
    def talkative(lengths, block_size, reserve_to):
        print("<b>lengths</b>", lengths)
        return right(lengths, block_size, reserve_to) if len(lengths) > 1 else (0, 0)

    report = exercises.check("waste", talkative, seed=0)
    assert report.findings[0].printed.startswith("<b>lengths</b> [")
    assert "  printed   <b>lengths</b> [" in str(report) and "characters)" not in str(report)
    page = report._repr_html_()
    assert "&lt;b&gt;lengths&lt;/b&gt;" in page and "<b>lengths" not in page
    much = exercises.check("waste", lambda n, b, r: print("x" * 9_999) or (0, 0), seed=0)
    assert "x\n            ... (its first 500 characters)" in str(much)


def test_a_hint_is_said_once():
    report = exercises.check("waste", lambda n, b, r: right(n, b, r)[::-1])
    assert len(report.findings) > 2 and str(report).count("comes first") == 1
    assert all("comes first" in finding.hint for finding in report.findings)


def test_an_answer_in_words_is_said_to_be_none():
    report = exercises.check("waste", lambda n, b, r: f"{right(n, b, r)[0]} slots")
    assert "without words or units" in report.parts()[0].hint


def test_a_whole_number_is_shown_to_its_last_digit():
    report = exercises.check("kv-bytes", lambda n, h, d, b, t: 2.0 * n * h * d * b * t + 1, seed=1)
    assert all(int(float(finding.got)) == int(finding.expected) + 1 for finding in report.findings)


def test_the_report_is_plain_data_too():
    report = exercises.check("waste", off_by_some)
    content = json.loads(json.dumps(report.to_dict()))
    assert content["public_total"] == 6 and content["smallest"]["got"] == "[3, 0]"


def test_what_was_found_is_kept_beside_the_lesson(tmp_path):
    exercises.check("waste", off_by_some)
    kept = Progress("progress.json").get("exercises", "waste")
    assert kept["total"] == 6 and 0 < kept["passed"] < 6 and not kept["solved"]
    exercises.check("waste", right)
    assert Progress("progress.json").get("exercises", "waste") == {"passed": 6, "total": 6, "solved": True}
    (tmp_path / "progress.json").write_text("mine")
    report = exercises.check("waste", right)
    assert report.passed and "This was not kept" in str(report) and "is not JSON" in str(report)
    assert (tmp_path / "progress.json").read_text() == "mine"


def test_nothing_is_kept_when_asked_so(tmp_path):
    assert exercises.check("waste", right, progress=None).passed
    assert not list(tmp_path.iterdir())


def test_in_a_browser_it_runs_in_this_process_and_says_so(monkeypatch):
    monkeypatch.setattr(runner.sys, "platform", "emscripten")
    report = exercises.check("waste", right)
    assert report.passed and "ran in this process" in str(report)


def test_an_endless_loop_is_a_report(monkeypatch):
    impatient = replace(exercises.get("waste"), seconds=0.5)
    monkeypatch.setattr(exercises, "get", lambda name: impatient)
    report = exercises.check("waste", lambda *a: [None for _ in iter(int, 1)])
    assert "endless loop?" in report.findings[0].got and report.findings[1].got == "not reached"


@pytest.mark.parametrize("name", exercises.names())
def test_hints_go_from_a_nudge_to_the_way(name):
    assert len(exercises.hints(name)) == 3 and all(
        hint.endswith((".", "?")) for hint in exercises.hints(name)
    )


def test_an_unknown_exercise_and_a_solution_that_cannot_be_called_are_refused():
    with pytest.raises(KeyError, match="there are waste"):
        exercises.check("wast", right)
    with pytest.raises(TypeError, match="must be a function or a class, got 3"):
        exercises.check("waste", 3)
