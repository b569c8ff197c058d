"""Decode attention compiled for the CPU: each thread works on one sequence and KV head at a time.

The tokens are taken in tiles, a tile in three passes: scores of the keys, online softmax, weighted sum of the
values. Before that `locate` writes down where the row of each token starts in memory, and that list is all
that the kernel knows of layout and paging: NHD, HND and contiguous caches of any block size differ in its
numbers only.

What makes it fast:

- A key or value is used for all query heads that share it while it is in a register, four heads at a time.
- The hardware foresees straight lines, and a paged cache is not one. The kernel has the list, so it asks for
  rows some time before their turn, and has them brought into the second-level cache: the first can wait for a
  few lines at once, the second for several times as many.
- Sums may be reordered (`reassoc`), which lets them use vector registers. Infinity and NaN keep their
  meaning, since an online softmax starts at -inf.

All of it is one file because numba's disk cache looks for changes only in the file of the function that is
called. Compiling takes seconds, once per machine and element type; loading it again takes milliseconds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

TILE = 512  # tokens
PREFETCH_BYTES = 8192  # how far ahead of its use a row is asked for
CACHE_LINE = 64  # bytes

LOG2_E = np.float32(math.log2(math.e))
LN_2 = np.float32(math.log(2))
F0, F1, HALF = np.float32(0), np.float32(1), np.float32(0.5)
C2, C3, C4, C5, C6 = (np.float32(1 / math.factorial(n)) for n in (2, 3, 4, 5, 6))  # the series of e^y


# Calls for every row of a cache would cost a third of the speed: inner functions merge with their caller.
SAFE_MATH = {"reassoc", "contract", "arcp", "nsz"}
INNER: dict[str, Any] = {"forceinline": True, "fastmath": SAFE_MATH, "error_model": "numpy"}
OUTER: dict[str, Any] = {"parallel": True, "fastmath": SAFE_MATH, "error_model": "numpy", "nogil": True}


def cached(function: Any) -> Any:
    """Compile a function that Python calls, and keep it on disk where some folder can be written."""
    try:
        return njit(cache=True, **OUTER)(function)
    except RuntimeError:  # no such folder: compile in every process
        return njit(**OUTER)(function)


@intrinsic
def prefetch(typing_context, flat, start, count):
    """Ask for `flat[start:start + count]` to be brought into the second-level cache, and do not wait."""

    def generate(context, builder, signature, arguments):
        byte, int32, int64 = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        first = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte)
        size = builder.mul(arguments[2], ir.Constant(int64, signature.args[0].dtype.bitwidth // 8))
        request = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, int32, int32, int32]), "llvm.prefetch.p0"
        )
        read, second_level, data = (ir.Constant(int32, number) for number in (0, 2, 1))
        zero, line = ir.Constant(int64, 0), ir.Constant(int64, CACHE_LINE)
        with cgutils.for_range_slice(builder, zero, size, line, int64) as (offset, _):
            builder.call(request, [builder.gep(first, [offset]), read, second_level, data])
        return context.get_dummy_value()

    return types.void(flat, types.uint64, types.int64), generate


# -- Element types. Numba has no 16-bit floats, so bfloat16 arrives as uint16 and float16 as int16.


def widen(element):
    """An element of a cache as float32. Its type is known at compile time, so nothing is chosen later."""


@overload(widen, jit_options={"fastmath": False})
def _widen(element):
    def from_bfloat16(element):  # the upper half of a float32
        return np.uint32(np.uint32(element) << np.uint32(16)).view(np.float32)

    def from_float16(element):
        bits = np.uint32(np.uint16(element))
        # Exponent and fraction move to where a float32 has them.
        magnitude = np.uint32((bits & np.uint32(0x7FFF)) << np.uint32(13))
        value = magnitude.view(np.float32) * np.float32(2.0**112)  # the exponents' biases differ by 112
        if magnitude >= np.uint32(0x0F800000):  # all ones in the exponent: infinity or NaN, and stays so
            value = np.uint32(magnitude | np.uint32(0x7F800000)).view(np.float32)
        return -value if bits >= np.uint32(0x8000) else value

    def from_number(element):
        return np.float32(element)

    return {types.uint16: from_bfloat16, types.int16: from_float16}.get(element, from_number)


# -- One row against the query heads that share it.


@njit(**INNER)
def score_four_heads(query, head, keys, start, scores, token):
    """scores[head .. head + 3, token] = query . key; the key is read once for the four of them."""
    s0 = s1 = s2 = s3 = F0
    for d in range(query.shape[1]):
        k = widen(keys[start + np.uint64(d)])
        s0 += query[head, d] * k
        s1 += query[head + 1, d] * k
        s2 += query[head + 2, d] * k
        s3 += query[head + 3, d] * k
    scores[head, token] = s0
    scores[head + 1, token] = s1
    scores[head + 2, token] = s2
    scores[head + 3, token] = s3


@njit(**INNER)
def score_one_head(query, head, keys, start, scores, token):
    """scores[head, token] = query . key."""
    s = F0
    for d in range(query.shape[1]):
        s += query[head, d] * widen(keys[start + np.uint64(d)])
    scores[head, token] = s


@njit(**INNER)
def add_four_heads(total, head, values, start, weights, token):
    """total[head .. head + 3] += weight * value; the value is read once for the four of them."""
    w0, w1 = weights[head, token], weights[head + 1, token]
    w2, w3 = weights[head + 2, token], weights[head + 3, token]
    for d in range(total.shape[1]):
        v = widen(values[start + np.uint64(d)])
        t0 = total[head, d] + w0 * v
        t1 = total[head + 1, d] + w1 * v
        t2 = total[head + 2, d] + w2 * v
        t3 = total[head + 3, d] + w3 * v
        total[head, d] = t0  # stores come last: the compiler cannot know that the rows do not overlap
        total[head + 1, d] = t1
        total[head + 2, d] = t2
        total[head + 3, d] = t3


@njit(**INNER)
def add_one_head(total, head, values, start, weights, token):
    """total[head] += weight * value."""
    w = weights[head, token]
    for d in range(total.shape[1]):
        total[head, d] += w * widen(values[start + np.uint64(d)])


# -- Online softmax.


@njit(**INNER | {"fastmath": SAFE_MATH | {"nnan"}})  # without a case for NaN a maximum can be vectorised
def largest(row, count, at_least):
    """The largest of a row's first `count` numbers and `at_least`."""
    for i in range(count):
        at_least = max(at_least, row[i])
    return at_least


