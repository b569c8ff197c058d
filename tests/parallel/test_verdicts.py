"""The logic of the three verdicts on ranks, on records that are written down here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pagedlab.claims import coordination_costs, one_gpu_is_simplest, ranks_agree
from pagedlab.claims.verdict import Outcome
from pagedlab.parallel import Ending, MessageCost, Plan, RanksRun
from pagedlab.parallel.cost import RunCost, run_cost

SOUND = Ending(complete=True)
FOUND = Ending(False, culprit=1, last_step=2, why="the update of step 1 arrived where that of step 2 was due")


def a_run(ranks=2, errors=(0.0, 1e-7), ending=SOUND, message_bytes=20, digests=("a", "a")):
    plan = Plan(ranks=ranks, steps=len(errors))
    records = [
        {
            "rank": rank,
            "step": step,
            "digest": digests[rank % 2],
            "message_bytes": message_bytes,
            "host_s": 1e-4,
            "waited_s": 2e-4,
            "attention_s": 1e-3,
            **({"error": error} if rank == 0 else {}),
        }
        for step, error in enumerate(errors)
        for rank in range(ranks)
    ]
    return RanksRun(plan, records, [], ending)


@pytest.mark.parametrize(
    ("sound", "unchecked", "checked", "outcome"),
    [
        (a_run(), a_run(errors=(0, 3.0)), a_run(ending=FOUND), Outcome.HOLDS),
        (a_run(errors=(0, 1e-3)), a_run(errors=(0, 3.0)), a_run(ending=FOUND), Outcome.FAILS_HERE),
        (a_run(digests="ab"), a_run(errors=(0, 3.0)), a_run(ending=FOUND), Outcome.FAILS_HERE),
        (
            a_run(),
            a_run(),
            a_run(ending=FOUND),
            Outcome.FAILS_HERE,
        ),  # nobody needs the table
        (a_run(), a_run(errors=(0, 3.0)), a_run(), Outcome.FAILS_HERE),  # the fault went unnoticed
    ],
)
def test_ranks_agree(sound, unchecked, checked, outcome):
    assert ranks_agree.judge(sound, unchecked, checked).outcome is outcome


@pytest.mark.parametrize(
    ("difference", "replicas", "outcome"),
    [(50, 1.0, Outcome.HOLDS_WHEN), (5_000, 1.0, Outcome.HOLDS), (50, 900.0, Outcome.HOLDS)],
)
def test_coordination_costs(difference, replicas, outcome):
    cost = MessageCost("w", 64, 16, 10, 30_000, 20_000, difference, 1e-3, 1e-3)
    runs = {
        method: RunCost(sent, 1e-4, 1e-4, 1e-3)
        for method, sent in (("full", 20_000), ("differences", difference), ("replicas", replicas))
    }
    assert coordination_costs.judge(cost, runs, "here").outcome is outcome


def test_one_gpu_sends_nothing_and_has_one_gpus_room():
    verdict = one_gpu_is_simplest.judge(a_run(ranks=1, message_bytes=0), a_run())
    assert verdict.outcome is Outcome.HOLDS_WHEN
    assert "llama-3.1-70b in bf16 does not fit" in verdict.conditions[1]
    assert one_gpu_is_simplest.judge(a_run(ranks=1), a_run()).outcome is Outcome.FAILS_HERE
    wrong = a_run(ranks=1, message_bytes=0, errors=(0, 1.0))
    assert one_gpu_is_simplest.judge(wrong, a_run()).outcome is Outcome.FAILS_HERE


def test_a_run_that_broke_has_no_cost():
    assert run_cost(a_run()).waited_s == 2e-4
    with pytest.raises(ValueError, match="did not end well"):
        run_cost(replace(a_run(), ending=FOUND))
