"""What a backend receives: one decode call whose arguments were already checked.

Both public calls arrive in one form, because a contiguous cache *is* a cache of blocks: one per sequence, as
long as the longest, and found without a table. So a backend has one code path, and the twin differs from the
paged kernel in the look-up and in nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class BlockTable:
    """The ids of every sequence, row after row: a padded table read flat, or a CSR table."""

    num_seqs: int
    entries: Tensor  # int32 [n], block ids
    width: int  # padded: how many entries a row has
    starts: Tensor | None  # CSR: int32 [seqs + 1], where each row begins and the last one ends; padded: None

    def bounds(self) -> Tensor:
        """Where each row begins and the last one ends: int64 `[seqs + 1]`."""
        if self.starts is not None:
            return self.starts.long()
        return torch.arange(self.num_seqs + 1, device=self.entries.device) * self.width

    def rows(self) -> list[Tensor]:
        """The entries of each sequence, as views."""
        bounds = self.bounds().tolist()
        return [self.entries[start:stop] for start, stop in zip(bounds[:-1], bounds[1:], strict=True)]


@dataclass(frozen=True)
class DecodeCall:
    """One query token per sequence against everything that the sequence has cached."""

    query: Tensor  # [seqs, q_heads, head_dim]
    key: Tensor  # [blocks, block_size, kv_heads, head_dim], any strides, head_dim dense
    value: Tensor  # the same
    seq_lens: Tensor  # int32 [seqs]
    table: BlockTable | None  # None: contiguous, sequence i is block i
    scale: float
    window: int | None  # tokens that a query sees, itself included
    softcap: float | None
    num_splits: int | None

    @property
    def num_seqs(self) -> int:
        return self.query.shape[0]

    @property
    def head_dim(self) -> int:
        return self.query.shape[2]

    @property
    def block_size(self) -> int:
        return self.key.shape[1]

    @property
    def num_kv_heads(self) -> int:
        return self.key.shape[2]

    @property
    def group(self) -> int:
        """How many query heads share one KV head."""
        return self.query.shape[1] // self.key.shape[2]

    def first_visible(self) -> Tensor:
        """The first position that each query sees, 0 or the left edge of its window: int64 `[seqs]`."""
        lengths = self.seq_lens.long()
        return torch.zeros_like(lengths) if self.window is None else (lengths - self.window).clamp(min=0)
