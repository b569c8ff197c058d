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

from pagedlab_kernels import CSRTable, contiguous_attention, paged_attention

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

    query: Tensor  # [seqs, q_heads, head_dim]
    key_cache: Tensor  # [blocks, block_size, kv_heads, head_dim]
    value_cache: Tensor
    block_tables: Tensor  # [seqs, max_blocks]
    seq_lens: Tensor  # [seqs]
    keys: Tensor  # [seqs, max_len, kv_heads, head_dim]
    values: Tensor

    @property
    def block_size(self) -> int:
        return self.key_cache.shape[1]

    def paged(self, **options: Any) -> Any:
        """Call `paged_attention` on the batch."""
        return paged_attention(
            self.query, self.key_cache, self.value_cache, self.block_tables, self.seq_lens, **options
        )

    def contiguous(self, **options: Any) -> Any:
        """Call `contiguous_attention` on the batch."""
        return contiguous_attention(self.query, self.keys, self.values, self.seq_lens, **options)

    def exact(self, **options: Any) -> tuple[Tensor, Tensor]:
        """Output and lse of the reference in float64, from the rounded inputs."""
        wide = replace(self, query=self.query.double(), keys=self.keys.double(), values=self.values.double())
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
        return Batch(**{name: tensor.to(device) for name, tensor in vars(self).items()})


def batch(
    lengths: list[int],
    *,
    heads: tuple[int, int] = (4, 2),
    head_dim: int = 32,
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
    layout: str = "NHD",
    seed: int = 0,
) -> Batch:
    """Random sequences of the given lengths; `heads` are query heads and KV heads."""
    source = torch.Generator().manual_seed(seed)
    q_heads, kv_heads = heads
    counts = [-(-length // block_size) for length in lengths]
    order = torch.randperm(sum(counts) + 3, generator=source).to(torch.int32)  # three blocks stay unused
    longest = max(lengths, default=0)

    width = max(counts, default=0)
    block_tables = NOT_A_BLOCK.repeat(len(lengths), width)[:, :width]
    keys, values = torch.full((2, len(lengths), longest, kv_heads, head_dim), torch.nan, dtype=dtype)
    shape = (len(order), block_size, kv_heads, head_dim)
    if layout == "HND":
        shape = (len(order), kv_heads, block_size, head_dim)
    key_cache, value_cache = torch.full((2, *shape), torch.nan, dtype=dtype)
    if layout == "HND":
        key_cache, value_cache = key_cache.transpose(1, 2), value_cache.transpose(1, 2)

    for seq, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        blocks, order = order[:count], order[count:]
        block_tables[seq, :count] = blocks
        positions = torch.arange(length)
        block, slot = blocks[positions // block_size].long(), positions % block_size
        for rows, cache in ((keys, key_cache), (values, value_cache)):
            token = torch.randn(length, kv_heads, head_dim, generator=source).to(dtype)
            rows[seq, :length] = token
            cache[block, slot] = token
    query = torch.randn(len(lengths), q_heads, head_dim, generator=source).to(dtype)
    seq_lens = torch.tensor(lengths, dtype=torch.int32)
    return Batch(query, key_cache, value_cache, block_tables, seq_lens, keys, values)


def by_hand(
    batch: Batch, *, scale: float | None = None, window: int | None = None, softcap: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Output and lse in float64 without torch: one sequence, one query head, one softmax at a time."""
    query, keys, values = (t.double().numpy() for t in (batch.query, batch.keys, batch.values))
    out, lse = np.zeros(query.shape), np.full(query.shape[:2], -np.inf)
    group = query.shape[1] // keys.shape[2]
    for seq, length in enumerate(batch.seq_lens.tolist()):
        seen = slice(max(0, length - (window or length)), length)
        for head in range(query.shape[1]):
            key, value = keys[seq, seen, head // group], values[seq, seen, head // group]
            score = key @ query[seq, head] * (scale or query.shape[2] ** -0.5)
            score = softcap * np.tanh(score / softcap) if softcap else score
            if length:
                lse[seq, head] = score.max() + np.log(np.exp(score - score.max()).sum())
                out[seq, head] = np.exp(score - lse[seq, head]) @ value
    return out, lse


def assert_close(found: tuple[Tensor, Tensor], exact: tuple[Tensor, Tensor], dtype: torch.dtype) -> None:
    """Output within the rounding of its dtype, lse within that of float32; -inf where a sequence is empty."""
    atol, rtol = TOLERANCE[dtype]
    assert found[0].dtype == dtype
    torch.testing.assert_close(found[0].double(), exact[0].double(), atol=atol, rtol=rtol)
    torch.testing.assert_close(found[1].double(), exact[1].double(), atol=min(2e-6, 1e6 * atol), rtol=2e-6)
