"""What a step tells the ranks, and the two forms in which it travels.

A step is the batch as the scheduler decided it: for each running sequence its block table and the tokens
to compute, and the blocks to copy first. `encode_full` writes all of it as flat integers, 4 bytes an
entry, as an engine would send its table. `encode_difference` writes what changed against the step before:

    gone       places, in the old batch, of sequences that left
    changed    of those that stay: growth, and the entries between an unchanged head and an unchanged tail
    fresh      sequences that came, whole
    copies     pairs of blocks

Most sequences grow by a token inside a block that they have: they cost nothing. Numbers are LEB128, entries
the difference to the one before, so blocks that lie side by side take a byte each.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

DIGEST_BYTES = 8
_MOST = 2**31 - 1


class BadMessage(ValueError):
    """Bytes that no encoder of this module wrote, or that belong to other tables."""


class Row(NamedTuple):
    """One running sequence: its table, and the tokens `start` to `stop` that the step computes."""

    table: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Step:
    """One step's batch, in order, and the `(source, target)` copies to make before it."""

    rows: Mapping[str, Row]
    copies: tuple[tuple[int, int], ...] = ()


NOTHING = Step({})


def digest(step: Step) -> bytes:
    """Eight bytes that differ, but for chance, when anything in the step does."""
    return blake2b(encode_full(step), digest_size=DIGEST_BYTES).digest()


# ---- everything ----------------------------------------------------------------------------------


def encode_full(step: Step) -> bytes:
    """The whole step: int32, little-endian, with the names of the sequences at the end."""
    flat = array("i", [len(step.rows), len(step.copies)])
    for row in step.rows.values():
        flat.extend((row.start, row.stop, len(row.table)))
        flat.extend(row.table)
    for pair in step.copies:
        flat.extend(pair)
    return _little_endian(flat).tobytes() + b"\0".join(name.encode() for name in step.rows)


def decode_full(message: bytes) -> Step:
    """The step of `encode_full`; raises `BadMessage`.

    >>> step = Step({"A": Row((4, 2), 0, 7), "B": Row((4, 9), 6, 7)}, copies=((2, 9),))
    >>> decode_full(encode_full(step)) == step
    True
    """
    reader = _Integers(message)
    num_rows, num_copies = reader.take(2)
    rows = []
    for _ in range(num_rows):
        start, stop, length = reader.take(3)
        rows.append(Row(tuple(reader.take(length)), start, stop))
    flat = reader.take(2 * num_copies)
    copies = tuple(zip(flat[::2], flat[1::2], strict=True))
    names = reader.rest.split(b"\0") if rows else []
    return _step(names, rows, copies)


class _Integers:
    """int32 numbers from the front of a message."""

    def __init__(self, message: bytes) -> None:
        self.rest = message

    def take(self, count: int) -> list[int]:
        if not 0 <= 4 * count <= len(self.rest):
            raise BadMessage(f"the message ends where {count} more numbers should stand")
        numbers = array("i", self.rest[: 4 * count])
        self.rest = self.rest[4 * count :]
        return _little_endian(numbers).tolist()


def _little_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


# ---- differences ---------------------------------------------------------------------------------


def encode_difference(old: Step, new: Step) -> bytes:
    """What turns `old` into `new`."""
    kept = _kept(old, new)
    places = {name: place for place, name in enumerate(old.rows)}
    gone = [place for name, place in places.items() if name not in kept]
    changed = {n: name for n, name in enumerate(kept) if not _only_grew(old.rows[name], new.rows[name])}
    out = bytearray()
    _put_ascending(out, gone)
    _put_ascending(out, list(changed))
    for name in changed.values():
        before, after = old.rows[name], new.rows[name]
        head, tail = _alike(before.table, after.table)
        _put(out, after.stop - after.start, head, tail)
        _put_entries(out, after.table[head : len(after.table) - tail])
    fresh = [name for name in new.rows if name not in kept]
    _put(out, len(fresh))
    for name in fresh:
        row, text = new.rows[name], name.encode()
        _put(out, len(text))
        out += text
        _put(out, row.start, row.stop - row.start)
        _put_entries(out, row.table)
    _put(out, len(new.copies))
    for pair in new.copies:
        _put(out, *pair)
    return bytes(out)


