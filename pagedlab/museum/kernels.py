"""Paged decode in torch, small enough to read, on any machine: the kernels whose faulty copies hang here.

All take `query [seqs, heads, head_dim]`, caches `[blocks, block_size, kv_heads, head_dim]`, `block_tables
[seqs, max_blocks]` and `seq_lens [seqs]`, both int32, and return the query's shape and dtype.
"""

from __future__ import annotations

import torch
from torch import Tensor


def paged_decode(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    *,
    scale: float,
) -> Tensor:
    """Block by block, with a running softmax."""
    heads, block_size, kv_heads = query.shape[1], key_cache.shape[1], key_cache.shape[2]
    kv_head = torch.arange(heads) // (heads // kv_heads)  # [heads], whose K and V each query head reads
    slot = torch.arange(block_size)
    out = torch.zeros_like(query)
    for seq in seq_lens.nonzero().flatten().tolist():  # an empty sequence keeps its zeros
        length = int(seq_lens[seq])
        q = query[seq].float() * scale  # [heads, head_dim]
        top = torch.full((heads,), -torch.inf)  # the largest score so far
        total = torch.zeros(heads)  # the sum of exp(score - top) so far
        acc = torch.zeros(q.shape)  # the sum of exp(score - top) * value so far
        for index in range(-(-length // block_size)):
            block = int(block_tables[seq, index])  # the paging
            inside = index * block_size + slot < length  # [block_size]
            key = key_cache[block, slot][:, kv_head].float()  # [block_size, heads, head_dim]
            value = value_cache[block, slot][:, kv_head].float()
            value = value.masked_fill(~inside[:, None, None], 0.0)  # 0 * NaN is NaN
            score = (q * key).sum(-1)  # [block_size, heads]
            score = score.masked_fill(~inside[:, None], -torch.inf)
            higher = torch.maximum(top, score.amax(0))
            shrink = torch.exp(top - higher)  # what came before counts less now
            weight = torch.exp(score - higher)
            total = total * shrink + weight.sum(0)
            acc = acc * shrink[:, None] + (weight[..., None] * value).sum(0)
            top = higher
        out[seq] = acc / total[:, None]
    return out


def split_decode(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    *,
    scale: float,
) -> Tensor:
    """Each sequence in four parts, side by side on a real machine, merged by their log-sum-exp."""
    heads, block_size, kv_heads = query.shape[1], key_cache.shape[1], key_cache.shape[2]
    kv_head = torch.arange(heads) // (heads // kv_heads)
    out = torch.zeros_like(query)
    for seq in seq_lens.nonzero().flatten().tolist():
        parts, lses = [], []
        for position in torch.arange(int(seq_lens[seq])).tensor_split(4):
            block, slot = block_tables[seq, position // block_size].long(), position % block_size
            key = key_cache[block, slot][:, kv_head].float()  # [tokens of the part, heads, head_dim]
            value = value_cache[block, slot][:, kv_head].float()
            score = (query[seq].float() * key).sum(-1) * scale  # [tokens of the part, heads]
            lse = score.logsumexp(0)  # -inf for a part without tokens
            parts.append((torch.exp(score - lse)[..., None] * value).sum(0))
            lses.append(lse)
        share = torch.stack(lses).softmax(0)  # [4, heads]
        out[seq] = (share[..., None] * torch.stack(parts)).sum(0)
    return out


def gathered_decode(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    *,
    scale: float,
) -> Tensor:
    """The library's reference: all tokens at once."""
    from pagedlab_kernels import paged_attention

    given = query, key_cache, value_cache, block_tables, seq_lens
    return paged_attention(*given, scale=scale, backend="reference")
