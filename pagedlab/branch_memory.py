"""Where the branches of `branching` keep their K and V, and attention that reads them.

`CacheMemory` is the real `PagedKVCache` under the fastest kernel here. A browser has neither torch nor
kernels: there `ArrayMemory` keeps the same numbers in numpy, so that who reads what is still computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pagedlab.cost import QUERY_GROUP, Heads

if TYPE_CHECKING:
    import torch

HEADS = Heads(8, 128)
REPEATS = 5
"""Times that each copy is made: a second one changes nothing, and the fastest is nearest to what it takes."""
_WORDS = 1024
"""Token ids that differ in their K and V."""


class Memory(Protocol):
    """A pool of blocks. Token ids are the caller's: equal ids have equal K and V."""

    def write(self, ids: Sequence[int], slots: Sequence[int]) -> float:
        """Write K and V of these tokens to their slots; the seconds it took."""

    def copy(self, copies: Sequence[tuple[int, int]]) -> float:
        """Copy blocks; the seconds it took."""

    def error(self, ids: Sequence[int], table: Sequence[int]) -> float:
        """How far attention over the block table (fp32) is from the tokens' (fp64), at most."""


def memory(num_blocks: int, block_size: int) -> Memory:
    """The one that this machine has."""
    return (CacheMemory if find_spec("torch") else ArrayMemory)(num_blocks, block_size)


class CacheMemory:
    """A `PagedKVCache` in main memory."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        import torch

        from pagedlab.cache import PagedKVCache

        self._cache = PagedKVCache(num_blocks, block_size, HEADS.kv_heads, HEADS.head_dim)
        random = torch.Generator().manual_seed(0)
        for pool in (self._cache.key, self._cache.value):
            pool.normal_(generator=random)  # what other sequences left there
        shape = _WORDS, HEADS.kv_heads, HEADS.head_dim
        self._key, self._value = (torch.randn(shape, generator=random) for _ in "KV")
        self._query = torch.randn(1, QUERY_GROUP * HEADS.kv_heads, HEADS.head_dim, generator=random)

    def write(self, ids: Sequence[int], slots: Sequence[int]) -> float:
        key, value = self._words(ids)
        return _fastest(lambda: self._cache.write(key, value, slots))

    def copy(self, copies: Sequence[tuple[int, int]]) -> float:
        return _fastest(lambda: self._cache.copy(copies))

    def error(self, ids: Sequence[int], table: Sequence[int]) -> float:
        import torch

        from pagedlab_kernels import contiguous_attention, paged_attention

        lengths, blocks = (torch.tensor(values, dtype=torch.int32) for values in ([len(ids)], [table]))
        answer = paged_attention(self._query, self._cache.key, self._cache.value, blocks, lengths)
        key, value = (words.double().unsqueeze(0) for words in self._words(ids))
        exact = contiguous_attention(self._query.double(), key, value, lengths, backend="reference")
        return float((answer - exact).abs().max())

    def _words(self, ids: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        words = torch.tensor(ids) % _WORDS
        return self._key[words], self._value[words]


class ArrayMemory:
    """The same in numpy arrays: K and V of a slot, or of a word, lie side by side."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        random, row = np.random.default_rng(0), (HEADS.kv_heads, HEADS.head_dim)
        slots = num_blocks * block_size
        self._pool = random.standard_normal((slots, 2, *row), dtype=np.float32)
        self._blocks = self._pool.reshape(num_blocks, block_size, 2, *row)
        self._words = random.standard_normal((_WORDS, 2, *row), dtype=np.float32)
        self._query = random.standard_normal((row[0], QUERY_GROUP, row[1]), dtype=np.float32)

    def write(self, ids: Sequence[int], slots: Sequence[int]) -> float:
        rows = self._words[np.array(ids) % _WORDS]
        return _fastest(lambda: self._pool.__setitem__(list(slots), rows))

    def copy(self, copies: Sequence[tuple[int, int]]) -> float:
        sources, targets = map(list, zip(*copies, strict=True))
        return _fastest(lambda: self._blocks.__setitem__(targets, self._blocks[sources]))

    def error(self, ids: Sequence[int], table: Sequence[int]) -> float:
        stored = self._blocks[list(table)].reshape(-1, *self._pool.shape[1:])[: len(ids)]
        exact = self._attend(self._words[np.array(ids) % _WORDS].astype(np.float64))
        return float(np.abs(self._attend(stored) - exact).max())

    def _attend(self, rows: np.ndarray) -> Any:
        """Attention of the query over rows of K and V ([tokens, 2, KV heads, head size])."""
        key, value = rows[:, 0], rows[:, 1]
        scores = np.einsum("hgd,thd->hgt", self._query.astype(rows.dtype), key) * HEADS.head_dim**-0.5
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("hgt,thd->hgd", weights / weights.sum(-1, keepdims=True), value)


def _fastest(call: Callable[[], None]) -> float:
    """Seconds of the fastest of `REPEATS` calls."""
    times = []
    for _ in range(REPEATS):
        before = time.perf_counter()
        call()
        times.append(time.perf_counter() - before)
    return min(times)
