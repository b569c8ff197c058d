"""Decode attention written as the equation, one sequence at a time, in torch on any device.

This is the oracle of the other backends. It gathers exactly the tokens that a query sees, so nothing has to
be masked, and memory that no token owns is never read. It computes in float64 when given float64 and in
float32 otherwise, and rounds once, at the end.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .call import DecodeCall


def refusal(call: DecodeCall) -> str | None:
    """Why this backend cannot serve the call: it always can."""
    return None


def decode(call: DecodeCall) -> tuple[Tensor, Tensor]:
    """Return the output `[seqs, q_heads, head_dim]` and the log-sum-exp of the scores `[seqs, q_heads]`."""
    precise = torch.float64 if call.query.dtype == torch.float64 else torch.float32
    out = torch.zeros_like(call.query, dtype=precise)  # [seqs, q_heads, head_dim]
    lse = torch.full_like(out[..., 0], float("-inf"))  # [seqs, q_heads]
    rows = call.table.rows() if call.table is not None else None

    visible = zip(call.first_visible().tolist(), call.seq_lens.tolist(), strict=True)
    for seq, (first, length) in enumerate(visible):
        if first == length:
            continue  # an empty sequence: zeros, and the logarithm of zero
        query = call.query[seq].to(precise).unflatten(0, (-1, call.group))  # [kv_heads, group, head_dim]
        parts = []
        for position in torch.arange(first, length, device=query.device).tensor_split(call.num_splits or 1):
            if rows is not None:
                block = rows[seq][position // call.block_size].long()  # the paging: from position to block
                slot = position % call.block_size
            else:
                block, slot = torch.full_like(position, seq), position  # the twin: one block a sequence
            key = call.key[block, slot].to(precise)  # [tokens, kv_heads, head_dim]
            value = call.value[block, slot].to(precise)
            parts.append(attend(query, key, value, call.scale, call.softcap))
        merged, total = merge(*(torch.stack(each) for each in zip(*parts, strict=True)))
        out[seq], lse[seq] = merged.flatten(0, 1), total.flatten()
    return out.to(call.query.dtype), lse


def attend(
    query: Tensor, key: Tensor, value: Tensor, scale: float, softcap: float | None
) -> tuple[Tensor, Tensor]:
    """Return softmax(q k^T * scale) v for every query head, and the log of the softmax's denominator."""
    score = torch.einsum("hgd,thd->hgt", query, key) * scale  # [kv_heads, group, tokens]
    if softcap is not None:
        score = softcap * torch.tanh(score / softcap)
    weight = torch.softmax(score, -1)  # not exp(score - lse): rounded, a large lse would not add up to one
    return torch.einsum("hgt,thd->hgd", weight, value), score.logsumexp(-1)  # lse: [kv_heads, group]


def merge(outs: Tensor, lses: Tensor) -> tuple[Tensor, Tensor]:
    """Combine results over disjoint tokens: each counts by its share of the softmax's denominator.

    `outs [parts, ..., head_dim]` and `lses [parts, ...]` become one output and one lse. Parts without tokens
    have lse = -inf and count nothing, as long as some part has a token.
    """
    share = torch.softmax(lses, 0)  # [parts, ...], adds up to one
    return (outs * share[..., None]).sum(0), lses.logsumexp(0)
