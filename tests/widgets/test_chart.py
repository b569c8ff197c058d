"""The line chart as Python sees it: what is sent, what is refused."""

from __future__ import annotations

import pytest

from pagedlab_widgets import Axis, Line, LineChart, Wall


def test_lines_walls_and_words_travel_in_one_message(monkeypatch):
    chart, sent = LineChart("Waste", Axis("block size", log=True), Axis("%")), []
    monkeypatch.setattr(LineChart, "_send", lambda self, message, buffers=None: sent.append(message["state"]))
    chart.show([Line("paged", range(1, 4), [0, 1, 2])], [Wall("full", x=2)], word="measured", cursor=2)
    assert [sorted(state) for state in sent] == [["cursor", "lines", "walls", "word"]]
    assert sent[0]["lines"][0]["x"] == [1.0, 2.0, 3.0]
    assert sent[0]["walls"] == [{"label": "full", "x": 2, "y": None}]


def _chart(*lines, log=False):
    return LineChart("t", Axis("x", log=log), Axis("y"), lines)


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: Line("a", [1], [1, 2]), "line 'a': 1 places, 2 values"),
        (lambda: Line("a", [1], [float("inf")]), "must be a finite number"),
        (lambda: Line("a", [1], [1], kind="curve"), "kind must be line or points, got 'curve'"),
        (lambda: _chart(Line("a", [0], [1]), log=True), "no place on an axis in powers"),
        (lambda: _chart(*(Line(str(i), [1], [1]) for i in range(8))), "7 lines apart, not 8"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_a_refused_line_leaves_the_chart_as_it_was():
    chart = LineChart("t", Axis("x", log=True), Axis("y"), [Line("a", [1, 2], [3, 4])])
    with pytest.raises(ValueError, match="line 'b'"):
        chart.show([Line("b", [-1], [1])], word="measured")
    assert (chart.lines[0]["name"], chart.word) == ("a", "computed")
