"""The memory that block tables point into: one pool of K and one of V.

    NHD  [num_blocks, block_size, num_kv_heads, head_dim]    a token's heads lie together
    HND  [num_blocks, num_kv_heads, block_size, head_dim]    a head's tokens lie together

`key` and `value` are always viewed as NHD, whatever lies underneath, so that everything else in this
package is written once. A *slot* is `block * block_size + offset`: where one token goes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_LAYOUTS = ("NHD", "HND")
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class PagedKVCache:
    """K and V of `num_blocks` blocks on one device, for one layer.

    Unwritten slots hold whatever was there: a kernel must not let them through. Raises `ValueError`
    for a size below 1, an unknown layout or a dtype that is not fp32, fp16 or bf16.

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
    ) -> None:
        sizes = dict(
            num_blocks=num_blocks, block_size=block_size, num_kv_heads=num_kv_heads, head_dim=head_dim
        )
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        if layout not in _LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(_LAYOUTS)}, got {layout!r}")
        if dtype not in _DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(map(str, _DTYPES))}, got {dtype}")
        self.num_blocks, self.block_size, self.layout = num_blocks, block_size, layout
        shape = (num_blocks, block_size, num_kv_heads, head_dim)
        if layout == "NHD":
            self.key, self.value = (torch.empty(shape, dtype=dtype, device=device) for _ in "KV")
        else:
            stored = (num_blocks, num_kv_heads, block_size, head_dim)
            self.key, self.value = (
                torch.empty(stored, dtype=dtype, device=device).transpose(1, 2) for _ in "KV"
            )

    def write(self, key: torch.Tensor, value: torch.Tensor, slots: Sequence[int]) -> None:
        """Store `key` and `value` `[tokens, kv_heads, head_dim]` in `slots`; slot -1 is skipped.

        Raises `IndexError` for a slot outside the pool, `ValueError` for shapes that do not fit or
        for one slot given twice; then nothing is written.
        """
        where = torch.as_tensor(slots, dtype=torch.int64, device=self.key.device)
        expected = (len(where), *self.key.shape[2:])
        for name, tensor in (("key", key), ("value", value)):
            if tuple(tensor.shape) != expected:
                raise ValueError(f"{name} must have shape {expected}, got {tuple(tensor.shape)}")
        self._check_range(where, -1, self.num_blocks * self.block_size, "slot")
        kept = where >= 0
        where = where[kept]
        if where.unique().numel() != where.numel():
            raise ValueError("slots must differ: two tokens cannot lie in one slot")
        block, offset = where // self.block_size, where % self.block_size
        self.key[block, offset] = key[kept].to(self.key.dtype)
        self.value[block, offset] = value[kept].to(self.value.dtype)

    def copy(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks, `(source, target)` each, as `BlockManager.append` returns them.

        All sources are read before any target is written. Raises `IndexError` for a block outside
        the pool, and then copies nothing.
        """
        if not copies:
            return
        pairs = torch.as_tensor(copies, dtype=torch.int64, device=self.key.device)
        self._check_range(pairs, 0, self.num_blocks, "block")
        source, target = pairs.unbind(1)
        self.key[target] = self.key[source]
        self.value[target] = self.value[source]

    def read(self, table: Sequence[int], num_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of a sequence, gathered in token order: two `[num_tokens, kv_heads, head_dim]`.

        Raises `IndexError` when the table is too short or names a block outside the pool.
        """
        blocks = torch.as_tensor(table, dtype=torch.int64, device=self.key.device)
        if not 0 <= num_tokens <= len(blocks) * self.block_size:
            raise IndexError(
                f"{num_tokens} tokens: a table of {len(blocks)} blocks of {self.block_size} has no such"
            )
        blocks = blocks[: -(-num_tokens // self.block_size)]
        self._check_range(blocks, 0, self.num_blocks, "block")
        return tuple(pool[blocks].flatten(0, 1)[:num_tokens] for pool in (self.key, self.value))  # type: ignore[return-value]

    @staticmethod
    def _check_range(ids: torch.Tensor, low: int, high: int, noun: str) -> None:
        outside = ids[(ids < low) | (ids >= high)]
        if outside.numel():
            raise IndexError(f"{noun} {outside.flatten()[0].item()} is outside {low} to {high - 1}")
