"""The closed form of waste: against the definition, against the simulator, against published figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedlab import published, waste, workloads
from pagedlab.serving import POLICIES, Rules, simulate
from pagedlab.workloads import Workload

REQUESTS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=12)


def _workload(requests: list[tuple[int, int]]) -> Workload:
    prompt, output = np.array(requests, dtype=np.int64).T
    return Workload("case", "assumed", "a test", prompt, output)


@settings(max_examples=60, deadline=None)
@given(REQUESTS, st.integers(1, 20))
def test_paged_waste_is_what_the_definition_adds_up_to(requests, block_size):
    held = stored = 0
    for prompt, output in requests:
        for tokens in range(prompt, prompt + output):
            held += -(-tokens // block_size) * block_size
            stored += tokens
    footprint = waste.paged(_workload(requests), block_size)
    assert (footprint.held, footprint.stored) == (held, stored)
    assert footprint.waste == (0, held - stored, 0)


@settings(max_examples=60, deadline=None)
@given(REQUESTS)
def test_contiguous_waste_is_split_into_ones_own_future_and_never_used(requests):
    size = max(prompt + output - 1 for prompt, output in requests)
    reserved = internal = 0
    for prompt, output in requests:
        final = prompt + output - 1
        for tokens in range(prompt, final + 1):
            reserved += final - tokens
            internal += size - final
    assert waste.reserve_longest(_workload(requests)).waste == (reserved, internal, 0)


@settings(max_examples=40, deadline=None)
@given(REQUESTS, st.sampled_from([1, 3, 4, 16]), st.integers(100, 400))
def test_the_fast_formula_equals_the_event_log(requests, block_size, num_slots):
    """Whatever the pool and the preemptions: each request is seen once with each stored count."""
    workload = _workload(requests)
    run = simulate(workload, num_slots=num_slots, block_size=block_size)
    held = stored = 0
    for step in range(run.events.num_steps):
        state = run.events.state_at(step, block_size)
        held += block_size * sum(len(table) for table in state.tables.values())
        stored += sum(state.num_tokens.values())
    footprint = waste.paged(workload, block_size)
    assert run.refused == 0 and (footprint.held, footprint.stored) == (held, stored)


CLOSED_FORMS = {
    "paged": lambda workload: waste.paged(workload, 16),
    "virtual": lambda workload: waste.virtual(workload, 48),
    "exact": waste.exact,
    "prompt+power-of-two": lambda workload: waste._contiguous(
        workload, "", workload.prompt + waste.next_power_of_two(workload.output)
    ),
    "power-of-two": waste.power_of_two,
    "reserve": waste.reserve_longest,
}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_has_a_closed_form_that_equals_its_simulation(policy):
    workload = workloads.named("uniform", requests=60)
    steps = simulate(workload, policy, num_slots=1024, rules=Rules(granule=48), record=False).steps
    footprint = CLOSED_FORMS[policy](workload)
    assert steps.held.sum() == footprint.held and steps.stored.sum() == footprint.stored
    assert footprint.waste == (steps.reserved.sum(), steps.internal.sum(), 0)


@pytest.mark.parametrize("trace", ["azure_2023_conv", "mooncake_conversation"])
def test_waste_of_a_real_trace_equals_the_recorded_figures(trace, trace_path):
    file = {
        "azure_2023_conv": "azure_2023_conv.csv",
        "mooncake_conversation": "mooncake_conversation_lengths.csv",
    }
    workload = workloads.load(trace_path(file[trace]))
    cases = Path(__file__).parent / "cases" / "serving.json"
    expected = json.loads(cases.read_text())["traces"][trace]
    assert len(workload) == expected["requests"]
    for block_size, row in expected["waste_by_block_size"].items():
        footprint = waste.paged(workload, int(block_size))
        assert (footprint.held, footprint.stored) == (row["held_slot_steps"], row["used_slot_steps"])
        assert round(waste.at_final_length(workload, int(block_size)), 6) == row["waste_at_final_length"]


@pytest.mark.parametrize("trace", published.traces())
def test_waste_at_final_length_from_quantiles_is_near_the_published_one(trace):
    workload = workloads.named(trace)
    for block_size in (16, 64, 256):
        published_percent = published.lengths(trace).waste_percent[str(block_size)]
        assert 100 * waste.at_final_length(workload, block_size) == pytest.approx(published_percent, rel=0.25)


def test_uniform_lengths_waste_nothing_at_a_block_size_that_divides_them():
    workload = _workload([(512, 1)] * 5)
    assert [waste.at_final_length(workload, size) for size in (16, 256, 512)] == [0, 0, 0]
    assert waste.at_final_length(_workload([(520, 1)] * 5), 256) == pytest.approx(0.323, abs=1e-3)


def test_sums_past_64_bits_are_exact():
    largest = workloads.MAX_TOKENS
    count = 200_000
    workload = Workload("huge", "assumed", "a test", np.full(count, largest), np.full(count, largest))
    assert waste.reserve_longest(workload).held == count * largest * (2 * largest - 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda w: waste.paged(w, 0),
        lambda w: waste.virtual(w, 0),
        lambda w: waste.reserve_longest(w, 3),
    ],
)
def test_a_policy_that_cannot_be_says_why(call):
    with pytest.raises(ValueError, match="at least 1( token)?, got 0|3 slots a request are too few"):
        call(_workload([(5, 5)]))