def decode_difference(old: Step, message: bytes) -> Step:
    """The step that `encode_difference` was given with the same `old`; raises `BadMessage`.

    >>> old = Step({"A": Row((4, 2), 6, 7), "B": Row((3,), 3, 4)})
    >>> new = Step({"A": Row((4, 2), 7, 8), "B": Row((3, 5), 4, 5)})
    >>> message = encode_difference(old, new)
    >>> len(message), len(encode_full(new)), decode_difference(old, message) == new
    (10, 51, True)
    """
    reader = _Reader(message)
    gone = set(reader.ascending(len(old.rows)))
    stay = [(name, row) for place, (name, row) in enumerate(old.rows.items()) if place not in gone]
    rows = [Row(row.table, row.stop, min(row.stop + 1, _MOST)) for _, row in stay]
    for place in reader.ascending(len(stay)):
        before = stay[place][1]
        stop, head, tail = reader.grown(before.stop), reader.number(), reader.number()
        if head + tail > len(before.table):
            raise BadMessage(f"{head} + {tail} entries stay, of a table of {len(before.table)}")
        table = before.table[:head] + reader.entries() + before.table[len(before.table) - tail :]
        rows[place] = Row(table, before.stop, stop)
    names = [name.encode() for name, _ in stay]
    for _ in range(reader.number()):
        names.append(reader.bytes(reader.number()))
        start = reader.number()
        stop = reader.grown(start)
        rows.append(Row(reader.entries(), start, stop))
    copies = tuple((reader.number(), reader.number()) for _ in range(reader.number()))
    if reader.at < len(message):
        raise BadMessage(f"{len(message) - reader.at} bytes are left over")
    return _step(names, rows, copies)


def _kept(old: Step, new: Step) -> dict[str, None]:
    """Sequences that stay, in order: at the front of the new batch, as they stood in the old one."""
    places = {name: place for place, name in enumerate(old.rows)}
    kept: dict[str, None] = {}
    last = -1
    for name, row in new.rows.items():
        if places.get(name, -1) <= last or row.start != old.rows[name].stop:
            break  # it came, moved or started anew: all from here on travel whole
        kept[name], last = None, places[name]
    return kept


def _only_grew(before: Row, after: Row) -> bool:
    return after.table == before.table and after.stop == before.stop + 1


def _alike(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, int]:
    """How many entries at the head, then at the tail, are the same."""
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return head, tail


def _put(out: bytearray, *numbers: int) -> None:
    for number in numbers:
        while number > 127:
            out.append(number & 127 | 128)
            number >>= 7
        out.append(number)


def _put_ascending(out: bytearray, places: list[int]) -> None:
    _put(out, len(places), *(b - a - 1 for a, b in zip([-1, *places], places, strict=False)))


def _put_entries(out: bytearray, entries: tuple[int, ...]) -> None:
    """Each entry as its difference to the one before, with the sign in the lowest bit."""
    _put(out, len(entries))
    for before, entry in zip((0, *entries), entries, strict=False):
        difference = entry - before
        _put(out, 2 * difference if difference >= 0 else -2 * difference - 1)


class _Reader:
    """Numbers from a difference, from `at` on."""

    def __init__(self, message: bytes) -> None:
        self.message, self.at = message, 0

    def number(self, most: int = _MOST) -> int:
        value = shift = 0
        while True:
            byte = self.bytes(1)[0]
            value |= (byte & 127) << shift
            if value > most:
                raise BadMessage(f"a number above {most}")
            if byte < 128:
                return value
            shift += 7

    def grown(self, start: int) -> int:
        """`start` and the growth that comes next."""
        stop = start + self.number()
        if stop > _MOST:
            raise BadMessage(f"a sequence of {stop} tokens")
        return stop

    def bytes(self, count: int) -> bytes:
        found = self.message[self.at : self.at + count]
        if len(found) < count:
            raise BadMessage(f"the message ends {count - len(found)} bytes early")
        self.at += count
        return found

    def count(self) -> int:
        """A number of things that take a byte each at least."""
        count = self.number()
        if count > len(self.message) - self.at:
            raise BadMessage(f"the message ends before its {count} numbers")
        return count

    def ascending(self, below: int) -> list[int]:
        places, last = [], -1
        for _ in range(self.count()):
            last += self.number() + 1
            places.append(last)
        if last >= below:
            raise BadMessage(f"place {last} of a batch of {below}")
        return places

    def entries(self) -> tuple[int, ...]:
        entries, entry = [], 0
        for _ in range(self.count()):
            signed = self.number(4 * _MOST)
            entry += signed // 2 if signed % 2 == 0 else -(signed + 1) // 2
            if not -1 <= entry <= _MOST:
                raise BadMessage(f"block {entry}")
            entries.append(entry)
        return tuple(entries)


def _step(names: Iterable[bytes], rows: list[Row], copies: tuple[tuple[int, int], ...]) -> Step:
    try:
        by_name = {name.decode(): row for name, row in zip(names, rows, strict=True)}
    except ValueError as error:  # not as many names as rows, or no UTF-8
        raise BadMessage(f"the sequences' names: {error}") from None
    if len(by_name) < len(rows):
        raise BadMessage("a sequence is there twice")
    return Step(by_name, copies)
