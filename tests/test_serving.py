"""The serving loop against exact figures, and the contiguous policies beside it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from pagedlab import workloads
from pagedlab.policies import memory_for
from pagedlab.serving import POLICIES, Run, simulate
from pagedlab.workloads import Workload

CASES = json.loads((Path(__file__).parent / "cases" / "serving.json").read_text())["small"]
COVERED = [case for case in CASES if not case["input"]["watermark"]]


def _start(case) -> Run:
    given = case["input"]
    workload = Workload(
        case["name"],
        "assumed",
        "a case",
        np.array(given["prompt"]),
        np.array(given["output"]),
        np.array(given["arrival_step"]) * 7,
    )
    num_slots = given["num_blocks"] * given["block_size"]
    memory = memory_for(workload, "paged", num_slots, given["block_size"])
    return Run(workload, "paged", memory, given["max_seqs"], step_ns=7)


@pytest.mark.parametrize("case", COVERED, ids=lambda case: case["name"])
def test_a_run_gives_the_exact_figures(case):
    run, expected = _start(case), case["expected"]
    while not run.complete:
        run.step()
    steps = run.steps
    digest = hashlib.sha256(",".join(map(str, run.finish_step.tolist())).encode()).hexdigest()[:16]
    assert digest == expected["finish_digest"]
    assert {
        "busy_steps": len(steps),
        "end_step": run.now,
        "finished": run.finished,
        "rejected": run.refused,
        "preemptions": sum(steps.preempted),
        "recomputed_tokens": run.recomputed_tokens,
        "peak_running": max(steps.running),
        "held_slot_steps": sum(steps.held),
        "used_slot_steps": sum(steps.stored),
        "waste_time_weighted": round(1 - sum(steps.stored) / sum(steps.held), 6),
        "mean_running": round(steps.mean("running"), 4),
    }.items() <= expected.items()


@pytest.mark.parametrize("case", [c for c in COVERED if c.get("steps")], ids=lambda case: case["name"])
def test_every_step_is_as_told(case):
    run = _start(case)
    for expected in case["steps"]:
        if run.now < expected["step"] and not run.running and not run.waiting:
            run.now = expected["step"]
        run.step()
        manager, log = run.manager, run.events
        state = log.state_at(log.num_steps - 1, manager.block_size)
        assert sorted(state.tables) == sorted(expected["running"])
        for request, stored, blocks in zip(
            expected["running"], expected["stored"], expected["blocks"], strict=True
        ):
            assert (state.num_tokens[request], len(state.tables[request])) == (stored, blocks)
        assert manager.num_free_blocks == expected["free"]
        assert np.flatnonzero(run.finish_step == expected["step"]).tolist() == expected["finished"]


def test_the_recorded_conversation_trace_ends_as_recorded(trace_path):
    workload = workloads.load(trace_path("azure_2023_conv.csv"))
    run = simulate(workload, num_slots=65_536, block_size=16, record=False)
    assert (run.now, sum(run.steps.preempted)) == (78_570, 2_890)
    assert run.finished == len(workload)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_request_is_finished_or_refused(policy):
    workload = workloads.named("bimodal", requests=80)
    run = simulate(workload, policy, num_slots=8_192)
    assert run.complete and run.finished + run.refused == 80
    assert run.manager.usage().held == run.manager.usage().stored == 0 or run._leaving


@pytest.mark.parametrize("policy", POLICIES)
def test_a_step_accounts_for_every_slot(policy):
    run = simulate(workloads.named("azure-conversation"), policy, num_slots=20_000, max_steps=300)
    steps = run.steps
    for held, stored, reserved, internal, external in zip(
        steps.held, steps.stored, steps.reserved, steps.internal, steps.external, strict=True
    ):
        assert held == stored + reserved + internal
        assert 0 <= external <= run.manager.usage().slots - held
        assert min(held, stored, reserved, internal) >= 0


def test_a_run_is_cut_after_so_many_steps_or_events():
    workload = workloads.named("uniform", requests=500)
    assert len(simulate(workload, num_slots=4_096, max_steps=7).steps) == 7
    cut = simulate(workload, num_slots=4_096, max_events=300)
    assert not cut.complete and 300 <= len(cut.events) <= 300 + 4_096


def test_requests_larger_than_the_pool_are_refused_and_counted_not_waited_for():
    workload = workloads.parse("input_length,output_length\n500,5\n10,5\n")
    run = simulate(workload, num_slots=128)
    assert (run.finished, run.refused, run.complete) == (1, 1, True)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(policy="pagd"), "policy must be one of paged, power-of-two, reserve, got 'pagd'"),
        (dict(block_size=0), "block_size must be 1 to num_slots"),
        (dict(num_slots=0), "num_slots must be at least 1, got 0"),
    ],
)
def test_a_run_that_cannot_be_says_why(arguments, words):
    with pytest.raises(ValueError, match=words):
        simulate(workloads.named("uniform", requests=3), **{"num_slots": 64, **arguments})
