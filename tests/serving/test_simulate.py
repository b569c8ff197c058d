"""A served run: skipping changes nothing, no token is lost, and it always ends."""

from __future__ import annotations

import gc
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain import serve

from pagedlab import waste, workloads
from pagedlab.cost import Heads
from pagedlab.measured_steps import Decoder, measure
from pagedlab.policies import GROWING
from pagedlab.serving import ASSUMED, POLICIES, REFUSED, Request, Rules, StepTime, fit, simulate, start
from pagedlab.workloads import Workload

REQUESTS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 30), st.integers(0, 60)), min_size=1, max_size=14
)
RULES = st.builds(
    Rules,
    max_seqs=st.none() | st.integers(1, 5),
    token_budget=st.none() | st.integers(1, 50),
    watermark=st.sampled_from([0.0, 0.1, 0.4]),
)
COLUMNS = ("running", "waiting", "held", "stored", "preempted", "computed")


def _workload(requests) -> Workload:
    requests = sorted(requests, key=lambda request: request[2])
    prompt, output, arrival = np.array(requests, dtype=np.int64).T
    return Workload("case", "assumed", "a test", prompt, output, arrival * 5)


@settings(max_examples=300, deadline=None)
@given(REQUESTS, st.integers(1, 8), st.integers(1, 30), RULES, st.booleans())
def test_a_run_is_the_plain_loop_whether_it_skips_or_not(requests, block_size, num_blocks, rules, timed):
    workload = _workload(requests)
    arrivals = (workload.arrival_ns // 5).tolist() if timed else [0] * len(workload)
    rows, finish = serve(
        list(zip(workload.prompt.tolist(), workload.output.tolist(), arrivals, strict=True)),
        block_size,
        num_blocks,
        kept_free=int(rules.watermark * num_blocks),
        max_seqs=rules.max_seqs,
        budget=rules.token_budget,
    )
    for record in (True, False):
        run = simulate(
            workload,
            num_slots=num_blocks * block_size,
            block_size=block_size,
            rules=rules,
            step_time=StepTime(5) if timed else None,
            record=record,
        )
        columns = [getattr(run.steps, column).tolist() for column in COLUMNS]
        assert list(zip(*columns, strict=True)) == rows
        assert run.finish_step.tolist() == finish
        tokens = run.tokens
        assert tokens.computed == sum(row[-1] for row in rows)
        assert tokens.computed == tokens.prefilled + tokens.decoded + tokens.recomputed


@settings(max_examples=150, deadline=None)
@given(
    REQUESTS,
    RULES,
    st.sampled_from(POLICIES),
    st.sampled_from([None, StepTime(5), StepTime(3, 1, 2)]),
    st.data(),
)
def test_a_run_cut_anywhere_holds_the_same_blocks_whether_it_skips_or_not(
    requests, rules, policy, step_time, data
):
    rules = Rules(rules.max_seqs, rules.token_budget, rules.watermark, granule=16)
    workload = _workload(requests)
    cut = data.draw(st.integers(0, 120))
    settings = dict(num_slots=90, block_size=3, rules=rules, step_time=step_time, max_steps=cut)
    every, skipping = (simulate(workload, policy, record=record, **settings) for record in (True, False))
    assert every.now == skipping.now and every.stopped == skipping.stopped
    assert every.finish_step.tolist() == skipping.finish_step.tolist()
    assert every.first_step.tolist() == skipping.first_step.tolist()
    assert every.tokens == skipping.tokens
    for column in vars(every.steps):
        assert getattr(every.steps, column).tolist() == getattr(skipping.steps, column).tolist(), column
    for request in every.running:
        if policy in GROWING:
            assert every.manager.table(request.id) == skipping.manager.table(request.id)
            assert every.manager.num_tokens(request.id) == skipping.manager.num_tokens(request.id)
    assert every.manager.usage() == skipping.manager.usage()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("budget", [None, 300])
def test_every_token_is_prefilled_decoded_or_reported_as_recomputed(policy, budget):
    workload = workloads.named("bimodal", requests=120)
    rules = Rules(token_budget=budget)
    done = simulate(workload, policy, num_slots=12_000, rules=rules, record=False)
    assert done.complete and done.finished == 120
    assert done.tokens.prefilled == workload.prompt.sum()
    assert done.tokens.decoded == (workload.output - 1).sum()
    assert (policy in GROWING) == bool(done.tokens.recomputed), "only what grows runs out of memory"
    for steps in (1, 50, 333):
        tokens = simulate(
            workload, policy, num_slots=12_000, rules=rules, max_steps=steps, record=False
        ).tokens
        assert tokens.computed == tokens.prefilled + tokens.decoded + tokens.recomputed


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_complete_run_holds_what_finished_last_and_the_next_step_gives_it_back(policy, record):
    workload = workloads.named("bimodal", requests=60)
    run = simulate(workload, policy, num_slots=12_000, record=record)
    last = np.flatnonzero(run.finish_step == run.now - 1)
    assert run.complete and 1 <= len(last) < 60
    usage = run.manager.usage()
    assert usage.stored == workload.stored[last].sum() and usage.held == run.steps.held[-1] > 0
    steps = len(run.steps)
    run.step()
    assert run.manager.usage().held == run.manager.usage().stored == 0 and len(run.steps) == steps


@pytest.mark.parametrize("policy", POLICIES)
def test_a_step_accounts_for_every_slot(policy):
    run = simulate(workloads.named("azure-conversation"), policy, num_slots=20_000, max_steps=300)
    steps = run.steps
    assert (steps.held == steps.stored + steps.reserved + steps.internal).all()
    assert (steps.external <= run.manager.usage().slots - steps.held).all()
    assert min(column.min() for column in vars(steps).values()) >= 0


def test_pieces_of_the_exact_size_leave_holes_and_pieces_that_move_do_not():
    workload = workloads.named("bimodal", requests=200)
    exact, moved = (
        simulate(workload, "exact", num_slots=12_000, rules=Rules(holes=holes), record=False)
        for holes in (True, False)
    )
    assert exact.steps.internal.sum() == 0 < exact.steps.external.sum()
    assert len(moved.steps) <= len(exact.steps)
    with pytest.raises(ValueError, match="without holes has no addresses to record: pass record=False"):
        simulate(workload, "exact", num_slots=12_000, rules=Rules(holes=False))


def test_on_the_same_requests_a_policy_that_knows_less_serves_fewer_at_once():
    workload = workloads.named("azure-conversation", requests=1_500)
    at_once = {
        policy: simulate(workload, policy, num_slots=65_536, record=False).steps.mean("running")
        for policy in ("paged", "exact", "prompt+power-of-two", "power-of-two", "reserve")
    }
    assert list(at_once.values()) == sorted(at_once.values(), reverse=True)


def test_the_recorded_conversation_trace_ends_as_recorded(trace_path):
    workload = workloads.load(trace_path("azure_2023_conv.csv"))
    run = simulate(workload, num_slots=65_536, block_size=16, record=False)
    assert (run.now, run.steps.preempted.sum(), len(run.events)) == (78_570, 2_890, 0)
    assert run.finished == len(workload)


def test_a_request_that_waits_for_its_first_turn_is_a_number_until_it_is_looked_at():
    """A million rows are arrays, not a million objects."""
    gc.collect()
    before = sum(isinstance(thing, Request) for thing in gc.get_objects())
    run = simulate(workloads.named("uniform", requests=30_000), num_slots=8_192, max_steps=3, record=False)
    after = sum(isinstance(thing, Request) for thing in gc.get_objects())
    assert after - before < 200 and len(run.waiting) > 29_000
    assert [request.id for request in run.waiting[-2:]] == [29_998, 29_999]


# ---- refusing, stopping -------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_what_an_empty_pool_could_not_hold_is_refused_with_numbers_never_waited_for(policy):
    workload = workloads.parse("input_length,output_length\n500,5\n10,5\n700,300\n")
    rules = Rules(granule=16, reserved=1_000, watermark=0.1)
    run = simulate(workload, policy, num_slots=128, rules=rules)
    assert run.complete and run.refused == len(run.refusals) >= 2
    assert run.first_step[0] == run.finish_step[0] == REFUSED
    message = str(run.refusals[0])
    assert "request 0 stores 504 tokens at its end and needs" in message and "the pool has" in message


def test_a_refusal_counts_the_blocks_kept_free():
    workload = workloads.parse("input_length,output_length\n100,12\n")
    assert simulate(workload, num_slots=128).refused == 0
    (refusal,) = simulate(workload, num_slots=128, rules=Rules(watermark=0.25)).refusals
    assert str(refusal) == (
        "request 0 stores 111 tokens at its end and needs 7 block(s) with 2 kept free; the pool has 8"
    )


def test_a_run_is_cut_after_so_many_steps_or_events():
    workload = workloads.named("uniform", requests=500)
    for record in (True, False):
        run = simulate(workload, num_slots=4_096, max_steps=7, record=record)
        assert len(run.steps) == 7 and run.stopped == "max_steps"
    cut = simulate(workload, num_slots=4_096, max_events=300)
    assert cut.stopped == "max_events" and 300 <= len(cut.events) <= 300 + 4_096


def test_a_run_stops_when_told_and_keeps_what_it_has():
    asked = iter([False] * 40 + [True])
    run = simulate(
        workloads.named("azure-conversation"), num_slots=65_536, should_stop=lambda: next(asked), record=False
    )
    assert run.stopped == "should_stop" and not run.complete
    assert len(run.steps) >= 40 and run.manager.usage().stored > 0


def test_control_c_ends_a_run_between_two_steps_and_keeps_what_it_has():
    handler = signal.getsignal(signal.SIGINT)
    asked = 0

    def press_control_c() -> bool:
        nonlocal asked
        asked += 1
        if asked == 30:
            signal.raise_signal(signal.SIGINT)
        return False

    run = simulate(workloads.named("azure-conversation"), num_slots=65_536, should_stop=press_control_c)
    assert run.stopped == "interrupted" and len(run.steps) == run.events.num_steps == 30
    assert run.tokens.computed == run.tokens.prefilled + run.tokens.decoded + run.tokens.recomputed
    assert signal.getsignal(signal.SIGINT) is handler


def test_progress_is_shown_when_asked_for_and_not_otherwise(capsys):
    workload = workloads.named("uniform", requests=50)
    simulate(workload, num_slots=4_096)
    assert capsys.readouterr().err == ""
    simulate(workload, num_slots=4_096, progress=True)
    assert "serving uniform" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(policy="pagd"), "policy must be one of paged, virtual, .*, reserve, got 'pagd'"),
        (dict(block_size=0), "block_size must be at least 1, got 0"),
        (dict(block_size=65), r"block_size must be 1 to num_slots \(64\), got 65"),
        (dict(block_size=1.5), "block_size must be an integer, got 1.5"),
        (dict(num_slots=64.0), "num_slots must be an integer, got 64.0"),
        (dict(max_steps=-1), "max_steps must be at least 0, got -1"),
        (dict(max_steps=0.5), "max_steps must be an integer, got 0.5"),
        (dict(max_events=-1), "max_events must be at least 0, got -1"),
        (dict(num_slots=0), "num_slots must be at least 1, got 0"),
        (dict(policy="virtual"), r"granule must be 1 to num_slots \(64\), got 1024"),
        (
            dict(policy="reserve", rules=Rules(reserved=3)),
            "3 slots a request are too few: the longest stores",
        ),
        (dict(rules=Rules(prefix_caching=True)), "nothing is known of the prompts of uniform, only lengths"),
    ],
)
def test_a_run_that_cannot_be_says_why(arguments, words):
    with pytest.raises((ValueError, TypeError), match=words):
        simulate(workloads.named("uniform", requests=3), **{"num_slots": 64, **arguments})


