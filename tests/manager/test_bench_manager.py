"""The record of `pagedlab bench --manager`: its shape, never its times."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from pagedlab import bench_manager, cli


def test_the_record_and_the_table_name_every_pool_and_every_call(capsys, monkeypatch) -> None:
    monkeypatch.setattr(bench_manager, "QUICK_SIZES", (200, 1000))
    assert cli.main(["bench", "--manager", "--quick", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [cost["num_blocks"] for cost in record["costs"]] == [200, 1000]
    assert all(cost[call] > 0 for cost in record["costs"] for call in bench_manager.CALLS)
    assert cli.main(["bench", "--manager", "--quick"]) == 0
    out = capsys.readouterr().out
    assert "measured" in out and "1,000" in out and record["device"] in out


def test_the_chart_is_a_file_of_its_own_with_every_point_in_words(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(bench_manager, "QUICK_SIZES", (200, 1000))
    assert cli.main(["bench", "--manager", "--quick", "--chart", str(tmp_path / "costs.svg")]) == 0
    drawing = ElementTree.parse(tmp_path / "costs.svg").getroot()
    parts = {part.tag.rpartition("}")[2]: part.text for part in drawing}
    assert (
        parts["title"] == "Block manager" and "at 1,000" in parts["desc"] and "one step of" in parts["desc"]
    )
    text = "".join(drawing.itertext())
    assert all(f"{what} (measured)" in text for what in bench_manager.CALLS.values())
    assert len(drawing.findall(".//{*}circle")) == 2 * len(bench_manager.CALLS)


def test_a_chart_of_what_is_not_measured_is_refused(capsys) -> None:
    assert cli.main(["bench", "--chart", "costs.svg"]) == 2
    assert "--chart draws what --manager measures" in capsys.readouterr().err
