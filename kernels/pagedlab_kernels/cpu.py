"""The CPU backend: hands torch tensors to the compiled kernel as flat arrays, without copying a cache.

The kernel uses as many threads as torch does, so `torch.set_num_threads` sets both and a comparison is fair.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

import numba
import numpy as np
import torch
from torch import Tensor

from . import cpu_kernels
from .backends import collector_paused
from .call import AttentionCall

# What the kernel sees of each dtype: `cpu_kernels.widen` turns it into float32.
_CARRIERS = {
    torch.float32: np.float32, torch.bfloat16: np.uint16, torch.float16: np.int16, torch.int8: np.int8,
}  # fmt: skip

_one_call_at_a_time = threading.Lock()
_threads_have_started = _threads_were_left_behind = False


def _in_a_forked_child() -> None:
    """Threads do not come along into a forked child, and a kernel would wait for them forever."""
    global _one_call_at_a_time, _threads_were_left_behind
    _one_call_at_a_time = threading.Lock()  # the parent's may be held by a thread that is not here
    _threads_were_left_behind = _threads_have_started


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_forked_child)


def refusal(call: AttentionCall) -> str | None:
    """Why this backend cannot serve the call, or None."""
    if call.query.device.type != "cpu":
        return f"it reads the CPU's memory, these tensors are on {call.query.device}"
    for dtype in (call.query.dtype, call.key.dtype):
        if dtype not in _CARRIERS:
            return f"it serves float32, float16, bfloat16 and int8, not {dtype}"
    if call.query_starts is not None:
        return "it serves decode: for a prefill, matrix products are faster than its row by row"
    if call.value_dim != call.head_dim:
        return f"its rows of K and V are alike, the heads have {call.head_dim} and {call.value_dim} numbers"
    if call.num_splits not in (None, 1):
        return f"its threads share out whole sequences, so num_splits must be None, got {call.num_splits}"
    if _threads_were_left_behind:
        return "this process was forked after a kernel had run, and the kernel's threads did not come along"
    return None


def attend(call: AttentionCall) -> tuple[Tensor, Tensor]:
    """Return the output `[seqs, q_heads, head_dim]` and the log-sum-exp of the scores `[seqs, q_heads]`."""
    grouped = (call.num_seqs, call.num_kv_heads, call.group)
    query = call.query.detach().float().mul(call.scale).reshape(*grouped, call.head_dim).contiguous()
    out, lse = torch.empty_like(query), query.new_empty(grouped)
    lengths = call.seq_lens.contiguous().numpy()
    if call.table is not None:
        entries, rows = call.table.entries.numpy(), call.table.bounds().numpy()
    else:
        entries, rows = np.empty(0, np.int32), np.zeros(call.num_seqs, np.int64)
    read = call.key, call.value, call.key_scales, call.value_scales
    strides = np.array([each.stride()[:3] if each is not None else (0, 0, 0) for each in read])
    with _threads() as threads, collector_paused():
        cpu_kernels.decode(
            query.numpy(), *map(_flat, read), strides, lengths, entries, rows, call.paged, call.block_size,
            call.reach, np.float32(call.softcap or 0), _deal(lengths, threads), out.numpy(), lse.numpy(),
        )  # fmt: skip
    if call.value_scale != 1:
        out *= call.value_scale
    return out.view(call.query.shape).to(call.query.dtype), lse.view(call.query.shape[:2])


def stream_read(*tensors: Tensor) -> float:
    """Read every byte of some tensors as fast as this machine can, and return a sum that depends on them.

    The time it takes is the limit of any kernel that has to read the same bytes. The tensors are contiguous,
    on the CPU, and of any dtype: their bytes are read as float32. Raises ValueError for others.

    >>> import torch
    >>> stream_read(torch.ones(1000), torch.ones(24))
    1024.0
    """
    for tensor in tensors:
        offset = tensor.storage_offset() * tensor.itemsize
        if tensor.device.type != "cpu" or not tensor.is_contiguous() or tensor.nbytes % 4 or offset % 4:
            raise ValueError(
                f"tensors must be contiguous, on the CPU and whole float32 numbers, got shape "
                f"{list(tensor.shape)}, strides {tensor.stride()}, {tensor.dtype}, {tensor.device}"
            )
    with _threads() as threads:
        sums = np.zeros((len(tensors), threads), np.float32)
        for tensor, parts in zip(tensors, sums, strict=True):
            _sum_parts(tensor.detach().view(-1).view(torch.float32).numpy(), parts)
    return float(sums.sum())


@cpu_kernels.cached
def _sum_parts(numbers: np.ndarray, sums: np.ndarray) -> None:
    """Sum a flat float32 array in as many parts as `sums` has places."""
    size, parts = len(numbers), len(sums)
    for part in numba.prange(parts):
        piece = numbers[part * size // parts : (part + 1) * size // parts]
        total = np.float32(0)
        for i in range(len(piece)):
            total += piece[i]
        sums[part] = total


@contextlib.contextmanager
def _threads() -> Iterator[int]:
    """Hold numba's threads for one call, as many as torch has been told to use.

    One call at a time, because numba's simplest pool ends the process when two Python threads enter it
    together. And when a pool of numba's starts, it sets torch's number of threads too: that is put back.
    """
    global _threads_have_started
    if _threads_were_left_behind:
        raise RuntimeError("forked after a kernel had run: its threads did not come along")
    with _one_call_at_a_time:
        _threads_have_started = True
        wanted = torch.get_num_threads()
        threads = min(wanted, numba.config.NUMBA_NUM_THREADS)
        numba.set_num_threads(threads)
        if torch.get_num_threads() != wanted:
            torch.set_num_threads(wanted)
        yield threads


def _flat(cache: Tensor | None) -> np.ndarray:
    """The stretch of memory that a cache of any strides lies in, from its first element to its last."""
    if cache is None:
        return np.empty(0, np.float32)
    last = sum((size - 1) * stride for size, stride in zip(cache.shape, cache.stride(), strict=True))
    flat = cache.detach().as_strided((last + 1 if cache.numel() else 0,), (1,))
    bits = flat.view(torch.int16) if cache.dtype in (torch.float16, torch.bfloat16) else flat
    return bits.numpy().view(_CARRIERS[cache.dtype])


def _deal(lengths: np.ndarray, threads: int) -> np.ndarray:
    """The order in which sequences are worked on.

    Every thread takes an equal, connected piece of it. So the sequences are dealt out by length, as one deals
    cards: each piece gets its share of the long ones.
    """
    longest_first = np.argsort(-lengths, kind="stable")
    return np.concatenate([longest_first[thread::threads] for thread in range(threads)])
