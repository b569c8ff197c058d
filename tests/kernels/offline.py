"""Compiles the Triton kernels for a GPU that is not here and prints one JSON line per kernel.

A program, not a test: it has to run in a process that does not interpret, with a TRITON_CACHE_DIR of its own.
Its argument is a compute capability, 80 for sm_80.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from pagedlab_kernels import triton_launch, triton_offline

CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
HEAD_DIMS = (64, 80, 128, 256)
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32

# Pairs of a paged kernel and its twin; then, paged, caches of bytes and each option once.
PAIRS: list[dict[str, Any]] = [
    {"prefill": prefill, "dtype": BF16, "head_dim": head_dim}
    for prefill, head_dim in product((False, True), HEAD_DIMS)
]
PAIRS += [{"prefill": prefill, "dtype": FP32, "head_dim": 128} for prefill in (False, True)]
PAIRS += [{"dtype": FP16}, {"dtype": FP32, "head_dim": 64}, {"dtype": FP32, "head_dim": 256}]
SINGLES: list[dict[str, Any]] = [
    {"prefill": prefill, "cache_dtype": cache_dtype, "head_dim": head_dim, "token_scales": head_dim != 64}
    for prefill, cache_dtype, head_dim in product(
        (False, True), (torch.int8, torch.float8_e4m3fn), (64, 128, 256)
    )
]
SINGLES += [
    {"csr": True},
    {"window": 64, "softcap": 30.0},
    {"num_splits": 7},
    {"group": 1},
    {"block_size": 5},
]
SINGLES += [{"prefill": True} | options for options in ({"num_splits": 7}, {"group": 64}, {"softcap": 30.0})]
CASES = [pair | {"paged": paged} for pair in PAIRS for paged in (True, False)] + SINGLES


def report(launch: triton_launch.Launch, compiled: Any) -> dict[str, Any]:
    """Registers a thread; bytes of stack, of local and of shared memory; how wide its loads are."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        command = [CUOBJDUMP, "-res-usage", file.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {name.lower(): int(re.search(rf"{name}:(\d+)", usage)[1]) for name in ("REG", "STACK", "LOCAL")}
    ptx = compiled.asm["ptx"]
    return found | {
        "kernel": launch.kernel.__name__,
        "shared": compiled.metadata.shared,
        "stages": launch.num_stages,
        "copies": sorted(
            {int(size, 16) for size in re.findall(r"cp\.async\.c[ag]\.shared\.global .*?, 0x(\w+)", ptx)}
        ),
        "loads": sorted(set(re.findall(r"ld\.global(?:\.\w+)*", ptx))),
    }


def main(capability: int) -> None:
    target = GPUTarget("cuda", capability, 32)
    device = triton_offline.device_for(target)
    for case in CASES:
        call = triton_offline.example(**case)
        for launch in triton_launch.plan(call, device).launches:
            about = {
                name: value if isinstance(value, int | float) else str(value) for name, value in case.items()
            }
            row = about | report(launch, triton_offline.compile_launch(launch, target))
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
