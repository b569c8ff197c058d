"""The Triton backend: chooses a tiling, allocates the results and launches the kernels.

The tilings stand in a table instead of being searched for at run time: a table can be read, makes the same
kernel on every run, and needs no GPU to search on. `plan` says what would be launched for a call without
launching it, so that a kernel can be compiled or traced exactly as it would run.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from . import triton_kernels
from .call import MAX_SPLITS, AttentionCall

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
FEWEST_ROWS = 16  # what the matrix unit takes at once
LARGE_SHARED_MEMORY = 160 * 1024  # bytes per multiprocessor
KNOWS_E4M3 = 89  # the first compute capability that converts it by itself
PROGRAMS = 2  # for each multiprocessor: fewer leave memory bandwidth unused
FEWEST_TOKENS = 256  # of a split: the merge would cost more than it brings


@dataclass(frozen=True)
class Tiling:
    """How the kernel is laid out on a device."""

    tile: int  # tokens of the cache per step
    num_warps: int
    depth: int  # steps whose keys and values are in flight or in use at once
    rows: int = FEWEST_ROWS  # query tokens times query heads of a program

    def num_stages(self, paged: bool) -> int:
        """The pipeline stages that this depth takes: paged, every second one goes into the look-up."""
        return 2 * self.depth - 1 if paged else self.depth


# By device and kind of call, then by the bytes of a row of K as it is computed with, padded: the first line
# that is wide enough. The matrix unit rounds float32, so its sums are made elsewhere, and more rows than a
# decode has would not fit the registers: a prefill in float32 reads the decode's lines.
TILINGS = {
    # 160 KiB of shared memory and more: sm_80, sm_90, sm_100
    ("large", "decode"): {
        256: Tiling(64, 4, 4), 512: Tiling(32, 8, 4), 1024: Tiling(32, 8, 3), 2048: Tiling(16, 8, 2),
    },
    ("large", "prefill"): {
        128: Tiling(64, 4, 3, 64), 256: Tiling(32, 8, 3, 128), 512: Tiling(32, 8, 2, 64),
        1024: Tiling(32, 8, 2, 32), 2048: Tiling(16, 8, 2),
    },
    # 64 KiB and more: sm_75, sm_86, sm_89, sm_120, and AMD
    ("small", "decode"): {256: Tiling(32, 4, 2), 512: Tiling(32, 8, 2), 1024: Tiling(16, 8, 1)},
    ("small", "prefill"): {
        128: Tiling(32, 4, 2, 32), 256: Tiling(32, 8, 2, 32), 512: Tiling(32, 8, 2), 1024: Tiling(16, 8, 1),
    },
}  # fmt: skip


@dataclass(frozen=True)
class Device:
    """What a plan depends on: a GPU that is here, one that is not, or the interpreter."""

    size: str  # which part of the table it reads, "large" or "small"
    knows_e4m3: bool
    interpreted: bool = False
    multiprocessors: int = 0  # 0: not known
    bulk_copies: bool = False  # copy K and V a tile at a time, by tensor descriptors (in hardware from sm_90)


@dataclass(frozen=True)
class Launch:
    """One kernel with all that it is launched with."""

    kernel: Any  # a jitted function of `triton_kernels`
    grid: tuple[int, ...]
    arguments: dict[str, Any]  # tensors, numbers, or None
    constants: dict[str, int | bool]  # what it is specialised on: each combination is a kernel of its own
    num_warps: int = 4
    num_stages: int = 3

    def run(self) -> None:
        """Launch it."""
        options = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        self.kernel[self.grid](**self.arguments, **self.constants, **options)


@dataclass(frozen=True)
class Plan:
    """What a call takes: launches in order, and where they leave the result."""

    launches: tuple[Launch, ...]
    out: Tensor  # [tokens, q_heads, head_dim]
    lse: Tensor  # [tokens, q_heads]


def interpreted() -> bool | None:
    """Whether the kernels run in Triton's interpreter; None when they and Triton disagree.

    Each chose when it was imported, by TRITON_INTERPRET as it was then: they differ only if it has changed.
    """
    kernels, language = (isinstance(f, triton.runtime.JITFunction) for f in (triton_kernels.merge, tl.cdiv))
    return not kernels if kernels == language else None


def refusal(call: AttentionCall) -> str | None:
    """Why this backend cannot serve the call, or None."""
    if call.query.device.type != "cuda" and not interpreted():
        return f"the compiled kernel reads a GPU's memory, these tensors are on {call.query.device}"
    if call.query.dtype not in DTYPES:
        return f"it serves float32, float16 and bfloat16, not {call.query.dtype}"
    if call.value_dim != call.head_dim:
        return f"its tiles of K and V are alike, the heads have {call.head_dim} and {call.value_dim} numbers"
    if row_bytes(call) > (widest := max(_tilings(call, device_of(call.query)))):
        return f"a head of {call.head_dim} in {call.query.dtype} is wider than a tile's {widest} bytes"
    return None


def attend(call: AttentionCall, *, bulk_copies: bool = False) -> tuple[Tensor, Tensor]:
    """Return the output `[tokens, q_heads, head_dim]` and the scores' log-sum-exp `[tokens, q_heads]`.

    Raises ValueError where `bulk_copies` are asked for and cannot be had. They are not the default: no
    recording says yet where they are faster.
    """
    device = call.query.device
    wanted = plan(call, replace(device_of(call.query), bulk_copies=bulk_copies))
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        for launch in wanted.launches:
            launch.run()
    return wanted.out.to(call.query.dtype), wanted.lse


def plan(call: AttentionCall, device: Device) -> Plan:
    """What serving a call launches on a device, with memory allocated for results and launched nothing.

    The tensors of the call may be on torch's "meta" device: then the plan can be compiled, not run.
    """
    where, shape = call.query.device, call.query.shape
    query = call.query if call.query.stride(2) == 1 else call.query.contiguous()
    # The interpreter cuts a float32 off where it should round it to bfloat16, so rounding is left to torch.
    exact = torch.float32 if device.interpreted else query.dtype
    out = torch.empty(shape, dtype=exact, device=where)
    lse = torch.empty(shape[:2], dtype=torch.float32, device=where)
    if not out.numel():
        return Plan((), out, lse)

    tiling = tiling_for(call, device)
    constants = attention_constants(call, tiling, device)
    tiles = call.num_seqs
    if call.query_starts is not None:  # enough for sequences that each end in part of a tile
        tiles += len(query) // constants["QUERY_TILE"]
    head_tiles = call.num_kv_heads * triton.cdiv(call.group, constants["GROUP_TILE"])
    splits = constants["SPLITS"] = call.num_splits or splits_for(call, device, tiles * head_tiles)
    parts, part_lses = out, lse
    if splits > 1:
        parts = torch.empty(*shape[:2], splits, shape[2], dtype=torch.float32, device=where)
        part_lses = torch.empty(parts.shape[:3], dtype=torch.float32, device=where)
    arguments = attention_arguments(call, constants["FP8_BITS"])
    caches = ("keys", "values") if device.bulk_copies else ()
    arguments |= {"key_tiles": None, "value_tiles": None}
    arguments |= {f"{name[:-1]}_tiles": tiles_of(arguments[name], call, tiling.tile) for name in caches}
    arguments |= {"query": query, "q_token": query.stride(0), "q_head": query.stride(1)}
    arguments |= {"out": parts, "lse": part_lses}
    how = (tiling.num_warps, tiling.num_stages(call.paged))
    grid: tuple[int, ...] = (tiles, head_tiles, splits)
    launches = [Launch(triton_kernels.attention, grid, arguments, constants, *how)]
    if splits > 1:
        chunk = min(64, triton.next_power_of_2(call.head_dim))
        constants = {"HEAD_DIM": call.head_dim, "CHUNK": chunk, "SPLITS": splits}
        constants["SPLITS_PAD"] = triton.next_power_of_2(splits)
        arguments = {"parts": parts, "part_lses": part_lses, "out": out, "lse": lse}
        grid = (lse.numel(), triton.cdiv(call.head_dim, chunk))
        launches.append(Launch(triton_kernels.merge, grid, arguments, constants))
    return Plan(tuple(launches), out, lse)


def device_of(tensor: Tensor) -> Device:
    """The device that a tensor is on. The interpreter has no limits, and takes e4m3 apart by hand."""
    if tensor.device.type != "cuda":
        return Device("large", knows_e4m3=False, interpreted=True)
    properties = torch.cuda.get_device_properties(tensor.device)
    large = properties.shared_memory_per_multiprocessor >= LARGE_SHARED_MEMORY
    knows = torch.version.hip is None and 10 * properties.major + properties.minor >= KNOWS_E4M3
    size = "large" if large else "small"
    return Device(size, knows, bool(interpreted()), properties.multi_processor_count)


def splits_for(call: AttentionCall, device: Device, programs: int) -> int:
    """Into how many parts to cut every sequence when the caller has not said.

    Enough that few sequences occupy the whole device, as long as a part is worth its merge. Lengths are on
    the device, so the table tells how long sequences may be. A power of two: each count is its own kernel.
    """
    if call.table is None:
        longest = call.block_size
    elif call.table.starts is None:
        longest = call.table.width * call.block_size
    else:
        longest = len(call.table.entries) * call.block_size // call.num_seqs  # their mean
    wanted = PROGRAMS * device.multiprocessors // programs
    most = min(wanted, min(longest, call.reach) // FEWEST_TOKENS, MAX_SPLITS)
    return 1 << max(0, most.bit_length() - 1)


def tiles_of(cache: Tensor, call: AttentionCall, tile: int) -> TensorDescriptor:
    """A cache `[blocks, block_size, kv_heads, head_dim]` as a GPU copies the tiles of one head from it.

    Raises ValueError where a tile would lie in two blocks, or a row of it off the borders of 16 bytes.
    """
    if call.paged and call.block_size % tile:
        raise ValueError(f"a tile of {tile} tokens would lie in two blocks of {call.block_size}")
    by_head = cache.transpose(1, 2)
    offsets = [stride * cache.element_size() for stride in by_head.stride()[:3]]
    if not cache.numel() or cache.data_ptr() % 16 or any(offset % 16 for offset in offsets):
        raise ValueError(f"rows of the cache are {offsets} bytes apart: a copy begins at 16-byte borders")
    return TensorDescriptor.from_tensor(by_head, [1, 1, tile, padded_head_dim(call)])


def tiling_for(call: AttentionCall, device: Device) -> Tiling:
    """The line of the table for a call."""
    return next(tiling for widest, tiling in _tilings(call, device).items() if row_bytes(call) <= widest)


def row_bytes(call: AttentionCall) -> int:
    """The bytes of one row of K as it is computed with, padded as the matrix unit takes it."""
    return padded_head_dim(call) * call.query.element_size()


def padded_head_dim(call: AttentionCall) -> int:
    """The next power of two that the matrix unit takes."""
    return max(16, triton.next_power_of_2(call.head_dim))


def attention_constants(call: AttentionCall, tiling: Tiling, device: Device) -> dict[str, int | bool]:
    """What `triton_kernels.attention` is specialised on for a call."""
    group_tile, query_tile = FEWEST_ROWS, 1
    if call.query_starts is not None:
        group_tile = min(triton.next_power_of_2(call.group), tiling.rows)
        query_tile = tiling.rows // group_tile
    return {
        "PAGED": call.paged, "BLOCK_SIZE": call.block_size if call.paged else 1,
        "SOFTCAP": call.softcap is not None, "UPCAST": device.interpreted,
        "FP8_BITS": call.key.dtype == torch.float8_e4m3fn and not device.knows_e4m3,
        "GROUP": call.group, "GROUP_TILE": group_tile, "QUERY_TILE": query_tile,
        "HEAD_DIM": call.head_dim, "HEAD_PAD": padded_head_dim(call),
        "TILE": tiling.tile,
    }  # fmt: skip


def attention_arguments(call: AttentionCall, fp8_bits: int | bool) -> dict[str, Any]:
    """All that `triton_kernels.attention` reads of a call besides its query."""
    table = call.table
    caches = (call.key, call.value)
    key, value = (cache.view(torch.uint8) for cache in caches) if fp8_bits else caches
    arguments: dict[str, Any] = {
        "keys": key, "values": value, "key_scales": call.key_scales, "value_scales": call.value_scales,
        "table": table.entries if table else None, "starts": table.starts if table else None,
        "row_width": table.width if table else 0,
        "seq_lens": call.seq_lens.contiguous(),
        "query_starts": None if call.query_starts is None else call.query_starts.contiguous(),
        "num_seqs": call.num_seqs, "q_heads": call.query.shape[1], "window": call.reach,
        "scale": call.scale, "value_scale": call.value_scale, "softcap": call.softcap or 0.0,
    }  # fmt: skip
    strided = {"k": key, "v": value, "ks": call.key_scales, "vs": call.value_scales}
    for prefix, tensor in strided.items():
        strides = tensor.stride()[:3] if tensor is not None else (0, 0, 0)
        arguments |= dict(zip((f"{prefix}_{of}" for of in ("block", "slot", "head")), strides, strict=True))
    return arguments


def _tilings(call: AttentionCall, device: Device) -> dict[int, Tiling]:
    few_rows = call.query_starts is None or call.query.dtype == torch.float32
    return TILINGS[device.size, "decode" if few_rows else "prefill"]
