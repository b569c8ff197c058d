"""The cases that every correct block manager passes, read from `tests/cases/block_manager.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pagedlab import (
    BlockManager,
    CacheInUse,
    OutOfBlocks,
    UnknownSequence,
    csr_table,
    released_blocks,
)
from pagedlab.eviction import ByPriority
from pagedlab.models import LayerGroup, ModelShape

CASES = json.loads((Path(__file__).parents[1] / "cases" / "block_manager.json").read_text())["cases"]
OPERATIONS = {
    "allocate", "append", "fork", "free", "double_free", "reserve", "write",
    "swap_out", "swap_in", "reset", "complete", "lookup", "window_prune",
}  # fmt: skip
ELSEWHERE = {"kv_bytes", "page_table", "fit", "agree_on_blocks"}  # below, and in the tests of sizes

# Cases of one peer's policy: what ours does instead, or that it is the same. POLICIES.md gives the reasons.
OURS = {
    "append-12": {0: {}, 1: {"ok": True}},  # a token that fits needs no free block
    "swap-04": {2: {"free": 3}, 3: {"ok": True, "free": 0}},  # its own blocks suffice
    "evict-01": None,
    "evict-02": None,
    "evict-03": {1: {"next_free": ["A.2", "unused", "unused", "unused", "A.1", "A.0"]}},
    "dup-02": None,
    "dup-03": {2: {"copies": 1}, 3: {"differ": [["A.2", "B.2"]], "free": 6}},
    "null-01": {0: {"ok": True, "free": 0}, 1: {"ok": False}},  # block 0 is a block like any other
    "hf-02": {2: {"hit": 8, "free": 6}, 3: {"same": [["A.0", "C.0"], ["A.1", "C.1"]], "free": 6}},
}
# Played in tests of their own: trt-01 here, the others with the serving loop or not at all.
APART = {"flex-02", "flex-06", "sglang-03", "preempt-02", "trt-01"}


def _operations(case: dict[str, Any]) -> set[str]:
    return {step["op"] for step in case["steps"]}


def _tokens(runs: list[Any]) -> list[int]:
    ids: list[int] = []
    for run in runs:
        ids += range(run[1], run[2]) if run[0] == "range" else [run[0]] * run[1]
    return ids


class Player:
    """Plays a case on our manager and keeps what its expectations ask about."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.manager = BlockManager(
            setup["blocks"],
            setup["block_size"],
            prefix_caching=setup["prefix_caching"],
            watermark=setup.get("watermark", 0),
            num_host_blocks=setup.get("cpu_blocks", 0),
        )
        self.window = setup.get("window")
        self.last_table: dict[Any, tuple[int, ...]] = {}
        self.ever_used: set[int] = set()

    def play(self, step: dict[str, Any]) -> dict[str, Any]:
        manager, seq = self.manager, step.get("seq")
        seen: dict[str, Any] = {"ok": True, "error": False, "copies": 0, "new_blocks": 0}
        self._note_tables()
        lookahead = {"lookahead": step["lookahead"]} if "lookahead" in step else {}
        try:
            match step["op"]:
                case "allocate":
                    options = lookahead | ({"salt": step["salt"]} if "salt" in step else {})
                    seen["status"] = manager.can_allocate(_tokens(step["tokens"]), **options).name
                    seen["hit"] = manager.allocate(seq, _tokens(step["tokens"]), **options).num_cached_tokens
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
                case "swap_out":
                    seen["moved"] = len(manager.swap_out(*step["group"]))
                case "swap_in":
                    seen["moved"] = len(manager.swap_in(*step["group"]))
                case "reset":
                    manager.reset_cache()
                case "complete":
                    pass  # a block of ours has its key as soon as it is full
                case "lookup":
                    seen["hit"] = manager.match(_tokens(step["tokens"])).num_cached_tokens
                case "window_prune":
                    seen["pruned"] = released_blocks(step["computed"], self.window, manager.block_size)
        except (OutOfBlocks, UnknownSequence, CacheInUse):
            seen |= {"ok": False, "error": True}
        self._note_tables()
        return seen

    def _note_tables(self) -> None:
        state = self.manager.events.state_at(self.manager.events.num_steps - 1)
        for known, table in state.tables.items():
            self.last_table[known] = tuple(table)
            self.ever_used.update(table)

    def next_free(self) -> list[str]:
        """The free blocks in the order in which they go out, by the names that cases use."""
        names = {
            block: f"{seq}.{i}" for seq, table in self.last_table.items() for i, block in enumerate(table)
        }
        for seq, table in sorted(
            self.last_table.items(), reverse=True
        ):  # of a shared block, its first holder
            names |= {block: f"{seq}.{i}" for i, block in enumerate(table)}
        pool = self.manager._pool
        order = pool.next(pool.num_free)
        return [names[block] if block in self.ever_used else "unused" for block in order]

    def block(self, reference: str) -> int:
        seq, index = reference.split(".")
        return self.last_table[seq][int(index)]

    def check(self, expected: dict[str, Any], seen: dict[str, Any]) -> None:
        manager = self.manager
        state = manager.events.state_at(manager.events.num_steps - 1)
        tables = {str(seq): tuple(table) for seq, table in state.tables.items()}
        for what, value in expected.items():
            match what:
                case "after" | "note":
                    pass
                case "ok" | "error" | "copies" | "new_blocks" | "hit" | "moved" | "status" | "pruned":
                    assert seen[what] == value
                case "cpu_free":
                    assert manager.num_free_host_blocks == value
                case "hashed":
                    assert {seq: [manager.is_cached(b) for b in tables[seq]] for seq in value} == value
                case "next_free":
                    assert self.next_free() == value
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
                        (seen["before"][a.split(".")[0]][int(a.split(".")[1])], self.block(b))
                        for a, b in value
                    ]
                case "capacity":
                    assert len(tables[str(seen["seq"])]) * manager.block_size == value
                case _:
                    raise AssertionError(f"the case expects {what!r}, which this test does not know")


