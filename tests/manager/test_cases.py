"""The cases that every correct block manager passes, read from `tests/cases/block_manager.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pagedlab import BlockManager, OutOfBlocks, UnknownSequence, csr_table
from pagedlab.models import LayerGroup, ModelShape

CASES = json.loads((Path(__file__).parents[1] / "cases" / "block_manager.json").read_text())["cases"]
NOT_YET = {"prefix_caching", "watermark", "window", "cpu_blocks"}
OPERATIONS = {"allocate", "append", "fork", "free", "double_free", "reserve", "write"}
ARITHMETIC = {"kv_bytes", "page_table"}


def _operations(case: dict[str, Any]) -> set[str]:
    return {step["op"] for step in case["steps"]}


def _covered(case: dict[str, Any]) -> bool:
    needs = {option for option in NOT_YET if case["setup"].get(option)}
    return case["scope"] == "any" and not needs and _operations(case) <= OPERATIONS


def _tokens(runs: list[Any]) -> list[int]:
    ids: list[int] = []
    for run in runs:
        ids += range(run[1], run[2]) if run[0] == "range" else [run[0]] * run[1]
    return ids


class Player:
    """Plays a case on our manager and keeps what its expectations ask about."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.manager = BlockManager(setup["blocks"], setup["block_size"])
        self.last_table: dict[Any, tuple[int, ...]] = {}

    def play(self, step: dict[str, Any]) -> dict[str, Any]:
        manager, seq = self.manager, step.get("seq")
        seen: dict[str, Any] = {"ok": True, "error": False, "copies": 0, "new_blocks": 0}
        for known in manager.sequences:
            self.last_table[known] = manager.table(known)
        lookahead = {"lookahead": step["lookahead"]} if "lookahead" in step else {}
        try:
            match step["op"]:
                case "allocate":
                    manager.allocate(seq, _tokens(step["tokens"]), **lookahead)
                case "append":
                    growth = manager.append(seq, _tokens(step["tokens"]), **lookahead)
                    seen |= {"copies": len(growth.copies), "copy": growth.copies}
                    seen["new_blocks"] = len(growth.new_blocks)
                case "reserve":  # room for so many tokens in all
                    if seq not in manager.sequences:
                        manager.allocate(seq, 0)
                    missing = step["tokens"] - manager.num_tokens(seq)
                    seen["new_blocks"] = len(manager.append(seq, 0, lookahead=max(0, missing)).new_blocks)
                case "write":
                    manager.slots(seq, step["position"], step["position"] + 1)
                case "fork":
                    manager.fork(step["parent"], step["child"])
                case "free":
                    manager.free(seq)
                case "double_free":
                    manager.free(seq)
                    manager.free(seq)
        except (OutOfBlocks, UnknownSequence):
            seen |= {"ok": False, "error": True}
        return seen

    def block(self, reference: str) -> int:
        seq, index = reference.split(".")
        table = self.manager.table(seq) if seq in self.manager.sequences else self.last_table[seq]
        return table[int(index)]

    def check(self, expected: dict[str, Any], seen: dict[str, Any]) -> None:
        manager = self.manager
        tables = {str(seq): manager.table(seq) for seq in manager.sequences}
        for what, value in expected.items():
            match what:
                case "after" | "note":
                    pass
                case "ok" | "error" | "copies" | "new_blocks":
                    assert seen[what] == value
                case "free":
                    assert manager.num_free_blocks == value
                case "table_len":
                    assert {seq: len(tables[seq]) for seq in value} == value
                case "ref":
                    assert {seq: [manager.ref_count(b) for b in tables[seq]] for seq in value} == value
                case "same":
                    assert all(self.block(a) == self.block(b) for a, b in value)
                case "differ":
                    assert all(self.block(a) != self.block(b) for a, b in value)
                case "copy":
                    assert list(seen["copy"]) == [
                        (self.last_table[a.split(".")[0]][int(a.split(".")[1])], self.block(b))
                        for a, b in value
                    ]
                case "capacity":
                    assert len(tables[str(seen["seq"])]) * manager.block_size == value
                case _:
                    raise AssertionError(f"the case expects {what!r}, which this test does not know")


@pytest.mark.parametrize("case", [c for c in CASES if _covered(c)], ids=lambda c: c["id"])
def test_a_case_of_every_correct_manager(case):
    player = Player(case["setup"])
    expectations = {expect["after"]: expect for expect in case["expect"]}
    for number, step in enumerate(case["steps"]):
        seen = player.play(step) | {"seq": step.get("seq")}
        player.check(expectations.get(number, {}), seen)


def test_only_what_the_manager_does_not_do_yet_is_left_out():
    left_out = [c for c in CASES if c["scope"] == "any" and not _covered(c)]
    for case in left_out:
        needs = {option for option in NOT_YET if case["setup"].get(option)}
        other = _operations(case) - OPERATIONS - ARITHMETIC
        assert needs or _operations(case) <= ARITHMETIC or other <= {"fit", "agree_on_blocks"}, case["id"]
    assert sum(_covered(c) for c in CASES) >= 22


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c["scope"] == "any" and _operations(c) == {"page_table"}],
    ids=lambda c: c["id"],
)
def test_a_page_table_has_the_documented_form(case):
    size = case["setup"]["block_size"]
    for step, expected in zip(case["steps"], case["expect"], strict=True):
        lengths = step["kv_lens"]
        tables = [tuple(range(-(-length // size))) for length in lengths]
        csr = csr_table(tables, lengths, size)
        assert csr.indptr.tolist() == expected["kv_indptr"]
        assert csr.last_page_len.tolist() == expected["kv_last_page_len"]


def test_bytes_of_a_token_count_kv_heads_and_bytes():
    (case,) = (c for c in CASES if c["id"] == "capacity-01")
    setup, expected = case["setup"], case["expect"][0]
    shape = ModelShape((LayerGroup(setup["layers"], setup["kv_heads"], setup["head_dim"]),))
    assert setup["bytes_per_element"] == 2
    assert shape.kv_bytes(1, "bf16") == expected["bytes_per_token"]
    assert shape.kv_bytes(case["steps"][0]["tokens"], "bf16") == expected["bytes"]
