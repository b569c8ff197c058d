"""Every backend against float64 over shapes, dtypes and lengths, with NaN wherever no token is."""

from __future__ import annotations

import itertools

import pytest
import torch
from batches import assert_close, batch, by_hand

HEADS = [(4, 4), (8, 2), (5, 1)]  # query heads, KV heads
HEAD_DIMS = [24, 64, 80, 128, 256]
BLOCK_SIZES = [1, 5, 8, 16, 32, 128]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]

# The interpreter is slow, so it gets a subset: every head dimension with every dtype, while heads, block
# sizes and layouts go round.
THINNED = [
    (HEADS[i % 3], head_dim, BLOCK_SIZES[i % 6], DTYPES[i // 5], ["NHD", "HND"][i % 2])
    for i, head_dim in enumerate(HEAD_DIMS * 3)
]


def lengths(block_size: int) -> list[int]:
    return [0, 1, block_size - 1, block_size, block_size + 1, 1025]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_cpu_kernel_agrees_with_float64(heads, head_dim, block_size, dtype):
    layout = "HND" if head_dim in (64, 128) else "NHD"
    case = batch(
        lengths(block_size), heads=heads, head_dim=head_dim, block_size=block_size, dtype=dtype, layout=layout
    )
    found = case.paged(backend="cpu", return_lse=True)
    assert_close(found, case.exact(), dtype)
    twin = case.contiguous(backend="cpu", return_lse=True)
    assert torch.equal(found[0], twin[0]) and torch.equal(found[1], twin[1])


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(("heads", "head_dim", "block_size", "dtype", "layout"), THINNED, ids=str)
def test_triton_kernel_interpreted_agrees_with_float64(heads, head_dim, block_size, dtype, layout):
    case = batch(
        lengths(block_size), heads=heads, head_dim=head_dim, block_size=block_size, dtype=dtype, layout=layout
    )
    found = case.paged(backend="triton", return_lse=True)
    assert_close(found, case.exact(), dtype)
    twin = case.contiguous(backend="triton", return_lse=True)
    assert torch.equal(found[0], twin[0]) and torch.equal(found[1], twin[1])


@pytest.mark.parametrize("dtype", [torch.float64, *DTYPES], ids=str)
@pytest.mark.parametrize(("heads", "block_size"), list(zip(HEADS * 2, BLOCK_SIZES, strict=True)), ids=str)
def test_reference_agrees_with_softmax_by_hand(heads, block_size, dtype):
    case = batch(lengths(block_size), heads=heads, head_dim=24, block_size=block_size, dtype=dtype)
    exact = tuple(map(torch.from_numpy, by_hand(case)))
    assert_close(case.paged(backend="reference", return_lse=True), exact, dtype)
    assert_close(case.contiguous(backend="reference", return_lse=True), exact, dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("head_dim", "block_size"), list(itertools.product(HEAD_DIMS, BLOCK_SIZES)))
@pytest.mark.parametrize("heads", [*HEADS, (71, 1)], ids=str)
def test_triton_kernel_compiled_agrees_with_float64(heads, head_dim, block_size, dtype):
    case = batch(lengths(block_size), heads=heads, head_dim=head_dim, block_size=block_size, dtype=dtype)
    out, lse = case.to("cuda").paged(return_lse=True, backend="triton")
    exact_out, exact_lse = case.exact()
    # Compiled, the weights are rounded to the values' dtype: tolerances as in vLLM's and FlashInfer's tests.
    atol, rtol = {torch.float32: (2e-6, 0), torch.float16: (1e-3, 1e-3), torch.bfloat16: (1.5e-2, 1e-2)}[
        dtype
    ]
    torch.testing.assert_close(out.double().cpu(), exact_out, atol=atol, rtol=rtol)
    torch.testing.assert_close(lse.double().cpu(), exact_lse, atol=1e-4, rtol=1e-4)
    twin = case.to("cuda").contiguous(backend="triton")
    torch.testing.assert_close(out, twin, atol=0, rtol=0)
