"""Bytes of a token, against the published table."""

from __future__ import annotations

import pytest

from pagedlab.models import LayerGroup, ModelShape, preset, presets

KIB = 1024


@pytest.mark.parametrize(
    "name, kib_per_token, gib_at_128k",
    [
        ("llama-2-7b", 512, 64),
        ("llama-3.1-8b", 128, 16),
        ("llama-3.1-70b", 320, 40),
        ("llama-3.1-405b", 504, 63),
        ("llama-3.2-1b", 32, 4),
        ("mistral-small-24b", 160, 20),
        ("qwen2.5-1.5b", 28, 3.5),
        ("qwen2.5-7b", 56, 7),
        ("qwen3-0.6b", 112, 14),
        ("qwen3-8b", 144, 18),
        ("qwen3-235b-a22b", 188, 23.5),
        ("deepseek-v2", 67.5, 8.4),
        ("deepseek-v3", 68.6, 8.6),
    ],
)
def test_bytes_a_token_and_at_128k_are_the_published_ones(name, kib_per_token, gib_at_128k):
    shape = preset(name)
    assert shape.kv_bytes(1, "bf16") / KIB == pytest.approx(kib_per_token, abs=0.05)
    assert shape.kv_bytes(128 * KIB, "bf16") / KIB**3 == pytest.approx(gib_at_128k, abs=0.05)


def test_layers_with_a_window_stop_growing():
    shape = preset("gpt-oss-120b")
    growing = shape.kv_bytes(10_001) - shape.kv_bytes(10_000)
    assert growing == 36 * KIB
    fixed = shape.kv_bytes(10_000) - 10_000 * growing
    assert fixed == 4.5 * KIB**2


def test_half_a_byte_is_a_legal_element():
    assert preset("llama-3.1-8b").kv_bytes(2, "int4") == preset("llama-3.1-8b").kv_bytes(1, "fp8")


def test_every_preset_says_where_it_was_read():
    assert len(presets()) > 15
    assert all(len(preset(name).source) > 10 for name in presets())
    assert not [name for name in presets() if "memory" in preset(name).source]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: preset("llama-3-8b"), KeyError, "near: llama-3.1-8b"),
        (lambda: preset("llama-3.1-8b").kv_bytes(-1), ValueError, "must not be negative"),
        (lambda: preset("llama-3.1-8b").kv_bytes(1, "fp12"), ValueError, "dtype must be one of fp32"),
        (lambda: ModelShape(()), ValueError, "at least one group"),
        (lambda: LayerGroup(0, 8, 128), ValueError, "expected"),
        (lambda: LayerGroup(2, 8, 128, latent=5), ValueError, "expected"),
        (lambda: LayerGroup(2, 8, 128, window=0), ValueError, "expected"),
    ],
)
def test_what_is_no_shape_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
