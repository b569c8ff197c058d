"""Decode attention in Triton: one program per sequence, KV head and split, the tokens in tiles.

One kernel serves paged caches and their contiguous twin. It walks over *tokens*, a tile at a time, and not
over blocks: each lane of a tile looks up the block of its own token. A tile may hold many small blocks or
part of a large one, and a block size need not be a power of two.

What holds it together:

- Everything is masked: the table past the sequence's end (its entries may be anything), the rows of K and V
  (the rest of a block may hold NaN, and 0 * NaN is NaN), query heads and head dimensions that pad a tile.
- Ids are widened to 64 bits before they are multiplied by a stride: 40,000 blocks of 64 KiB are past 2^31.
- The query heads of a group are handled together, so that K and V are read once for up to 16 of them. The
  matrix unit wants 16 rows anyway, so a smaller group is padded.
- A sequence can be cut into splits that run side by side; `merge` then weighs them. With one split the result
  goes straight to its place.

The same text runs compiled and, where there is no GPU, in Triton's interpreter. There bfloat16 arithmetic and
`tl.dot` on bfloat16 give wrong numbers, so an interpreted call sets UPCAST and computes in float32.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def decode(
    query, keys, values,  # [seqs, q_heads, head_dim], and twice [blocks, block_size, kv_heads, head_dim]
    table, starts,  # block ids; where the rows of a CSR table start, None for a padded one; twin: None both
    seq_lens,  # [seqs]
    out, lse,  # [seqs, q_heads, splits, head_dim] and [seqs, q_heads, splits], without gaps
    row_width, window, scale, softcap,
    q_seq, q_head, k_block, k_slot, k_head, v_block, v_slot, v_head,  # strides, counted in elements
    PAGED: tl.constexpr, BLOCK_SIZE: tl.constexpr, SOFTCAP: tl.constexpr, UPCAST: tl.constexpr,
    GROUP: tl.constexpr, GROUP_TILE: tl.constexpr, HEAD_DIM: tl.constexpr, HEAD_PAD: tl.constexpr,
    TILE: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Attend from (a tile of) one query group to one split of one sequence, for one KV head."""
    group_tiles: tl.constexpr = (GROUP + GROUP_TILE - 1) // GROUP_TILE
    seq = tl.program_id(0).to(tl.int64)
    kv_head = (tl.program_id(1) // group_tiles).to(tl.int64)
    split = tl.program_id(2)

    # The tokens of this split: a query sees `window` of them, its own included, and a split is whole tiles.
    length = tl.load(seq_lens + seq)
    first = tl.maximum(length - window, 0)
    per_split = tl.cdiv(tl.cdiv(length - first, SPLITS), TILE) * TILE
    start = first + split * per_split
    stop = tl.minimum(start + per_split, length)

    if PAGED:
        row = table + (seq * row_width if starts is None else tl.load(starts + seq))

    lane = (tl.program_id(1) % group_tiles) * GROUP_TILE + tl.arange(0, GROUP_TILE)
    head = kv_head * GROUP + lane  # [GROUP_TILE], query heads
    dim = tl.arange(0, HEAD_PAD)
    real_query = (lane < GROUP)[:, None] & (dim < HEAD_DIM)[None, :]
    q = tl.load(query + seq * q_seq + head[:, None] * q_head + dim[None, :], mask=real_query, other=0.0)
    if UPCAST:
        q = q.to(tl.float32)  # [GROUP_TILE, HEAD_PAD]

    top = tl.full([GROUP_TILE], float("-inf"), tl.float32)  # the largest score so far
    share = tl.zeros([GROUP_TILE], tl.float32)  # the sum of exp(score - top) so far
    total = tl.zeros([GROUP_TILE, HEAD_PAD], tl.float32)  # the sum of exp(score - top) * value so far

    for tile in range(start, stop, TILE):
        position = tile + tl.arange(0, TILE)  # [TILE]
        inside = position < stop
        if PAGED:
            block = tl.load(row + position // BLOCK_SIZE, mask=inside, other=0)  # the paging: this line
            slot = position % BLOCK_SIZE
        else:
            block = tl.zeros_like(position) + seq  # the twin: a sequence is its own block
            slot = position
        block, slot = block.to(tl.int64), slot.to(tl.int64)

        real = inside[:, None] & (dim < HEAD_DIM)[None, :]
        k_row = block * k_block + slot * k_slot + kv_head * k_head  # [TILE]
        v_row = block * v_block + slot * v_slot + kv_head * v_head
        k = tl.load(keys + k_row[:, None] + dim[None, :], mask=real, other=0.0)  # [TILE, HEAD_PAD]
        v = tl.load(values + v_row[:, None] + dim[None, :], mask=real, other=0.0)
        if UPCAST:
            k, v = k.to(tl.float32), v.to(tl.float32)

        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # [GROUP_TILE, TILE]
        if SOFTCAP:
            score = softcap * tanh(score / softcap)
        score = tl.where(inside[None, :], score, float("-inf"))

        # Online softmax: what was summed under the old maximum counts less under the new one.
        new_top = tl.maximum(top, tl.max(score, 1))  # [GROUP_TILE]
        shrink = tl.exp(top - new_top)
        weight = tl.exp(score - new_top[:, None])  # [GROUP_TILE, TILE]
        share = share * shrink + tl.sum(weight, 1)
        total = total * shrink[:, None] + tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        top = new_top

    # A split without tokens leaves zeros and lse = -inf, to which `merge` gives no weight.
    empty = share == 0.0
    divisor = tl.where(empty, 1.0, share)
    place = (seq * (tl.num_programs(1) // group_tiles) * GROUP + head) * SPLITS + split  # [GROUP_TILE]
    result = (total / divisor[:, None]).to(out.dtype.element_ty)  # [GROUP_TILE, HEAD_PAD]
    tl.store(out + place[:, None] * HEAD_DIM + dim[None, :], result, mask=real_query)
    tl.store(lse + place, tl.where(empty, float("-inf"), top + tl.log(divisor)), mask=lane < GROUP)


@triton.jit
def merge(
    parts, part_lses,  # [rows, splits, head_dim] and [rows, splits]; a row is one query head of one sequence
    out, lse,  # [rows, head_dim] and [rows], without gaps
    HEAD_DIM: tl.constexpr, CHUNK: tl.constexpr, SPLITS: tl.constexpr, SPLITS_PAD: tl.constexpr,
):  # fmt: skip
    """Combine the splits of one row: each counts by its share of the softmax's denominator."""
    row = tl.program_id(0).to(tl.int64)
    dim = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    place = row * SPLITS + tl.arange(0, SPLITS_PAD)
    real = tl.arange(0, SPLITS_PAD) < SPLITS
    part_lse = tl.load(part_lses + place, mask=real, other=float("-inf"))  # [SPLITS_PAD]
    top = tl.max(part_lse, 0)
    top = tl.where(top == float("-inf"), 0.0, top)  # an empty sequence: keep -inf minus -inf out of exp
    weight = tl.exp(part_lse - top)
    share = tl.sum(weight, 0)
    divisor = tl.where(share == 0.0, 1.0, share)
    mask = real[:, None] & (dim < HEAD_DIM)[None, :]  # [SPLITS_PAD, CHUNK]
    part = tl.load(parts + place[:, None] * HEAD_DIM + dim[None, :], mask=mask, other=0.0)
    result = tl.sum(part * weight[:, None], 0) / divisor  # [CHUNK]
    tl.store(out + row * HEAD_DIM + dim, result.to(out.dtype.element_ty), mask=dim < HEAD_DIM)
    tl.store(lse + row, tl.where(share == 0.0, float("-inf"), top + tl.log(divisor)))


@triton.jit
def tanh(x):
    """The hyperbolic tangent, which Triton leaves to each vendor's library.

    Its formula cancels near 0, where a series takes over (Moshier, Cephes mathematical library, tanhf).
    """
    square = x * x
    series = 2.06390887954e-2 - 5.70498872745e-3 * square
    series = 1.33314422036e-1 + square * (-5.37397155531e-2 + square * series)
    series = x + x * square * (-3.33332819422e-1 + square * series)
    e = tl.exp(-2.0 * tl.abs(x))
    formula = (1.0 - e) / (1.0 + e)
    return tl.where(tl.abs(x) < 0.625, series, tl.where(x < 0, -formula, formula))
