"""What changed between two sets of block tables, as bytes for the other ranks."""

from __future__ import annotations

import json

Tables = dict[str, list[int]]


class TableDiff:
    """For each table that changed: how much of its old beginning stays, and what comes after it.

    >>> old, new = {"a": [7, 3], "b": [5]}, {"a": [7, 3, 9]}
    >>> message = TableDiff().encode(old, new)
    >>> message, TableDiff().decode(old, message) == new
    (b'{"gone": ["b"], "changed": {"a": [2, [9]]}}', True)
    """

    def encode(self, old: Tables, new: Tables) -> bytes:
        gone = [name for name in old if name not in new]
        changed = {}
        for name, table in new.items():
            before = old.get(name, [])
            kept = next(
                (i for i, pair in enumerate(zip(before, table, strict=False)) if pair[0] != pair[1]), None
            )
            kept = min(len(before), len(table)) if kept is None else kept
            if name not in old or kept < max(len(before), len(table)):
                changed[name] = [kept, table[kept:]]
        return json.dumps({"gone": gone, "changed": changed}).encode()

    def decode(self, old: Tables, message: bytes) -> Tables:
        difference = json.loads(message)
        new = {name: list(table) for name, table in old.items() if name not in difference["gone"]}
        for name, (kept, rest) in difference["changed"].items():
            new[name] = new.get(name, [])[:kept] + rest
        return new


solution = TableDiff
