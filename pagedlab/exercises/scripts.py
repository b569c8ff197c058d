"""Exercises whose solution is a class with a life: a script of calls, and what must be so after each.

Which block a sequence gets is the solution's own affair. So an answer is viewed as one line a call: what the
call came to, then every table with its blocks numbered in the order in which they appear. A `*` marks a block
that was another one before the call, and two that are the same have one number.

    allocate('a', 5): 2 blocks | a: 0 1
    fork('a', 'b'): done | a: 0 1, b: 0 1
    append('b'): copies its old last block to its new one | a: 0 1, b: 0 2*
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from pagedlab.exercises.plain import brief, plain
from pagedlab.exercises.report import Arguments, Convert, Exercise
from pagedlab.exercises.solutions.allocator import Allocator

Call = list[Any]
ARGUMENTS = {"allocate": 2, "append": 1, "free": 1, "fork": 2}
_MEANT = ("MemoryError", "KeyError", "ValueError")
_SLIPS = ("AttributeError", "TypeError", "NameError")


def drive(solution: Any, convert: Convert, num_blocks: int, block_size: int, calls: Sequence[Call]) -> Any:
    """Play the script; after each call, note how it ended and all tables."""
    manager, steps = solution(num_blocks, block_size), []
    for verb, *arguments in calls:
        ended = _try(manager, verb, *arguments)
        steps.append([ended, {name: _try(manager, "table", name) for name in _names(calls)}])
    return steps


def _try(manager: Any, verb: str, *arguments: Any) -> list[Any]:
    try:
        return ["returned", plain(getattr(manager, verb)(*arguments))]
    except Exception as error:
        return ["raised", [kind.__name__ for kind in type(error).__mro__], str(error)[:100]]


def _names(calls: Sequence[Call]) -> list[str]:
    return sorted({name for _, *arguments in calls for name in arguments if isinstance(name, str)})


def view(
    steps: Any, num_blocks: int, block_size: int, calls: Sequence[Call], *, copies: bool = True
) -> list[str]:
    """One line a call, the same for all managers that agree in all but the choice of blocks.

    Without `copies`, what `append` returns does not matter.
    """
    lines, before = [], dict[str, list[int]]()
    for call, (ended, tables) in zip(calls, steps, strict=True):
        after = {name: e[1] for name, e in tables.items() if e[0] == "returned" and isinstance(e[1], list)}
        if ended[0] == "raised":
            words = _raised(ended)
        elif call[0] == "allocate":
            words = _blocks(ended[1], after.get(call[1]))
        elif call[0] == "append" and copies:
            words = _copies(ended[1], before.get(call[1]), after.get(call[1]))
        else:
            words = "done"
        lines.append(f"{say(call)}: {words} | {_state(tables, before, num_blocks)}")
        before = after
    return lines


def say(call: Call) -> str:
    """The call as it would be written."""
    return f"{call[0]}({', '.join(map(repr, call[1:]))})"


def _blocks(answer: Any, table: Any) -> str:
    if not isinstance(answer, list):
        return f"returns {brief(answer)}, no list of blocks"
    said = f"{len(answer)} block{'' if len(answer) == 1 else 's'}"
    return said + ("" if answer == table else ", but its table has others")


def _raised(ended: list[Any]) -> str:
    kind = next((name for name in _MEANT if name in ended[1]), ended[1][0])
    return f"raises {kind}" + (f": {ended[2]}" if kind in _SLIPS else "")


def _copies(pairs: Any, old: list[int] | None, new: list[int] | None) -> str:
    """The copies in terms of the writer's table, since their numbers may be any."""
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        return f"returns {brief(pairs)}, no list of (from, to)"

    def place(block: Any) -> str:
        last = ((old, "its old one"), (new, "its new last block"))
        return next((words for table, words in last if table and table[-1] == block), "another")

    named = [f"{place(src)} to {place(dst)}" for src, dst in pairs]
    return "copies " + (", ".join(named) or "nothing")


def _state(tables: Any, before: dict[str, list[int]], num_blocks: int) -> str:
    seen: dict[Any, int] = {}
    parts = []
    for name, ended in tables.items():
        if ended[0] == "raised":
            if "KeyError" not in ended[1]:
                parts.append(f"{name}: {_raised(ended)}")
            continue
        blocks = ended[1] if isinstance(ended[1], list) else [ended[1]]
        marks = [
            (str(seen.setdefault(block, len(seen))) if block in range(num_blocks) else "no block of the pool")
            + ("*" if index < len(before.get(name, ())) and before[name][index] != block else "")
            for index, block in enumerate(blocks)
        ]
        parts.append(f"{name}: {' '.join(marks) or 'no block'}")
    return ", ".join(parts) or "no table"


def differ(exercise: Exercise, arguments: Arguments, expected: Any, got: Any) -> tuple[str, str, str]:
    """The script up to the first call that came to something else, and that call on both sides."""
    num_blocks, block_size, calls = arguments
    name = exercise.reference.__name__
    said = [f"{name}(num_blocks={num_blocks}, block_size={block_size})", *map(say, calls)]
    if not isinstance(got, list) or len(got) != len(expected):
        return "\n".join(said), "\n".join(expected), brief(got)
    first = got.index(first_wrong(expected, got))
    return "\n".join(said[: first + 2]), expected[first], got[first]


def first_wrong(expected: list[str], got: Any) -> str:
    """The first line that is not as expected: what follows also depends on who got which block."""
    return next((line for right, line in zip(expected, got, strict=False) if line != right), "")


def alike(expected: Any, got: Any, predicted: Any) -> bool:
    """Whether two managers go wrong in the same way."""
    return isinstance(got, list) and first_wrong(expected, got) == first_wrong(expected, predicted)


def wrong(sound: type[Allocator], **methods: Callable[..., Any]) -> type[Allocator]:
    """The class with some methods done wrong."""
    return type(sound.__name__, (sound,), methods)


def orders(mistaken: type[Allocator]) -> tuple[type[Allocator], ...]:
    """The same mistake by managers that hand out the oldest free block, and the one of the lowest number."""

    lowest = wrong(mistaken, pick=lambda self: self.free_blocks.index(min(self.free_blocks)))
    return wrong(mistaken, pick=lambda self: 0), lowest


def valid(num_blocks: int, block_size: int, calls: Sequence[Call]) -> bool:
    """Whether a shrunk script is one: whole calls, no empty allocation, no fork onto a name in use."""
    known: set[str] = set()
    for call in calls:
        if not call or len(call) != 1 + ARGUMENTS.get(call[0], -1) or call[-1] == 0:
            return False
        if call[0] == "fork" and call[2] in known:
            return False
        known = known - {call[1]} if call[0] == "free" else known | {call[-1 if call[0] == "fork" else 1]}
    return min(num_blocks, block_size) > 0 and bool(calls)


def life(rng: random.Random, verbs: Sequence[str], steps: int, tokens: int) -> list[Call]:
    """Random calls on a few sequences, unknown ones and taken names among them."""
    names, known, calls = list("abcdef"), set[str](), list[Call]()
    while len(calls) < steps:
        verb = rng.choice(verbs)
        unknown = [name for name in names if name not in known]
        old, new = (rng.choice(group or names) for group in (sorted(known), unknown))
        if rng.random() < 0.05:
            old, new = new, old
        if verb == "allocate":
            calls.append([verb, new, rng.randint(1, tokens)])
            known.add(new)
        elif verb != "fork":
            calls.append([verb, old])
            known -= {old} if verb == "free" else set()
        elif unknown and new not in known:
            calls.append([verb, old, new])
            known.add(new)
    return calls
