"""A recorded run of a real vLLM engine: our tables equal its tables, block for block, at every step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pagedlab import Admission, BlockManager

RUN = json.loads((Path(__file__).parents[1] / "cases" / "engine_runs" / "uncached.json").read_text())


def test_tables_equal_the_engines_block_for_block():
    manager = BlockManager(RUN["blocks"], RUN["block_size"])
    steps = 0
    for operation, *rest in RUN["operations"]:
        match operation:
            case "allocate":
                request, known, _ = rest
                manager.allocate(request, known)
            case "append":
                request, known = rest
                manager.append(request, known - manager.num_tokens(request))
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
    assert steps > 300


def test_a_prompt_larger_than_the_pool_is_never_admitted():
    manager = BlockManager(RUN["blocks"], RUN["block_size"])
    assert manager.can_allocate(RUN["blocks"] * RUN["block_size"] + 1) is Admission.NEVER
