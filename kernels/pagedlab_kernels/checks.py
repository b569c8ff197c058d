"""Every rule that the arguments of a kernel must obey, and the error that says which one was broken.

Compiled code follows any address it is given, so nothing reaches it unchecked. What shapes and dtypes tell is
checked on every call, here. What has to be read from tables and lengths is in `check_tables`: it costs a pass
over them, so a caller who has done it once may pass `check=False`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from . import check_tables
from .call import LONGEST, MAX_SPLITS, AttentionCall
from .quantised import LARGEST

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
SCALES = "[blocks, block_size, kv_heads]"


@dataclass(frozen=True)
class Options:
    """What all public calls take besides tensors, as it was given."""

    scale: Any = None
    window: Any = None
    softcap: Any = None
    num_splits: Any = None
    k_scale: Any = None
    v_scale: Any = None


def paged_call(
    query: Any,
    key_cache: Any,
    value_cache: Any,
    block_tables: Any,
    seq_lens: Any,
    cu_seqlens_q: Any,
    options: Options,
    *,
    check: bool,
) -> AttentionCall:
    """Check the arguments of a call over a paged cache and describe them; a decode has no `cu_seqlens_q`."""
    caches = {"key_cache": key_cache, "value_cache": value_cache}
    _check_tensors(query, caches, "[blocks, block_size, kv_heads, head_dim]", seq_lens, cu_seqlens_q)
    if key_cache.shape[1] < 1:
        raise ValueError(f"key_cache must have a block_size of at least 1, got shape {_shape(key_cache)}")
    table = check_tables.block_table(block_tables, seq_lens)
    numbers = _numbers(options, caches, query)
    call = AttentionCall(query, key_cache, value_cache, seq_lens, cu_seqlens_q, table, **numbers)
    if check:
        check_tables.check_lengths(call)
        check_tables.check_entries(call, table, block_tables)
    return call


def contiguous_call(
    query: Any, keys: Any, values: Any, seq_lens: Any, cu_seqlens_q: Any, options: Options, *, check: bool
) -> AttentionCall:
    """Check the arguments of a call over contiguous rows and describe them."""
    caches = {"keys": keys, "values": values}
    _check_tensors(query, caches, "[seqs, max_len, kv_heads, head_dim]", seq_lens, cu_seqlens_q)
    if len(keys) != len(seq_lens):
        raise ValueError(f"keys must hold one row per sequence, {len(seq_lens)}, got {len(keys)}")
    numbers = _numbers(options, caches, query)
    call = AttentionCall(query, keys, values, seq_lens, cu_seqlens_q, None, **numbers)
    if check:
        check_tables.check_lengths(call)
        check_tables.check_room(call)
    return call


def check_cache(name: str, cache: Any, like: Tensor | None) -> None:
    """The rules for a cache that is written to; `like` is the cache of K beside it."""
    check_tables.check_tensor(name, cache, 4, "[blocks, block_size, kv_heads, head_dim]")
    if cache.dtype not in (*DTYPES, *LARGEST):
        raise TypeError(f"{name} must be one of {_listed((*DTYPES, *LARGEST))}, got {cache.dtype}")
    if cache.shape[1] < 1:
        raise ValueError(f"{name} must have a block_size of at least 1, got shape {_shape(cache)}")
    if like is not None:
        _check_twin(name, cache, "key_cache", like)


def check_scale(name: str, scale: Any, cache_name: str, cache: Tensor) -> float | Tensor | None:
    """The scale that belongs to a cache: one number, one for each token and head, or none."""
    if cache.dtype not in LARGEST:
        if scale is not None:
            raise ValueError(f"{name} is for quantised caches, {cache_name} is {cache.dtype}: leave it None")
        return None
    if scale is None:
        raise ValueError(f"{name} must be given for {cache.dtype}: a number, or a float32 tensor {SCALES}")
    if not isinstance(scale, Tensor):
        return _positive(name, scale, least=1e-30, most=1e30)
    if scale.dtype != torch.float32:
        raise TypeError(f"{name} must be float32, got {scale.dtype}")
    if scale.shape != cache.shape[:3]:
        raise ValueError(
            f"{name} must be a number or {SCALES}, {_shape(cache)[:3]} as {cache_name}, got {_shape(scale)}"
        )
    if scale.device != cache.device:
        raise ValueError(f"{name} must be on {cache.device} as {cache_name}, got {scale.device}")
    return scale


def _check_tensors(query: Any, caches: dict[str, Any], layout: str, seq_lens: Any, cu_seqlens_q: Any) -> None:
    """What shapes, dtypes, strides and devices tell."""
    decode = cu_seqlens_q is None
    rows = "seqs" if decode else "tokens"
    check_tables.check_tensor("query", query, 3, f"[{rows}, q_heads, head_dim]")
    for name, cache in caches.items():
        check_tables.check_tensor(name, cache, 4, layout)
    check_tables.check_tensor("seq_lens", seq_lens, 1, "[seqs]")
    check_tables.check_int32("seq_lens", seq_lens)
    if query.dtype not in DTYPES:
        raise TypeError(f"query must be one of {_listed(DTYPES)}, got {query.dtype}")
    if decode and len(seq_lens) != len(query):
        raise ValueError(
            f"seq_lens must hold one length per sequence of query, {len(query)}, got {len(seq_lens)}"
        )
    if not decode:
        check_tables.check_tensor("cu_seqlens_q", cu_seqlens_q, 1, "[seqs + 1]")
        check_tables.check_int32("cu_seqlens_q", cu_seqlens_q)
        if len(cu_seqlens_q) != len(seq_lens) + 1:
            raise ValueError(
                f"cu_seqlens_q must have {len(seq_lens) + 1} numbers for {len(seq_lens)} sequences, "
                f"got {len(cu_seqlens_q)}"
            )

    (key_name, key), (value_name, value) = caches.items()
    if key.dtype != query.dtype and key.dtype not in LARGEST:
        raise TypeError(
            f"{key_name} must have the query's dtype, {query.dtype}, or be one of {_listed(LARGEST)}, "
            f"got {key.dtype}"
        )
    _check_twin(value_name, value, key_name, key)
    if key.shape[3] != query.shape[2]:
        raise ValueError(f"{key_name} must have the query's head_dim, {query.shape[2]}, got {key.shape[3]}")
    for name, cache in caches.items():
        if cache.shape[3] > 1 and cache.stride(3) != 1:
            raise ValueError(
                f"{name} must have a dense head dimension, stride 1, got strides {cache.stride()}"
            )
    q_heads, kv_heads = query.shape[1], key.shape[2]
    if min(q_heads, kv_heads, key.shape[3], value.shape[3]) < 1:
        shapes = f"{_shape(query)}, {_shape(key)} and {_shape(value)}"
        raise ValueError(f"query, {key_name} and {value_name} must have heads, got shapes {shapes}")
    if q_heads % kv_heads:
        raise ValueError(f"query must have a multiple of the {kv_heads} heads of {key_name}, got {q_heads}")

    tensors = {"query": query, **caches, "seq_lens": seq_lens}
    for name, tensor in tensors.items() if decode else (tensors | {"cu_seqlens_q": cu_seqlens_q}).items():
        if tensor.device != query.device:
            raise ValueError(f"{name} must be on the query's device, {query.device}, got {tensor.device}")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                f"{name} requires grad, and the kernels have no backward pass: pass {name}.detach()"
            )


def _check_twin(name: str, value: Tensor, key_name: str, key: Tensor) -> None:
    """V has a place for every place of K; only its rows may be shorter or longer."""
    if value.dtype != key.dtype:
        raise TypeError(f"{name} must have the dtype of {key_name}, {key.dtype}, got {value.dtype}")
    if value.shape[:3] != key.shape[:3]:
        raise ValueError(
            f"{name} must have the shape of {key_name} but for head_dim, {_shape(key)[:3]}, "
            f"got {_shape(value)[:3]}"
        )
    if value.device != key.device:
        raise ValueError(f"{name} must be on {key.device} as {key_name}, got {value.device}")


def _numbers(options: Options, caches: dict[str, Tensor], query: Tensor) -> dict[str, Any]:
    """The options as a backend takes them."""
    scale = _positive("scale", options.scale)
    scale = query.shape[2] ** -0.5 if scale is None else scale
    k_scale, v_scale = (
        check_scale(name, given, *cache)
        for name, given, cache in zip(
            ("k_scale", "v_scale"), (options.k_scale, options.v_scale), caches.items(), strict=True
        )
    )
    return {
        "scale": scale * k_scale if isinstance(k_scale, float) else scale,
        "window": _count("window", options.window, LONGEST),
        "softcap": _positive("softcap", options.softcap, least=1e-30, most=1e30),
        "num_splits": _count("num_splits", options.num_splits, MAX_SPLITS),
        "value_scale": v_scale if isinstance(v_scale, float) else 1.0,
        "key_scales": k_scale if isinstance(k_scale, Tensor) else None,
        "value_scales": v_scale if isinstance(v_scale, Tensor) else None,
    }


def _positive(name: str, number: Any, least: float = 0.0, most: float = math.inf) -> float | None:
    if number is None:
        return None
    if type(number) is bool or not isinstance(number, Real):
        raise TypeError(f"{name} must be a number or None, got {type(number).__name__}")
    try:
        value = float(number)
    except OverflowError:
        value = math.inf
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be finite and greater than 0, got {number}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least:g} to {most:g}, got {number}")
    return value


def _count(name: str, number: Any, largest: int) -> int | None:
    if number is None:
        return None
    if type(number) is bool or not isinstance(number, Integral):
        raise TypeError(f"{name} must be an int or None, got {type(number).__name__}")
    if not 1 <= int(number) <= largest:
        raise ValueError(f"{name} must be from 1 to {largest}, got {number}")
    return int(number)


def _listed(dtypes: Any) -> str:
    return ", ".join(map(str, dtypes))


def _shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape)
