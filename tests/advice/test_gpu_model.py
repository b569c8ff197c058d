"""The GPU model: its terms by counting, its fit, and how far it is from what was published."""

from __future__ import annotations

import numpy as np
import pytest

from pagedlab import gpu_model, gpus, published
from pagedlab.gpu_model import Constants, decode_step
from pagedlab.models import LayerGroup, ModelShape, preset

H100 = gpus.named("h100-sxm")
ONE_LAYER = ModelShape((LayerGroup(1, kv_heads=2, head_dim=64),))
WHOLE = Constants(bandwidth_share=1.0, launch_s=0.0, wave_s=0.0, entry_s=0.0)


def test_bytes_over_bandwidth_is_the_time_of_k_and_v_and_blocks_do_not_change_it():
    steps = [decode_step(H100, ONE_LAYER, [1000, 24], size, fitted=WHOLE) for size in (1, 16, 256)]
    assert {step.kv for step in steps} == {1024 * 2 * 2 * 64 * 2 / 3.35e12}


def test_a_tile_reads_four_bytes_an_entry_and_one_sector_at_least():
    def table_bytes(size: int) -> float:
        return decode_step(H100, ONE_LAYER, [300], size, fitted=WHOLE).look_ups * 3.35e12

    tiles = 3 * 2  # of 128 tokens, for each of two heads
    assert [round(table_bytes(size)) for size in (1, 4, 16, 128, 256)] == [
        tiles * size for size in (512, 128, 32, 32, 32)
    ]


def test_waves_are_programs_over_processors_and_few_sequences_are_split_to_fill_one():
    floor = Constants(1.0, launch_s=10.0, wave_s=1.0, entry_s=0.0)
    for sequences, waves in ((1, 1), (66, 1), (67, 2), (200, 4)):
        assert decode_step(H100, ONE_LAYER, [1] * sequences, 16, fitted=floor).floor == 10 + waves


def test_a_window_bounds_what_is_read_but_not_the_entries():
    windowed = ModelShape((LayerGroup(1, kv_heads=2, head_dim=64, window=128),))
    counted = Constants(1.0, 0.0, 0.0, entry_s=1.0)
    step = decode_step(H100, windowed, [1000], 16, fitted=counted)
    assert step.kv == decode_step(H100, ONE_LAYER, [128], 16, fitted=counted).kv
    assert step.entries == 63


def test_pages_of_one_stay_within_what_flashinfer_published():
    mha = ModelShape((LayerGroup(1, kv_heads=32, head_dim=128),))
    one = decode_step(H100, mha, [2048] * 16, 1, fitted=gpu_model.lean())
    low, high = published.figure("a5").values["percent_of_contiguous"]
    assert low <= 100 * one.seconds / (one.seconds - one.look_ups) <= high


def test_the_error_is_known_and_shown():
    checks = gpu_model.checks()
    assert {check.figure for check in checks} == {"a10", "a17", "a18", "a19", "d1", "d2"}
    fitted = np.array([check.error for check in checks if check.fitted])
    others = np.array([check.error for check in checks if not check.fitted])
    assert np.abs(fitted).max() < 0.12 and np.abs(others).max() < 0.15
    assert abs(fitted.mean()) < 0.02, "least squares leave no leaning"
    note = gpu_model.error_note()
    assert note.startswith("simulated") and f"{100 * np.abs(others).max():.0f} %" in note


def test_the_slope_of_a_long_decode_is_the_published_one():
    """Three terabytes a second on an H100, whose share of the bandwidth the model was given."""
    shape, slope = preset("llama-3.1-8b"), published.figure("d1").values["bf16_slope_ms"]
    few, many = (decode_step(H100, shape, [n], 16, fitted=gpu_model.lean()).seconds for n in (10_000, 50_000))
    assert 1e3 * (many - few) / 40_000 == pytest.approx(slope, rel=0.01)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"block_size \(0\) and every length must be at least 1"):
        decode_step(H100, ONE_LAYER, [5], 0)
    with pytest.raises(ValueError, match="every length must be at least 1"):
        decode_step(H100, ONE_LAYER, [5, 0], 16)
    unknown = gpus.Gpu("abacus", "Abacus", 1, 1.0, "a shelf", "R")
    with pytest.raises(ValueError, match="the number of processors of abacus is not known"):
        decode_step(unknown, ONE_LAYER, [5], 16)
