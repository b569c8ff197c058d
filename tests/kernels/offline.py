"""Compiles the Triton kernels for GPUs that are not here and prints one JSON line per kernel.

A program, not a test: it has to run in a process that does not interpret, with a TRITON_CACHE_DIR of its own.
Its arguments are compute capabilities, 80 for sm_80.
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
from triton.compiler import ASTSource

from pagedlab_kernels import triton_kernels, triton_launch
from pagedlab_kernels.call import BlockTable, DecodeCall

CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
ELEMENTS = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
SMALL_SHARED_MEMORY = (75, 86, 89, 120)  # capabilities


def example(paged: bool, dtype: torch.dtype, head_dim: int, group: int = 4) -> DecodeCall:
    """A call of the right shapes that holds no numbers: 2 KV heads, blocks of 16."""
    query = torch.empty(3, 2 * group, head_dim, dtype=dtype, device="meta")
    cache = torch.empty(10, 16, 2, head_dim, dtype=dtype, device="meta")
    lengths = torch.empty(3, dtype=torch.int32, device="meta")
    table = BlockTable(3, torch.empty(12, dtype=torch.int32, device="meta"), 4, None) if paged else None
    return DecodeCall(query, cache, cache, lengths, table, 1.0, None, None, None)


def compile_decode(call: DecodeCall, capability: int) -> dict[str, Any]:
    """Compile `decode` as the launcher would for this call, and report what it takes."""
    paged, element = call.table is not None, ELEMENTS[call.query.dtype]
    tiling = triton_launch.tiling_for(call, "small" if capability in SMALL_SHARED_MEMORY else "large")
    constants: dict[str, Any] = dict(triton_launch.decode_constants(call, tiling, upcast=False))
    constants |= {"starts": None} if paged else {"starts": None, "table": None}
    types = dict.fromkeys(("query", "keys", "values", "out"), "*" + element)
    types |= {"lse": "*fp32", "seq_lens": "*i32", "table": "*i32", "scale": "fp32", "softcap": "fp32"}
    types |= dict.fromkeys(constants, "constexpr")

    names = triton_kernels.decode.arg_names
    signature = {name: types.get(name, "i32") for name in names}
    # What the launcher finds out about its arguments: pointers and strides that divide by 16.
    aligned = [name for name in names if signature[name][0] == "*" or name[:2] in ("q_", "k_", "v_")]
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in aligned}
    source = ASTSource(triton_kernels.decode, signature, constexprs=constants, attrs=attributes)
    options = {"num_warps": tiling.num_warps, "num_stages": tiling.num_stages(paged)}
    return options | report(triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options))


def compile_merge(capability: int) -> dict[str, Any]:
    """Compile `merge` for 7 splits of head_dim 128 into bfloat16."""
    constants = {"HEAD_DIM": 128, "CHUNK": 64, "SPLITS": 7, "SPLITS_PAD": 8}
    signature = {"parts": "*fp32", "part_lses": "*fp32", "out": "*bf16", "lse": "*fp32"}
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(triton_kernels.merge, signature, constexprs=constants)
    return report(triton.compile(source, target=GPUTarget("cuda", capability, 32)))


def report(compiled: Any) -> dict[str, Any]:
    """Registers a thread; bytes of stack, of local and of shared memory."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        command = [CUOBJDUMP, "-res-usage", file.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {name.lower(): int(re.search(rf"{name}:(\d+)", usage)[1]) for name in ("REG", "STACK", "LOCAL")}
    return found | {"shared": compiled.metadata.shared}


if __name__ == "__main__":
    for capability in map(int, sys.argv[1:]):
        print(json.dumps({"kernel": "merge"} | compile_merge(capability)))
        for paged, dtype, head_dim in product((True, False), ELEMENTS, (64, 128)):
            about = {"kernel": "decode", "paged": paged, "dtype": str(dtype), "head_dim": head_dim}
            print(json.dumps(about | compile_decode(example(paged, dtype, head_dim), capability)))
