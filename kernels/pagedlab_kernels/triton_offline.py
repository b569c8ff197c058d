"""The Triton kernels compiled for GPUs that are not here, exactly as a call would launch them.

Only for a process that does not interpret: Triton decides that when it is imported.
"""

from __future__ import annotations

from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler import compile as triton_compile
from triton.tools.tensor_descriptor import TensorDescriptor

from .call import AttentionCall, BlockTable
from .triton_launch import KNOWS_E4M3, Device, Launch

SMALL_SHARED_MEMORY = (75, 86, 89, 120)  # compute capabilities
ELEMENTS = {
    torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.int32: "i32",
    torch.int8: "i8", torch.uint8: "u8", torch.float8_e4m3fn: "fp8e4nv",
}  # fmt: skip


def example(
    dtype: torch.dtype = torch.bfloat16,
    head_dim: int = 128,
    *,
    group: int = 4,
    block_size: int = 16,
    paged: bool = True,
    csr: bool = False,
    prefill: bool = False,
    cache_dtype: torch.dtype | None = None,
    token_scales: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    num_splits: int | None = None,
) -> AttentionCall:
    """A call of the right shapes that holds no numbers: 8 KV heads, 16 sequences of up to 64 blocks."""

    def empty(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    seqs, blocks, kv_heads = 16, 1024, 8
    where = (blocks, block_size, kv_heads) if paged else (seqs, 64 * block_size, kv_heads)
    cache = empty(*where, head_dim, dtype=cache_dtype or dtype)
    scales = empty(*where, dtype=torch.float32) if token_scales else None
    table = None
    if paged:
        table = BlockTable(seqs, empty(blocks), 0 if csr else 64, empty(seqs + 1) if csr else None)
    return AttentionCall(
        empty(512 if prefill else seqs, kv_heads * group, head_dim, dtype=dtype), cache, cache, empty(seqs),
        empty(seqs + 1) if prefill else None, table, head_dim**-0.5, window, softcap, num_splits,
        key_scales=scales, value_scales=scales,
    )  # fmt: skip


def device_for(target: GPUTarget) -> Device:
    """What `plan` has to know about a target."""
    nvidia = target.backend == "cuda"
    small = not nvidia or target.arch in SMALL_SHARED_MEMORY
    return Device("small" if small else "large", nvidia and target.arch >= KNOWS_E4M3)


def compile_launch(launch: Launch, target: GPUTarget) -> Any:
    """Compile a launch as Triton's launcher would, and return its compiled kernel.

    The launcher tells the compiler what it finds out about the arguments: numbers and addresses that divide
    by 16, which decides how wide loads are, and numbers that are 1. Raises what the compiler raises.
    """
    names = launch.kernel.arg_names
    constants: dict[str, Any] = dict(launch.constants)
    signature: dict[str, str] = dict.fromkeys(constants, "constexpr")
    attributes = {}
    for name, argument in launch.arguments.items():
        if argument is None or (type(argument) is int and argument == 1):
            constants[name], signature[name] = argument, "constexpr"
            continue
        if isinstance(argument, TensorDescriptor):
            signature[name] = f"tensordesc<{ELEMENTS[argument.base.dtype]}{argument.block_shape}>"
        elif isinstance(argument, torch.Tensor):
            signature[name] = "*" + ELEMENTS[argument.dtype]
        else:
            signature[name] = "i32" if isinstance(argument, int) else "fp32"
        if isinstance(argument, torch.Tensor) or (isinstance(argument, int) and argument % 16 == 0):
            attributes[(names.index(name),)] = [["tt.divisibility", 16]]
    source = ASTSource(
        launch.kernel, {name: signature[name] for name in names}, constexprs=constants, attrs=attributes
    )
    options = {"num_warps": launch.num_warps, "num_stages": launch.num_stages}
    return triton_compile(source, target=target, options=options)
