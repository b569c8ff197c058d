"""The exercise `table-diff`: any encoding passes that another instance can read."""

from __future__ import annotations

import difflib
import json
import pickle
import struct
import zlib

import numpy as np
import pytest
from trying import assert_passes, assert_recognised

from pagedlab import exercises


class Json:
    def encode(self, old, new):
        gone = sorted(set(old) - set(new))
        return json.dumps([gone, {name: t for name, t in new.items() if old.get(name) != t}]).encode()

    def decode(self, old, message):
        gone, changed = json.loads(message)
        return {**{name: table for name, table in old.items() if name not in gone}, **changed}


class Whole:
    """No difference at all, and no less right."""

    def encode(self, old, new):
        return zlib.compress(pickle.dumps(new), 0)

    def decode(self, old, message):
        return pickle.loads(zlib.decompress(message))


class Packed:
    """Struct and a bytearray: count of names, then name, kept, rest; a kept of -1 says gone."""

    def encode(self, old, new):
        out = bytearray()
        for name in {**old, **new}:
            before, after = old.get(name), new.get(name)
            if before == after:
                continue
            kept = 0
            while (
                after is not None
                and kept < min(len(before or ()), len(after))
                and before[kept] == after[kept]
            ):
                kept += 1
            rest = after[kept:] if after is not None else []
            text = name.encode()
            out += (
                struct.pack(f"<HiI{len(rest)}I", len(text), -1 if after is None else kept, len(rest), *rest)
                + text
            )
        return out

    def decode(self, old, message):
        new, at = dict(old), 0
        while at < len(message):
            size, kept, count = struct.unpack_from("<HiI", message, at)
            rest = struct.unpack_from(f"<{count}I", message, at + 10)
            at += 10 + 4 * count
            name = message[at : at + size].decode()
            at += size
            if kept < 0:
                del new[name]
            else:
                new[name] = [*new.get(name, ())[:kept], *rest]
        return new


class Opcodes:
    """difflib's own difference of each table; numpy holds the ids, memoryview the message."""

    def encode(self, old, new):
        steps = {}
        for name, table in new.items():
            codes = difflib.SequenceMatcher(None, old.get(name, []), table, autojunk=False).get_opcodes()
            steps[name] = [[i, j, table[k:m]] for tag, i, j, k, m in codes if tag != "equal"]
        return memoryview(json.dumps(steps).encode())

    def decode(self, old, message):
        new = {}
        for name, steps in json.loads(bytes(message)).items():
            table = list(old.get(name, []))
            for i, j, rest in reversed(steps):
                table[i:j] = rest
            new[name] = np.array(table, dtype=int)
        return new


class Lines:
    """Text, one operation a line, names in hexadecimal."""

    def encode(self, old, new):
        lines = [f"- {name.encode().hex()}" for name in old.keys() - new.keys()]
        for name, table in new.items():
            if table != old.get(name):
                lines.append(f"= {name.encode().hex()} {' '.join(map(str, table))}")
        return "\n".join(lines).encode()

    def decode(self, old, message):
        for line in message.decode().split("\n") if message else []:
            verb, name, *ids = line.split(" ")
            name = bytes.fromhex(name).decode()
            old.pop(name, None)
            if verb == "=":
                old[name] = tuple(int(i) for i in ids if i)
        return old


RIGHT = {"json": Json, "whole": Whole, "packed": Packed, "opcodes": Opcodes, "lines": Lines}


def sending(pick, **methods):
    """Json, but only what `pick(old, new, name)` chooses is sent."""

    def encode(self, old, new):
        gone = sorted(set(old) - set(new))
        return json.dumps([gone, {name: new[name] for name in new if pick(old, new, name)}]).encode()

    return type("Changed", (Json,), {"encode": encode, **methods})


class Appends(Json):
    def encode(self, old, new):
        gone = sorted(set(old) - set(new))
        return json.dumps([gone, {name: t[len(old.get(name, ())) :] for name, t in new.items()}]).encode()

    def decode(self, old, message):
        gone, added = json.loads(message)
        return {
            name: t + added.get(name, [])
            for name, t in {**{n: [] for n in added}, **old}.items()
            if name not in gone
        }


class Narrow(Json):
    def encode(self, old, new):
        return json.dumps(
            [sorted(set(old) - set(new)), {n: [*bytearray(t)] for n, t in new.items()}]
        ).encode()


class Shorts(Json):
    def encode(self, old, new):
        cut = {name: np.array(table, np.int64).astype(np.uint16).tolist() for name, table in new.items()}
        return json.dumps([sorted(set(old) - set(new)), cut]).encode()


class Stateful(Json):
    def encode(self, old, new):
        self.now = dict(new)
        return super().encode(old, new)

    def decode(self, old, message):
        return super().decode(self.now, message)


WRONG = {
    "keeps the gone": (
        type("Kept", (Json,), {"decode": lambda self, old, m: {**old, **json.loads(m)[1]}}),
        "said to be gone",
    ),
    "appends": (Appends, "how much of the old one stays"),
    "longer": (
        sending(lambda old, new, name: len(new[name]) > len(old.get(name, []))),
        "may get shorter",
    ),
    "other lengths": (
        sending(lambda old, new, name: name not in old or len(old[name]) != len(new[name])),
        "may hold other blocks",
    ),
    "last block": (
        sending(
            lambda old, new, name: (
                name not in old or len(old[name]) != len(new[name]) or old[name][-1:] != new[name][-1:]
            )
        ),
        "anywhere in a table",
    ),
    "no newcomers": (sending(lambda old, new, name: name in old), "send them whole"),
    "no empty": (sending(lambda old, new, name: bool(new[name])), "still a sequence"),
    "only changes": (
        type("Changes", (Json,), {"decode": lambda self, old, m: json.loads(m)[1]}),
        "those that did not change",
    ),
    "text": (type("Text", (Json,), {"encode": lambda self, a, b: Json().encode(a, b).decode()}), ".encode()"),
    "bytes": (Narrow, "beyond 255"),
    "shorts": (Shorts, "beyond 65,535"),
    "stateful": (Stateful, "another instance"),
}


@pytest.mark.parametrize("style", RIGHT)
def test_a_right_answer_of_any_style_passes(style):
    assert_passes("table-diff", RIGHT[style])


@pytest.mark.parametrize("mistake", WRONG)
def test_a_known_mistake_is_named_by_its_output(mistake):
    assert_recognised("table-diff", *WRONG[mistake])


@pytest.mark.parametrize("style", RIGHT)
def test_sending_whole_tables_passes_with_a_remark(style):
    report = exercises.check("table-diff", RIGHT[style], progress=None)
    assert ("What changed fits into fewer than a hundred" in str(report)) == (style == "whole")
