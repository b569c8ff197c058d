"""Attention written as the equation, one sequence at a time, in torch on any device.

This is the oracle of the other backends. It gathers only tokens that some query sees, so memory that no token
owns is never read. It computes in float64 when given float64 and in float32 otherwise, and rounds once, at
the end.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .call import AttentionCall

QUERIES = 128  # tokens of a prefill at once: what bounds the memory that their scores take


def refusal(call: AttentionCall) -> str | None:
    """Why this backend cannot serve the call: it always can."""
    return None


def attend(call: AttentionCall) -> tuple[Tensor, Tensor]:
    """Return the output `[tokens, q_heads, value_dim]` and the scores' log-sum-exp `[tokens, q_heads]`."""
    precise = torch.float64 if call.query.dtype == torch.float64 else torch.float32
    out = call.query.new_zeros(*call.query.shape[:2], call.value_dim, dtype=precise)
    lse = torch.full_like(out[..., 0], float("-inf"))
    rows = call.table.rows() if call.table is not None else None

    bounds = call.query_bounds().tolist()
    for seq, length in enumerate(call.seq_lens.tolist()):
        # The queries are the newest tokens. Any that would lie before the first token see nothing: zeros.
        stop = bounds[seq + 1]
        for token in range(max(bounds[seq], stop - length), stop, QUERIES):
            query = call.query[token : min(token + QUERIES, stop)].to(precise)
            query = query.unflatten(1, (-1, call.group))  # [queries, kv_heads, group, head_dim]
            first, last = (length - stop + each for each in (token, token + len(query) - 1))  # positions
            at = torch.arange(first, last + 1, device=query.device)
            seen = torch.arange(max(0, first + 1 - call.reach), last + 1, device=query.device)
            parts = []
            for position in seen.tensor_split(call.num_splits or 1):
                if rows is not None:
                    block = rows[seq][position // call.block_size].long()  # the paging: position to block
                    slot = position % call.block_size
                else:
                    block, slot = torch.full_like(position, seq), position  # the twin: one block a sequence
                key = gathered(call.key, call.key_scales, block, slot, precise)
                value = gathered(call.value, call.value_scales, block, slot, precise) * call.value_scale
                distance = at[:, None] - position  # [queries, tokens]
                visible = (distance >= 0) & (distance < call.reach)
                parts.append(softmax_mean(query, key, value, visible, call.scale, call.softcap))
            merged, total = merge(*(torch.stack(each) for each in zip(*parts, strict=True)))
            here = slice(token, token + len(query))
            out[here], lse[here] = merged.flatten(1, 2), total.flatten(1, 2)
    return out.to(call.query.dtype), lse


def gathered(cache: Tensor, scales: Tensor | None, block: Tensor, slot: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows of K or of V at those places, `[tokens, kv_heads, head_dim]`, each times its own scale."""
    found = cache[block, slot].to(dtype)
    return found if scales is None else found * scales[block, slot].to(dtype)[..., None]


def softmax_mean(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor, scale: float, softcap: float | None
) -> tuple[Tensor, Tensor]:
    """Return softmax(q k^T * scale) v for every query and head, and the log of the softmax's denominator."""
    score = torch.einsum("qhgd,thd->qhgt", query, key) * scale  # [queries, kv_heads, group, tokens]
    if softcap is not None:
        score = softcap * torch.tanh(score / softcap)
    score = score.masked_fill(~visible[:, None, None, :], float("-inf"))
    lse = score.logsumexp(-1)  # [queries, kv_heads, group]
    weight = torch.softmax(score, -1)  # not exp(score - lse): rounded, a large lse would not add up to one
    weight = weight.masked_fill((lse == float("-inf"))[..., None], 0.0)  # a part that this query sees none of
    return torch.einsum("qhgt,thd->qhgd", weight, value), lse


def merge(outs: Tensor, lses: Tensor) -> tuple[Tensor, Tensor]:
    """Combine results over disjoint tokens: each counts by its share of the softmax's denominator.

    `outs [parts, ..., head_dim]` and `lses [parts, ...]` become one output and one lse. Parts without tokens
    have lse = -inf and count nothing, as long as some part has a token.
    """
    share = torch.softmax(lses, 0)  # [parts, ...], adds up to one
    return (outs * share[..., None]).sum(0), lses.logsumexp(0)
