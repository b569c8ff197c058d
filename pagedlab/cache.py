"""The memory that block tables point into: one pool of K and one of V.

    NHD  [num_blocks, block_size, num_kv_heads, head_dim]    a token's heads lie together
    HND  [num_blocks, num_kv_heads, block_size, head_dim]    a head's tokens lie together

`key` and `value` are always viewed as NHD, whatever lies underneath, so that everything else in this
package is written once. A *slot* is `block * block_size + offset`: where one token goes.

A cache of int8 or float8_e4m3fn keeps scales beside its numbers: `k_scale` and `v_scale`, as the kernels take
them. Every call checks all that it is given before it writes anything.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pagedlab.inputs import at_least, one_of
from pagedlab.layouts import EngineLayout, as_layout
from pagedlab_kernels import copy_blocks, dequantise, write_kv
from pagedlab_kernels.checks import check_scale
from pagedlab_kernels.ids import check_range, integers

_LAYOUTS = ("NHD", "HND")
_QUANTISED = (torch.int8, torch.float8_e4m3fn)
_DTYPES = (torch.float32, torch.float16, torch.bfloat16, *_QUANTISED)


class PagedKVCache:
    """K and V of `num_blocks` blocks on one device, for one layer.

    Unwritten slots hold whatever was there: a kernel must not let them through. A quantised cache takes one
    scale for K and one for V, or without them gives each token and head its own. Raises `ValueError` for a
    size below 1, an unknown layout, a dtype that it does not keep or a scale where none belongs, `TypeError`
    for a size that is no integer.

    >>> cache = PagedKVCache(num_blocks=4, block_size=2, num_kv_heads=1, head_dim=3, layout="HND")
    >>> token = torch.ones(1, 1, 3)                       # [tokens, kv_heads, head_dim]
    >>> cache.write(token, 2 * token, slots=[5])          # block 2, offset 1
    >>> cache.copy([(2, 0)])
    >>> key, value = cache.read(table=[0], num_tokens=2)
    >>> value[1]
    tensor([[2., 2., 2.]])
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_dim: int,
        *,
        dtype: torch.dtype = torch.float32,
        layout: str = "NHD",
        device: str | torch.device = "cpu",
        k_scale: float | None = None,
        v_scale: float | None = None,
    ) -> None:
        sizes = dict(
            num_blocks=num_blocks, block_size=block_size, num_kv_heads=num_kv_heads, head_dim=head_dim
        )
        for name, size in sizes.items():
            at_least(1, size, name)
        one_of(_LAYOUTS, layout, "layout")
        one_of(_DTYPES, dtype, "dtype")
        self.num_blocks, self.block_size, self.layout = num_blocks, block_size, layout
        self.key, self.value = (self._pool(num_kv_heads, dtype, device, head_dim) for _ in "KV")
        self.k_scale, self.v_scale = (
            self._pool(num_kv_heads, torch.float32, device)
            if dtype in _QUANTISED and scale is None
            else check_scale(name, scale, "dtype", self.key)
            for name, scale in (("k_scale", k_scale), ("v_scale", v_scale))
        )

    def _pool(self, heads: int, dtype: torch.dtype, device: str | torch.device, *row: int) -> torch.Tensor:
        """Memory for every slot, viewed as `[num_blocks, block_size, heads, *row]` in either layout."""
        if self.layout == "NHD":
            return torch.empty(self.num_blocks, self.block_size, heads, *row, dtype=dtype, device=device)
        stored = torch.empty(self.num_blocks, heads, self.block_size, *row, dtype=dtype, device=device)
        return stored.transpose(1, 2)

    def write(self, key: torch.Tensor, value: torch.Tensor, slots: Sequence[int]) -> None:
        """Store `key` and `value` `[tokens, kv_heads, head_dim]` in `slots`, as `write_kv` does."""
        scales = {"k_scale": self.k_scale, "v_scale": self.v_scale}
        write_kv(key, value, self.key, self.value, slots, **scales)

    def copy(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks, `(source, target)` as from `BlockManager.append`, as `copy_blocks` does."""
        pools = (self.key, self.value, self.k_scale, self.v_scale)
        copy_blocks([pool for pool in pools if isinstance(pool, torch.Tensor)], copies)

    def read(self, table: Sequence[int], num_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of a sequence, gathered in token order: two `[num_tokens, kv_heads, head_dim]`.

        What a quantised cache holds comes back as the float32 numbers that it stands for. Entries past the
        last block that `num_tokens` takes are not looked at. Raises `IndexError` when the table is too short
        or names a block outside the pool, `TypeError` for what is no integer.
        """
        ids = integers(table, "table")
        if not 0 <= _integer(num_tokens, "num_tokens") <= len(ids) * self.block_size:
            raise IndexError(
                f"{num_tokens} tokens: a table of {len(ids)} blocks of {self.block_size} has no such"
            )
        ids = ids[: -(-num_tokens // self.block_size)]
        check_range(ids, "block", 0, self.num_blocks)
        blocks = torch.from_numpy(ids.astype(np.int64)).to(self.key.device)
        found = []
        for pool, scale in ((self.key, self.k_scale), (self.value, self.v_scale)):
            rows = pool[blocks]
            if scale is not None:
                rows = dequantise(rows, scale[blocks] if isinstance(scale, torch.Tensor) else scale)
            found.append(rows.flatten(0, 1)[:num_tokens])
        return found[0], found[1]

    def as_layout(self, engine: str) -> EngineLayout:
        """The same cache as an engine keeps it, with its documented addresses and its form of the table.

        `engine` is "vllm", "vllm-cpu", "flashinfer", "flash-attn" (version 2), "flash-attn-3", "tensorrt-llm"
        or "flex-attention". The tensors are views where the engine's layout allows it, else a copy, and
        `copied` says which. Raises `ValueError` for another engine, and with the engine's rule for a block or
        head size that it does not take; a scale for each token has no common form and is refused, too.

        >>> print(PagedKVCache(4, 16, num_kv_heads=2, head_dim=64).as_layout("tensorrt-llm"))
        TensorRT-LLM: a copy: what is written to the cache later is not in it
          pool [4, 2, 2, 16, 64], strides [4096, 2048, 1024, 64, 1]
          key: number (((block * 2 + 0) * 2 + head) * 16 + offset) * 64 + element
          value: number (((block * 2 + 1) * 2 + head) * 16 + offset) * 64 + element
        """
        return as_layout(self, engine)


def _integer(value: Any, name: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    return operator.index(value)
