"""The record of `pagedlab bench --manager`: its shape, never its times."""

from __future__ import annotations

import json

from pagedlab import bench_manager, cli


def test_the_record_and_the_table_name_every_pool_and_every_call(capsys, monkeypatch) -> None:
    monkeypatch.setattr(bench_manager, "QUICK_SIZES", (200, 1000))
    assert cli.main(["bench", "--manager", "--quick", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [cost["num_blocks"] for cost in record["costs"]] == [200, 1000]
    assert all(cost[call] > 0 for cost in record["costs"] for call in ("admit", "append", "free", "fork"))
    assert cli.main(["bench", "--manager", "--quick"]) == 0
    out = capsys.readouterr().out
    assert "measured" in out and "1,000" in out and record["device"] in out
