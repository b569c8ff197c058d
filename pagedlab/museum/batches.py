"""Inputs for a paged decode kernel: comfortable by default, as nasty as you ask.

A batch is a few numbers, so that it can be printed, kept and made smaller; its tensors are made when asked
for, always the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

WILD = (2**31 - 1, -1)
"""What a poisoned table holds past a sequence's end."""
_TOLERANCE = {"float32": (1e-5, 1e-4), "float16": (1e-3, 2e-3), "bfloat16": (1e-2, 1e-2)}


@dataclass(frozen=True)
class Batch:
    """One query token for each of some sequences, their K and V in blocks, and the right answer.

    `shuffled` puts the blocks in any order. `poisoned` writes NaN into every slot that no token owns, adds
    blocks that nobody owns, and wild entries to the table past each sequence's end. `head_major` stores the
    heads outside the slots, so that the caches are strided views. `shift` is added to every score, which
    changes nothing in the answer.

    >>> batch = Batch([5, 9], block_size=4, poisoned=True)
    >>> batch.block_tables[0].tolist(), batch.key_cache.isnan().sum().item()
    ([0, 1, 2147483647, -1], 56)
    """

    lengths: Sequence[int]
    block_size: int = 16
    heads: int = 1
    kv_heads: int = 1
    head_dim: int = 4
    scale: float = 1.0
    dtype: str = "float32"
    shuffled: bool = False
    poisoned: bool = False
    head_major: bool = False
    shift: float = 0.0
    seed: int = 0

    def __str__(self) -> str:
        return f"Batch({', '.join(f'{name}={value!r}' for name, value in self.description.items())})"

    @property
    def description(self) -> dict[str, Any]:
        """What it is made of, without what is as by default: `Batch(**description)` is the same batch."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in given.items() if value != getattr(Batch, name, None)}

    @property
    def possible(self) -> bool:
        """Whether there is such a batch: it has sequences, and sizes that fit together."""
        sizes = self.block_size, self.heads, self.kv_heads, self.head_dim, self.scale
        fits = min(sizes) > 0 and self.heads % self.kv_heads == 0
        return fits and len(self.lengths) > 0 and min(self.lengths) >= 0

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """query, key_cache, value_cache, block_tables and seq_lens, as a kernel takes them."""
        return self.query, self.key_cache, self.value_cache, self.block_tables, self.seq_lens

    @property
    def seq_lens(self) -> Tensor:
        """int32 [seqs]"""
        return torch.tensor(list(self.lengths), dtype=torch.int32)

    @cached_property
    def query(self) -> Tensor:
        """[seqs, heads, head_dim]"""
        query = self._random(1, len(self.lengths), self.heads)
        query[..., 0] = 1.0  # the first number of a key adds the same to all its scores
        return query.to(self._dtype)

    @cached_property
    def keys(self) -> list[Tensor]:
        """[length, kv_heads, head_dim] of each sequence"""
        keys = [self._random(100 + seq, length, self.kv_heads) for seq, length in enumerate(self.lengths)]
        for key in keys:
            key[..., 0] = self.shift / self.scale
        return [key.to(self._dtype) for key in keys]

    @cached_property
    def values(self) -> list[Tensor]:
        """the same for V"""
        return [
            self._random(500 + seq, length, self.kv_heads).to(self._dtype)
            for seq, length in enumerate(self.lengths)
        ]

    @cached_property
    def block_tables(self) -> Tensor:
        """int32 [seqs, max_blocks]"""
        counts = self._counts
        ids = torch.arange(sum(counts))
        if self.shuffled:
            ids = ids[torch.randperm(len(ids), generator=self._source(0))]
        width = max(counts, default=0) + self.poisoned
        past = (WILD if self.poisoned else (0,)) * width
        rows = [[*blocks, *past][:width] for blocks in (part.tolist() for part in ids.split(counts))]
        return torch.tensor(rows, dtype=torch.int32).view(len(counts), width)

    @cached_property
    def key_cache(self) -> Tensor:
        """[blocks, block_size, kv_heads, head_dim]"""
        return self._cache(self.keys)

    @cached_property
    def value_cache(self) -> Tensor:
        """the same for V"""
        return self._cache(self.values)

    @cached_property
    def expected(self) -> Tensor:
        """The answer in float64, [seqs, heads, head_dim]: plain attention over each sequence's own rows."""
        out = torch.zeros(self.query.shape, dtype=torch.float64)
        for seq, (key, value) in enumerate(zip(self.keys, self.values, strict=True)):
            grouped = self.query[seq].double().view(self.kv_heads, -1, self.head_dim)
            score = torch.einsum("hgd,thd->hgt", grouped, key.double()) * self.scale
            out[seq] = torch.einsum("hgt,thd->hgd", score.softmax(-1), value.double()).flatten(0, 1)
        return out

    def run(self, kernel: Callable[..., Any]) -> Any:
        """What the kernel answers."""
        return kernel(*self.arguments, scale=self.scale)

    def check(self, kernel: Callable[..., Any]) -> None:
        """Raise AssertionError when the kernel's answer is not the expected one, rounding aside."""
        answer = self.run(kernel)
        assert answer.dtype == self.query.dtype, f"{self}: the answer is {answer.dtype}"
        atol, rtol = _TOLERANCE[self.dtype]
        wrong = ~torch.isclose(answer.double(), self.expected, atol=atol, rtol=rtol).all(-1)
        assert not wrong.any(), f"{self}: wrong in (sequence, head) {tuple(wrong.nonzero()[0].tolist())}"

    @property
    def _dtype(self) -> torch.dtype:
        return getattr(torch, self.dtype)

    @property
    def _counts(self) -> list[int]:
        return [-(-length // self.block_size) for length in self.lengths]

    def _source(self, part: int) -> torch.Generator:
        return torch.Generator().manual_seed(1000 * self.seed + part)

    def _random(self, part: int, rows: int, heads: int) -> Tensor:
        return torch.randn(rows, heads, self.head_dim, generator=self._source(part))

    def _cache(self, rows: Sequence[Tensor]) -> Tensor:
        blocks = sum(self._counts) + 2 * self.poisoned
        shape = (blocks, self.block_size, self.kv_heads, self.head_dim)
        if self.head_major:
            shape = (blocks, self.kv_heads, self.block_size, self.head_dim)
        cache = torch.full(shape, torch.nan if self.poisoned else 0.0, dtype=self._dtype)
        cache = cache.transpose(1, 2) if self.head_major else cache
        for table, row in zip(self.block_tables, rows, strict=True):
            position = torch.arange(len(row))
            cache[table[position // self.block_size].long(), position % self.block_size] = row
        return cache
