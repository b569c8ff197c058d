"""The bandwidth at which the cache is read, from the slope of step time over context."""

from __future__ import annotations

from collections.abc import Sequence


def solution(bytes_per_token: float, context_lengths: Sequence[int], step_ms: Sequence[float]) -> float:
    """GB/s, 1e9 bytes. The floor, a step's time without any context, drops out of the slope.

    >>> round(solution(131_072, [1_000, 2_000, 3_000], [6.5, 6.6, 6.7]), 2)
    1310.72
    """
    count = len(context_lengths)
    mean_length, mean_ms = sum(context_lengths) / count, sum(step_ms) / count
    pairs = list(zip(context_lengths, step_ms, strict=True))
    covariance = sum((length - mean_length) * (ms - mean_ms) for length, ms in pairs)
    variance = sum((length - mean_length) ** 2 for length, _ in pairs)
    seconds_per_token = covariance / variance / 1e3
    return bytes_per_token / seconds_per_token / 1e9
