"""What a backend receives: one attention call whose arguments were already checked.

All public calls arrive in one form. A contiguous cache *is* a cache of blocks: one per sequence, as long as
the longest, and found without a table. And a decode *is* a prefill of one token for each sequence. So a
backend has one code path, and the twin differs from the paged kernel in the look-up and in nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LONGEST = 2**31 - 1  # tokens: what an int32 length can say
MAX_SPLITS = 128


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
class AttentionCall:
    """The newest tokens of each sequence against all that it has cached, themselves included."""

    query: Tensor  # [tokens, q_heads, head_dim]
    key: Tensor  # [blocks, block_size, kv_heads, head_dim], any strides, head_dim dense
    value: Tensor  # [blocks, block_size, kv_heads, value_dim], the same
    seq_lens: Tensor  # int32 [seqs], the new tokens included
    query_starts: Tensor | None  # int32 [seqs + 1]: whose tokens `query` holds; None, decode: one each
    table: BlockTable | None  # None: contiguous, sequence i is block i
    scale: float  # of the scores
    window: int | None  # tokens that a query sees, itself included
    softcap: float | None
    num_splits: int | None
    value_scale: float = 1.0  # of the values; with a scale of one number for K, that is already in `scale`
    key_scales: Tensor | None = None  # float32 [blocks, block_size, kv_heads], any strides
    value_scales: Tensor | None = None

    @property
    def num_seqs(self) -> int:
        return self.seq_lens.shape[0]

    @property
    def head_dim(self) -> int:
        return self.query.shape[2]

    @property
    def value_dim(self) -> int:
        return self.value.shape[3]

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

    @property
    def reach(self) -> int:
        """How many tokens a query sees at most: its window, or more than any sequence has."""
        return self.window or LONGEST

    @property
    def paged(self) -> bool:
        return self.table is not None

    def query_bounds(self) -> Tensor:
        """Where the query tokens of each sequence begin and the last ones end: int64 `[seqs + 1]`."""
        if self.query_starts is not None:
            return self.query_starts.long()
        return torch.arange(self.num_seqs + 1, device=self.query.device)

    def first_visible(self) -> Tensor:
        """The first position that a query of each sequence sees: int64 `[seqs]`.

        The queries are the newest tokens, and the first of them sees furthest back: to the left edge of its
        window, or to 0.
        """
        first_query = self.seq_lens.long() - self.query_bounds().diff()
        return (first_query + 1 - self.reach).clamp(min=0)
