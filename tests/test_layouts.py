"""A cache in an engine's layout: known tokens lie at the addresses that the engine's own code computes."""

from __future__ import annotations

import pytest
import torch

from pagedlab import PagedKVCache
from pagedlab.layouts import ENGINES

BLOCKS, HEADS, DIM = 5, 3, 32
TABLES = [(4, 1), (2,)]

# How each engine's code computes the address of element e of head h of the token at offset o of block b, as
# tensor and number: N slots a block, H heads, D elements, kv 0 for K and 1 for V. Written from its sources.
ADDRESSES = {
    # kv_cache[blocks, heads, slots, 2 * elements]: K in the first half of a row, V in the second
    "vllm": lambda b, h, o, e, kv, N, H, D: (
        "kv_cache",
        b * H * N * 2 * D + h * N * 2 * D + o * 2 * D + kv * D + e,
    ),
    # a head's block: first K, column-major (element after element), then V, row-major
    "vllm-cpu": lambda b, h, o, e, kv, N, H, D: (
        "kv_cache",
        (b * H + h) * 2 * N * D + (N * D + o * D + e if kv else e * N + o),
    ),
    "flashinfer": lambda b, h, o, e, kv, N, H, D: ("kv"[kv] + "_cache", ((b * N + o) * H + h) * D + e),
    "flash-attn": lambda b, h, o, e, kv, N, H, D: ("kv"[kv] + "_cache", ((b * N + o) * H + h) * D + e),
    "flash-attn-3": lambda b, h, o, e, kv, N, H, D: ("kv"[kv] + "_cache", ((b * N + o) * H + h) * D + e),
    # kvCacheUtils.h: piece 2b + kv of the pool, and in it head * N * D + offset * D + element
    "tensorrt-llm": lambda b, h, o, e, kv, N, H, D: (
        "pool",
        (2 * b + kv) * H * N * D + h * N * D + o * D + e,
    ),
    "flex-attention": lambda b, h, o, e, kv, N, H, D: ("kv"[kv] + "_cache", ((b * N + o) * H + h) * D + e),
}


def filled(layout: str = "NHD", size: int = 256) -> PagedKVCache:
    """A cache in which no two numbers are alike."""
    cache = PagedKVCache(BLOCKS, size, HEADS, DIM, layout=layout)
    numbers = torch.arange(2.0 * cache.key.numel()).view(2, *cache.key.shape)
    cache.key.copy_(numbers[0])
    cache.value.copy_(numbers[1])
    return cache


