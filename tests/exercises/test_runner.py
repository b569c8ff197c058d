"""Whatever a learner's code does is an outcome: no hang, no error of ours, no process left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

import numpy as np
import pytest
import torch

from pagedlab.exercises import plain, runner

WAYS = ["fork", "spawn", "here"]


@pytest.fixture(params=WAYS)
def any_way(request, monkeypatch):
    monkeypatch.setattr(runner, "way", lambda: request.param)
    return request.param


def forever(*arguments):
    while True:
        pass


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__


class Hostile(int):
    """A number that cannot be shown, and whose pickle would run code."""

    def __repr__(self):
        raise RuntimeError("no words")

    def __reduce__(self):
        return os._exit, (1,)


def raises(error):
    raise error


def stray(text):
    """Write to everything that is open, then answer."""
    for descriptor in range(3, 60):
        with contextlib.suppress(OSError):
            os.write(descriptor, text)
    return 7


def forks_and_returns():
    os.fork()
    return 7


def closes_everything():
    os.closerange(3, 100)
    time.sleep(60)


MANNERS = {
    "raises": (lambda: 1 / 0, "raised", "ZeroDivisionError: division by zero"),
    "raises what has no words": (lambda: raises(Unspeakable()), "raised", "whose message cannot be shown"),
    "leaves": (lambda: sys.exit(3), "raised", "SystemExit: 3"),
    "interrupts": (lambda: raises(KeyboardInterrupt()), "raised", "KeyboardInterrupt"),
    "follows a wild address": (lambda: __import__("ctypes").string_at(1), "ended", "died of SIGSEGV"),
    "kills itself": (lambda: os.kill(os.getpid(), signal.SIGKILL), "ended", "was killed (SIGKILL)"),
    "ends the process": (lambda: os._exit(3), "ended", "without an answer (exit code 3)"),
    "closes every file": (closes_everything, "ended", "closed its way to answer"),
    "answers with an object": (lambda: object(), "raised", "numbers or lists of numbers are expected"),
    "answers with itself": (lambda: (lambda x: x.append(x) or x)([]), "raised", "RecursionError"),
    "answers deeply": (lambda: nested(100_000), "raised", "RecursionError"),
    "answers endlessly": (lambda: [0] * 3_000_000, "raised", "characters"),
    "eats memory": (lambda: len(bytearray(8 << 30)), "raised", "MemoryError"),
    "recurses": (lambda: (lambda f: f(f))(lambda f: f(f)), "raised", "RecursionError"),
    "writes everywhere": (lambda: stray(b"\n{}\n[[[[\xff\n"), "returned", "7"),
    "writes nested brackets": (lambda: stray(b"[" * 200_000 + b"\n"), "returned", "7"),
    "writes half a line": (lambda: stray(b'{"value": 3}'), "returned", "7"),
    "forks": (forks_and_returns, "returned", "7"),
    "a number in disguise": (lambda: Hostile(7), "returned", "7"),
}


@pytest.mark.parametrize("manners", MANNERS)
def test_whatever_a_call_does_is_its_outcome_and_the_others_go_on(manners):
    job, kind, words = MANNERS[manners]
    first, second = runner.run(lambda bad: job() if bad else 7, [(True,), (False,)])
    assert first.kind == kind and words in first.text
    assert (second.kind, second.value) == ("returned", 7)


def test_a_flood_past_the_limits_of_print_is_cut(monkeypatch):
    monkeypatch.setattr(runner, "LONGEST_ANSWER", 1 << 12)
    (outcome,) = runner.run(lambda: [stray(b"x" * 1000) for _ in range(100)], [()])
    assert outcome.kind == "ended" and "more than a check reads" in outcome.text


def test_an_endless_loop_ends_and_what_came_before_is_kept():
    def counts(n):
        print("call", n)
        return n if n < 2 else forever()

    outcomes = runner.run(counts, [(0,), (1,), (2,), (3,)], seconds=0.5)
    assert [outcome.kind for outcome in outcomes] == ["returned", "returned", "ended", "unreached"]
    assert [outcome.printed for outcome in outcomes] == ["call 0\n", "call 1\n", "call 2\n", ""]
    assert outcomes[2].text == "no answer within 0.5 seconds: an endless loop?"


def running(number):
    """Whether a process is there and no zombie."""
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("leaves_after", ["answering", "dying"])
def test_no_child_of_the_child_outlives_the_check_or_holds_it_up(leaves_after, tmp_path):
    noted = tmp_path / "number"

    def leaves_one_behind():
        number = os.fork()
        if not number:
            time.sleep(600)
            os._exit(0)
        noted.write_text(str(number))
        if leaves_after == "dying":
            os._exit(0)
        return 7

    (outcome,) = runner.run(leaves_one_behind, [()], seconds=100)
    assert outcome.kind == ("returned" if leaves_after == "answering" else "ended")
    number = int(noted.read_text())
    for _ in range(1000):  # it was sent its end and may still be on its way out
        if not running(number):
            break
        time.sleep(0.01)
    assert not running(number)


def test_each_call_keeps_the_beginning_of_what_it_printed(any_way):
    def prints(n):
        for _ in range(n):
            print("0123456789", end="", file=sys.stderr if n == 2 else sys.stdout)
        if n == 2:
            raise ValueError("after printing")
        return n

    outcomes = runner.run(prints, [(1,), (0,), (2,), (100_000,)])
    assert [outcome.printed for outcome in outcomes] == [
        "0123456789",
        "",
        "0123456789" * 2,
        "0123456789" * (runner.PRINTED // 10),
    ]
    assert [outcome.kind for outcome in outcomes] == ["returned", "returned", "raised", "returned"]


def test_a_closure_a_class_and_a_lambda_get_there(any_way):
    three = 3

    class Adds:
        def __init__(self, n):
            self.n = n

        def __call__(self, m):
            return np.int64(self.n + m + three)

    for job in (Adds(1), lambda m: Adds(1)(m), torch.nn.Threshold(0, 0).threshold.__add__):
        (outcome,) = runner.run(job, [(2,)])
        assert outcome.kind == "returned" and outcome.value in (6, 2)


@pytest.mark.parametrize(
    "job, words", [(lambda: os._exit(5), "exit code 5"), (forever, "endless loop?"), (lambda: 1 / 0, "Zero")]
)
def test_a_fresh_python_is_watched_as_well(monkeypatch, job, words):
    monkeypatch.setattr(runner, "way", lambda: "spawn")
    first, second = runner.run(lambda bad: job() if bad else 7, [(False,), (True,)], seconds=0.5)
    assert first.value == 7 and words in second.text


def test_what_cannot_start_over_there_is_said_at_once(monkeypatch):
    monkeypatch.setattr(runner, "way", lambda: "spawn")
    module = type(sys)("nowhere_else")
    exec("def job(n): return n", module.__dict__)
    monkeypatch.setitem(sys.modules, "nowhere_else", module)
    outcomes = runner.run(module.job, [(1,), (2,)])
    assert [outcome.kind for outcome in outcomes] == ["ended", "unreached"]
    assert "No module named 'nowhere_else'" in outcomes[0].text


KERNEL = """
import os
os.environ.setdefault("TRITON_INTERPRET", "1")
import torch, triton, triton.language as tl
from pagedlab.exercises import runner

