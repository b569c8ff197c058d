"""Batches of sequences for kernel tests, in paged and contiguous form, with poison in all that no token owns.

Whatever lies outside the sequences is made to show when it is read: NaN in every slot of K and V without a
token, blocks that no table names, and entries past a sequence's end (or left of its window) that are -1 or no
block at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pagedlab_kernels import (
    CSRTable,
    contiguous_attention,
    contiguous_prefill,
    dequantise,
    paged_attention,
    paged_prefill,
    quantise,
)

NOT_A_BLOCK = torch.tensor([-1, 2**31 - 1], dtype=torch.int32)
# Largest error against float64 that is allowed: absolute, relative. Everything is computed in float32 and
# rounded once, so the relative part is the rounding of the result.
TOLERANCE = {
    torch.float64: (1e-12, 0.0),
    torch.float32: (2e-6, 0.0),
    torch.float16: (2e-6, 2**-11),
    torch.bfloat16: (2e-6, 2**-8),
}


@dataclass(frozen=True)
class Batch:
    """The same tokens twice: through a block table, and one row per sequence."""

    query: Tensor  # [tokens, q_heads, head_dim]; a decode has one token a sequence
    key_cache: Tensor  # [blocks, block_size, kv_heads, head_dim]
    value_cache: Tensor
    block_tables: Tensor  # [seqs, max_blocks]
    seq_lens: Tensor  # [seqs]
    keys: Tensor  # [seqs, max_len, kv_heads, head_dim]
    values: Tensor
    query_starts: Tensor | None = None  # [seqs + 1]: a prefill
    cache_scales: tuple[Any, Any] = (None, None)  # of the paged K and V
    row_scales: tuple[Any, Any] = (None, None)  # of the contiguous K and V

    @property
    def block_size(self) -> int:
        return self.key_cache.shape[1]

    def paged(self, **options: Any) -> Any:
        """Call `paged_attention` or `paged_prefill` on the batch."""
        caches = self.key_cache, self.value_cache, self.block_tables, self.seq_lens
        options = dict(zip(("k_scale", "v_scale"), self.cache_scales, strict=True)) | options
        if self.query_starts is None:
            return paged_attention(self.query, *caches, **options)
        return paged_prefill(self.query, *caches, self.query_starts, **options)

    def contiguous(self, **options: Any) -> Any:
        """Call their twin on the batch."""
        rows = self.keys, self.values, self.seq_lens
        options = dict(zip(("k_scale", "v_scale"), self.row_scales, strict=True)) | options
        if self.query_starts is None:
            return contiguous_attention(self.query, *rows, **options)
        return contiguous_prefill(self.query, *rows, self.query_starts, **options)

    def exact(self, **options: Any) -> tuple[Tensor, Tensor]:
        """Output and lse of the reference in float64, from the rounded inputs."""
        wide = replace(self, query=self.query.double())
        if self.keys.is_floating_point() and self.keys.itemsize > 1:
            wide = replace(wide, keys=self.keys.double(), values=self.values.double())
        return wide.contiguous(backend="reference", return_lse=True, **options)

    def csr(self) -> CSRTable:
        """The block table in CSR form, as NumPy arrays."""
        counts = -(-self.seq_lens.numpy() // self.block_size)
        rows = [row[:count] for row, count in zip(self.block_tables.numpy(), counts, strict=True)]
        return CSRTable(
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
            np.concatenate([np.empty(0, np.int32), *rows]),
            np.where(counts > 0, (self.seq_lens.numpy() - 1) % self.block_size + 1, 0).astype(np.int32),
        )

    def to(self, device: str) -> Batch:
        def moved(part: Any) -> Any:
            if isinstance(part, tuple):
                return tuple(map(moved, part))
            return part.to(device) if isinstance(part, Tensor) else part

        return Batch(**{name: moved(part) for name, part in vars(self).items()})


def batch(
    lengths: list[int],
    *,
    new: list[int] | None = None,
    heads: tuple[int, int] = (4, 2),
    head_dim: int = 32,
    value_dim: int | None = None,
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
    cache_dtype: torch.dtype | None = None,
    scales: tuple[float, float] | None = None,
    layout: str = "NHD",
    num_blocks: int | None = None,
    seed: int = 0,
) -> Batch:
    """Random sequences of the given lengths; `heads` are query heads and KV heads.

    With `new`, the tokens of each sequence that are queries, it is a prefill. A quantised `cache_dtype` has
    `scales` of K and V, or without them one for each token and head. With `num_blocks` the pool is so large
    that its memory exists only where it is written to, and only blocks with tokens hold poison.
    """
    source = torch.Generator().manual_seed(seed)
    q_heads, kv_heads = heads
    counts = [-(-length // block_size) for length in lengths]
    pool = num_blocks or sum(counts) + 3  # three blocks stay unused
    order = torch.randperm(pool, generator=source).to(torch.int32)
    longest, width = max(lengths, default=0), max(counts, default=0)
    block_tables = NOT_A_BLOCK.repeat(len(lengths), width)[:, :width]
    owned = list(order[: sum(counts)].split(counts))
    for row, blocks in zip(block_tables, owned, strict=True):
        row[: len(blocks)] = blocks

    paged, contiguous = [], []  # of K, then of V: the cache and its scales
    for number, dim in enumerate((head_dim, value_dim or head_dim)):
        cache = _poisoned(
            (pool, block_size, kv_heads, dim),
            cache_dtype or dtype,
            layout,
            num_blocks and order[: sum(counts)],
        )
        rows = _poisoned((len(lengths), longest, kv_heads, dim), cache_dtype or dtype, "NHD")
        cache_scale: Any = None
        row_scale: Any = None
        if cache_dtype and scales:
            cache_scale = row_scale = scales[number]
        elif cache_dtype:
            cache_scale = _poisoned(cache.shape[:3], torch.float32, layout)
            row_scale = _poisoned(rows.shape[:3], torch.float32, "NHD")
        for seq, (length, blocks) in enumerate(zip(lengths, owned, strict=True)):
            token = torch.randn(length, kv_heads, dim, generator=source).to(dtype)
            block, slot = (
                blocks.repeat_interleave(block_size)[:length].long(),
                torch.arange(length) % block_size,
            )
            if cache_dtype:
                token, chosen = quantise(token, cache_dtype, scales[number] if scales else None)
                if not scales:
                    cache_scale[block, slot] = row_scale[seq, :length] = chosen
            rows[seq, :length] = cache[block, slot] = token
        paged.append((cache, cache_scale))
        contiguous.append((rows, row_scale))

    tokens = len(lengths) if new is None else sum(new)
    query = torch.randn(tokens, q_heads, head_dim, generator=source).to(dtype)
    starts = None if new is None else torch.tensor([0, *new]).cumsum(0).to(torch.int32)
    (key_cache, k_scale), (value_cache, v_scale) = paged
    (keys, k_rows), (values, v_rows) = contiguous
    seq_lens = torch.tensor(lengths, dtype=torch.int32)
    return Batch(
        query, key_cache, value_cache, block_tables, seq_lens, keys, values, starts, (k_scale, v_scale),
        (k_rows, v_rows),
    )  # fmt: skip


def _poisoned(shape: Any, dtype: torch.dtype, layout: str, only: Tensor | None = None) -> Tensor:
    """Memory viewed as `[blocks, block_size, heads, ...]`, all (or `only` those blocks) NaN; int8: 127."""
    stored = list(shape)
    if layout == "HND":
        stored[1:3] = stored[2], stored[1]
    memory = torch.empty(stored, dtype=dtype)
    worst, bits = {torch.float8_e4m3fn: (0x7F, torch.uint8), torch.int8: (127, dtype)}.get(
        dtype, (torch.nan, dtype)
    )
    if only is None:
        memory.view(bits).fill_(worst)
    else:
        memory.view(bits)[only.long()] = worst
    return memory.transpose(1, 2) if layout == "HND" else memory


def by_hand(
    batch: Batch, *, scale: float | None = None, window: int | None = None, softcap: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Output and lse in float64 without torch: one sequence and one query head at a time."""
    query = batch.query.double().numpy()
    keys, values = (
        (rows.double() if scales is None else dequantise(rows, scales).double()).numpy()
        for rows, scales in zip((batch.keys, batch.values), batch.row_scales, strict=True)
    )
    out, lse = np.zeros((*query.shape[:2], values.shape[3])), np.full(query.shape[:2], -np.inf)
    group = query.shape[1] // keys.shape[2]
    starts = range(len(query) + 1) if batch.query_starts is None else batch.query_starts.tolist()
    for seq, length in enumerate(batch.seq_lens.tolist()):
        stop = starts[seq + 1]
        tokens = slice(max(starts[seq], stop - length), stop)  # those that see something
        at = np.arange(tokens.start, stop)[:, None] - stop + length
        distance = at - np.arange(length)
        hidden = (distance < 0) | (distance >= (window or length + 1))
        for head in range(query.shape[1] if length and tokens.start < stop else 0):
            key, value = keys[seq, :length, head // group], values[seq, :length, head // group]
            score = query[tokens, head] @ key.T * (scale or query.shape[2] ** -0.5)
            score = softcap * np.tanh(score / softcap) if softcap else score
            score[hidden] = -np.inf
            top = score.max(1, keepdims=True)
            lse[tokens, head] = (top + np.log(np.exp(score - top).sum(1, keepdims=True)))[:, 0]
            out[tokens, head] = np.exp(score - lse[tokens, head, None]) @ value
    return out, lse


def assert_close(found: tuple[Tensor, Tensor], exact: tuple[Tensor, Tensor], dtype: torch.dtype) -> None:
    """Output within the rounding of its dtype, lse within that of float32; -inf where a sequence is empty."""
    atol, rtol = TOLERANCE[dtype]
    assert found[0].dtype == dtype
    torch.testing.assert_close(found[0].double(), exact[0].double(), atol=atol, rtol=rtol)
    torch.testing.assert_close(found[1].double(), exact[1].double(), atol=min(2e-6, 1e6 * atol), rtol=2e-6)
