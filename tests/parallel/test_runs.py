"""Real processes: what they answer together, what a fault does, and that nothing is left behind.

By hand, every fault twenty times: `python tests/parallel/test_runs.py 20`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch.distributed")

from pagedlab.parallel import METHODS, Fault, Plan, Ranks, run
from pagedlab.parallel.__main__ import plan_of

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
    outcome = run(plan)
    assert outcome.ending.complete, outcome.ending
    assert outcome.steps_in_step == 500
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


def test_leaving_half_way_leaves_no_process_behind():
    with Ranks(Plan(ranks=2, steps=100_000)) as ranks:
        pids = [process.pid for process in ranks._processes]
        for record in ranks.listen():
            if record.get("step") == 3:
                break
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a process that can be killed outright")
def test_ranks_end_when_their_launcher_is_killed():
    code = (
        "import sys; from pagedlab.parallel import Plan, Ranks\n"
        "with Ranks(Plan(ranks=2, steps=10**6)) as ranks:\n"
        "    for record in ranks.listen():\n"
        "        if record.get('step') == 1:\n"
        "            print(*[p.pid for p in ranks._processes], flush=True); sys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code]
    launcher = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
    pids = [int(pid) for pid in launcher.stdout.readline().split()]
    assert len(pids) == 2
    launcher.kill()
    launcher.wait()
    launcher.stdin.close()
    launcher.stdout.close()
    for pid in pids:
        _wait_until_gone(pid)


@pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="Linux lists the children of a process there"
)
def test_ranks_end_when_their_launcher_is_killed_while_they_start():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "pagedlab.parallel", "--ranks", "3", "--kv-heads", "3", "--q-heads", "3"]
    launcher = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    pids: list[int] = []
    while len(pids) < 3 and launcher.poll() is None:
        tasks = Path(f"/proc/{launcher.pid}/task").glob("*/children")
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            pids = [int(pid) for task in tasks for pid in task.read_text().split()]
    launcher.kill()
    launcher.wait()
    assert len(pids) == 3
    for pid in pids:
        _wait_until_gone(pid)


def _wait_until_gone(pid):
    """A grandchild cannot be waited for; the system's own table of processes says when it has ended."""
    import time

    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except FileNotFoundError:
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} is still there")


def test_torchrun_runs_the_same_ranks():
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [*torchrun, "-m", "pagedlab.parallel", "--steps", "20"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines() if '"digest"' in line]
    digests = [{r["step"]: r["digest"] for r in records if r["rank"] == rank} for rank in (0, 1)]
    assert len(records) == 2 * 20 and digests[0] == digests[1]
    assert max(r["error"] for r in records if r["rank"] == 0) <= TOLERANCE["float32"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "pigeon"], "invalid choice"),
        (["--ranks", "0"], "ranks must be a whole number of at least 1"),
        (["--plan", '{"steps": 2.5}'], "steps must be a whole number of at least 1, got 2.5"),
        (["--plan", '{"ranks": "2"}'], "ranks must be a whole number of at least 1, got '2'"),
        (["--plan", '{"fault": 3}'], "not a plan"),
        (["--plan", '{"fault": {"kinds": "drop"}}'], "unexpected keyword argument 'kinds'"),
        (["--plan", '{"q_heads": "8"}'], "q_heads must be a whole number of at least 1, got '8'"),
        (["--seed", "9" * 26], "seed must be a whole number from 0 to 2**63 - 1"),
        (["--num-blocks", "100000000000"], "more than 268,435,456 numbers"),
        (["--head-dim", "100000000"], "more than 268,435,456 numbers"),
        (["--patience-s", "nan"], "patience_s must be a finite number of at least 0, got nan"),
        (["--late-after-s", "-1"], "late_after_s must be a finite number"),
        (["--num-blocks", "1", "--block-size", "1"], "must hold 2 tokens"),
        (["--fault", "drop"], "KIND:RANK:STEP"),
        (["--fault", "drop:0:3"], "rank 0 sends them"),
        (["--fault", "drop:1:3", "--method", "replicas"], "replicas have none"),
        (["--fault", "kill:7:3"], "there are 2 ranks"),
        (["--fault", "burn:1:3"], "fault must be one of"),
        (["--ranks", "9", "--q-heads", "8", "--kv-heads", "1"], "only 8 query heads"),
        (["--plan", '{"rank": 3}'], "not a plan"),
        (["--plan", "{"], "error"),
    ],
)
def test_a_plan_that_cannot_be_is_one_line(arguments, words, capsys):
    with pytest.raises(SystemExit) as stopped:
        plan_of(arguments)
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


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
