"""The rules for tables and lengths, which have to be read: every entry that a kernel follows must be a block.

On a GPU reading them waits for the device, and a large table takes a pass over it. The functions that read
are those that `check=False` leaves out; `block_table` looks at shapes and dtypes only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .call import AttentionCall, BlockTable
from .csr import CSRTable


def block_table(block_tables: Any, seq_lens: Tensor) -> BlockTable:
    """Bring either form of table into the one that backends read."""
    num_seqs = len(seq_lens)
    if isinstance(block_tables, CSRTable):
        lengths = {"indptr": num_seqs + 1, "indices": None, "last_page_len": num_seqs}
        for field, length in lengths.items():
            name, array = f"block_tables.{field}", getattr(block_tables, field)
            if getattr(array, "ndim", None) != 1 or not hasattr(array, "dtype"):
                raise TypeError(f"{name} must be a one-dimensional int32 array, got {type(array).__name__}")
            check_int32(name, array)
            if length is not None and len(array) != length:
                raise ValueError(
                    f"{name} must have {length} numbers for {num_seqs} sequences, got {len(array)}"
                )
        indptr, indices = _tensor(block_tables.indptr, seq_lens), _tensor(block_tables.indices, seq_lens)
        return BlockTable(num_seqs, indices, 0, indptr)

    check_tensor("block_tables", block_tables, 2, "[seqs, max_blocks], or a CSRTable")
    check_int32("block_tables", block_tables)
    if block_tables.device != seq_lens.device:
        raise ValueError(
            f"block_tables must be on the query's device, {seq_lens.device}, got {block_tables.device}"
        )
    if len(block_tables) != num_seqs:
        raise ValueError(f"block_tables must have one row per sequence, {num_seqs}, got {len(block_tables)}")
    return BlockTable(num_seqs, block_tables.contiguous().view(-1), block_tables.shape[1], None)


def check_tensor(name: str, tensor: Any, ndim: int, layout: str) -> None:
    """Raise TypeError or ValueError unless it is a dense tensor of so many dimensions."""
    if not isinstance(tensor, Tensor):
        kind = f"{type(tensor).__module__}.{type(tensor).__name__}".removeprefix("builtins.")
        remedy = f": torch.from_numpy({name}) makes one without copying" if kind == "numpy.ndarray" else ""
        raise TypeError(f"{name} must be a torch.Tensor {layout}, got {kind}{remedy}")
    if tensor.layout != torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got layout {tensor.layout}")
    if tensor.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimensions, {layout}, got shape {list(tensor.shape)}")


def check_int32(name: str, array: Any) -> None:
    """Raise TypeError unless a tensor or an array holds int32."""
    if str(array.dtype).removeprefix("torch.") != "int32":
        raise TypeError(f"{name} must be int32, got {array.dtype}")


def check_lengths(call: AttentionCall) -> None:
    """Lengths count tokens, and `cu_seqlens_q` deals out every query token, in order."""
    if (seq := _first(call.seq_lens < 0)) is not None:
        raise ValueError(f"seq_lens[{seq}] = {int(call.seq_lens[seq])} must not be negative")
    if call.query_starts is not None:
        _check_bounds("cu_seqlens_q", call.query_starts, len(call.query), "tokens of query")


def check_room(call: AttentionCall) -> None:
    """No sequence of a contiguous cache is longer than its row."""
    if (seq := _first(call.seq_lens > call.block_size)) is not None:
        raise ValueError(
            f"seq_lens[{seq}] = {int(call.seq_lens[seq])}, but a row of keys has room for {call.block_size}"
        )


def check_entries(call: AttentionCall, table: BlockTable, given_as: Any) -> None:
    """Every entry that a kernel will follow must exist, and must name a block of the cache."""
    lengths, size = call.seq_lens.long(), call.block_size
    if table.starts is not None:
        _check_bounds("block_tables.indptr", table.starts, len(table.entries), "indices")
        last, expected = _tensor(given_as.last_page_len, lengths), (lengths - 1) % size + 1
        if (seq := _first((lengths > 0) & (last != expected))) is not None:
            raise ValueError(
                f"block_tables.last_page_len[{seq}] must be {int(expected[seq])} for seq_lens[{seq}] = "
                f"{int(lengths[seq])} in blocks of {size}, got {int(last[seq])}"
            )
    bounds = table.bounds()
    given = bounds.diff()
    needed = (lengths + size - 1) // size  # entries up to each sequence's end
    if (seq := _first(needed > given)) is not None:
        raise ValueError(
            f"block_tables has {int(given[seq])} entries for sequence {seq}, but seq_lens[{seq}] = "
            f"{int(lengths[seq])} takes {int(needed[seq])} blocks of {size}"
        )
    owner = torch.repeat_interleave(given)  # of each entry
    column = torch.arange(len(owner), device=owner.device) - bounds[owner]
    followed = (column >= (call.first_visible() // size)[owner]) & (column < needed[owner])
    blocks = len(call.key)
    if (entry := _first(followed & ((table.entries < 0) | (table.entries >= blocks)))) is not None:
        seq = int(owner[entry])
        raise IndexError(
            f"block_tables: entry {int(column[entry])} of sequence {seq} is {int(table.entries[entry])}, "
            f"but key_cache has blocks 0 to {blocks - 1}, and seq_lens[{seq}] = {int(lengths[seq])} needs it"
        )


def _check_bounds(name: str, bounds: Tensor, count: int, what: str) -> None:
    """Bounds must go from 0 to the number of things that they part, and never back."""
    first, last = int(bounds[0]), int(bounds[-1])
    if (first, last) != (0, count):
        raise ValueError(f"{name} must go from 0 to {count}, the number of {what}, got {first} to {last}")
    if (seq := _first(bounds.long().diff() < 0)) is not None:
        raise ValueError(
            f"{name} must not decrease, got {int(bounds[seq])} then {int(bounds[seq + 1])} at sequence {seq}"
        )


def _first(wrong: Tensor) -> int | None:
    """Where the first True is, or None."""
    return int(wrong.nonzero()[0]) if bool(wrong.any()) else None


def _tensor(array: Any, like: Tensor) -> Tensor:
    """A NumPy array (copied: it may be read-only, or run backwards) or a tensor, dense and on one device."""
    tensor = array if isinstance(array, Tensor) else torch.from_numpy(np.array(array, order="C"))
    return tensor.to(like.device).contiguous()
