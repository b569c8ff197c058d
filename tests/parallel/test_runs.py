"""Real processes: what they answer together, what a fault does, and that nothing is left behind.

By hand, every fault twenty times: `python tests/parallel/test_runs.py 20`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from itertools import islice

import pytest

pytest.importorskip("torch.distributed")

from pagedlab.parallel import METHODS, Fault, Plan, Ranks, run
from pagedlab.parallel.launch import _record

TOLERANCE = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}
STEP = 9

# kind, rank, method; `diverge` is found at the next comparison, the others in the step itself or the next.
FAULTS = [
    ("drop", 1, "differences"),
    ("drop", 2, "full"),
    ("duplicate", 1, "differences"),
    ("reorder", 2, "full"),
    ("corrupt", 1, "differences"),
    ("corrupt", 2, "full"),
    ("delay", 1, "full"),
    ("kill", 0, "differences"),
    ("kill", 2, "replicas"),
    ("small-pool", 1, "full"),
    ("diverge", 2, "replicas"),
]


# Every method at every number of ranks, and at every number of KV heads.
@pytest.mark.parametrize(
    ("ranks", "kv_heads", "method", "dtype"),
    [
        (2, 8, "differences", "float32"),
        (2, 4, "full", "float16"),
        (2, 2, "replicas", "float32"),
        (2, 1, "differences", "bfloat16"),
        (3, 8, "full", "float32"),
        (3, 4, "replicas", "bfloat16"),
        (3, 2, "differences", "float32"),
        (3, 1, "full", "float32"),
        (4, 8, "replicas", "float32"),
        (4, 4, "differences", "float32"),
        (4, 2, "full", "float32"),
        (4, 1, "replicas", "float32"),
    ],
)
def test_all_ranks_together_answer_as_one_process_does(ranks, kv_heads, method, dtype):
    plan = Plan(ranks=ranks, steps=500, method=method, kv_heads=kv_heads, dtype=dtype, seed=ranks + kv_heads)
    schedule = plan.schedule(plan.num_blocks)
    assert len(list(islice(schedule, 500))) == 500
    assert min(schedule.counts.values()) > 9, schedule.counts  # of every kind of event
    outcome = run(plan)
    assert outcome.ending.complete, outcome.ending
    assert outcome.steps_in_step == 500  # every rank's own digest, compared at each step
    assert len(outcome.of_rank(0)) == 500 and all("error" in record for record in outcome.of_rank(0))
    assert outcome.largest_error <= TOLERANCE[dtype]


def fails_as_it_must(kind, rank, method):
    plan = Plan(
        ranks=3, steps=40, method=method, fault=Fault(kind, rank, STEP, seconds=1.0), late_after_s=0.5
    )
    with Ranks(plan) as ranks:
        pids = [process.pid for process in ranks._processes]
        for _ in ranks.listen():
            pass
    ending = ranks.outcome.ending
    assert not ending.complete
    assert ending.culprit == rank, ending
    if kind == "small-pool":
        assert "32" in ending.why and "pool" not in ending.why
    elif kind == "diverge":
        assert STEP <= ending.last_step < STEP + plan.compare_every, ending
    else:
        assert ending.last_step - STEP == (kind == "duplicate"), ending
    assert len(ending.told) >= 2, ending  # the ranks that are left all know
    assert ending.took_s < 2 * plan.patience_s + 1  # the launcher's own limit, and a second to end in
    # No answer of a step that a rank found wrong was given by that rank.
    if kind not in ("kill", "diverge"):
        assert max(record["step"] for record in ranks.outcome.of_rank(rank)) < ending.last_step
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    return ending.took_s


@pytest.mark.parametrize(("kind", "rank", "method"), FAULTS)
def test_a_fault_is_found_named_and_ends_the_run(kind, rank, method):
    fails_as_it_must(kind, rank, method)


@pytest.mark.parametrize("kind", ["drop", "duplicate"])
def test_without_checks_the_answers_are_wrong_and_nobody_says_so(kind):
    outcome = run(Plan(ranks=2, steps=60, method="full", detect=False, fault=Fault(kind, 1, STEP)))
    assert outcome.ending.complete
    assert outcome.steps_in_step < 60
    before = [record["error"] for record in outcome.of_rank(0) if record["step"] < STEP]
    assert max(before) <= TOLERANCE["float32"]
    assert outcome.largest_error > 0.1


def test_a_rank_that_raises_is_quoted():
    ending = run(Plan(steps=3, workload="no-such-workload")).ending
    assert (ending.complete, ending.culprit) == (False, 0)
    assert "no-such-workload" in ending.why


def test_a_rank_with_less_room_decides_the_pool_of_all():
    outcome = run(Plan(ranks=2, steps=5, num_blocks=64))
    assert {said["pool"] for said in outcome.shards} == {64}


def test_one_rank_sends_nothing():
    outcome = run(Plan(ranks=1, steps=20))
    assert outcome.ending.complete
    assert sum(record["message_bytes"] for record in outcome.records) == 0


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_blocks": 1},
        {"block_size": 1},
        {"max_seqs": 1},
        {"num_blocks": 2, "block_size": 1, "kv_heads": 1},
        {"q_heads": 9, "kv_heads": 3, "head_dim": 3},  # more heads than ranks, and no multiple
    ],
)
def test_sizes_at_their_limits_run(sizes):
    outcome = run(Plan(ranks=2, steps=12, **sizes))
    assert outcome.ending.complete and outcome.steps_in_step == 12, outcome.ending
    assert outcome.largest_error <= TOLERANCE["float32"]


def test_a_workload_runs_to_the_step_in_which_its_last_request_leaves_and_no_further(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("num_prefill_tokens,num_decode_tokens\n5,3\n4,2\n")
    plan = Plan(steps=4, workload=str(path))
    steps = len(list(plan.schedule(plan.num_blocks)))
    assert run(Plan(steps=steps, workload=str(path))).ending.complete
    ending = run(Plan(steps=steps + 1, workload=str(path))).ending
    assert ending.culprit == 0 and f"the workload ended before step {steps}" in ending.why


@pytest.mark.parametrize(
    ("how", "step", "why"), [("SIGKILL", None, "died of SIGKILL"), ("SIGSTOP", 3, "stands still")]
)
def test_a_rank_that_dies_while_it_starts_or_stands_still_is_named(how, step, why):
    if not hasattr(signal, how):
        pytest.skip(f"a system without {how}")
    with Ranks(Plan(ranks=3, steps=10**6, patience_s=2)) as ranks:
        processes = ranks._processes
        if step is None:
            processes[1].send_signal(getattr(signal, how))
        for record in ranks.listen():
            if (record["rank"], record.get("step", -1)) == (1, step):
                processes[1].send_signal(getattr(signal, how))
    ending = ranks.outcome.ending
    assert ending.culprit == 1 and why in ending.why, ending
    assert ending.took_s < 2 * 2 + 1
    assert all(process.poll() is not None for process in processes)


@pytest.mark.parametrize("line", ["", '{"rank": 1, "st', "NCCL version 2\n", "7\n", "{}\n"])
def test_a_line_that_is_no_record_is_passed_over(line):
    assert _record(line) is None


def test_two_runs_at_once_do_not_meet():
    outcomes = []
    plans = [Plan(ranks=2, steps=10, seed=seed) for seed in (1, 2)]
    threads = [threading.Thread(target=lambda plan=plan: outcomes.append(run(plan))) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome.steps_in_step for outcome in outcomes] == [10, 10]


def test_leaving_half_way_leaves_no_process_behind():
    with Ranks(Plan(ranks=2, steps=100_000)) as ranks:
        pids = [process.pid for process in ranks._processes]
        for record in ranks.listen():
            if record.get("step") == 3:
                break
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_plan_survives_its_json():
    plan = Plan(ranks=3, method="full", fault=Fault("kill", 1, 5))
    assert Plan.from_json(plan.to_json()) == plan
    assert {plan.method for plan in (Plan(method=method) for method in METHODS)} == set(METHODS)


if __name__ == "__main__":
    for fault in FAULTS:
        took = sorted(fails_as_it_must(*fault) for _ in range(int(sys.argv[1])))
        middle, longest = took[len(took) // 2], took[-1]
        print(
            *fault,
            f"found, named and ended {len(took)} times in {middle:.1f} s, {longest:.1f} s at most",
            flush=True,
        )
