"""Ranks from the command line: what it refuses, what it says, and what Ctrl-C leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import fields

import pytest
from children import LISTED, children_of, wait_until_gone

pytest.importorskip("torch.distributed")

from pagedlab.parallel import Plan
from pagedlab.parallel.__main__ import plan_of

COMMAND = [sys.executable, "-m", "pagedlab.parallel"]
listed = pytest.mark.skipif(not LISTED, reason="Linux lists the children of a process")


@pytest.fixture
def start(child_environment):
    """Start a command as a terminal does, at the head of a process group of its own."""
    started = []

    def start_(*command, **options):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        started.append(subprocess.Popen(command, env=child_environment, process_group=0, **pipes))
        return started[-1]

    yield start_
    for process in started:
        process.kill()
        process.communicate()


def children_when_there(process, count):
    """Wait until so many ranks are there."""
    until = time.monotonic() + 60
    while len(pids := children_of(process.pid)) < count:
        assert process.poll() is None and time.monotonic() < until
    return pids


@listed
def test_ranks_end_when_their_launcher_is_killed(start):
    code = (
        "from pagedlab.parallel import Plan, Ranks\n"
        "with Ranks(Plan(ranks=2, steps=10**6)) as ranks:\n"
        "    for record in ranks.listen():\n"
        "        if record.get('step') == 1: print('at work', flush=True)\n"
    )
    launcher = start(sys.executable, "-c", code)
    assert launcher.stdout.readline() == "at work\n"
    pids = children_of(launcher.pid)
    assert len(pids) == 2
    launcher.kill()
    for pid in pids:
        wait_until_gone(pid)


@listed
def test_ranks_end_when_their_launcher_is_killed_while_they_start(start):
    launcher = start(*COMMAND, "--ranks", "3", "--kv-heads", "3", "--q-heads", "3")
    pids = children_when_there(launcher, 3)
    launcher.kill()
    for pid in pids:
        wait_until_gone(pid)


@listed
@pytest.mark.parametrize("ranks", [1, 3])
def test_ctrl_c_ends_every_rank_and_says_so_in_a_line(start, ranks):
    """To the whole group, as a terminal sends it, when the first rank is there and when the last is."""
    launcher = start(*COMMAND, "--ranks", "3", "--steps", "1000000")
    pids = children_when_there(launcher, ranks)
    os.killpg(launcher.pid, signal.SIGINT)
    out, err = launcher.communicate(timeout=60)
    assert (launcher.returncode, out) == (130, "")
    assert err == "python -m pagedlab.parallel: stopped, and every rank with it\n"
    for pid in pids:
        wait_until_gone(pid)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that Ctrl-C sends")
@pytest.mark.parametrize("module", ["numpy._core", "pagedlab.parallel.tables", "torch._C"])
def test_ctrl_c_while_modules_are_imported_shows_no_traceback(start, module):
    launcher = start(sys.executable, "-X", "importtime", *COMMAND[1:], "--steps", "1")
    said = []
    for line in launcher.stderr:
        said.append(line)
        if line.startswith("import time:") and line.split("|")[-1].strip().startswith(module):
            break
    os.killpg(launcher.pid, signal.SIGINT)
    said += launcher.communicate(timeout=60)[1].splitlines(keepends=True)
    ours = [line for line in said if not line.startswith("import time:")]
    assert launcher.returncode == 130
    assert ours == ["python -m pagedlab.parallel: stopped, and every rank with it\n"]


@listed
@pytest.mark.parametrize(
    ("shell", "why"),
    [
        ('ulimit -n 16; exec "$@"', "[Errno 24] Too many open files"),
        ('exec "$@" > /dev/full', "[Errno 28] No space left on device"),
    ],
)
def test_what_the_system_refuses_is_one_line(start, shell, why):
    command = start("sh", "-c", shell, "sh", *COMMAND, "--steps", "2")
    assert command.communicate(timeout=120) == ("", f"python -m pagedlab.parallel: {why}\n")
    assert command.returncode == 2


def test_torchrun_runs_the_same_ranks(run_python):
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    done = run_python(*torchrun, *COMMAND[1:], "--steps", "20")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines() if '"digest"' in line]
    digests = [{r["step"]: r["digest"] for r in records if r["rank"] == rank} for rank in (0, 1)]
    assert len(records) == 2 * 20 and digests[0] == digests[1]
    assert max(r["error"] for r in records if r["rank"] == 0) <= 2e-6


@pytest.mark.parametrize("arguments", [["--ranks", "3"], ["--plan", '{"ranks": 3}']])
def test_torchrun_starts_as_many_ranks_as_the_plan_has(arguments, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert plan_of([]).ranks == 2
    with pytest.raises(SystemExit):
        plan_of(arguments)
    assert "ranks is 3, but 2 were started" in capsys.readouterr().err


def test_help_says_what_every_option_is_and_keeps_its_lines(capsys):
    with pytest.raises(SystemExit):
        plan_of(["--help"])
    said = capsys.readouterr().out
    assert "processes of this machine\ntorchrun --nproc-per-node" in said
    options = re.split(r"\n  (?=-)", said[said.index("options:") :])[1:]
    helped = {option.split()[0] for option in options if re.search(r"( {2}|\n +)\w[\w', ]+ \w", option)}
    flags = {f"--{field.name.replace('_', '-')}" for field in fields(Plan)}
    flags = flags - {"--verify", "--detect", "--show-tables"} | {"--no-detect", "--plan", "-h,"}
    assert helped == flags and len(options) == len(flags)


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
        (["--patience-s", "nan"], "patience_s must be a number of seconds from 0.1 to 86,400, got nan"),
        (["--patience-s", "0"], "patience_s must be a number of seconds from 0.1"),
        (["--plan", '{"patience_s": "5"}'], "from 0.1 to 86,400, got '5'"),
        (["--late-after-s", "-1"], "late_after_s must be a number of seconds from 0 to"),
        (["--max-seqs", "99999999"], "max_seqs (99,999,999) answers of q_heads (8) of head_dim (32)"),
        (["--num-blocks", "1", "--block-size", "1"], "must hold 2 tokens"),
        (["--fault", "drop"], "KIND:RANK:STEP"),
        (["--fault", "drop:0:3"], "rank 0 sends them"),
        (["--fault", "drop:1:3", "--method", "replicas"], "replicas have none"),
        (["--fault", "kill:7:3"], "there are 2 ranks"),
        (["--fault", "burn:1:3"], "fault must be one of"),
        (["--ranks", "9", "--q-heads", "8", "--kv-heads", "1"], "only 8 query heads"),
        (["--plan", '{"rank": 3}'], "not a plan"),
        (["--plan", "{"], "not a plan: Expecting property name"),
    ],
)
def test_a_plan_that_cannot_be_is_one_line(arguments, words, capsys):
    with pytest.raises(SystemExit) as stopped:
        plan_of(arguments)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