def _play(case: dict[str, Any], expectations: dict[int, dict[str, Any]]) -> None:
    player = Player(case["setup"])
    for number, step in enumerate(case["steps"]):
        before = dict(player.last_table)
        seen = player.play(step) | {"seq": step.get("seq"), "before": before}
        player.check(expectations.get(number, {}), seen)


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c["scope"] == "any" and _operations(c) <= OPERATIONS],
    ids=lambda c: c["id"],
)
def test_a_case_of_every_correct_manager(case):
    _play(case, {expect["after"]: expect for expect in case["expect"]})


@pytest.mark.parametrize("case", [c for c in CASES if c["id"] in OURS], ids=lambda c: c["id"])
def test_a_case_of_one_peers_policy_goes_our_way(case):
    _play(case, OURS[case["id"]] or {expect["after"]: expect for expect in case["expect"]})


def test_no_case_is_left_out():
    for case in CASES:
        if case["scope"] == "any":
            assert _operations(case) <= OPERATIONS or _operations(case) <= ELSEWHERE, case["id"]
        else:
            assert (case["id"] in OURS) != (case["id"] in APART), case["id"]


def test_every_policy_case_has_a_row_in_the_document():
    text = (Path(__file__).parents[2] / "pagedlab" / "POLICIES.md").read_text()
    for case in CASES:
        assert case["scope"] == "any" or f"`{case['id']}`" in text


def test_tensorrt_llms_order_of_eviction():
    (case,) = (c for c in CASES if c["id"] == "trt-01")
    blocks = case["steps"][0]["blocks"]
    policy = ByPriority()
    for block in sorted(blocks, key=lambda block: block["last_use"]):
        policy.add([block["name"]], block["priority"])
    assert list(policy) == case["expect"][0]["order"]


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
