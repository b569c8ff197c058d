"""Compiles the Triton kernels for GPUs that are not here; one JSON line per kernel. Run as a program, in a
process that does not interpret, with a TRITON_CACHE_DIR of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pagedlab_kernels import triton_kernels, triton_launch
from pagedlab_kernels.call import BlockTable, DecodeCall

CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
TYPES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
POINTERS = {"query": None, "keys": None, "values": None, "out": None, "lse": "fp32", "seq_lens": "i32"}


def call(paged: bool, dtype: torch.dtype, head_dim: int, group: int, **options: object) -> DecodeCall:
    """A call of the right shapes that holds no numbers: 2 KV heads, blocks of 16."""

    def empty(*shape: int, dtype: torch.dtype = dtype) -> torch.Tensor:
        return torch.empty(*shape, dtype=dtype, device="meta")

    table = BlockTable(3, empty(12, dtype=torch.int32), 4, None) if paged else None
    cache = empty(10, 16, 2, head_dim)
    chosen = {"scale": 1.0, "window": None, "softcap": None, "num_splits": None} | options
    return DecodeCall(
        empty(3, 2 * group, head_dim), cache, cache, empty(3, dtype=torch.int32), table, **chosen
    )


def compile_decode(call: DecodeCall, capability: int) -> dict[str, object]:
    """Compile `decode` as the launcher would for this call, and report what it takes."""
    kernel = triton_kernels.decode
    tiling = triton_launch.tiling_for(call, "small" if capability in (75, 86, 89, 120) else "large")
    constants = triton_launch.decode_constants(call, tiling, upcast=False)
    absent = {"starts": None} if call.table is not None else {"starts": None, "table": None}
    element = TYPES[call.query.dtype]

    signature, attributes = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in constants or name in absent:
            signature[name] = "constexpr"
        elif name in ("query", "keys", "values", "out", "lse", "seq_lens", "table"):
            kind = {"lse": "fp32", "seq_lens": "i32", "table": "i32"}.get(name, element)
            signature[name] = "*" + ("fp32" if name == "out" and constants["SPLITS"] > 1 else kind)
            attributes[(index,)] = [["tt.divisibility", 16]]
        elif name in ("scale", "softcap"):
            signature[name] = "fp32"
        else:
            signature[name] = "i32"
            if "_" in name and name[:2] in (
                "q_",
                "k_",
                "v_",
            ):  # a stride, and those of real caches divide by 16
                attributes[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs={**constants, **absent}, attrs=attributes)
    options = {"num_warps": tiling.num_warps, "num_stages": tiling.num_stages(call.table is not None)}
    return {
        **report(triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)),
        **options,
    }


def compile_merge(capability: int) -> dict[str, object]:
    """Compile `merge` for 7 splits of head_dim 128 in bfloat16."""
    constants = {"HEAD_DIM": 128, "CHUNK": 64, "SPLITS": 7, "SPLITS_PAD": 8}
    signature = {"parts": "*fp32", "part_lses": "*fp32", "out": "*bf16", "lse": "*fp32"}
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(fn=triton_kernels.merge, signature=signature, constexprs=constants)
    return report(triton.compile(source, target=GPUTarget("cuda", capability, 32)))


def report(compiled: object) -> dict[str, object]:
    """Registers, stack and shared memory in bytes, and how K and V are loaded."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        usage = subprocess.run(
            [CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True
        )
    return {
        "registers": int(re.search(r"REG:(\d+)", usage.stdout)[1]),
        "stack": int(re.search(r"STACK:(\d+)", usage.stdout)[1]),
        "local": int(re.search(r"LOCAL:(\d+)", usage.stdout)[1]),
        "shared": compiled.metadata.shared,
    }


if __name__ == "__main__":
    for capability in map(int, sys.argv[1:]):
        print(
            json.dumps({"kernel": "merge", "capability": capability} | compile_merge(capability)), flush=True
        )
        for paged in (True, False):
            for dtype in TYPES:
                for head_dim in (64, 128):
                    found = compile_decode(call(paged, dtype, head_dim, 4), capability)
                    about = {
                        "kernel": "decode",
                        "capability": capability,
                        "paged": paged,
                        "head_dim": head_dim,
                    }
                    print(json.dumps({**about, "dtype": str(dtype), **found}), flush=True)
