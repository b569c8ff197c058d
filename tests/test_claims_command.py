"""`pagedlab claims`: the table, the JSON, the page, and going on where a run was stopped."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from pagedlab import claims, claims_command, cli
from pagedlab.claims import Chart, Claim, Line, Measurement, Outcome, Verdict, drawing, page
from pagedlab.claims.verdict import figures

ARITHMETIC = ["short-blocks", "workload-fit", "long-context-bound"]
EVIL = "<script>alert('&')</script>"
CHART = Chart(
    EVIL,
    "size",
    "%",
    (Line(EVIL, ((1, 0.02), (16, 3)), "measured"), Line("b", ((1, 5), (64, 900)), "computed")),
)
UNTOLD = Verdict(
    "indirection", Outcome.NOT_MEASURABLE, ("needs a quiet machine",), (), figures("a1"), "a machine"
)


def _run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["claims", *arguments])
    return (code, *capsys.readouterr())


def test_the_table_has_a_verdict_with_its_condition_for_each_claim(capsys):
    code, out, _ = _run(capsys, "--only", *ARITHMETIC)
    assert code == 0
    assert "short-blocks        holds when           blocks have 64 tokens or more" in out
    assert [line.split()[0] for line in out.splitlines() if re.match(r"\w", line)][:3] == ARITHMETIC
    assert re.search(r"3 claims in [\d.]+ m?s: 3 holds when\. Device: ", out)


def test_claims_named_by_two_options_are_all_put_to_the_test(capsys):
    _, out, _ = _run(capsys, "--only", ARITHMETIC[0], "--only", ARITHMETIC[1])
    assert all(f"\n{claim} " in f"\n{out}" for claim in ARITHMETIC[:2])
    assert "1 claim in " in _run(capsys, "--only", ARITHMETIC[0])[1]


def test_json_has_everything_and_nothing_else(capsys):
    code, out, _ = _run(capsys, "--only", "short-blocks", "--json")
    record = json.loads(out)
    assert code == 0 and record["quick"] is True and record["machine"]["device"]
    assert [row["claim"] for row in record["verdicts"]] == ["short-blocks"]
    kept = Verdict.from_dict(record["verdicts"][0])
    assert kept == claims.get("short-blocks").run()


def test_the_page_asks_nothing_of_any_network_and_names_every_claim(capsys, tmp_path):
    file = tmp_path / "verdicts.html"
    code, out, _ = _run(capsys, "--only", *ARITHMETIC, "--html", str(file))
    text = file.read_text(encoding="utf-8")
    assert code == 0 and f"page: {file}" in out
    assert all(f'id="{claim}"' in text for claim in ARITHMETIC)
    assert text.count("<svg viewBox") == 3 and text.count("<details>") == 3
    assert not re.search(r'(src|href)="(?!#)|url\(|@import', text)
    assert "as reported by copies of the PagedAttention paper" in text
    _well_formed(text)


def test_what_is_text_stays_text():
    verdict = Verdict(
        "short-blocks", Outcome.HOLDS, (EVIL,), (Measurement(EVIL, 1.5, EVIL, "computed"),), (), EVIL, CHART
    )
    text = page.page([verdict], EVIL)
    assert "<script" not in text and text.count("&lt;script&gt;") >= 8
    _well_formed(text)


@pytest.mark.parametrize("log_y", [False, True])
def test_points_of_a_chart_rise_with_their_value_and_stay_inside(log_y):
    drawn = drawing.svg(Chart(CHART.title, CHART.x, CHART.y, CHART.lines, log_y))
    svg = ElementTree.fromstring(drawn[drawn.index("<svg") : drawn.index("</svg>") + 6])
    dots = [(float(c.get("cx", "")), float(c.get("cy", ""))) for c in svg.iter("circle")]
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = dots
    assert x0 == x2 < x1 < x3 and y0 > y1 > y3 and y2 > y3
    assert all(drawing.LEFT <= x <= drawing.RIGHT and drawing.TOP <= y <= drawing.FOOT for x, y in dots)
    assert len({path.get("stroke-dasharray") for path in svg.iter("path")}) == 2, "not by colour alone"


def test_a_stopped_run_goes_on_with_what_is_missing(capsys, tmp_path, monkeypatch):
    """Ctrl-C at the second claim; then the first is not measured again."""
    file, asked, get = tmp_path / "rows.jsonl", [], claims.get

    def stopped_once(id: str) -> Claim:
        asked.append(id)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return get(id)

    monkeypatch.setattr(claims, "get", stopped_once)
    code, _, _ = _run(capsys, "--only", *ARITHMETIC[:2], "--resume", str(file))
    assert code == 130 and len(file.read_text().splitlines()) == 1
    code, out, _ = _run(capsys, "--only", *ARITHMETIC[:2], "--resume", str(file))
    assert code == 0 and "2 claims" in out
    assert asked == ["short-blocks", "workload-fit", "workload-fit"]


def test_what_a_machine_lacks_is_a_reason(capsys, monkeypatch):
    def lacking(quick: bool) -> Verdict:
        raise ImportError("No module named 'numba'")

    monkeypatch.setattr(claims, "get", lambda id: Claim(id, "", lacking))
    code, out, _ = _run(capsys, "--only", "indirection")
    assert code == 0 and "needs what is not here: No module named 'numba'" in out


def test_wrong_answers_are_a_failure_that_is_named(capsys, monkeypatch):
    def wrong(quick: bool) -> Verdict:
        raise ArithmeticError("the two sides disagree by 0.5")

    monkeypatch.setattr(claims, "get", lambda id: Claim(id, "", wrong))
    code, out, err = _run(capsys, "--only", "indirection")
    assert code == 1 and not out and "'claim': 'indirection'" in err and "disagree by 0.5" in err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--only", "short-block"], "--only short-block: no such claim; near: short-blocks"),
        (["--only", "short-blocks", "--html", "no/such/folder/a.html"], "there is no folder"),
        (["--only", "short-blocks", "--html", "."], "--html .: that is a folder, a file is needed"),
        (["--only", "short-blocks", "--resume", "."], "--resume .: that is a folder, a file is needed"),
        (["--only", "short-blocks", "--resume", "rows.jsonl"], "rows.jsonl, line 1: no row of a sweep"),
    ],
)
def test_wrong_arguments_cost_one_line(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("something else\n")
    code, out, err = _run(capsys, *arguments)
    assert code == 2 and not out and message in err and len(err.splitlines()) == 1


def test_a_kept_verdict_of_no_outcome_costs_one_line(capsys, tmp_path):
    file = tmp_path / "rows.jsonl"
    asked = ["--only", "short-blocks", "--resume", str(file)]
    assert _run(capsys, *asked)[0] == 0
    file.write_text(file.read_text().replace('"holds when"', '"no such outcome"'))
    code, out, err = _run(capsys, *asked)
    assert code == 2 and not out and len(err.splitlines()) == 1
    assert "rows.jsonl, line 1: no row of a sweep" in err and "no such outcome" in err


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A recording of another machine, in a package folder that holds nothing else."""
    folder = tmp_path / "data" / "recorded" / "claims"
    folder.mkdir(parents=True)
    measured = (Measurement("time", 105.0, "%", "measured", 101.0, 108.0),)
    kept = Verdict(
        "indirection", Outcome.FAILS_HERE, ("no cost",), measured, figures("a5"), "a big GPU", CHART
    )
    (folder / "gpu.json").write_text(json.dumps({"verdicts": [kept.to_dict()]}))
    monkeypatch.setattr(claims, "files", lambda package: tmp_path)
    claims.recordings.cache_clear()
    yield kept
    claims.recordings.cache_clear()


def test_a_recording_stands_in_where_nothing_can_be_told(recorded):
    (kept,) = claims.recordings("indirection")
    assert kept.outcome is recorded.outcome and kept.device == "a big GPU"
    assert [m.word for m in kept.measured] == ["recorded"]
    assert [line.word for line in kept.chart.lines] == ["recorded", "computed"]
    text = claims_command.text([UNTOLD], "a note")
    assert "- recorded on a big GPU: does not hold here: no cost" in text
    assert "a big GPU" in page.page([UNTOLD], "a note")
    assert claims.recordings("short-blocks") == ()


def test_every_recording_that_comes_with_the_package_can_be_read():
    for claim in claims.all():
        for kept in claims.recordings(claim.id):
            assert kept.claim == claim.id and kept.device and kept.conditions
            assert all(m.word != "measured" and math.isfinite(m.value) for m in kept.measured)


class _Tags(HTMLParser):
    """Notes what is opened and not closed, or closed and not opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "line", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def _well_formed(text: str) -> None:
    tags = _Tags()
    tags.feed(text)
    assert not tags.open and not tags.wrong
