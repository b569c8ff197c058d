"""What lessons show of a guess and of a verdict, too noisy machines included."""

import pytest
from IPython.display import Markdown

from pagedlab import claims, published
from pagedlab.claims import Measurement, Outcome, Verdict
from pagedlab_widgets import BarTable, LineChart, Predict, answered, beside, card, verdict_chart

TIME = Measurement("time", 117.0, "%", "measured", 110.0, 120.0)


def verdict(outcome=Outcome.HOLDS, measured=(TIME,)):
    rows = (published.figure("a1"), published.figure("a3"))
    return Verdict("indirection", outcome, ("why",), measured, rows, "some CPU")


@pytest.fixture
def guess(tmp_path):
    return Predict("time", "Time of the step?", path=tmp_path / "progress.json")


def test_an_answer_stands_alone_where_nothing_was_published(guess):
    table = beside(guess, 0.000912, "computed")
    assert [row["label"] for row in table.rows] == ["here (computed)"]
    assert table.guess["key"] == "time" and table.guess["here"] == 0.000912


def test_the_answer_of_a_verdict_brings_its_word_its_device_and_the_published_range(guess):
    table = answered(guess, verdict(), "time", published.figure("a1"), "percent_of_contiguous")
    assert isinstance(table, BarTable)
    assert [row["label"] for row in table.rows] == ["here (measured)", "to compare (published)"]
    assert (table.word, table.device, table.guess["here"]) == ("measured", "some CPU", 117.0)


def test_a_machine_too_noisy_for_an_answer_is_said_to_be(guess):
    said = answered(guess, verdict(Outcome.NOT_MEASURABLE, ()), "time")
    assert isinstance(said, Markdown) and "Time of the step?" in said.data and "why" in said.data


def test_a_name_that_no_measurement_has_is_refused_with_those_there_are(guess):
    with pytest.raises(KeyError, match="no 'duration', but.*time"):
        answered(guess, verdict(), "duration")


def test_a_card_lists_what_was_published_row_by_row():
    lines = card(verdict()).data.splitlines()
    assert sum(line.startswith("> - ") for line in lines) == 2


@pytest.mark.parametrize("plotly", [True, False])
def test_the_curves_are_plotlys_where_it_is_and_the_same_where_it_is_not(plotly, monkeypatch):
    if not plotly:
        monkeypatch.setattr("pagedlab_widgets.verdicts.find_spec", lambda name: None)
    verdict = claims.get("short-blocks").run()
    shown = verdict_chart(verdict)
    assert isinstance(shown, LineChart) is not plotly
    lines = [trace.to_plotly_json() for trace in shown.figure.data] if plotly else shown.lines
    drawn = [tuple(zip(line["x"], line["y"], strict=True)) for line in lines]
    assert drawn == [line.points for line in verdict.chart.lines]