STEP = tl.constexpr(2)

@triton.jit
def plus(x):
    return x + STEP

@triton.jit
def kernel(data, n: tl.constexpr):
    lane = tl.arange(0, n)
    tl.store(data + lane, plus(tl.load(data + lane)))

def job(n):
    data = torch.arange(float(n))
    kernel[(1,)](data, n)
    return data

if __name__ == "__main__":
    runner.way = lambda: "spawn"
    (outcome,) = runner.run(job, [(4,)])
    print(outcome.text)
    from pagedlab.exercises.handover import pickled
    print(len(pickled(triton.jit(plus.fn))) > 0)
"""


@pytest.mark.parametrize("interpret", ["1", "0"])
def test_a_triton_kernel_travels_by_its_source(run_python, tmp_path, interpret):
    pytest.importorskip("triton", reason="Triton has no packages for this system")
    (tmp_path / "cell.py").write_text(KERNEL)
    ran = run_python("cell.py", TRITON_INTERPRET=interpret)
    assert ran.returncode == 0, ran.stderr
    said, travels = ran.stdout.splitlines()
    assert travels == "True"
    # Compiled kernels need a GPU; that they say so over there means that they arrived.
    assert said == "[2.0, 3.0, 4.0, 5.0]" if interpret == "1" else "driver" in said, said


def test_a_child_may_use_torch_at_a_size_that_takes_threads():
    """The parent has used its threads, and a forked child has none of them."""
    torch.ones(2_000_000).add(1).sum()
    (outcome,) = runner.run(lambda: torch.ones(2_000_000).add(1).sum(), [()])
    assert outcome.value == 4_000_000


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"bytes": 3}', '{"bytes": "zz"}', '{"items": 3}', "{}", "nonsense", '{"items": [1]}']
    + ["1" * 5000, '"\\ud800'],
)
def test_hostile_text_is_no_data(text):
    with pytest.raises(ValueError):
        plain.unpack(text)


def test_the_package_imports_neither_torch_nor_numpy_for_a_plain_exercise(run_python):
    code = (
        "import sys; from pagedlab import exercises; exercises.hints('waste'); print('torch' in sys.modules)"
    )
    assert run_python("-c", code).stdout == "False\n"
