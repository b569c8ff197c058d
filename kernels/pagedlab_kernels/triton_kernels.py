"""Attention in Triton: one program per tile of queries, KV head and split, the tokens in tiles.

One kernel serves decode and prefill, paged caches and their contiguous twin. It walks over *tokens*, a tile
at a time, and not over blocks: each lane of a tile looks up the block of its own token. A tile may hold many
small blocks or part of a large one, and a block size need not be a power of two.

What holds it together:

- The rows of a program are query tokens times the query heads that share a KV head, so that K and V are read
  once for all of them. The matrix unit wants 16 rows or more; a decode with fewer heads is padded.
- Everything is masked: the table past the sequence's end (its entries may be anything), the rows of K and V
  (the rest of a block may hold NaN, and 0 * NaN is NaN), rows and head dimensions that pad a tile.
- Ids are widened to 64 bits before they are multiplied by a stride: 40,000 blocks of 64 KiB are past 2^31.
- A scale of a quantised cache is the same along the head dimension. So it never touches a tile of K or V:
  K's is a factor of the score, V's of the weight.
- Where a block is whole tiles, a tile can come in one piece: the hardware copies it from a descriptor, and no
  lane computes an address. That is for large blocks only, and it brings along what a mask would leave out.
- A sequence can be cut into splits that run side by side; `merge` then weighs them. With one split the result
  goes straight to its place.

The same text runs compiled and, where there is no GPU, in Triton's interpreter. There bfloat16 arithmetic and
`tl.dot` on bfloat16 give wrong numbers, so an interpreted call sets UPCAST and computes in float32.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def attention(
    query, keys, values,  # [tokens, q_heads, head_dim], and twice [blocks, block_size, kv_heads, head_dim]
    key_scales, value_scales,  # [blocks, block_size, kv_heads], or None
    key_tiles, value_tiles,  # K and V again, as descriptors of tiles to copy in one piece each, or None
    table, starts,  # block ids; where the rows of a CSR table start, None for a padded one; twin: None both
    seq_lens, query_starts,  # [seqs] and [seqs + 1]; None for a decode, where every sequence has one token
    out, lse,  # [tokens, q_heads, splits, head_dim] and [tokens, q_heads, splits], without gaps
    num_seqs, q_heads, row_width, window, scale, value_scale, softcap,
    q_token, q_head, k_block, k_slot, k_head, v_block, v_slot, v_head,  # strides, counted in elements
    ks_block, ks_slot, ks_head, vs_block, vs_slot, vs_head,
    PAGED: tl.constexpr, BLOCK_SIZE: tl.constexpr, SOFTCAP: tl.constexpr, UPCAST: tl.constexpr,
    FP8_BITS: tl.constexpr, GROUP: tl.constexpr, GROUP_TILE: tl.constexpr, QUERY_TILE: tl.constexpr,
    HEAD_DIM: tl.constexpr, HEAD_PAD: tl.constexpr, TILE: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Attend from a tile of queries and of one query group to one split of their sequence."""
    group_tiles: tl.constexpr = (GROUP + GROUP_TILE - 1) // GROUP_TILE
    kv_head = (tl.program_id(1) // group_tiles).to(tl.int64)
    split = tl.program_id(2)

    # The queries of this program: the newest tokens of a sequence, or some of them.
    if query_starts is None:
        seq = tl.program_id(0)
        length = tl.load(seq_lens + seq)
        first_query, last_query, queries_stop = seq, seq, seq + 1
    else:
        seq = find_sequence(query_starts, num_seqs, tl.program_id(0), QUERY_TILE)
        length = tl.load(seq_lens + seq)
        queries_start, queries_stop = tl.load(query_starts + seq), tl.load(query_starts + seq + 1)
        first_query = queries_start + (tl.program_id(0) - queries_start // QUERY_TILE - seq) * QUERY_TILE
        last_query = tl.minimum(first_query + QUERY_TILE, queries_stop) - 1
        if first_query > last_query:
            return  # there are enough programs for sequences that end in part of a tile, and these do not

    # Their rows: every query head of the group for a token, then for the next one.
    row = tl.arange(0, QUERY_TILE * GROUP_TILE)
    token = first_query + row // GROUP_TILE  # [ROWS]
    lane = (tl.program_id(1) % group_tiles) * GROUP_TILE + row % GROUP_TILE
    head = kv_head * GROUP + lane
    at = length - queries_stop + token  # positions in the sequence
    real_row = (token <= last_query) & (lane < GROUP)
    dim = tl.arange(0, HEAD_PAD)
    real_query = real_row[:, None] & (dim < HEAD_DIM)[None, :]
    q_row = token.to(tl.int64) * q_token + head * q_head
    q = tl.load(query + q_row[:, None] + dim[None, :], mask=real_query, other=0.0)  # [ROWS, HEAD_PAD]
    if UPCAST:
        q = q.to(tl.float32)

    # What they see together: from the first one's window up to the last one. A split of it is whole tiles.
    first = tl.maximum(tl.maximum(length - queries_stop + first_query, 0) - window + 1, 0)
    last = tl.maximum(length - queries_stop + last_query + 1, first)
    begin = first if key_tiles is None else first // TILE * TILE  # a tile in one piece is never in two blocks
    per_split = tl.cdiv(tl.cdiv(last - begin, SPLITS), TILE) * TILE
    start = begin + split * per_split
    stop = tl.minimum(start + per_split, last)

    if PAGED:
        entries = table + (seq.to(tl.int64) * row_width if starts is None else tl.load(starts + seq))

    top = tl.full([QUERY_TILE * GROUP_TILE], float("-inf"), tl.float32)  # the largest score so far
    share = tl.zeros([QUERY_TILE * GROUP_TILE], tl.float32)  # the sum of exp(score - top) so far
    total = tl.zeros([QUERY_TILE * GROUP_TILE, HEAD_PAD], tl.float32)  # that of exp(score - top) * value

    for tile in range(start, stop, TILE):
        position = tile + tl.arange(0, TILE)  # [TILE]
        inside = position < stop
        if PAGED:
            block = tl.load(entries + position // BLOCK_SIZE, mask=inside, other=0)  # the paging: this line
            slot = position % BLOCK_SIZE
        else:
            block = tl.zeros_like(position) + seq  # the twin: a sequence is its own block
            slot = position
        block, slot = block.to(tl.int64), slot.to(tl.int64)

        if key_tiles is None:
            real = inside[:, None] & (dim < HEAD_DIM)[None, :]
            k_row = block * k_block + slot * k_slot + kv_head * k_head  # [TILE]
            v_row = block * v_block + slot * v_slot + kv_head * v_head
            k = tl.load(keys + k_row[:, None] + dim[None, :], mask=real, other=0.0)  # [TILE, HEAD_PAD]
            v = tl.load(values + v_row[:, None] + dim[None, :], mask=real, other=0.0)
        else:
            page, offset = seq, tile
            if PAGED:
                page, offset = (
                    tl.load(entries + tile // BLOCK_SIZE),
                    tile % BLOCK_SIZE,
                )  # the paging, once a tile
            k = key_tiles.load([page, kv_head.to(tl.int32), offset, 0]).reshape([TILE, HEAD_PAD])
            v = value_tiles.load([page, kv_head.to(tl.int32), offset, 0]).reshape([TILE, HEAD_PAD])
            if (tile < first) | (tile + TILE > stop):  # a copy knows no mask, and 0 * NaN is NaN
                v = tl.where((inside & (position >= first))[:, None], v, tl.zeros_like(v))
        k, v = widen(k, q.dtype, FP8_BITS), widen(v, q.dtype, FP8_BITS)

        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # [ROWS, TILE]
        if key_scales is not None:
            ks_row = block * ks_block + slot * ks_slot + kv_head * ks_head
            score *= tl.load(key_scales + ks_row, mask=inside, other=0.0)[None, :]
        if SOFTCAP:
            score = softcap * tanh(score / softcap)
        distance = at[:, None] - position[None, :]
        seen = inside[None, :] & (distance >= 0) & (distance < window)
        score = tl.where(seen, score, float("-inf"))

        # Online softmax: what was summed under the old maximum counts less under the new one.
        new_top = tl.maximum(top, tl.max(score, 1))  # [ROWS]
        base = tl.where(new_top == float("-inf"), 0.0, new_top)  # a row that has seen nothing yet
        shrink = tl.exp(top - base)
        weight = tl.exp(score - base[:, None])  # [ROWS, TILE]
        share = share * shrink + tl.sum(weight, 1)
        if value_scales is not None:
            vs_row = block * vs_block + slot * vs_slot + kv_head * vs_head
            factor = tl.load(value_scales + vs_row, mask=inside, other=0.0)  # [TILE]
            largest = tl.max(factor, 0)  # taken out until after the sum: float16 would lose small weights
            weight *= (factor / tl.where(largest == 0.0, 1.0, largest))[None, :]
        update = tl.dot(weight.to(v.dtype), v, input_precision="ieee")  # [ROWS, HEAD_PAD]
        if value_scales is not None:
            update *= largest
        total = total * shrink[:, None] + update
        top = new_top

    # Where nothing was seen, zeros and lse = -inf, to which `merge` gives no weight.
    empty = share == 0.0
    divisor = tl.where(empty, 1.0, share)
    place = (token.to(tl.int64) * q_heads + head) * SPLITS + split  # [ROWS]
    result = (total / divisor[:, None] * value_scale).to(out.dtype.element_ty)  # [ROWS, HEAD_PAD]
    tl.store(out + place[:, None] * HEAD_DIM + dim[None, :], result, mask=real_query)
    tl.store(lse + place, tl.where(empty, float("-inf"), top + tl.log(divisor)), mask=real_row)


@triton.jit
def find_sequence(query_starts, num_seqs, tile, QUERY_TILE: tl.constexpr):
    """Whose queries a tile holds: sequence i has those from number query_starts[i] // QUERY_TILE + i on."""
    low = tile * 0
    high = low + num_seqs
    while high - low > 1:
        middle = (low + high) // 2
        if tl.load(query_starts + middle) // QUERY_TILE + middle <= tile:
            low = middle
        else:
            high = middle
    return low


@triton.jit
def widen(stored, wide: tl.constexpr, FP8_BITS: tl.constexpr):
    """Numbers of a cache as the kernel computes with them; with FP8_BITS they are e4m3, read as bytes.

    Not every GPU knows e4m3. In float16 its bits stand seven places higher, and its bias is 8 more.
    """
    if FP8_BITS:
        byte = stored.to(tl.uint16)
        magnitude = byte & 0x7F
        bits = ((byte & 0x80) << 8) | tl.where(magnitude == 0x7F, 0x7E00, magnitude << 7)  # all ones: NaN
        return (bits.to(tl.uint16).to(tl.float16, bitcast=True) * 256.0).to(wide)
    return stored.to(wide)


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
