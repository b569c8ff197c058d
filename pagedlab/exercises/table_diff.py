"""The exercise `table-diff`: keep the block tables of two ranks alike by sending what changed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from pagedlab.exercises.plain import brief
from pagedlab.exercises.report import Arguments, Check, Convert, Exercise, Misconception
from pagedlab.exercises.solutions.table_diff import TableDiff, Tables

Step = list[Tables]


def _drive(solution: Any, convert: Convert, steps: Sequence[Step]) -> Any:
    """All messages by one instance, then all decoded by another, the last first: neither may remember."""
    sender, messages = solution(), []
    for step in steps:
        old, new = json.loads(json.dumps(step))
        messages.append(sender.encode(old, new))
    receiver = solution()
    answers: list[dict[str, Any]] = []
    for (old, _), message in list(zip(steps, messages, strict=True))[::-1]:
        if not isinstance(message, bytes | bytearray | memoryview):
            answers.append({"type": type(message).__name__})
            continue
        message = bytes(message)
        answers.append(
            {"bytes": len(message), "tables": receiver.decode(json.loads(json.dumps(old)), message)}
        )
    return answers[::-1]


def _view(answers: Any, steps: Sequence[Step]) -> Any:
    return [answer.get("tables", answer) for answer in answers]


def _same(got: Any, expected: Any) -> bool:
    return isinstance(got, list) and got == expected


def _differ(exercise: Exercise, arguments: Arguments, expected: Any, got: Any) -> tuple[str, str, str]:
    (steps,) = arguments
    answers = got if isinstance(got, list) and len(got) == len(steps) else [got] * len(steps)
    n = next((n for n in range(len(steps)) if answers[n] != expected[n]), 0)
    old, new = steps[n]
    tried = f"decode({brief(old)}, encode({brief(old)}, {brief(new)}))"
    kind = answers[n].get("type") if isinstance(answers[n], dict) else None
    said = f"a message that is {kind}, not bytes" if isinstance(kind, str) else brief(answers[n])
    return tried, brief(expected[n]), said


def _remark(answers: Sequence[Any]) -> str:
    """Whether one block more in a large table costs as much as the whole table."""
    sizes = [answer["bytes"] for given in answers for answer in given if len(answer["tables"]) >= 40]
    if not sizes or max(sizes) < 1000:
        return ""
    return (
        f"Right, and worth a remark: when one block was added to 40 tables of 50, the message had "
        f"{max(sizes):,} bytes. What changed fits into fewer than a hundred."
    )


def _tables(rng: random.Random, names: Sequence[str]) -> Tables:
    return {name: [rng.randint(0, 300) for _ in range(rng.randint(1, 5))] for name in names}


# What becomes of one table among others: before and after, None where it is not there.
_CHANGES: dict[str, Callable[[random.Random, list[int]], tuple[list[int] | None, list[int] | None]]] = {
    "a sequence grows": lambda rng, table: (table, table + rng.sample(range(301, 401), rng.randint(1, 3))),
    "a sequence comes": lambda rng, table: (None, table),
    "a sequence goes": lambda rng, table: (table, None),
    "a sequence shrinks": lambda rng, table: ([*table, 5], table),
    "a block in the middle of a table changes": lambda rng, table: ([*table, 8, 9], [*table, 901, 9]),
}


def _steps(about: str) -> Check:
    def draw(rng: random.Random) -> Arguments:
        steps = []
        for _ in range(2):
            tables, name = _tables(rng, "abcd"), rng.choice("abcd")
            pair = _CHANGES[about](rng, tables.pop(name))
            steps.append([tables if table is None else {**tables, name: table} for table in pair])
        return (steps,)

    return Check(about, draw)


def _strange(rng: random.Random) -> Arguments:
    names = ["", "a b", "x:1,2;y", "né\n", '"', "0"]
    old = _tables(rng, names)
    return ([[{}, old], [old, {**old, "a b": [], "x:1,2;y": [1]}], [old, {}]],)


def _large(rng: random.Random) -> Arguments:
    old = {f"request-{n}": [rng.randint(0, 99_999) for _ in range(50)] for n in range(40)}
    return ([[old, {**old, "request-7": [*old["request-7"], rng.randint(65_536, 99_999)]}]],)


def _life(rng: random.Random) -> Arguments:
    """Each step begins where the last one ended."""
    steps = [[_tables(rng, "abc"), _tables(rng, "bcd")]]
    for _ in range(8):
        old = steps[-1][1]
        kept = rng.sample(sorted(old), rng.randint(0, len(old)))
        new = {name: old[name][: rng.randint(0, 6)] + [rng.randint(0, 999)] for name in kept}
        steps.append([old, {**new, **_tables(rng, rng.sample("abcdefg", 2))}])
    return (steps,)


def _valid(steps: Any) -> bool:
    return bool(steps) and all(len(s) == 2 and all(isinstance(each, dict) for each in s) for s in steps)


class _Plain(TableDiff):
    """Sends the names that are gone, and tables whole."""

    def sent(self, new: Tables, old: Tables) -> Tables:
        return new

    def encode(self, old: Tables, new: Tables) -> bytes:
        gone = [name for name in old if name not in new]
        return json.dumps({"gone": gone, "tables": self.sent(new, old)}).encode()

    def decode(self, old: Tables, message: bytes) -> Tables:
        sent = json.loads(message)
        return {**{name: table for name, table in old.items() if name not in sent["gone"]}, **sent["tables"]}


def _sends(sent: Callable[[Tables, Tables], Tables]) -> type[_Plain]:
    """The same with another idea of what to send of `new, old`."""
    return type("_Sends", (_Plain,), {"sent": lambda self, *tables: sent(*tables)})


class _KeepsTheGone(_Plain):
    def decode(self, old: Tables, message: bytes) -> Tables:
        return {**old, **json.loads(message)["tables"]}


class _OnlyGrowth(TableDiff):
    """Adds what is sent to the old table."""

    def decode(self, old: Tables, message: bytes) -> Tables:
        sent = json.loads(message)
        kept = {name: table for name, table in old.items() if name not in sent["gone"]}
        return {**kept, **{name: old.get(name, []) + rest for name, (_, rest) in sent["changed"].items()}}


class _OnlyWhatIsPastTheEnd(_OnlyGrowth):
    def encode(self, old: Tables, new: Tables) -> bytes:
        rest = {name: [0, table[len(old.get(name, ())) :]] for name, table in new.items()}
        return json.dumps({"gone": [name for name in old if name not in new], "changed": rest}).encode()


class _OnlyChanges(TableDiff):
    def decode(self, old: Tables, message: bytes) -> Tables:
        new, sent = super().decode(old, message), json.loads(message)
        return {name: new[name] for name in sent["changed"]}


class _Text(_Plain):
    def encode(self, old: Tables, new: Tables) -> Any:
        return super().encode(old, new).decode()


class _Remembers(_Plain):
    def encode(self, old: Tables, new: Tables) -> bytes:
        self.tables = new
        return super().encode(old, new)

    def decode(self, old: Tables, message: bytes) -> Tables:
        return super().decode(self.tables, message)


class _RemembersItsOwn(_Plain):
    tables: Tables | None = None

    def decode(self, old: Tables, message: bytes) -> Tables:
        self.tables = super().decode(old if self.tables is None else self.tables, message)
        return self.tables


EXERCISE = Exercise(
    name="table-diff",
    hints=(
        "Write down, for one sequence, what the receiver does not know yet. And for one that has ended?",
        "Three things can be said of a sequence: it is gone; it is new, with its table; or its table keeps "
        "some beginning and goes on otherwise.",
        "Send json.dumps({'gone': [...], 'changed': {name: [kept, rest]}}).encode(), kept being the length "
        "of the common beginning. Decode: copy old without the gone ones, then table[:kept] + rest.",
    ),
    checks=(
        *map(_steps, _CHANGES),
        Check("strange names and empty tables", _strange),
        Check("one block more in large tables", _large),
        Check("a long life", _life),
    ),
    reference=TableDiff,
    misconceptions=(
        Misconception("sequences that are gone must be said to be gone", _KeepsTheGone),
        Misconception(
            "a table need not begin as it did: say how much of the old one stays",
            _OnlyGrowth,
            (_OnlyWhatIsPastTheEnd,),
        ),
        Misconception(
            "a table may get shorter, or change at its length, too",
            _sends(lambda new, old: {n: t for n, t in new.items() if len(t) > len(old.get(n, ()))}),
        ),
        Misconception(
            "a table of the same length may hold other blocks",
            _sends(lambda new, old: {n: t for n, t in new.items() if n not in old or len(t) != len(old[n])}),
        ),
        Misconception(
            "a change may be anywhere in a table, not just in its last block",
            _sends(
                lambda new, old: {
                    n: t
                    for n, t in new.items()
                    if n not in old or (len(t), t[-1:]) != (len(old[n]), old[n][-1:])
                }
            ),
        ),
        Misconception(
            "sequences that come are not in the old tables; send them whole",
            _sends(lambda new, old: {n: t for n, t in new.items() if n in old}),
        ),
        Misconception(
            "a sequence without blocks is still a sequence",
            _sends(lambda new, old: {n: t for n, t in new.items() if t}),
        ),
        Misconception("decode returns all tables, those that did not change among them", _OnlyChanges),
        Misconception("a message is bytes; text has .encode()", _Text),
        Misconception(
            "ids go beyond 255: one byte is not enough",
            _sends(lambda new, old: {n: list(bytes(t)) for n, t in new.items()}),
        ),
        Misconception(
            "ids go beyond 65,535: two bytes are not enough",
            _sends(lambda new, old: {n: [i % 65_536 for i in t] for n, t in new.items()}),
        ),
        Misconception(
            "another instance decodes, with the old tables that it is given: it remembers nothing",
            _Remembers,
            (_RemembersItsOwn,),
        ),
    ),
    drive=_drive,
    view=_view,
    same=_same,
    valid=_valid,
    differ=_differ,
    remark=_remark,
    forms=("lists",),
)
