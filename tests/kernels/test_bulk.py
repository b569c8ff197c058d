"""Tiles of K and V that come in one piece: the same answers, the poison around them unseen, or a refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton")

from batches import assert_close, batch  # noqa: E402

from pagedlab_kernels import checks, triton_launch, triton_offline  # noqa: E402

LENGTHS, NEW = [130, 1, 64, 0, 200], [5, 1, 64, 0, 17]


def call_of(case, paged=True, **options):
    scales = case.cache_scales if paged else case.row_scales
    given = checks.Options(**dict(zip(("k_scale", "v_scale"), scales, strict=True)) | options)
    if paged:
        rows = case.query, case.key_cache, case.value_cache, case.block_tables, case.seq_lens
        return checks.paged_call(*rows, case.query_starts, given, check=True)
    rows = case.query, case.keys, case.values, case.seq_lens
    return checks.contiguous_call(*rows, case.query_starts, given, check=True)


CASES = [
    ({"head_dim": 64, "layout": "HND"}, {}),
    ({"head_dim": 64, "dtype": torch.float16}, {"window": 50, "num_splits": 3}),
    ({"new": NEW, "head_dim": 128, "layout": "HND"}, {"softcap": 30.0, "num_splits": 2}),
    ({"new": NEW, "head_dim": 80, "dtype": torch.bfloat16}, {"window": 70}),
    ({"head_dim": 64, "cache_dtype": torch.int8}, {}),
]


def exact(case, options):
    return case.exact(**{name: value for name, value in options.items() if name != "num_splits"})


@pytest.mark.parametrize("paged", [True, False], ids=["paged", "twin"])
@pytest.mark.parametrize(("shape", "options"), CASES, ids=str)
def test_answers_are_those_of_float64_whatever_lies_around(interpreter, shape, options, paged):
    case = batch(LENGTHS, block_size=64, **shape)
    found = triton_launch.attend(call_of(case, paged, **options), bulk_copies=True)
    assert_close(found, exact(case, options), case.query.dtype)


@pytest.mark.gpu
@pytest.mark.parametrize(("shape", "options"), CASES, ids=str)
def test_answers_compiled_are_those_of_float64(shape, options):
    case = batch(LENGTHS, block_size=64, **shape)
    out, lse = triton_launch.attend(call_of(case.to("cuda"), **options), bulk_copies=True)
    exact_out, exact_lse = exact(case, options)
    torch.testing.assert_close(out.cpu().double(), exact_out.double(), atol=1.5e-2, rtol=1e-2)
    torch.testing.assert_close(lse.cpu().double(), exact_lse.double(), atol=1e-4, rtol=1e-4)


def test_a_tile_that_lies_in_two_blocks_is_refused(interpreter):
    with pytest.raises(ValueError, match="a tile of 64 tokens would lie in two blocks of 16"):
        triton_launch.attend(call_of(batch([40], block_size=16)), bulk_copies=True)


def test_rows_off_the_borders_of_16_bytes_are_refused(interpreter):
    odd = call_of(batch([40], block_size=64, head_dim=20, dtype=torch.float16))
    with pytest.raises(ValueError, match=r"rows of the cache are .* bytes apart"):
        triton_launch.attend(odd, bulk_copies=True)


def test_it_is_not_what_a_call_gets_unasked():
    device = triton_launch.Device("large", knows_e4m3=True, multiprocessors=132)
    call = triton_offline.example(block_size=64)
    for asked in (False, True):
        launch = triton_launch.plan(call, replace(device, bulk_copies=asked)).launches[0]
        assert (launch.arguments["key_tiles"] is not None) is asked
