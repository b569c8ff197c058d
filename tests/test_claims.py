"""The logic of each verdict, on fixed records."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pagedlab import claims
from pagedlab.claims import Outcome, small_blocks_waste_less
from pagedlab.workloads import Workload


def _lengths(*lengths: int) -> Workload:
    return Workload("case", "assumed", "a test", np.array(lengths), np.ones(len(lengths), np.int64))


SPREAD = _lengths(*range(300, 1500, 7))
ALL_512 = _lengths(512, 512)


@pytest.mark.parametrize(
    "spread, alike, outcome",
    [
        (SPREAD, ALL_512, Outcome.HOLDS_WHEN),
        (SPREAD, _lengths(513), Outcome.HOLDS),
        (ALL_512, ALL_512, Outcome.FAILS_HERE),
    ],
)
def test_small_blocks_waste_less(spread, alike, outcome):
    verdict = small_blocks_waste_less.judge([spread], alike)
    assert verdict.outcome is outcome and verdict.conditions


@pytest.mark.parametrize("claim", claims.all(), ids=lambda claim: claim.id)
def test_a_claim_runs_and_its_verdict_is_the_same_twice(claim):
    verdict = claim.run(quick=True)
    assert verdict == claim.run(quick=True)
    assert verdict.measured and verdict.published and verdict.device
    assert verdict.to_dict()["outcome"] == verdict.outcome.value
    assert all(m.word in {"measured", "simulated", "computed", "recorded"} for m in verdict.measured)
    assert verdict.claim in str(verdict) and claims.get(claim.id) is claim


def test_waste_drawn_from_quantiles_is_within_a_seventh_of_that_of_the_whole_traces():
    """Over time, blocks of 16: 0.057 to 0.608 % on the two whole traces whose exact figures we keep."""
    traces = json.loads((Path(__file__).parent / "cases" / "serving.json").read_text())["traces"]
    whole = [100 * trace["waste_by_block_size"]["16"]["waste_time_weighted"] for trace in traces.values()]
    verdict = claims.get("small-blocks-waste-less").run(quick=False)
    at_16 = [m.value for m in verdict.measured if "blocks of 16" in m.what]
    assert min(at_16) == pytest.approx(min(whole), rel=1 / 7)
    assert max(at_16) == pytest.approx(max(whole), rel=1 / 7)


def test_an_unknown_claim_lists_those_that_exist():
    with pytest.raises(KeyError, match="small-blocks-waste-less"):
        claims.get("large-blocks")
