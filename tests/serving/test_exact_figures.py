"""The serving loop against exact figures that several other implementations agree on.

`tests/cases/serving_model.md` tells the model in words, `serving.json` has the figures: small cases step by
step, and two whole traces under every pool, policy and watermark. That is half an hour of simulation: a
part of it runs always, all of it where PAGEDLAB_ALL_FIGURES is set.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagedlab import waste, workloads
from pagedlab.serving import ASSUMED, Rules, Run, StepTime, simulate, start
from pagedlab.workloads import Workload

CASES = json.loads((Path(__file__).parents[1] / "cases" / "serving.json").read_text())
SMALL, TRACES = CASES["small"], CASES["traces"]
FILES = {
    "azure_2023_conv": "azure_2023_conv.csv",
    "mooncake_conversation": "mooncake_conversation_lengths.csv",
}
ALL = bool(os.environ.get("PAGEDLAB_ALL_FIGURES"))
POOL_OF_TIMED_RUNS = {"azure_2023_conv": 65_536, "mooncake_conversation": 1_048_576}
STEP_30_MS = StepTime(30_000_000)
SIMULATED_POLICIES = {
    "reserve_longest_in_trace": ("reserve", Rules(holes=False)),
    "reserve_context_16384": ("reserve", Rules(holes=False, reserved=16_384)),
    "reserve_context_131072": ("reserve", Rules(holes=False, reserved=131_072)),
    "power_of_two_total": ("power-of-two", Rules(holes=False)),
    "prompt_plus_power_of_two_output": ("prompt+power-of-two", Rules(holes=False)),
    "exact_oracle": ("exact", Rules(holes=False)),
}


def _small(case: dict[str, Any], *, record: bool) -> Run:
    """A small case, ready to be stepped: its arrivals are steps of 7 ns."""
    given = case["input"]
    columns = (np.array(given[name]) for name in ("prompt", "output", "arrival_step"))
    prompt, output, arrival = columns
    return start(
        Workload(case["name"], "assumed", "a case", prompt, output, arrival * 7),
        num_slots=given["num_blocks"] * given["block_size"],
        block_size=given["block_size"],
        rules=Rules(max_seqs=given["max_seqs"], watermark=given["watermark"]),
        step_time=StepTime(7),
        record=record,
    )


def _figures(run: Run) -> dict[str, Any]:
    """Everything that the cases know of a run, under their names."""
    steps = run.steps
    finish, busy = run.finish_step, steps.held > 0
    cost = ASSUMED.of_steps(steps) // ASSUMED.per_token  # 500 + tokens computed
    return {
        "end_step": int(finish.max()) + 1,
        "busy_steps": len(steps),
        "finished": run.finished,
        "rejected": run.refused,
        "preemptions": int(steps.preempted.sum()),
        "requests_preempted": int(np.count_nonzero(run.preemptions)),
        "recomputed_tokens": run.recomputed_tokens,
        "peak_running": int(steps.running.max()),
        "peak_blocks": int(steps.held.max()) // run.manager.block_size,
        "held_slot_steps": int(steps.held.sum()),
        "used_slot_steps": int(steps.stored.sum()),
        "waste_time_weighted": round(steps.wasted_share(), 6),
        "waste_mean_of_steps": round(float(np.mean(1 - steps.stored[busy] / steps.held[busy])), 6),
        "waste_cost_weighted": round(steps.wasted_share(cost), 6),
        "mean_running": round(steps.mean("running"), 4),
        "finish_digest": hashlib.sha256(",".join(map(str, finish.tolist())).encode()).hexdigest()[:16],
        "finish_step": finish.tolist(),
    }


def _equal(run: Run, expected: dict[str, Any]) -> None:
    figures = _figures(run)
    assert {name: figures[name] for name in expected} == expected


@pytest.mark.parametrize("record", [True, False], ids=["every token", "skipping"])
@pytest.mark.parametrize("case", SMALL, ids=lambda case: case["name"])
def test_a_small_run_gives_the_exact_figures(case, record):
    run = _small(case, record=record)
    while not run.complete:
        run.advance(1_000)
    _equal(run, case["expected"])


@pytest.mark.parametrize("record", [True, False], ids=["every token", "skipping"])
@pytest.mark.parametrize("case", [c for c in SMALL if c.get("steps")], ids=lambda case: case["name"])
def test_every_step_is_as_told(case, record):
    run = _small(case, record=record)
    done: set[int] = set()
    for expected in case["steps"]:
        preempted = run.preemptions.copy()
        before = {request.id for request in run.running}
        run.step()
        manager = run.manager
        assert run.now == expected["step"] + 1
        assert np.flatnonzero(run.preemptions - preempted).tolist() == sorted(expected["preempted"])
        finished = set(np.flatnonzero(run.finish_step >= 0).tolist()) - done
        assert sorted(finished) == expected["finished"]
        running = [request.id for request in run.running] + expected["finished"]
        assert sorted(running) == sorted(expected["running"])
        assert sorted(set(running) - before) == sorted(expected["admitted"])
        for request, stored, blocks in zip(
            expected["running"], expected["stored"], expected["blocks"], strict=True
        ):
            assert len(manager.table(request)) == blocks
            assert request in finished or manager.num_tokens(request) == stored
        assert manager.num_free_blocks == expected["free"]
        done |= finished


@pytest.fixture(scope="module")
def trace(trace_path):
    """A whole trace by its name in the cases, read once."""
    loaded: dict[str, Workload] = {}

    def get(name: str) -> Workload:
        if name not in loaded:
            loaded[name] = workloads.load(trace_path(FILES[name]))
        return loaded[name]

    return get


POLICY_CASES = [
    pytest.param(name, int(slots), policy, figures, id=f"{name}-{slots}-{policy}")
    for name, expected in TRACES.items()
    for slots, policies in expected["policies_saturated"].items()
    for policy, figures in policies.items()
    if ALL or (slots in ("65536", "4194304") and policy != "paged_1")
]


@pytest.mark.parametrize("name, slots, policy, expected", POLICY_CASES)
def test_every_policy_of_a_trace_gives_the_exact_figures(trace, name, slots, policy, expected):
    chosen, rules = SIMULATED_POLICIES.get(policy, ("paged", Rules()))
    block_size = int(policy.removeprefix("paged_")) if chosen == "paged" else 1
    run = simulate(trace(name), chosen, num_slots=slots, block_size=block_size, rules=rules, record=False)
    _equal(run, expected)


WATERMARK_CASES = [
    pytest.param(name, case, id=f"{name}-{case['mode']}-{case['pool_slots']}-{case['watermark']}")
    for name, expected in TRACES.items()
    for case in expected["watermark"]
    if ALL or (name == "azure_2023_conv" and case["watermark"] in (0.01, 0.05))
]


@pytest.mark.parametrize("name, case", WATERMARK_CASES)
def test_every_watermark_of_a_trace_gives_the_exact_figures(trace, name, case):
    run = simulate(
        trace(name),
        num_slots=case["pool_slots"],
        block_size=case["block_size"],
        rules=Rules(max_seqs=case["max_seqs"], watermark=case["watermark"]),
        step_time=STEP_30_MS if case["mode"] == "timed30" else None,
        record=False,
    )
    settings = ("mode", "pool_slots", "block_size", "max_seqs", "watermark")
    _equal(run, {field: value for field, value in case.items() if field not in settings})


DEMAND = [
    (name, time)
    for name, expected in TRACES.items()
    for time in expected["demand_unlimited_pool_block16"]
    if ALL or time == "100ms"
]


@pytest.mark.parametrize("name, time", DEMAND)
def test_what_a_trace_asks_of_a_pool_without_end(trace, name, time):
    milliseconds = int(time.removesuffix("ms"))
    run = simulate(trace(name), num_slots=1 << 24, step_time=StepTime(milliseconds * 1_000_000), record=False)
    _equal(run, TRACES[name]["demand_unlimited_pool_block16"][time])


WEIGHTED_CASES = [
    (name, block_size)
    for name, expected in TRACES.items()
    for block_size in expected["one_implementation_only"]
    if ALL or (name == "azure_2023_conv" and block_size in ("16", "64"))
]


@pytest.mark.parametrize("name, block_size", WEIGHTED_CASES)
def test_other_weights_and_chunks_of_a_trace_give_the_exact_figures(trace, name, block_size):
    expected = TRACES[name]["one_implementation_only"][block_size]

    def figures_of(token_budget: int | None) -> dict[str, Any]:
        return _figures(
            simulate(
                trace(name),
                num_slots=POOL_OF_TIMED_RUNS[name],
                block_size=int(block_size),
                rules=Rules(max_seqs=256, watermark=0.01, token_budget=token_budget),
                step_time=STEP_30_MS,
                record=False,
            )
        )

    figures, chunked = figures_of(None), figures_of(2048)
    assert {
        "waste_mean_of_steps_timed30": figures["waste_mean_of_steps"],
        "waste_cost_weighted_timed30": figures["waste_cost_weighted"],
        "chunk2048_waste_time_weighted": chunked["waste_time_weighted"],
        "chunk2048_busy_steps": chunked["busy_steps"],
    } == expected


@pytest.mark.parametrize("name", TRACES)
def test_waste_over_time_is_a_closed_form_of_the_lengths(trace, name):
    expected, workload = TRACES[name], trace(name)
    assert len(workload) == expected["requests"]
    assert int(workload.prompt.sum()) == expected["prompt_tokens"]
    assert int(workload.output.sum()) == expected["output_tokens"]
    assert int(workload.stored.max()) == expected["longest_stored"]
    request_steps = int(workload.output.sum())
    for block_size, row in expected["waste_by_block_size"].items():
        footprint = waste.paged(workload, int(block_size))
        assert {
            "held_slot_steps": footprint.held,
            "used_slot_steps": footprint.stored,
            "waste_time_weighted": round(footprint.wasted_share, 6),
            "waste_at_final_length": round(waste.at_final_length(workload, int(block_size)), 6),
            "mean_wasted_slots_per_request_step": round(footprint.waste.total / request_steps, 4),
        } == row