def memory(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers as they lie, whatever the strides."""
    return tensor.as_strided((tensor.numel(),), (1,))


def test_every_engine_has_an_address_of_its_own():
    assert set(ADDRESSES) == set(ENGINES)


@pytest.mark.parametrize("engine", ENGINES)
def test_tokens_lie_where_the_engine_looks_for_them(engine):
    cache = filled()
    layout = cache.as_layout(engine)
    for block, head, offset, element in [(0, 0, 0, 0), (4, 2, 255, 31), (3, 1, 17, 5), (1, 2, 0, 30)]:
        for kv, (which, pool) in enumerate((("key", cache.key), ("value", cache.value))):
            name, number = ADDRESSES[engine](block, head, offset, element, kv, 256, HEADS, DIM)
            assert memory(layout.tensors[name])[number] == pool[block, offset, head, element]
            assert layout.address(which, block, offset, head, element) == (name, number)
            names = {"block": block, "head": head, "offset": offset, "element": element}
            assert eval(layout.formula(which), names) == number
    assert sum(tensor.numel() for tensor in layout.tensors.values()) == 2 * cache.key.numel()


@pytest.mark.parametrize("engine", ["flashinfer", "flash-attn", "flex-attention"])
def test_a_head_major_cache_is_taken_as_it_lies_or_copied(engine):
    cache = filled("HND")
    layout = cache.as_layout(engine)
    assert layout.copied == (engine == "flex-attention")
    for which, pool in (("key", cache.key), ("value", cache.value)):
        name, number = layout.address(which, block=3, offset=200, head=1, element=9)
        assert memory(layout.tensors[name])[number] == pool[3, 200, 1, 9]


def test_shapes_are_those_that_the_engines_take():
    shapes = {name: [list(t.shape) for t in filled().as_layout(name).tensors.values()] for name in ENGINES}
    assert shapes == {
        "vllm": [[5, 3, 256, 64]],
        "vllm-cpu": [[5, 3, 256, 64]],
        "flashinfer": [[5, 256, 3, 32]] * 2,
        "flash-attn": [[5, 256, 3, 32]] * 2,
        "flash-attn-3": [[5, 256, 3, 32]] * 2,
        "tensorrt-llm": [[5, 2, 3, 256, 32]],
        "flex-attention": [[1, 3, 5 * 256, 32]] * 2,
    }
    assert list(filled("HND").as_layout("flashinfer").tensors["k_cache"].shape) == [5, 3, 256, 32]


@pytest.mark.parametrize("engine", ENGINES)
def test_views_show_later_writes_and_copies_do_not(engine):
    cache = filled()
    layout = cache.as_layout(engine)
    cache.write(torch.zeros(1, HEADS, DIM), torch.zeros(1, HEADS, DIM), [2 * 256 + 7])
    name, number = layout.address("value", block=2, offset=7, head=1)
    assert (memory(layout.tensors[name])[number] == 0) == (not layout.copied)
    assert layout.copied == (engine in ("vllm", "vllm-cpu", "tensorrt-llm"))
    assert ("a copy" in str(layout)) == layout.copied


def test_tables_come_in_the_engines_form():
    found = {
        name: {
            key: array.tolist() for key, array in filled().as_layout(name).table(TABLES, [300, 256]).items()
        }
        for name in ENGINES
    }
    padded = [[4, 1], [2, 0]]
    assert found["vllm"] == found["vllm-cpu"] == {"block_table": padded, "seq_lens": [300, 256]}
    assert found["flash-attn"] == {"block_table": padded, "cache_seqlens": [300, 256]}
    assert found["flashinfer"] == {"indptr": [0, 2, 3], "indices": [4, 1, 2], "last_page_len": [44, 256]}
    assert found["tensorrt-llm"] == {
        "kv_cache_block_offsets": [[[[8, 2], [9, 3]], [[4, 0], [5, 1]]]],
        "sequence_length": [300, 256],
    }
    assert found["flex-attention"] == {"page_table": [[4, 1], [2, -1]], "kv_len": [300, 256]}


def test_an_offset_of_tensorrt_llm_leads_to_the_piece_that_holds_the_token():
    cache = filled()
    layout = cache.as_layout("tensorrt-llm")
    offsets = layout.table(TABLES, [300, 256])["kv_cache_block_offsets"]
    pieces = layout.tensors["pool"].flatten(0, 1)  # [2 * blocks, heads, slots, elements]
    position, block = 290, TABLES[0][290 // 256]
    for kv, pool in enumerate((cache.key, cache.value)):
        assert torch.equal(
            pieces[offsets[0, 0, kv, position // 256], :, position % 256], pool[block, position % 256]
        )


@pytest.mark.parametrize(
    ("engine", "size", "dim", "rule"),
    [
        ("vllm", 24, 64, "block_size=24: vLLM on a GPU takes multiples of 16"),
        ("vllm-cpu", 16, 64, "block_size=16: vLLM on a CPU takes multiples of 32"),
        ("vllm-cpu", 32, 48, "head_dim=48: vLLM on a CPU takes one of 32, 64"),
        ("flash-attn", 16, 64, "block_size=16: flash-attn 2 takes multiples of 256 (flash-attn-3 any)"),
        ("flash-attn-3", 16, 320, "head_dim=320: flash-attn 3 takes multiples of 8 up to 256"),
        ("tensorrt-llm", 48, 64, "block_size=48: TensorRT-LLM takes powers of two above 1"),
        ("tensorrt-llm", 1, 64, "block_size=1: TensorRT-LLM takes powers of two above 1"),
        ("sglang", 16, 64, "engine='sglang': must be one of vllm, vllm-cpu, flashinfer"),
    ],
)
def test_a_size_that_an_engine_refuses_is_refused_with_its_rule(engine, size, dim, rule):
    with pytest.raises(ValueError) as error:
        PagedKVCache(2, size, 1, dim).as_layout(engine)
    assert rule in str(error.value)


def test_what_is_outside_has_no_address():
    layout = filled().as_layout("vllm")
    with pytest.raises(IndexError, match="offset 256 is outside 0 to 255"):
        layout.address("key", block=0, offset=256, head=0)
    with pytest.raises(ValueError, match="which='k': must be one of key, value"):
        layout.address("k", block=0, offset=0, head=0)
    with pytest.raises(ValueError, match="300 tokens take 2 blocks of 256, its table has 1"):
        layout.table([(4,)], [300])


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn], ids=str)
def test_a_quantised_cache_keeps_its_bytes_and_needs_one_scale(dtype):
    cache = PagedKVCache(2, 16, 1, 32, dtype=dtype, k_scale=0.5, v_scale=2.0)
    cache.write(torch.full((1, 1, 32), 3.0), torch.full((1, 1, 32), 8.0), [16 + 5])
    tensor = cache.as_layout("vllm").tensors["kv_cache"]
    assert tensor[1, 0, 5].float().tolist() == [6.0] * 32 + [4.0] * 32
    with pytest.raises(ValueError, match="k_scale and v_scale: engines keep scales"):
        PagedKVCache(2, 16, 1, 32, dtype=dtype).as_layout("vllm")
