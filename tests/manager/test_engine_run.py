"""Recorded runs of a real vLLM engine: our tables equal its tables, block for block, at every step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pagedlab import Admission, BlockManager

RUNS = {
    name: json.loads((Path(__file__).parents[1] / "cases" / "engine_runs" / f"{name}.json").read_text())
    for name in ("uncached", "cached")
}


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("name", RUNS)
def test_tables_and_hits_equal_the_engines_block_for_block(name, record):
    run = RUNS[name]
    ids = run["tokens"]
    manager = BlockManager(
        run["blocks"], run["block_size"], prefix_caching=run["prefix_caching"], record=record
    )
    steps = hits = 0
    for operation, *rest in run["operations"]:
        match operation:
            case "allocate":
                request, known, hit = rest
                found = manager.match(ids[request][:known]) if run["prefix_caching"] else None
                allocation = manager.allocate(request, ids[request][:known])
                assert allocation.num_cached_tokens == hit
                assert found is None or found.num_cached_tokens == hit
                hits += hit
            case "append":
                request, known = rest
                manager.append(request, ids[request][manager.num_tokens(request) : known])
            case "free":
                manager.free(rest[0])
            case "refused":
                pass  # the engine's scheduler wanted room for the whole prompt; no block moved
            case "step":
                tables, free = rest
                assert {request: list(manager.table(request)) for request in tables} == tables
                assert manager.num_free_blocks == free
                steps += 1
            case _:
                pytest.fail(f"the recording holds an unknown operation {operation!r}")
    assert steps > 300 and (hits > 3000) == run["prefix_caching"]


def test_a_prompt_larger_than_the_pool_is_never_admitted():
    run = RUNS["uncached"]
    manager = BlockManager(run["blocks"], run["block_size"])
    assert manager.can_allocate(run["blocks"] * run["block_size"] + 1) is Admission.NEVER
