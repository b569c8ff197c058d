"""The Triton backend: chooses a tiling, allocates the results and launches the kernels.

The tilings stand in a table instead of being searched for at run time: a table can be read, makes the same
kernel on every run, and needs no GPU to search on.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import triton_kernels
from .call import DecodeCall

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
GROUP_TILE = 16  # query heads handled together: the rows that the matrix unit takes at once
LARGE_SHARED_MEMORY = 160 * 1024  # bytes per multiprocessor
NO_WINDOW = 2**31 - 1


@dataclass(frozen=True)
class Tiling:
    """How the kernel is laid out on a device."""

    tile: int  # tokens per step
    num_warps: int
    depth: int  # steps whose keys and values are in flight or in use at once

    def num_stages(self, paged: bool) -> int:
        """The pipeline stages that this depth takes: paged, every second one goes into the look-up."""
        return 2 * self.depth - 1 if paged else self.depth


# By device, then by the bytes of a row of K, padded: the first line that is wide enough.
TILINGS = {
    # 160 KiB of shared memory and more: sm_80, sm_90, sm_100
    "large": {256: Tiling(64, 4, 4), 512: Tiling(32, 8, 4), 1024: Tiling(32, 8, 3), 2048: Tiling(16, 8, 2)},
    # 64 KiB and more: sm_75, sm_86, sm_89, sm_120, and AMD
    "small": {256: Tiling(32, 4, 2), 512: Tiling(32, 8, 2), 1024: Tiling(16, 8, 1)},
}


def interpreted() -> bool | None:
    """Whether the kernels run in Triton's interpreter; None when they and Triton disagree.

    Each chose when it was imported, by TRITON_INTERPRET as it was then: they differ only if it has changed.
    """
    kernels, language = (isinstance(f, triton.runtime.JITFunction) for f in (triton_kernels.decode, tl.cdiv))
    return not kernels if kernels == language else None


def refusal(call: DecodeCall) -> str | None:
    """Why this backend cannot serve the call, or None."""
    if call.query.device.type != "cuda" and not interpreted():
        return f"the compiled kernel reads a GPU's memory, these tensors are on {call.query.device}"
    if call.query.dtype not in DTYPES:
        return f"it serves float32, float16 and bfloat16, not {call.query.dtype}"
    if row_bytes(call) > (widest := max(TILINGS[device_class(call.query.device)])):
        return f"a head of {call.head_dim} in {call.query.dtype} is wider than a tile's {widest} bytes"
    return None


def decode(call: DecodeCall) -> tuple[Tensor, Tensor]:
    """Return the output `[seqs, q_heads, head_dim]` and the log-sum-exp of the scores `[seqs, q_heads]`."""
    splits, device = call.num_splits or 1, call.query.device
    query = call.query if call.query.stride(2) == 1 else call.query.contiguous()
    # The interpreter cuts a float32 off where it should round it to bfloat16, so rounding is left to torch.
    exact = torch.float32 if interpreted() else query.dtype
    out = torch.empty(query.shape, dtype=exact, device=device)
    lse = torch.empty(query.shape[:2], dtype=torch.float32, device=device)
    if not call.num_seqs:
        return out.to(query.dtype), lse

    parts, part_lses = out, lse
    if splits > 1:
        parts = torch.empty(*query.shape[:2], splits, call.head_dim, dtype=torch.float32, device=device)
        part_lses = torch.empty(parts.shape[:3], dtype=torch.float32, device=device)
    table, starts, width = None, None, 0
    if call.table is not None:
        table, starts, width = call.table.entries, call.table.starts, call.table.width
    tiling = tiling_for(call, device_class(device))
    grid = (call.num_seqs, call.num_kv_heads * triton.cdiv(call.group, GROUP_TILE), splits)
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        triton_kernels.decode[grid](
            query, call.key, call.value, table, starts, call.seq_lens.contiguous(), parts, part_lses,
            width, call.window or NO_WINDOW, call.scale, call.softcap or 0.0,
            query.stride(0), query.stride(1), *call.key.stride()[:3], *call.value.stride()[:3],
            **decode_constants(call, tiling, upcast=bool(interpreted())),
            num_warps=tiling.num_warps, num_stages=tiling.num_stages(table is not None),
        )  # fmt: skip
        if splits > 1:
            chunk = min(64, triton.next_power_of_2(call.head_dim))
            triton_kernels.merge[(lse.numel(), triton.cdiv(call.head_dim, chunk))](
                parts, part_lses, out, lse,
                HEAD_DIM=call.head_dim, CHUNK=chunk, SPLITS=splits, SPLITS_PAD=triton.next_power_of_2(splits),
            )  # fmt: skip
    return out.to(query.dtype), lse


def device_class(device: torch.device) -> str:
    """Which part of the table a device reads; without a GPU the larger, as the interpreter has no limits."""
    if device.type != "cuda":
        return "large"
    shared = torch.cuda.get_device_properties(device).shared_memory_per_multiprocessor
    return "large" if shared >= LARGE_SHARED_MEMORY else "small"


def tiling_for(call: DecodeCall, device_class: str) -> Tiling:
    """The line of the table for a call."""
    return next(tiling for widest, tiling in TILINGS[device_class].items() if row_bytes(call) <= widest)


def row_bytes(call: DecodeCall) -> int:
    """The bytes of one row of K in a tile: the head dimension padded as the matrix unit takes it."""
    return padded_head_dim(call) * call.key.element_size()


def padded_head_dim(call: DecodeCall) -> int:
    """The next power of two that the matrix unit takes."""
    return max(16, triton.next_power_of_2(call.head_dim))


def decode_constants(call: DecodeCall, tiling: Tiling, upcast: bool) -> dict[str, int | bool]:
    """What `triton_kernels.decode` is specialised on: each combination is a kernel of its own."""
    paged = call.table is not None
    return {
        "PAGED": paged, "BLOCK_SIZE": call.block_size if paged else 1, "SOFTCAP": call.softcap is not None,
        "UPCAST": upcast, "GROUP": call.group, "GROUP_TILE": GROUP_TILE, "HEAD_DIM": call.head_dim,
        "HEAD_PAD": padded_head_dim(call), "TILE": tiling.tile, "SPLITS": call.num_splits or 1,
    }  # fmt: skip