@njit(**INNER)
def exponentials(row, count, top):
    """Replace each score s by exp(s - top) and return their sum; s <= top.

    exp(x) = 2^n * e^y, where n is x / ln 2 rounded, and e^y a short series because |y| < 0.35. The library's
    exp would be called number by number; this works on sixteen at a time.
    """
    total = F0
    for i in range(count):
        x = (row[i] - top) * LOG2_E  # <= 0
        n = np.int32((x if x > np.float32(-126) else np.float32(-126)) - HALF)
        y = (x - np.float32(n)) * LN_2
        series = F1 + y * (F1 + y * (C2 + y * (C3 + y * (C4 + y * (C5 + y * C6)))))
        weight = series * np.uint32(np.uint32(n + np.int32(127)) << np.uint32(23)).view(np.float32)
        row[i] = F0 if x < np.float32(-126) else weight
        total += row[i]
    return total


@njit(**INNER)
def multiply(rows, count, factors, starts):
    """Multiply each number of every row by the scale of its token."""
    for row in rows:
        for i in range(count):
            row[i] *= factors[starts[i]]


@njit(**INNER)
def cap(row, count, softcap):
    """Bound each score s smoothly: softcap * tanh(s / softcap)."""
    for i in range(count):
        row[i] = softcap * np.float32(math.tanh(row[i] / softcap))


# -- The kernel.


