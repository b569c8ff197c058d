"""Checks accept every correct style, name the mistake of wrong ones, and survive anything a learner runs."""

from __future__ import annotations

import functools
import os
import signal
import sys
import time

import numpy as np
import pytest
import torch

from pagedlab import exercises
from pagedlab.exercises import runner


def loops(lengths, block_size, reserve_to):
    paged = reserved = 0
    for length in lengths:
        blocks = length // block_size
        if length % block_size != 0:
            blocks += 1
        paged += blocks * block_size - length
        reserved += reserve_to - length
    return paged, reserved


def vectorised(lengths, block_size, reserve_to):
    lengths = np.asarray(lengths, dtype=np.int64)
    return np.array([(-lengths % block_size).sum(), (reserve_to - lengths).sum()])


def with_torch(lengths, block_size, reserve_to):
    lengths = torch.tensor(lengths, dtype=torch.int64)
    return (-lengths % block_size).sum(), (reserve_to - lengths).sum()


class Callable:
    def __call__(self, lengths, block_size, reserve_to):
        return [sum(-x % block_size for x in lengths), len(lengths) * reserve_to - sum(lengths)]


def chatty(lengths, block_size, reserve_to):
    print("x" * 1_000_000)
    sys.stderr.write("y" * 1000)
    return loops(lengths, block_size, reserve_to)


def _partial(extra, lengths, block_size, reserve_to):
    return loops(lengths, block_size, reserve_to)


CORRECT = {
    "loops": loops,
    "numpy": vectorised,
    "torch": with_torch,
    "object": Callable(),
    "lambda": lambda n, b, r: (sum(-x % b for x in n), sum(r - x for x in n)),
    "partial": functools.partial(_partial, None),
    "floats": lambda n, b, r: (float(sum(-x % b for x in n)), float(sum(r - x for x in n))),
    "prints a lot": chatty,
}

