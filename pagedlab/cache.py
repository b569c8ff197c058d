"""The memory that block tables point into: one pool of K and one of V.

    NHD  [num_blocks, block_size, num_kv_heads, head_dim]    a token's heads lie together
    HND  [num_blocks, num_kv_heads, block_size, head_dim]    a head's tokens lie together

`key` and `value` are always viewed as NHD, whatever lies underneath, so that everything else in this
package is written once. A *slot* is `block * block_size + offset`: where one token goes.

Every call checks all that it is given before it writes anything. Ids are taken from any sequence, array
or tensor of integers; they are never rounded.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

_LAYOUTS = ("NHD", "HND")
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class PagedKVCache:
    """K and V of `num_blocks` blocks on one device, for one layer.

    Unwritten slots hold whatever was there: a kernel must not let them through. Raises `ValueError`
    for a size below 1, an unknown layout or a dtype that is not fp32, fp16 or bf16, `TypeError` for a size
    that is no integer.

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
            if _integer(size, name) < 1:
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

        Raises `IndexError` for a slot outside the pool, `ValueError` for shapes or devices that do not fit
        or for one slot given twice, `TypeError` for what is no tensor or no integer; then nothing is
        written.
        """
        where = _ids(slots, "slots")
        expected = (len(where), *self.key.shape[2:])
        for name, tensor in (("key", key), ("value", value)):
            self._check_tensor(tensor, name, expected)
        _check_range(where, "slot", -1, self.num_blocks * self.block_size)
        kept = np.flatnonzero(where >= 0)
        where = where[kept]
        _check_different(where, "slots", "slot", "two tokens cannot lie in one")
        block, offset, token = map(self._to_device, (where // self.block_size, where % self.block_size, kept))
        self.key[block, offset] = key[token].to(self.key.dtype)
        self.value[block, offset] = value[token].to(self.value.dtype)

    def copy(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks, `(source, target)` each, as `BlockManager.append` returns them.

        All sources are read before any target is written. Raises `IndexError` for a block outside
        the pool, `ValueError` for what is no pair or for one target given twice, `TypeError` for what is
        no integer; then nothing is copied.
        """
        pairs = _ids(copies, "copies", pairs=True)
        _check_range(pairs, "block", 0, self.num_blocks)
        _check_different(pairs[:, 1], "targets", "block", "it cannot be a copy of two")
        source, target = map(self._to_device, pairs.T)
        self.key[target] = self.key[source]
        self.value[target] = self.value[source]

    def read(self, table: Sequence[int], num_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of a sequence, gathered in token order: two `[num_tokens, kv_heads, head_dim]`.

        Entries past the last block that `num_tokens` takes are not looked at. Raises `IndexError` when the
        table is too short or names a block outside the pool, `TypeError` for what is no integer.
        """
        ids = _ids(table, "table")
        if not 0 <= _integer(num_tokens, "num_tokens") <= len(ids) * self.block_size:
            raise IndexError(
                f"{num_tokens} tokens: a table of {len(ids)} blocks of {self.block_size} has no such"
            )
        ids = ids[: -(-num_tokens // self.block_size)]
        _check_range(ids, "block", 0, self.num_blocks)
        blocks = self._to_device(ids)
        return tuple(pool[blocks].flatten(0, 1)[:num_tokens] for pool in (self.key, self.value))  # type: ignore[return-value]

    def _check_tensor(self, tensor: object, name: str, shape: tuple[int, ...]) -> None:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a tensor of shape {shape}, got a {type(tensor).__name__}")
        if tuple(tensor.shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {tuple(tensor.shape)}")
        if tensor.device != self.key.device:
            raise ValueError(f"{name} must lie on {self.key.device} as the cache does, got {tensor.device}")

    def _to_device(self, ids: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(ids.astype(np.int64)).to(self.key.device)


def _ids(ids: Any, name: str, *, pairs: bool = False) -> np.ndarray:
    """Ids as integers `[n]`, or `[n, 2]` when they come in pairs."""
    form = "(source, target) pairs of integers" if pairs else "a flat sequence of integers"
    try:
        array = np.asarray(ids.cpu().numpy() if isinstance(ids, torch.Tensor) else ids)
    except (TypeError, ValueError, RuntimeError):  # ragged, or no array at all
        raise ValueError(f"{name} must be {form}, got {_clip(ids)}") from None
    if not array.size and array.ndim == 1:
        return np.empty((0, 2) if pairs else 0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be {form}, got {_clip(ids)}")
    if array.shape[1:] != ((2,) if pairs else ()) or not array.ndim:
        raise ValueError(f"{name} must be {form}, got {_clip(ids)}")
    return array


def _check_range(ids: np.ndarray, noun: str, low: int, high: int) -> None:
    outside = ids[(ids < low) | (ids >= high)]
    if outside.size:
        raise IndexError(f"{noun} {outside[0]} is outside {low} to {high - 1}")


def _check_different(ids: np.ndarray, name: str, noun: str, why: str) -> None:
    different, counts = np.unique(ids, return_counts=True)
    if len(different) < len(ids):
        raise ValueError(f"{name} must differ: {noun} {different[counts > 1][0]} is there twice, {why}")


def _integer(value: Any, name: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    return operator.index(value)


def _clip(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
