"""The Triton kernels compile for GPUs that are not here, spill nothing, load wide, and pipeline as deep paged
as not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("offline.py")


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
def test_kernels_compile_without_a_gpu(capability, run_python, tmp_path):
    pytest.importorskip("triton")
    done = run_python(
        str(PROGRAM), str(capability), TRITON_CACHE_DIR=str(tmp_path / "cache"), TRITON_INTERPRET="0"
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["kernel"] for row in rows} == {"attention", "merge"}
    for row in rows:
        assert (row["stack"], row["local"]) == (0, 0), row
        # Scalars are 4 bytes: lengths, bounds, ids, scales. Whatever is narrower would be a number of K or V.
        assert all(load == "ld.global.b32" or ".v" in load for load in row["loads"]), row
        assert set(row["copies"]) <= {4, 8, 16}, row

    pairs = [row for row in rows if "paged" in row]
    for paged, twin in zip(pairs[::2], pairs[1::2], strict=True):
        assert paged["paged"] and not twin["paged"] and twin["copies"] == [16]
        assert paged["stages"] == 2 * twin["stages"] - 1
        # As many tiles of K and V in shared memory, plus the block ids of one tile per look-up in flight.
        assert twin["shared"] <= paged["shared"] <= twin["shared"] + 1024