MISTAKES = {
    "one block too many": (
        lambda n, b, r: (sum((x // b + 1) * b - x for x in n), sum(r - x for x in n)),
        "one too many",
    ),
    "the used part": (lambda n, b, r: (sum(x % b for x in n), sum(r - x for x in n)), "slots used"),
    "the sum rounded up": (lambda n, b, r: (-sum(n) % b, sum(r - x for x in n)), "a last block of its own"),
    "rounded down": (lambda n, b, r: (sum(x // b * b - x for x in n), sum(r - x for x in n)), "up, not down"),
    "the expectation": (
        lambda n, b, r: ((b - 1) / 2 * len(n), sum(r - x for x in n)),
        "what to expect on average",
    ),
    "blocks": (lambda n, b, r: (sum(x % b > 0 for x in n), sum(r - x for x in n)), "slots, not blocks"),
    "one reservation": (
        lambda n, b, r: (sum(-x % b for x in n), r - sum(n)),
        "len(lengths) such reservations",
    ),
    "all of it": (lambda n, b, r: (sum(-x % b for x in n), r * len(n)), "not all wasted"),
    "swapped": (lambda n, b, r: (sum(r - x for x in n), sum(-x % b for x in n)), "comes first"),
}


@pytest.mark.parametrize("style", CORRECT)
def test_a_correct_answer_of_any_style_passes(style):
    report = exercises.check("waste", CORRECT[style])
    assert report.passed and report.public_passed == report.public_total == 6, str(report)
    assert report.summary == "6 of 6 public checks passed"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_known_mistake_is_named_by_its_output(mistake):
    solution, words = MISTAKES[mistake]
    for seed in range(5):
        report = exercises.check("waste", solution, seed=seed)
        assert not report.passed
        assert all(words in finding.hint for finding in report.findings), str(report)


def test_a_solution_may_use_torch_at_a_size_that_takes_threads():
    """The parent has used its threads, and a forked child has none of them."""
    torch.ones(2_000_000).add(1).sum()

    def large(lengths, block_size, reserve_to):
        assert torch.ones(2_000_000).add(1).sum() == 4_000_000
        return loops(lengths, block_size, reserve_to)

    assert exercises.check("waste", large).passed


def test_an_unknown_mistake_gets_no_made_up_hint():
    report = exercises.check("waste", lambda n, b, r: (12345, 54321))
    assert report.public_passed == 0 and not any(finding.hint for finding in report.findings)


def test_a_table_of_the_known_inputs_does_not_pass():
    seen = {}

    def remembering(lengths, block_size, reserve_to):
        return seen.get((tuple(lengths), block_size, reserve_to), (0, 0))

    for trial in exercises._get("waste").trials(__import__("random").Random(1)):
        lengths, block_size, reserve_to = trial.arguments
        seen[tuple(lengths), block_size, reserve_to] = loops(*trial.arguments)
    assert exercises.check("waste", remembering, seed=1).passed
    assert not exercises.check("waste", remembering).passed


def forever(*arguments):
    while True:
        pass


BAD_MANNERS = {
    "raises": (lambda *a: 1 / 0, "ZeroDivisionError"),
    "leaves": (lambda *a: sys.exit(3), "SystemExit: 3"),
    "is killed": (lambda *a: os.kill(os.getpid(), signal.SIGSEGV), "SIGSEGV"),
    "ends the process": (lambda *a: os._exit(0), "without an answer"),
    "takes too few arguments": (lambda lengths: (0, 0), "TypeError"),
    "answers with an object": (lambda *a: object(), "numbers or lists of numbers are expected"),
    "answers with itself": (lambda *a: (lambda x: x.append(x) or x)([]), "Error"),
    "answers endlessly": (lambda *a: [0] * 3_000_000, "characters"),
    "eats memory": (lambda *a: len(bytearray(8 << 30)), "MemoryError"),
}


@pytest.mark.parametrize("manners", BAD_MANNERS)
def test_whatever_a_solution_does_is_a_report(manners):
    solution, words = BAD_MANNERS[manners]
    report = exercises.check("waste", solution)
    assert not report.passed and words in report.findings[0].got, str(report)


def test_an_endless_loop_is_a_report(monkeypatch):
    monkeypatch.setattr(runner.run, "__kwdefaults__", {"seconds": 0.5})
    start = time.monotonic()
    report = exercises.check("waste", forever)
    assert "endless loop?" in report.findings[0].got and report.findings[1].got == "not reached"
    assert time.monotonic() - start < 30


def test_what_a_solution_prints_is_shown_where_it_was_wrong():
    def talkative(lengths, block_size, reserve_to):
        print("lengths", lengths)
        sys.stderr.write('to both streams\nwith {"value": 3}\n')
        return loops(lengths, block_size, reserve_to) if len(lengths) > 1 else (0, 0)

    report = exercises.check("waste", talkative, seed=0)
    finding = report.findings[0]
    assert finding.printed == 'lengths [5]\nto both streams\nwith {"value": 3}\n'
    assert "  printed   lengths [5]\n            to both streams\n" in str(report)
    assert "characters)" not in str(report)
    much = exercises.check("waste", lambda n, b, r: print("x" * 9_999) or (0, 0), seed=0)
    assert "x\n            ... (its first 500 characters)" in str(much)


@pytest.mark.parametrize("forks", [True, False])
def test_each_call_keeps_the_beginning_of_what_it_printed(monkeypatch, forks):
    if not forks:
        monkeypatch.delattr(os, "fork")

    def prints(n):
        for _ in range(n):
            print("0123456789", end="")
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
    assert [outcome.returned for outcome in outcomes] == [True, True, False, True]


def test_what_was_printed_before_an_endless_loop_is_kept():
    def counts(n):
        print("call", n)
        return n if n < 1 else forever()

    outcomes = runner.run(counts, [(0,), (1,), (2,)], seconds=0.5)
    assert [outcome.printed for outcome in outcomes] == ["call 0\n", "call 1\n", ""]
    assert "endless loop?" in outcomes[1].text


def test_answers_before_an_endless_loop_are_kept():
    outcomes = runner.run(lambda n: n if n < 2 else forever(), [(0,), (1,), (2,), (3,)], seconds=0.5)
    assert [outcome.returned for outcome in outcomes] == [True, True, False, False]


def test_where_nothing_can_fork_it_runs_here(monkeypatch):
    monkeypatch.delattr(os, "fork")
    assert exercises.check("waste", loops).passed
    assert not exercises.check("waste", lambda *a: sys.exit(1)).passed


def test_the_report_reads_as_text():
    report = exercises.check("waste", lambda n, b, r: (0, 0), seed=0)
    assert "tried     lengths=[5], block_size=4, reserve_to=8" in str(report)
    assert "expected  [3, 3]" in str(report)


def test_an_unknown_exercise_and_a_solution_that_cannot_be_called_are_refused():
    with pytest.raises(KeyError, match="there are waste"):
        exercises.check("wast", loops)
    with pytest.raises(TypeError, match="must be a function or a class, got 3"):
        exercises.check("waste", 3)


def test_hints_go_from_a_nudge_to_the_way():
    assert len(exercises.hints("waste")) == 3
