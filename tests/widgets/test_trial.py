"""Claims on one page: kept, gone on with, exported."""

from __future__ import annotations

import pytest

from pagedlab import claims, claims_command
from pagedlab.sweeps import SweepError
from pagedlab_widgets import ClaimsOnTrial

CHEAP = ["short-blocks", "workload-fit"]


def test_verdicts_are_kept_and_not_tried_again(tmp_path, monkeypatch):
    kept = tmp_path / "verdicts.jsonl"
    first = ClaimsOnTrial(kept).run(CHEAP)
    assert [verdict.claim for verdict in first] == CHEAP

    def forbidden(self, quick):
        raise AssertionError("this claim has a verdict already")

    monkeypatch.setattr(claims.Claim, "run", forbidden)
    again = ClaimsOnTrial(kept)
    assert [verdict.outcome for verdict in again.run(CHEAP)] == [verdict.outcome for verdict in first]
    assert f"2 of {len(claims.all())} claims have a verdict" in again.table.value


def test_the_exported_page_has_every_verdict(tmp_path):
    trial = ClaimsOnTrial(tmp_path / "verdicts.jsonl")
    with pytest.raises(ValueError, match="no claim has a verdict"):
        trial.export(tmp_path / "claims.html")
    trial.run(CHEAP)
    text = trial.export(tmp_path / "claims.html").read_text(encoding="utf-8")
    assert all(f"<h2>{id}</h2>" in text for id in CHEAP)


def test_an_unknown_claim_changes_nothing(tmp_path):
    trial = ClaimsOnTrial(tmp_path / "verdicts.jsonl")
    with pytest.raises(KeyError, match="no claim 'nope'"):
        trial.run(["nope"])
    assert not trial.verdicts and not trial.kept.exists() and not trial.run_button.disabled


def test_one_claim_can_be_named_alone(tmp_path):
    (verdict,) = ClaimsOnTrial(tmp_path / "verdicts.jsonl").run("short-blocks")
    assert verdict.claim == "short-blocks"


def test_a_kept_row_of_no_outcome_names_its_line(tmp_path):
    kept = tmp_path / "verdicts.jsonl"
    ClaimsOnTrial(kept).run(CHEAP)
    kept.write_text(kept.read_text().replace('"holds when"', '"no such outcome"'))
    trial = ClaimsOnTrial(kept)
    with pytest.raises(SweepError, match=r"verdicts\.jsonl, line 1: .*no such outcome"):
        trial.run("short-blocks")
    trial._run_and_tell()
    assert "line 1" in trial.activity.message and not trial.run_button.disabled


def test_what_cannot_be_measured_here_has_its_reason(tmp_path, monkeypatch):
    def lacking(quick):
        raise ImportError("no numba")

    monkeypatch.setattr(claims, "get", lambda id: claims.Claim(id, "", lacking))
    (verdict,) = ClaimsOnTrial(tmp_path / "verdicts.jsonl").run(["indirection"])
    assert verdict.outcome is claims.Outcome.NOT_MEASURABLE and "no numba" in verdict.conditions[0]
    assert claims_command.measure("indirection", True)["outcome"] == verdict.outcome.value
