"""Quantised caches: what rounding costs, and that every backend reads them as the numbers they stand for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from batches import assert_close, batch

from pagedlab_kernels import dequantise, error_against, paged_attention, quantise

BYTES = [torch.int8, torch.float8_e4m3fn]
SCALES = [None, (0.04, 0.3)]


@pytest.mark.parametrize("scale", [None, 0.05])
def test_numbers_come_back_within_half_a_step(scale):
    numbers = torch.randn(100, 64)
    stored, chosen = quantise(numbers, torch.int8, scale)
    step = chosen[:, None] if scale is None else scale
    assert ((dequantise(stored, chosen) - numbers).abs() <= 0.5001 * step).all()

    stored, chosen = quantise(numbers, torch.float8_e4m3fn, scale)
    step = chosen[:, None] if scale is None else scale
    allowed = torch.maximum(
        numbers.abs() / 16, torch.tensor(2.0**-10) * step
    )  # below 2^-6 the steps are equal
    assert ((dequantise(stored, chosen) - numbers).abs() <= 1.0001 * allowed).all()


@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_a_row_uses_the_whole_range_and_zeros_stay_zeros(dtype):
    numbers = torch.randn(10, 64) * torch.logspace(-20, 20, 10)[:, None]
    numbers[3] = 0
    stored, scale = quantise(numbers, dtype)
    largest = stored.float().abs().amax(-1)
    assert largest[3] == 0 and (largest[[0, 1, 2, 4, 9]] == (127 if dtype == torch.int8 else 448)).all()
    assert scale.isfinite().all() and (scale > 0).all()


def test_what_does_not_fit_is_cut_off():
    assert quantise(torch.tensor([5.0, -5.0]), torch.int8, 0.01)[0].tolist() == [127, -127]
    assert quantise(torch.tensor([5.0, -5.0]), torch.float8_e4m3fn, 0.01)[0].tolist() == [448, -448]


@pytest.mark.parametrize("numbers", [[torch.nan], [torch.inf]])
def test_numbers_without_a_place_are_refused(numbers):
    with pytest.raises(ValueError, match="numbers for a cache of torch.int8 must be finite"):
        quantise(torch.tensor(numbers), torch.int8)
    with pytest.raises(
        ValueError, match="dtype must be one of torch.int8, torch.float8_e4m3fn, got torch.uint8"
    ):
        quantise(torch.ones(1), torch.uint8)


def test_errors_are_of_the_difference():
    error = error_against(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 5.0]))
    assert (error.largest, error.rms, error.relative) == (1.0, pytest.approx(0.5**0.5), pytest.approx(0.2))
    assert error_against(torch.zeros(0), torch.zeros(0)).rms == 0
    assert error_against(torch.zeros(2), torch.zeros(2)).relative == 0


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("cache_dtype", BYTES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_every_backend_reads_what_the_numbers_stand_for(backend, dtype, cache_dtype, scales, layout):
    """[k-01, k-02 too]: what no token owns, scales included, is NaN."""
    if (backend, cache_dtype) == ("cpu", torch.float8_e4m3fn):
        pytest.skip("the CPU kernel refuses it, as tested below")
    case = batch([0, 1, 33, 70], dtype=dtype, cache_dtype=cache_dtype, scales=scales, layout=layout)
    for options in ({}, {"window": 40, "softcap": 5.0, "scale": 0.4}):
        found = case.paged(backend=backend, return_lse=True, **options)
        assert_close(found, case.exact(**options), dtype)
        twin = case.contiguous(backend=backend, return_lse=True, **options)
        assert torch.equal(found[0], twin[0]) and torch.equal(found[1], twin[1])


def test_k_may_have_one_scale_and_v_one_for_each_token(backend):
    token, whole = (batch([33, 70], cache_dtype=torch.int8, scales=scales) for scales in SCALES)
    mixed = replace(
        token,
        key_cache=whole.key_cache,
        keys=whole.keys,
        cache_scales=(whole.cache_scales[0], token.cache_scales[1]),
        row_scales=(whole.row_scales[0], token.row_scales[1]),
    )
    assert_close(mixed.paged(backend=backend, return_lse=True), mixed.exact(), torch.float32)


@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_the_reference_scales_as_the_equation_says(scales):
    case = batch([0, 1, 33, 70], cache_dtype=torch.int8, scales=scales)
    keys, values = (
        dequantise(rows, scale) for rows, scale in zip((case.keys, case.values), case.row_scales, strict=True)
    )
    plain = batch([0, 1, 33, 70])
    exact = type(case)(
        case.query, plain.key_cache, plain.value_cache, case.block_tables, case.seq_lens, keys, values
    )
    assert_close(case.paged(backend="reference", return_lse=True), exact.exact(), torch.float32)


def test_every_e4m3_number_arrives(backend):
    """One token per number, so that the output is the number itself: subnormal and NaN included."""
    if backend == "cpu":
        pytest.skip("the CPU kernel refuses e4m3, as tested below")
    numbers = torch.arange(0, 256, 5 if backend == "triton" else 1, dtype=torch.int32).to(torch.uint8)
    numbers = torch.cat([numbers, torch.tensor([0x7F, 0xFF, 0x80, 1, 7], dtype=torch.uint8)])
    cache = numbers.view(torch.float8_e4m3fn).view(-1, 1, 1, 1)
    table = torch.arange(len(cache), dtype=torch.int32)[:, None]
    query, ones = torch.zeros(len(cache), 1, 1), torch.ones(len(cache), dtype=torch.int32)
    zeros = torch.zeros_like(cache, dtype=torch.float32).to(cache.dtype)
    out = paged_attention(query, zeros, cache, table, ones, k_scale=1.0, v_scale=2.0, backend=backend)
    torch.testing.assert_close(out.view(-1), 2 * cache.view(-1).float(), atol=0, rtol=0, equal_nan=True)


def test_cpu_kernel_refuses_fp8_and_auto_goes_on():
    case = batch([20], cache_dtype=torch.float8_e4m3fn)
    with pytest.raises(ValueError, match="cpu cannot serve this call: .* int8, not torch.float8_e4m3fn"):
        case.paged(backend="cpu")
    assert torch.equal(case.paged(), case.paged(backend="reference"))


@pytest.mark.parametrize("cache_dtype", BYTES, ids=str)
def test_error_against_fp32_is_small_and_of_rounding_only(backend, cache_dtype):
    """The same tokens in float32 and quantised: attention over them differs by what rounding costs."""
    if (backend, cache_dtype) == ("cpu", torch.float8_e4m3fn):
        pytest.skip("the CPU kernel refuses it")
    exact = batch([100, 200, 17]).paged(backend=backend)
    error = error_against(exact, batch([100, 200, 17], cache_dtype=cache_dtype).paged(backend=backend))
    assert 0 < error.relative < (0.02 if cache_dtype == torch.int8 else 0.08)


def test_one_scale_for_unlike_ranges_loses_what_two_keep():
    """[k-16] K a hundred times as large as V; scales come from K and V, and never from the query."""
    key, value = 10 * torch.randn(64, 1, 32), 0.1 * torch.randn(64, 1, 32)
    query, lengths = torch.randn(4, 2, 32) / 10, torch.full((4,), 64, dtype=torch.int32)
    table = torch.arange(4, dtype=torch.int32).repeat(4, 1)
    own = [float(each.abs().max()) / 127 for each in (key, value)]

    def attention(k_scale=None, v_scale=None):
        caches = [each.view(4, 16, 1, 32) for each in (key, value)]
        if k_scale:
            caches = [
                quantise(each, torch.int8, s)[0] for each, s in zip(caches, (k_scale, v_scale), strict=True)
            ]
        return paged_attention(query, *caches, table, lengths, k_scale=k_scale, v_scale=v_scale)

    two, one = (error_against(attention(), attention(*scales)).relative for scales in (own, (own[0], own[0])))
    assert two < 0.05 and one > 10 * two


def test_a_scale_for_each_token_survives_a_token_that_is_out_of_line():
    key = torch.randn(64, 1, 32)
    key[7] *= 1000
    whole = dequantise(*quantise(key, torch.int8, float(key.abs().max()) / 127))
    each = dequantise(*quantise(key, torch.int8))
    others = torch.arange(64) != 7
    whole_error, own_error = (error_against(key[others], found[others]).relative for found in (whole, each))
    assert own_error < 0.01 and whole_error > 0.9


@pytest.mark.gpu
@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("cache_dtype", BYTES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("head_dim", [64, 80, 128, 256])
def test_triton_kernel_compiled_agrees_with_float64(head_dim, dtype, cache_dtype, scales):
    case = batch([0, 1, 33, 700], head_dim=head_dim, dtype=dtype, cache_dtype=cache_dtype, scales=scales)
    found, lse = case.to("cuda").paged(backend="triton", return_lse=True)
    exact, exact_lse = case.exact()
    atol, rtol = {torch.float32: (4e-6, 0), torch.float16: (2e-3, 1e-3), torch.bfloat16: (1.5e-2, 1e-2)}[
        dtype
    ]
    torch.testing.assert_close(found.double().cpu(), exact, atol=atol, rtol=rtol)
    torch.testing.assert_close(lse.double().cpu(), exact_lse, atol=1e-4, rtol=1e-4)
    assert torch.equal(found, case.to("cuda").contiguous(backend="triton"))
