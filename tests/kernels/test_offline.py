"""The Triton kernels compile for GPUs that are not here, spill nothing, load wide, and pipeline as deep paged
as not."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from pagedlab_kernels import compile_report

# Pairs of a paged kernel and its twin; then, paged, caches of bytes and each option once.
PAIRS: list[dict[str, Any]] = [
    {"prefill": prefill, "head_dim": head_dim}
    for prefill, head_dim in product((False, True), (64, 80, 128, 256))
]
PAIRS += [{"prefill": prefill, "dtype": "float32"} for prefill in (False, True)]
PAIRS += [{"dtype": "float16"}, {"dtype": "float32", "head_dim": 64}, {"dtype": "float32", "head_dim": 256}]
SINGLES: list[dict[str, Any]] = [
    {"prefill": prefill, "cache_dtype": cache_dtype, "head_dim": head_dim, "token_scales": head_dim != 64}
    for prefill, cache_dtype, head_dim in product((False, True), ("int8", "float8_e4m3fn"), (64, 128, 256))
]
SINGLES += [
    {"csr": True},
    {"window": 64, "softcap": 30.0},
    {"num_splits": 7},
    {"group": 1},
    {"block_size": 5},
]
SINGLES += [{"prefill": True} | options for options in ({"num_splits": 7}, {"group": 64}, {"softcap": 30.0})]
CASES = {str(call): call for call in [pair | {"paged": paged} for pair in PAIRS for paged in (True, False)]}
CASES |= {str(call): call for call in SINGLES}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_kernels_compile_without_a_gpu(target: str) -> None:
    pytest.importorskip("triton")
    rows = compile_report(CASES, [target], dtype="bfloat16")
    for row in rows:
        assert (row.refusal, row.stack) == (None, 0), row
        assert {load.asynchronous for load in row.cache_loads} == {True}
        assert {load.width for load in row.cache_loads} <= {4, 8, 16}, row
    pairs = rows[: 2 * len(PAIRS)]
    for paged, twin in zip(pairs[::2], pairs[1::2], strict=True):
        assert {load.width for load in twin.cache_loads} == {16}
        assert paged.num_stages == 2 * twin.num_stages - 1
        # As many tiles of K and V in shared memory, plus the block ids of one tile per look-up in flight.
        assert twin.shared <= paged.shared <= twin.shared + 1024