@pytest.mark.parametrize(
    "rules, words",
    [
        (dict(watermark=1.0), "watermark must be at least 0 and below 1, got 1.0"),
        (dict(watermark=None), "watermark must be a number, got None"),
        (dict(max_seqs=0), "max_seqs must be at least 1, got 0"),
        (dict(max_seqs=-1), "max_seqs must be at least 1, got -1"),
        (dict(max_seqs=2.5), "max_seqs must be an integer, got 2.5"),
        (dict(token_budget=-1), "token_budget must be at least 1, got -1"),
    ],
)
def test_a_rule_that_cannot_be_followed_says_why(rules, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Rules(**rules)


@pytest.mark.parametrize(
    "parts, words",
    [
        (dict(base=0), "base must be at least 1, got 0"),
        (dict(base=1.5), "base must be an integer, got 1.5"),
        (dict(base=1, per_token=-1), "per_token must be at least 0, got -1"),
        (dict(base=1, per_stored=0.1), "per_stored must be an integer, got 0.1"),
    ],
)
def test_a_step_takes_a_whole_number_of_nanoseconds_and_some(parts, words):
    with pytest.raises((ValueError, TypeError), match=words):
        StepTime(**parts)


@pytest.mark.parametrize("policy", POLICIES)
def test_no_request_at_all_is_a_run_of_no_steps(policy):
    nobody = workloads.named("uniform", requests=3)
    run = simulate(nobody.only(nobody.prompt < 0), policy, num_slots=2_048)
    assert run.complete and len(run.steps) == 0 and run.tokens == (0, 0, 0, 0, 0)


# ---- time ---------------------------------------------------------------------------------------


def test_when_steps_take_longer_for_more_tokens_later_arrivals_find_an_earlier_step():
    workload = workloads.parse("timestamp_ms,input_length,output_length\n0,1000,50\n100,10,5\n5000,10,1\n")
    slow, quick = (
        simulate(workload, num_slots=4_096, step_time=StepTime(10_000_000, per_token))
        for per_token in (90_000, 1)
    )
    # The long prompt alone takes 100 ms in the slow run, ten steps in the quick one.
    assert (slow.first_step[1], quick.first_step[1]) == (1, 10)
    assert slow.first_step[2] == len(slow.steps) - 1, "idle time has no steps of its own"


def test_steps_of_equal_length_are_numbered_through_idle_time():
    workload = workloads.parse("timestamp_ms,input_length,output_length\n0,10,2\n1000,10,2\n")
    run = simulate(workload, num_slots=64, step_time=StepTime(10_000_000))
    assert run.finish_step.tolist() == [1, 101] and len(run.steps) == 4


def test_measured_steps_are_fitted_by_a_line_that_gives_no_time_back():
    truth = StepTime(4_000_000, 30_000, 50)
    counts = [(1, 0), (64, 20_000), (512, 1_000), (8, 90_000), (256, 90_000)]
    fitted = fit([(c, s, truth.of(c, s) / 1e9) for c, s in counts], "five steps of a test")
    assert (fitted.base, fitted.per_token, fitted.per_stored) == (4_000_000, 30_000, 50)
    assert (fitted.word, fitted.source) == ("measured", "five steps of a test")
    falling = fit([(c, s, 0.02 - 1e-8 * s + 1e-5 * c) for c, s in counts], "context that saves time")
    assert falling.per_stored == 0 and falling.per_token > 0
    with pytest.raises(ValueError, match="too alike"):
        fit([(1, 10, 0.1)] * 5, "the same step again and again")
    with pytest.raises(ValueError, match="at least 3 measured steps"):
        fit([(1, 10, 0.1)], "one step")


def test_steps_can_be_weighed_by_what_they_cost():
    run = simulate(workloads.named("uniform", requests=20), num_slots=4_096, record=False)
    assert ASSUMED.of_steps(run.steps).tolist() == [
        ASSUMED.of(computed, 0) for computed in run.steps.computed.tolist()
    ]
    assert run.steps.wasted_share(np.ones(len(run.steps))) == pytest.approx(
        waste.paged(workloads.named("uniform", requests=20), 16).wasted_share
    )


# ---- shared prefixes ----------------------------------------------------------------------------


def test_prefixes_of_a_trace_are_served_from_the_cache():
    """Chat rounds: each prompt begins with the one before."""
    rounds = "".join(
        f'{{"timestamp": {1000 * turn}, "input_length": {512 * (turn + 1)}, "output_length": 8, '
        f'"hash_ids": {list(range(turn + 1))}}}\n'
        for turn in range(6)
    )
    workload = workloads.parse(rounds)
    settings = dict(num_slots=8_192, block_size=32, step_time=StepTime(10_000_000))
    cold = simulate(workload, **settings).tokens
    run = simulate(workload, rules=Rules(prefix_caching=True), **settings)
    assert run.tokens.cached == sum(512 * turn for turn in range(6)) and cold.cached == 0
    assert run.tokens.computed + run.tokens.cached == cold.computed
    assert (run.tokens.prefilled, run.tokens.decoded) == (cold.prefilled, cold.decoded)
    rules = Rules(prefix_caching=True, token_budget=300)
    chunked = simulate(workload, rules=rules, **settings)
    assert chunked.tokens == run.tokens and chunked.complete, "what is found takes nothing of the budget"
    assert chunked.steps.computed.max() == 300 < run.steps.computed.max()


def test_a_step_can_take_as_long_as_a_decoder_takes_here():
    decoder = Decoder(layers=1, heads=Heads(1, 16))
    step_time = measure(decoder, repeats=3)
    assert step_time.word == "measured" and str(decoder) in step_time.source
    run = simulate(workloads.named("uniform", requests=20), num_slots=4_096, step_time=step_time)
    assert run.complete and step_time.of_steps(run.steps).min() >= step_time.base
    with pytest.raises(ValueError, match="stopped before every batch"):
        measure(decoder, should_stop=lambda: True)


def test_a_run_can_be_stepped_by_hand():
    run = start(workloads.parse("input_length,output_length\n4,3\n"), num_slots=16, block_size=4)
    run.step()
    assert [request.id for request in run.running] == [0] and run.manager.num_tokens(0) == 4
    run.step()
    assert run.manager.num_tokens(0) == 5 and not run.complete
