"""The Triton kernels compile for GPUs that are not here, spill nothing, and pipeline as deep paged as not."""

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
    assert len(rows) == 1 + 2 * 3 * 2  # merge; decode paged or not, in three dtypes, with two head dimensions
    assert {(row["stack"], row["local"]) for row in rows} == {(0, 0)}

    decodes = [row for row in rows if row["kernel"] == "decode"]
    for paged, twin in zip(decodes[:6], decodes[6:], strict=True):
        assert paged["paged"] and not twin["paged"]
        assert (paged["dtype"], paged["head_dim"]) == (twin["dtype"], twin["head_dim"])
        # As many tiles of K and V in shared memory, plus the block ids of one tile per look-up in flight.
        assert twin["shared"] <= paged["shared"] <= twin["shared"] + 1024
