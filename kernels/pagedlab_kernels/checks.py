"""Every rule that the arguments of a kernel must obey, and the error that says which one was broken.

Compiled code follows any address it is given, so nothing reaches it unchecked. What shapes and dtypes tell is
checked on every call. What has to be read from the table and the lengths costs a pass over them (on a GPU
also a wait for the device), so a caller who has done it once may pass `check=False`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from .call import LONGEST, BlockTable, DecodeCall
from .csr import CSRTable

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
MAX_SPLITS = 128


@dataclass(frozen=True)
class Options:
    """The numbers that both public calls take, as they were given."""

    scale: Any
    window: Any
    softcap: Any
    num_splits: Any
    k_scale: Any
    v_scale: Any


def paged_call(
    query: Any,
    key_cache: Any,
    value_cache: Any,
    block_tables: Any,
    seq_lens: Any,
    options: Options,
    *,
    check: bool,
) -> DecodeCall:
    """Check the arguments of `paged_attention` and describe them."""
    layout = "[blocks, block_size, kv_heads, head_dim]"
    _check_tensors(query, {"key_cache": key_cache, "value_cache": value_cache}, layout, seq_lens)
    if key_cache.shape[1] < 1:
        raise ValueError(f"key_cache must have a block_size of at least 1, got shape {_shape(key_cache)}")
    table = _block_table(block_tables, query)
    call = DecodeCall(query, key_cache, value_cache, seq_lens, table, **_numbers(options, query.shape[2]))
    if check:
        _check_lengths(seq_lens)
        if isinstance(block_tables, CSRTable):
            _check_csr(table, block_tables, seq_lens, call.block_size)
        _check_ids(call, table)
    return call


def contiguous_call(
    query: Any, keys: Any, values: Any, seq_lens: Any, options: Options, *, check: bool
) -> DecodeCall:
    """Check the arguments of `contiguous_attention` and describe them."""
    layout = "[seqs, max_len, kv_heads, head_dim]"
    _check_tensors(query, {"keys": keys, "values": values}, layout, seq_lens)
    if len(keys) != len(query):
        raise ValueError(f"keys must hold one row per sequence of query, {len(query)}, got {len(keys)}")
    call = DecodeCall(query, keys, values, seq_lens, None, **_numbers(options, query.shape[2]))
    if check:
        _check_lengths(seq_lens)
        if (seq := _first(seq_lens > call.block_size)) is not None:
            raise ValueError(
                f"seq_lens[{seq}] = {int(seq_lens[seq])}, but a row of keys has room for {call.block_size}"
            )
    return call


# -- What shapes, dtypes and plain numbers tell.


def _check_tensors(query: Any, caches: dict[str, Any], layout: str, seq_lens: Any) -> None:
    _check_tensor("query", query, 3, "[seqs, q_heads, head_dim]")
    for name, cache in caches.items():
        _check_tensor(name, cache, 4, layout)
    _check_tensor("seq_lens", seq_lens, 1, "[seqs]")
    _check_int32("seq_lens", seq_lens)
    if query.dtype not in DTYPES:
        raise TypeError(f"query must be one of {', '.join(map(str, DTYPES))}, got {query.dtype}")
    if len(seq_lens) != len(query):
        raise ValueError(
            f"seq_lens must hold one length per sequence of query, {len(query)}, got {len(seq_lens)}"
        )

    key_name, key = next(iter(caches.items()))
    for name, cache in caches.items():
        if cache.dtype != query.dtype:
            raise TypeError(f"{name} must have the query's dtype, {query.dtype}, got {cache.dtype}")
        if cache.shape != key.shape:
            raise ValueError(f"{name} must have the shape of {key_name}, {_shape(key)}, got {_shape(cache)}")
        if cache.shape[3] != query.shape[2]:
            raise ValueError(f"{name} must have the query's head_dim, {query.shape[2]}, got {cache.shape[3]}")
        if cache.shape[3] > 1 and cache.stride(3) != 1:
            raise ValueError(
                f"{name} must have a dense head dimension, stride 1, got strides {cache.stride()}"
            )
    q_heads, kv_heads, head_dim = query.shape[1], key.shape[2], query.shape[2]
    if min(q_heads, kv_heads, head_dim) < 1:
        raise ValueError(
            f"query and {key_name} must have heads, got shapes {_shape(query)} and {_shape(key)}"
        )
    if q_heads % kv_heads:
        raise ValueError(f"query must have a multiple of the {kv_heads} heads of {key_name}, got {q_heads}")

    for name, tensor in {"query": query, **caches, "seq_lens": seq_lens}.items():
        if tensor.device != query.device:
            raise ValueError(f"{name} must be on the query's device, {query.device}, got {tensor.device}")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                f"{name} requires grad, and the kernels have no backward pass: pass {name}.detach()"
            )


def _check_tensor(name: str, tensor: Any, ndim: int, layout: str) -> None:
    if not isinstance(tensor, Tensor):
        kind = f"{type(tensor).__module__}.{type(tensor).__name__}".removeprefix("builtins.")
        remedy = f": torch.from_numpy({name}) makes one without copying" if kind == "numpy.ndarray" else ""
        raise TypeError(f"{name} must be a torch.Tensor {layout}, got {kind}{remedy}")
    if tensor.layout != torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got layout {tensor.layout}")
    if tensor.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimensions, {layout}, got shape {_shape(tensor)}")


def _check_int32(name: str, array: Any) -> None:
    if str(array.dtype).removeprefix("torch.") != "int32":
        raise TypeError(f"{name} must be int32, got {array.dtype}")


def _numbers(options: Options, head_dim: int) -> dict[str, Any]:
    """The options as a backend takes them."""
    for name in ("k_scale", "v_scale"):
        if getattr(options, name) is not None:
            raise ValueError(f"{name}: quantised caches are not served yet, leave it None")
    scale = _positive("scale", options.scale)
    return {
        "scale": head_dim**-0.5 if scale is None else scale,
        "window": _count("window", options.window, LONGEST),
        "softcap": _positive("softcap", options.softcap, least=1e-30, most=1e30),
        "num_splits": _count("num_splits", options.num_splits, MAX_SPLITS),
    }


def _positive(name: str, number: Any, least: float = 0.0, most: float = math.inf) -> float | None:
    if number is None:
        return None
    if type(number) is bool or not isinstance(number, Real):
        raise TypeError(f"{name} must be a number or None, got {type(number).__name__}")
    try:
        value = float(number)
    except OverflowError:
        value = math.inf
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be finite and greater than 0, got {number}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least:g} to {most:g}, got {number}")
    return value


def _count(name: str, number: Any, largest: int) -> int | None:
    if number is None:
        return None
    if type(number) is bool or not isinstance(number, Integral):
        raise TypeError(f"{name} must be an int or None, got {type(number).__name__}")
    if not 1 <= int(number) <= largest:
        raise ValueError(f"{name} must be from 1 to {largest}, got {number}")
    return int(number)


def _block_table(block_tables: Any, query: Tensor) -> BlockTable:
    """Bring either form of table into the one that backends read."""
    num_seqs = len(query)
    if isinstance(block_tables, CSRTable):
        lengths = {"indptr": num_seqs + 1, "indices": None, "last_page_len": num_seqs}
        for field, length in lengths.items():
            name, array = f"block_tables.{field}", getattr(block_tables, field)
            if getattr(array, "ndim", None) != 1 or not hasattr(array, "dtype"):
                raise TypeError(f"{name} must be a one-dimensional int32 array, got {type(array).__name__}")
            _check_int32(name, array)
            if length is not None and len(array) != length:
                raise ValueError(
                    f"{name} must have {length} numbers for {num_seqs} sequences, got {len(array)}"
                )
        indptr, indices = _tensor(block_tables.indptr, query), _tensor(block_tables.indices, query)
        return BlockTable(num_seqs, indices, 0, indptr)

    _check_tensor("block_tables", block_tables, 2, "[seqs, max_blocks], or a CSRTable")
    _check_int32("block_tables", block_tables)
    if block_tables.device != query.device:
        raise ValueError(
            f"block_tables must be on the query's device, {query.device}, got {block_tables.device}"
        )
    if len(block_tables) != num_seqs:
        raise ValueError(
            f"block_tables must have one row per sequence of query, {num_seqs}, got {len(block_tables)}"
        )
    return BlockTable(num_seqs, block_tables.contiguous().view(-1), block_tables.shape[1], None)


# -- What has to be read.


def _check_lengths(seq_lens: Tensor) -> None:
    if (seq := _first(seq_lens < 0)) is not None:
        raise ValueError(f"seq_lens[{seq}] = {int(seq_lens[seq])} must not be negative")


def _check_csr(table: BlockTable, csr: CSRTable, seq_lens: Tensor, block_size: int) -> None:
    """`indptr` must describe rows inside `indices`, and `last_page_len` must fit the lengths."""
    bounds = table.bounds()
    if int(bounds[0]) != 0 or int(bounds[-1]) != len(table.entries):
        raise ValueError(
            f"block_tables.indptr must go from 0 to {len(table.entries)}, the number of indices, "
            f"got {int(bounds[0])} to {int(bounds[-1])}"
        )
    if (seq := _first(bounds.diff() < 0)) is not None:
        raise ValueError(
            f"block_tables.indptr must not decrease, got {int(bounds[seq])} then {int(bounds[seq + 1])} "
            f"at sequence {seq}"
        )
    last, expected = _tensor(csr.last_page_len, seq_lens), (seq_lens - 1) % block_size + 1
    if (seq := _first((seq_lens > 0) & (last != expected))) is not None:
        raise ValueError(
            f"block_tables.last_page_len[{seq}] must be {int(expected[seq])} for seq_lens[{seq}] = "
            f"{int(seq_lens[seq])} in blocks of {block_size}, got {int(last[seq])}"
        )


def _check_ids(call: DecodeCall, table: BlockTable) -> None:
    """Every entry that a kernel will follow must exist, and must name a block of the cache."""
    bounds, lengths = table.bounds(), call.seq_lens.long()
    given = bounds.diff()
    needed = (lengths + call.block_size - 1) // call.block_size  # entries up to each sequence's end
    if (seq := _first(needed > given)) is not None:
        raise ValueError(
            f"block_tables has {int(given[seq])} entries for sequence {seq}, but seq_lens[{seq}] = "
            f"{int(lengths[seq])} takes {int(needed[seq])} blocks of {call.block_size}"
        )
    owner = torch.repeat_interleave(given)  # of each entry
    column = torch.arange(len(owner), device=owner.device) - bounds[owner]
    followed = (column >= (call.first_visible() // call.block_size)[owner]) & (column < needed[owner])
    blocks = len(call.key)
    if (entry := _first(followed & ((table.entries < 0) | (table.entries >= blocks)))) is not None:
        seq = int(owner[entry])
        raise IndexError(
            f"block_tables: entry {int(column[entry])} of sequence {seq} is {int(table.entries[entry])}, "
            f"but key_cache has blocks 0 to {blocks - 1}, and seq_lens[{seq}] = {int(lengths[seq])} needs it"
        )


def _first(wrong: Tensor) -> int | None:
    """Where the first True is, or None."""
    return int(wrong.nonzero()[0]) if bool(wrong.any()) else None


def _tensor(array: Any, like: Tensor) -> Tensor:
    """A NumPy array (copied, it may be read-only) or a tensor, dense and on the device of `like`."""
    tensor = array if isinstance(array, Tensor) else torch.tensor(array)
    return tensor.to(like.device).contiguous()


def _shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape)
