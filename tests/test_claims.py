"""The logic of each verdict, on fixed records."""

from __future__ import annotations

import numpy as np
import pytest

from pagedlab import claims, published, waste, workloads
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


@pytest.mark.parametrize("size", [16, 256])
def test_waste_drawn_from_quantiles_is_within_a_seventh_of_that_of_the_whole_traces(size):
    for name, percent in published.figure("s2").values[f"block_{size}_percent"].items():
        drawn = waste.paged(workloads.named(name), size).wasted_share
        assert 100 * drawn == pytest.approx(percent, rel=1 / 7), name


def test_an_unknown_claim_lists_those_that_exist():
    with pytest.raises(KeyError, match="small-blocks-waste-less"):
        claims.get("large-blocks")
