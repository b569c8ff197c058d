"""The exercise `bug-museum`: write the test that kills the faulty kernels and lets the sound ones live.

Its score is a mutation score: how many exhibits the test kills, none if it refuses a sound kernel.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pagedlab import museum
from pagedlab.exercises.plain import brief
from pagedlab.exercises.report import Arguments, Check, Convert, Exercise, Misconception
from pagedlab.exercises.solutions.bug_museum import solution

SOUND = {f"sound kernel {n}": kernel for n, kernel in enumerate(museum.sound())}
SCORED = {exhibit.name: exhibit for exhibit in museum.exhibits(scored=True)}
ENOUGH = 0.75
Kernel = Callable[..., Any]


def _drive(test: Any, convert: Convert, name: str) -> Any:
    hidden = SOUND[name] if name in SOUND else SCORED[name].faulty

    def kernel(*given: Any, scale: float) -> Any:
        return hidden(*given, scale=scale)

    try:
        test(kernel)
    except BaseException as error:  # a test framework's failures need not be Exceptions
        return {"killed": True, "by": f"{type(error).__name__}: {error}"[:200]}
    return {"killed": False, "by": ""}


def _differ(exercise: Exercise, arguments: Arguments, expected: Any, got: Any) -> tuple[str, str, str]:
    (name,) = arguments
    if name in SCORED:
        return SCORED[name].title, "the test raises", "it returns"
    return "a kernel without a fault", "the test returns", brief(got["by"]) if got else ""


def _advice(name: str) -> str:
    if name in SCORED:
        return SCORED[name].hint
    return "a sound kernel may add up in another order, and split a sequence: allow for rounding"


def _only(name: str, rng: random.Random) -> Arguments:
    return (name,)


def _tally(right: Sequence[bool]) -> tuple[bool, int, int, str]:
    let_live, killed, total = sum(right[: len(SOUND)]), sum(right[len(SOUND) :]), len(SCORED)
    score = killed if let_live == len(SOUND) else 0
    lived = f"{let_live} of {len(SOUND)} sound kernels got through"
    words = f"mutation score {score} of {total}: {killed} exhibits killed, {lived}"
    return score >= math.ceil(ENOUGH * total), score, total, words


def _always_raises(kernel: Kernel) -> None:
    raise AssertionError


def _exactly(kernel: Kernel) -> None:
    for batch in museum.faults.CAREFUL:
        assert batch.run(kernel).equal(batch.run(museum.sound()[0]))


def _roughly(kernel: Kernel) -> None:
    for batch in museum.faults.CAREFUL:
        assert (batch.run(kernel) - batch.expected).abs().max() < 2


def _only_finite(kernel: Kernel) -> None:
    for batch in museum.faults.CAREFUL:
        assert batch.run(kernel).isfinite().all()


def _changed(**changes: Any) -> Kernel:
    return partial(museum.careful, **changes)


EXERCISE = Exercise(
    name="bug-museum",
    hints=(
        "Which inputs make a kernel look right even if it reads one slot too many? Begin with others.",
        "museum.Batch(lengths, ...) makes inputs, and .check(kernel) raises when the answer is wrong. "
        "Poisoned memory, shuffled blocks, lengths that end inside a block, groups of heads: what else?",
        "Check several batches: lengths 1, 5, 16, 0 and 41 with heads=4, kv_heads=2, a scale, shuffled and "
        "poisoned; a block size of 24, one of 256; shift=-200.",
    ),
    checks=tuple(
        Check("a sound kernel was refused" if name in SOUND else "an exhibit survived", partial(_only, name))
        for name in (*SOUND, *SCORED)
    ),
    reference=solution,
    misconceptions=(
        Misconception(
            "nothing was killed: the test never raises, or everything about it is comfortable", museum.naive
        ),
        Misconception(
            "sound kernels must get through: a test that always raises, or allows no rounding, says nothing",
            _always_raises,
            (_exactly,),
        ),
        Misconception("a tolerance of the size of the answers lets wrong ones through", _roughly),
        Misconception("an answer can be finite and wrong: compare it with plain attention", _only_finite),
        Misconception("clean memory hides what a kernel must not read: poison it", _changed(poisoned=False)),
        Misconception("one KV head to each query head: no group can go wrong", _changed(heads=2, kv_heads=2)),
        Misconception("a scale of 1 can be used any number of times", _changed(scale=1.0)),
        Misconception("lengths that fill blocks hide the tail", _changed(lengths=[48, 768], poisoned=False)),
        Misconception("one block size suits one kernel: try odd and large ones", _changed(block_size=16)),
        Misconception("scores around zero are kind: try very negative ones", _changed(shift=0.0)),
        Misconception("no batch here has a sequence without tokens", _changed(lengths=[300, 1, 41])),
    ),
    drive=_drive,
    same=lambda got, expected: bool(got) and got["killed"] == expected["killed"],
    differ=_differ,
    advice=_advice,
    tally=_tally,
    forms=("lists",),
    seconds=60,
    shuffled=True,
)
