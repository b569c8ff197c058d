"""What changes a paged cache: new tokens written into their slots, and whole blocks copied.

A *slot* is `block * block_size + offset`. Both calls check everything before they write anything, and both
are indexing in torch: a cache lies where it lies, on a CPU or a GPU, in any layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .checks import check_cache, check_scale
from .ids import check_different, check_range, integers
from .quantised import LARGEST, quantise


@torch.no_grad()
def write_kv(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slots: Sequence[int] | Tensor,
    *,
    k_scale: float | Tensor | None = None,
    v_scale: float | Tensor | None = None,
) -> None:
    """Store the keys and values of new tokens in their slots; slot -1 is skipped.

    - `key`, `value [tokens, kv_heads, head_dim]`: of any float dtype, rounded to the cache's;
    - `key_cache`, `value_cache` `[blocks, block_size, kv_heads, head_dim]`, with any strides;
    - `slots [tokens]`: integers from -1 on, no slot twice;
    - `k_scale`, `v_scale`: for a cache of int8 or float8_e4m3fn, and for no other. With one number, what is
      stored is `key / k_scale`, cut off where it does not fit. A float32 tensor
      `[blocks, block_size, kv_heads]` is written, too: each token and head gets the scale that it needs.

    Raises IndexError for a slot outside the cache, ValueError for shapes, devices or scales that do not fit
    and for one slot given twice, TypeError for what is no tensor or no integer; then nothing is written.

    >>> key, cache = torch.tensor([[[1.0]], [[2.0]]]), torch.zeros(2, 2, 1, 1)
    >>> write_kv(key, key, cache, cache.clone(), [3, -1])
    >>> cache.flatten().tolist()
    [0.0, 0.0, 0.0, 1.0]
    """
    check_cache("key_cache", key_cache, like=None)
    check_cache("value_cache", value_cache, like=key_cache)
    blocks, block_size = key_cache.shape[:2]
    given = integers(slots, "slots")
    check_range(given, "slot", -1, blocks * block_size)
    kept = np.flatnonzero(given >= 0)
    where = given[kept].astype(np.int64)
    check_different(where, "slots", "slot", "two tokens cannot lie in one")
    token = torch.from_numpy(kept).to(key_cache.device)

    writes: list[tuple[Tensor, Any]] = []  # where to, and what
    for name, new, cache, scale in (("key", key, key_cache, k_scale), ("value", value, value_cache, v_scale)):
        _check_tokens(name, new, (len(given), *cache.shape[2:]), cache.device)
        scale = check_scale(f"{name[0]}_scale", scale, f"{name}_cache", cache)
        stored = new[token]
        if cache.dtype in LARGEST:
            number = None if isinstance(scale, Tensor) else scale
            stored, chosen = quantise(stored, cache.dtype, number)
            if isinstance(scale, Tensor):
                writes.append((scale, chosen))
        writes.append((cache, stored.to(cache.dtype)))
    block, offset = (torch.from_numpy(each).to(key_cache.device) for each in np.divmod(where, block_size))
    for cache, stored in writes:
        cache[block, offset] = stored


@torch.no_grad()
def copy_blocks(caches: Iterable[Tensor], copies: Sequence[tuple[int, int]] | Tensor) -> None:
    """Copy whole blocks, `(source, target)` each, in every cache given: K, V and scales of all layers.

    The caches are `[blocks, ...]`, as many blocks each. All sources are read before any target is written, so
    a block may be both, and the order of the pairs does not matter. Raises IndexError for a block outside
    the caches, ValueError for what is no pair, for one target given twice and for caches of unequal length,
    TypeError for what is no tensor or no integer; then nothing is copied.

    >>> layers = [torch.tensor([1, 2, 3]), torch.tensor([10, 20, 30])]
    >>> copy_blocks(layers, [(0, 1), (1, 2)])
    >>> [layer.tolist() for layer in layers]
    [[1, 1, 2], [10, 10, 20]]
    """
    caches = list(caches)
    pairs = integers(copies, "copies", pairs=True)
    for number, cache in enumerate(caches):
        if not isinstance(cache, Tensor) or not cache.ndim:
            raise TypeError(f"caches[{number}] must be a tensor [blocks, ...], got {type(cache).__name__}")
        if len(cache) != len(caches[0]):
            raise ValueError(
                f"caches[{number}] must have {len(caches[0])} blocks as the first, got {len(cache)}"
            )
    check_range(pairs, "block", 0, len(caches[0]) if caches else 2**63)
    check_different(pairs[:, 1], "targets", "block", "it cannot be a copy of two")
    source, target = (torch.from_numpy(each.astype(np.int64)) for each in pairs.T)
    for cache in caches:
        cache[target.to(cache.device)] = cache[source.to(cache.device)]


def _check_tokens(name: str, tensor: Any, shape: tuple[int, ...], device: torch.device) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor of shape {shape}, got a {type(tensor).__name__}")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(tensor.shape)}")
    if not tensor.is_floating_point():
        raise TypeError(f"{name} must be a tensor of floats, got {tensor.dtype}")
    if tensor.device != device:
        raise ValueError(f"{name} must lie on {device} as the cache does, got {tensor.device}")
