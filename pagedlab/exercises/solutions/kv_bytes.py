"""Bytes of K and V that a model keeps for some tokens."""

from __future__ import annotations


def solution(layers: int, kv_heads: int, head_dim: int, bytes_per_element: float, tokens: int) -> int:
    """
    >>> solution(layers=32, kv_heads=8, head_dim=128, bytes_per_element=2, tokens=1)  # Llama-3.1-8B
    131072
    """
    return int(2 * layers * kv_heads * head_dim * bytes_per_element * tokens)  # 2: K and V