@njit(**INNER)
def locate(first, count, sequence, table, row, paged, block_size, strides, head, starts):
    """Write down where the rows of `count` tokens from position `first` on start, counted in elements."""
    done = 0
    while done < count:
        column = (first + done) // block_size
        slot = (first + done) - column * block_size
        # The paging: one look-up a block. The twin's only difference is that a sequence is its own block.
        block = np.int64(table[row + column]) if paged else sequence
        in_block = min(block_size - slot, count - done)
        for array in range(len(starts)):
            stride = strides[array, 1]
            start = block * strides[array, 0] + slot * stride + head * strides[array, 2]
            for i in range(in_block):
                starts[array, done + i] = start + i * stride
        done += in_block


@njit(**INNER)
def attend(
    query, keys, values, key_scales, value_scales, strides, sequence, head, first, length,
    table, row, paged, block_size, softcap, out, lse,
):  # fmt: skip
    """Attention of one query group to positions `first` to `length` of a sequence, for one KV head."""
    group, width = query.shape
    fours = group - group % 4
    ahead = max(1, PREFETCH_BYTES // (width * keys.itemsize))  # tokens
    starts = np.empty((4 if len(key_scales) + len(value_scales) else 2, TILE), np.uint64)
    key_starts, value_starts = starts[0], starts[1]
    scores = np.empty((group, TILE), np.float32)
    top = np.full(group, -np.inf, np.float32)  # the largest score so far
    share = np.zeros(group, np.float32)  # the sum of exp(score - top) so far
    total = np.zeros((group, width), np.float32)  # the sum of exp(score - top) * value so far

    for tile in range(first, length, TILE):
        count = min(TILE, length - tile)
        locate(tile, count, sequence, table, row, paged, block_size, strides, head, starts)
        for t in range(count):
            if t + ahead < count:
                prefetch(keys, key_starts[t + ahead], width)
            for g in range(0, fours, 4):
                score_four_heads(query, g, keys, key_starts[t], scores, t)
            for g in range(fours, group):
                score_one_head(query, g, keys, key_starts[t], scores, t)

        if len(key_scales):
            multiply(scores, count, key_scales, starts[2])
        for g in range(group):
            if softcap > 0:
                cap(scores[g], count, softcap)
            new_top = largest(scores[g], count, top[g])
            shrink = np.float32(math.exp(top[g] - new_top))  # what was summed under the old top counts less
            share[g] = share[g] * shrink + exponentials(scores[g], count, new_top)
            top[g] = new_top
            for d in range(width):
                total[g, d] *= shrink

        if len(value_scales):
            multiply(scores, count, value_scales, starts[3])
        for t in range(count):
            if t + ahead < count:
                prefetch(values, value_starts[t + ahead], width)
            for g in range(0, fours, 4):
                add_four_heads(total, g, values, value_starts[t], scores, t)
            for g in range(fours, group):
                add_one_head(total, g, values, value_starts[t], scores, t)

    for g in range(group):
        lse[g] = top[g] + math.log(share[g])  # of nothing: -inf
        for d in range(width):
            out[g, d] = total[g, d] / share[g] if length > first else F0


@cached
def decode(
    query, keys, values, key_scales, value_scales, strides, lengths, table, rows, paged, block_size,
    window, softcap, order, out, lse,
):  # fmt: skip
    """Attention of every sequence and KV head, shared out among the threads in the order given.

    query, out: float32 [seqs, kv_heads, group, head_dim], the query scaled; lse: [seqs, kv_heads, group]
    keys, values, key_scales, value_scales: read flat; the scales float32, or empty: the whole cache has one
    strides: int64 [4, 3], of those four, of (block, slot, head), counted in elements
    table: int32, block ids, those of sequence i from rows[i] on; softcap: 0 for none
    """
    kv_heads = query.shape[1]
    for item in prange(len(order) * kv_heads):
        sequence, head = order[item // kv_heads], item % kv_heads
        length = np.int64(lengths[sequence])
        attend(
            query[sequence, head], keys, values, key_scales, value_scales, strides, sequence, head,
            max(0, length - window), length, table, rows[sequence], paged, block_size, softcap,
            out[sequence, head], lse[sequence, head],
        )  # fmt: skip
