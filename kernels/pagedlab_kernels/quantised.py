"""Caches of one byte per number: how a number is rounded into them, and how far off it comes back.

A stored number stands for `stored * scale`. A scale belongs to a whole cache (one number), or to one token
and KV head (`[blocks, block_size, kv_heads]`), and K and V have scales of their own: their ranges are unlike.

    int8      -127 to 127 in equal steps: the error is the same for small and large numbers
    fp8 e4m3  three bits of fraction: the error is at most 1/16 of the number, down to 2^-6 of a scale

The kernels never undo this for a tile of K or V. A scale is the same along the head dimension, so K's goes on
the score and V's on the weight, one multiplication for each token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}  # the largest number that each dtype can store
SMALLEST_SCALE = torch.finfo(torch.float32).tiny  # of a token that is all zeros, too


@dataclass(frozen=True)
class Error:
    """How far an approximation is from the exact numbers."""

    largest: float  # of the absolute differences
    rms: float  # root of the mean square
    relative: float  # rms over the rms of the exact numbers; 0 when both are 0


def quantise(
    numbers: Tensor, dtype: torch.dtype, scale: float | None = None
) -> tuple[Tensor, float | Tensor]:
    """Round `numbers [..., head_dim]` into int8 or float8_e4m3fn; return them and the scale.

    `scale` is one number for all, and what does not fit is cut off. By default each row gets its own, the
    smallest with which it fits: float32 `[...]`. Raises ValueError for another dtype and for numbers that are
    infinite or NaN, which int8 has no place for.

    >>> stored, scale = quantise(torch.tensor([[0.5, -1.27], [30.0, 10.0]]), torch.int8)
    >>> stored.tolist(), [round(each, 4) for each in scale.tolist()]
    ([[50, -127], [127, 42]], [0.01, 0.2362])
    """
    if dtype not in LARGEST:
        raise ValueError(f"dtype must be one of {', '.join(map(str, LARGEST))}, got {dtype}")
    wide = numbers.float()
    if not bool(wide.isfinite().all()):
        raise ValueError(f"numbers for a cache of {dtype} must be finite, got infinity or NaN")
    chosen: float | Tensor
    if scale is None:
        chosen = (wide.abs().amax(-1) / LARGEST[dtype]).clamp(min=SMALLEST_SCALE)
        steps = wide / chosen[..., None]
    else:
        chosen, steps = scale, wide / scale
    steps = steps.clamp(-LARGEST[dtype], LARGEST[dtype])
    return (steps.round() if dtype == torch.int8 else steps).to(dtype), chosen


def dequantise(stored: Tensor, scale: float | Tensor) -> Tensor:
    """What numbers from `quantise` stand for, in float32: `stored * scale`.

    >>> dequantise(torch.tensor([[50, -127]], dtype=torch.int8), 0.5)
    tensor([[ 25.0000, -63.5000]])
    """
    return stored.float() * (scale[..., None] if isinstance(scale, Tensor) else scale)


def error_against(exact: Tensor, found: Tensor) -> Error:
    """How far `found` is from `exact`: stored numbers, or the attention over them, against float32.

    >>> exact = torch.tensor([[3.0, -4.0]])
    >>> error_against(exact, dequantise(*quantise(exact, torch.float8_e4m3fn, scale=1.0))).largest
    0.0
    """
    difference = found.double() - exact.double()
    if not difference.numel():
        return Error(0.0, 0.0, 0.0)
    rms = float(difference.square().mean().sqrt())
    size = float(exact.double().square().mean().sqrt())
    return Error(float(difference.abs().max()), rms, rms / size if rms else 0.0)
