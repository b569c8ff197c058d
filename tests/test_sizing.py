"""Blocks that fit, against published tables and what real engines printed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pagedlab import gpus
from pagedlab.models import LayerGroup, ModelShape, preset
from pagedlab.sizing import Capacity, agree_on_blocks, capacity

CASES = {
    case["id"]: case
    for case in json.loads((Path(__file__).parent / "cases" / "block_manager.json").read_text())["cases"]
}
LLAMA_8B_BYTES = 16_060_000_000
MIB = 2**20


def _pool_of(blocks: int, shape: ModelShape, block_size: int, **terms) -> Capacity:
    """A machine that holds just so many blocks."""
    one = int(shape.kv_bytes(block_size)) if all(g.window is None for g in shape.layer_groups) else 0
    return capacity(blocks * one, 0, 0, 1.0, shape, block_size, **terms)


def test_every_term_is_named_and_they_add_up():
    fits = capacity(80 * 10**9, LLAMA_8B_BYTES, 2 * 10**9, 0.9, preset("llama-3.1-8b"), 16, other_bytes=10**9)
    *parts, result = fits.terms().values()
    assert sum(parts) == result == fits.kv_bytes == 72 * 10**9 - LLAMA_8B_BYTES - 3 * 10**9
    assert list(fits.terms()) == ["GPU memory * 0.9", "weights", "activations", "other", "K and V"]
    assert fits.block_bytes == 2 * MIB
    assert 0 <= fits.kv_bytes - fits.blocks * fits.block_bytes < fits.block_bytes


@pytest.mark.parametrize(
    "name, tokens",
    [("A100-80GB", 427e3), ("H100-SXM", 427e3), ("H200-SXM", 846e3), ("B200", 1.10e6), ("RTX-4090", 42e3)],
)
def test_tokens_beside_a_model_are_those_of_the_published_table(name, tokens):
    fits = capacity(gpus.named(name).capacity_bytes, LLAMA_8B_BYTES, 0, 0.9, preset("llama-3.1-8b"), 1)
    assert fits.tokens == pytest.approx(tokens, rel=0.01)


def test_concurrency_is_the_pool_over_what_one_sequence_takes():
    case = CASES["capacity-03"]
    step, expected = case["steps"][0], case["expect"][0]
    fits = _pool_of(step["blocks"], preset("llama-3.1-8b"), case["setup"]["block_size"])
    assert fits.blocks == step["blocks"]
    assert fits.concurrency(step["max_len"]) == expected["concurrency"]


def test_ranks_take_the_smallest_pool():
    case = CASES["capacity-04"]
    ranks = case["setup"]["ranks"]
    assert agree_on_blocks(ranks) == agree_on_blocks(np.array(ranks)) == case["expect"][0]["blocks"]


@pytest.mark.parametrize(
    "kv_bytes, block_size, blocks, tokens, concurrency",
    [(64 * MIB, 32, 512, 16_384, 4.0), (2363 * 128 * 4096, 128, 2363, 302_464, 73.84375)],
)
def test_a_recorded_engine_start_came_to_the_same(kv_bytes, block_size, blocks, tokens, concurrency):
    """vLLM 0.32 on a CPU, a small Llama of 4 KiB a token: what it logged for two pools."""
    small = ModelShape((LayerGroup(4, 4, 64),))
    fits = capacity(kv_bytes, 0, 0, 1.0, small, block_size)
    assert (fits.blocks, fits.tokens) == (blocks, tokens)
    assert fits.concurrency(4_096) == concurrency


def test_a_block_the_engine_keeps_is_not_there_to_hand_out():
    small = ModelShape((LayerGroup(4, 4, 64),))
    assert _pool_of(24, small, 32, kept_blocks=1).blocks == 23


def test_layers_with_a_window_hold_what_the_window_touches():
    shape = ModelShape((LayerGroup(1, 1, 1), LayerGroup(1, 1, 1, window=128)))
    fits = capacity(10**6, 0, 0, 1.0, shape, 16, dtype="fp8")
    layer_block = 2 * 16  # K and V of one number each
    assert fits.block_bytes == 2 * layer_block
    assert fits.sequence_bytes(100) == (7 + 7) * layer_block
    # 128 tokens that end in the middle of a block touch nine blocks of 16.
    assert fits.sequence_bytes(1_600) == (100 + 9) * layer_block
    assert fits.concurrency(1_600) > fits.tokens / 1_600


def test_a_latent_vector_counts_its_width_once():
    fits = capacity(10**11, 0, 0, 0.9, preset("deepseek-v3"), 64)
    assert fits.block_bytes == 61 * 576 * 2 * 64


def test_half_bytes_are_rounded_up_to_whole_ones():
    assert (
        capacity(10**6, 0, 0, 1.0, ModelShape((LayerGroup(1, latent=3),)), 1, dtype="int4").block_bytes == 2
    )


@pytest.mark.parametrize(
    "elements, first",
    [
        (32 * 16 * 16 * 8, 32_768),  # 65,536 elements a block: block 32,768 begins at 2**31
        (1_280 * 512, 3_276),  # its tail lies past 2**31; block 3,277 begins past it
    ],
)
def test_a_pool_beyond_32_bit_offsets_is_reported(elements, first):
    shape = ModelShape((LayerGroup(2, latent=elements),), "wide")
    enough = _pool_of(first, shape, 1)
    assert enough.overflows == ()
    (overflow,) = _pool_of(first + 1, shape, 1).overflows
    assert (overflow.first_block, overflow.elements_per_block) == (first, elements)
    assert f"2 layer(s) of wide: {elements:,} elements a block, so block {first:,}" in str(overflow)


@pytest.mark.parametrize("ranks, copies", [(2, 1), (8, 1), (16, 2)])
def test_ranks_beyond_the_heads_hold_copies(ranks, copies):
    whole = preset("llama-3.1-8b")
    assert whole.on_rank(ranks).kv_bytes(1) * ranks == whole.kv_bytes(1) * copies


def test_a_latent_vector_is_held_whole_by_every_rank():
    assert preset("deepseek-v3").on_rank(8).kv_bytes(100) == preset("deepseek-v3").kv_bytes(100)


@pytest.mark.parametrize(
    "call, words",
    [
        (
            lambda: capacity(24 * 10**9, 30 * 10**9, 10**9, 0.9, preset("llama-3.1-8b")),
            "no block fits: of 21,600,000,000 bytes .24,000,000,000 . 0.9., weights take 30,000,000,000, "
            "activations 1,000,000,000 and the rest 0; that leaves -9,400,000,000 for blocks of 2,097,152",
        ),
        (
            lambda: capacity(8e9, 16e9, 0, 0.9, preset("llama-3.1-8b")),
            "weights take 16,000,000,000, activations",
        ),
        (
            lambda: capacity(8e9, 0, 0, 0.9, "llama-3.1-8b"),
            "shape must be a ModelShape .* got 'llama-3.1-8b'",
        ),
        (lambda: capacity(-1, 0, 0, 0.9, preset("llama-3.1-8b")), "gpu_bytes must be at least 0, got -1"),
        (
            lambda: capacity(float("inf"), 0, 0, 0.9, preset("llama-3.1-8b")),
            "gpu_bytes .* got inf",
        ),
        (
            lambda: capacity(float("nan"), 0, 0, 0.9, preset("llama-3.1-8b")),
            "gpu_bytes .* got nan",
        ),
        (
            lambda: capacity(10**9, 0.5, 0, 0.9, preset("llama-3.1-8b")),
            "weight_bytes .* got 0.5",
        ),
        (
            lambda: _pool_of(9, preset("llama-3.1-8b"), 16, kept_blocks=1.5),
            "kept_blocks .* got 1.5",
        ),
        (
            lambda: capacity(10**9, 0, 0, 0.9, preset("llama-3.1-8b"), 16.5),
            "block_size .* got 16.5",
        ),
        (
            lambda: capacity(1, 0, 0, 1.1, preset("llama-3.1-8b")),
            "fraction must be above 0 and at most 1, got 1.1",
        ),
        (lambda: capacity(1, 0, 0, 0.9, preset("llama-3.1-8b"), 0), "block_size must be at least 1, got 0"),
        (lambda: capacity(1, 0, 0, 0.9, preset("llama-3.1-8b"), dtype="fp12"), "dtype must be one of"),
        (lambda: _pool_of(1, preset("llama-3.1-8b"), 16, kept_blocks=1), "beside the 1 kept"),
        (lambda: _pool_of(9, preset("llama-3.1-8b"), 16).concurrency(0), "tokens must be at least 1, got 0"),
        (lambda: agree_on_blocks([]), "no rank gave a number of blocks"),
        (lambda: agree_on_blocks([5, 0]), "the number of blocks of rank 1 must be at least 1, got 0"),
        (lambda: agree_on_blocks([1.5]), "the number of blocks of rank 0 must be an integer, got 1.5"),
        (lambda: preset("llama-3.1-8b").on_rank(3), "8 KV heads of llama-3.1-8b do not split over 3 ranks"),
        (lambda: preset("llama-3.1-8b").on_rank(0), "ranks must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_sized_says_why_with_the_numbers(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def test_bytes_written_as_a_float_are_the_whole_number_that_they_look_like():
    shape = preset("llama-3.1-8b")
    assert capacity(80e9, 16.06e9, 0, 0.9, shape) == capacity(80 * 10**9, 16_060_000_000, 0, 0.9, shape)


def test_every_gpu_says_where_its_figures_were_read_and_a_name_that_is_none_gets_near_ones():
    for name in gpus.names():
        gpu = gpus.named(name)
        assert len(gpu.source) > 20 and gpu.word in ("published", "computed")
        assert gpu.capacity_bytes > 10**10 and gpu.bandwidth_bytes_s > 10**12
    assert gpus.named("B200") is gpus.named("b200")
    with pytest.raises(KeyError, match="no GPU 'H300' here; near: h"):
        gpus.named("H300")
