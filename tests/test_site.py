"""The site's command: what it refuses, before any lesson is run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pagedlab import claims_command
from pagedlab.cli import main


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"verdicts": None}, "TypeError"),
        ({"verdicts": [{"claim": "short-blocks"}]}, "KeyError"),
        ({"date": "yesterday"}, "Invalid isoformat string: 'yesterday'"),
        ({"machine": {}}, "'device'"),
    ],
)
def test_verdicts_of_another_form_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture, change: dict, says: str
) -> None:
    record = claims_command.run(["short-blocks"], quick=True) | change
    (tmp_path / "v.json").write_text(json.dumps(record))
    assert main(["site", str(tmp_path / "site"), "00", "--verdicts", str(tmp_path / "v.json")]) == 2
    said = capsys.readouterr().err
    assert "v.json: not what `pagedlab claims --json` prints" in said and says in said
    assert not (tmp_path / "site").exists()
