"""The grids of `tests/cases/kernels.json`: shapes that engines test their kernels on, at their tolerances.

`cpu` and `reference` take every combination whose tensors fit in PAGEDLAB_GRID_MIB (8 unless set) and at
least the eight smallest; lengths that a grid leaves open are short ones. The interpreter takes the first and
the last that are small enough for it. What a grid asks for and the contract lacks is left out: ALiBi, rotary
positions, e5m2, nvfp4, attention that is not causal. Engines compare with the same dtype, here it is float64:
the rounding of the result comes on top of their tolerances.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from batches import TOLERANCE, batch, by_hand

MOST_BYTES = int(os.environ.get("PAGEDLAB_GRID_MIB", "8")) * 2**20
MOST_STEPS = 250  # of the interpreter: tiles of 64 tokens, for each KV head and tile of queries
FILE = Path(__file__).parents[1] / "cases" / "kernels.json"
GRIDS = {grid["id"]: grid for grid in json.loads(FILE.read_text())["grids"]}
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
KV_DTYPES = {"auto": None, "fp16": None, "fp8": torch.float8_e4m3fn, "fp8_e4m3": torch.float8_e4m3fn}
SHORT = [1, 15, 16, 17, 64, 130, 0]  # seven lengths for a grid that names none

Combination = tuple[
    dict[str, Any], dict[str, Any], dict[str, float]
]  # for `batch`, for the kernel, tolerance


def combinations(grid: dict[str, Any]) -> Iterator[Combination]:
    """Every combination of a grid that the contract covers."""
    name, tolerance = grid["id"], grid.get("tolerance")
    dtypes = [DTYPES[each] for each in grid.get("dtypes", ["fp32"])]
    kv_dtypes = [KV_DTYPES[each] for each in grid.get("kv_dtypes", ["auto"]) if each in KV_DTYPES]
    heads = [tuple(each) for each in grid.get("q_kv_heads", [])]
    if name == "g-vllm-decode":
        for head, dim, size, dtype, kv in product(
            heads, grid["head_sizes"], grid["block_sizes"], dtypes, kv_dtypes
        ):
            shape = dict(
                lengths=SHORT, heads=head, head_dim=dim, block_size=size, dtype=dtype, cache_dtype=kv
            )
            yield shape | {"num_blocks": grid["num_blocks"]}, {}, grid["tolerance_fp8"] if kv else tolerance
    elif name in ("g-vllm-triton-unified", "g-vllm-flash"):
        pairs = GRIDS["g-vllm-triton-unified"]["query_kv_lens"]
        caps = grid.get("soft_caps", [None])
        for number, (pair, head, dim, window, cap) in enumerate(
            product(pairs, heads, grid["head_sizes"], grid["windows"], caps)
        ):
            new, lengths = (list(each) for each in zip(*pair, strict=True))
            shape = dict(lengths=lengths, new=new, heads=head, head_dim=dim, dtype=dtypes[0])
            blocks = grid["num_blocks"][number % 2]
            yield shape | {"num_blocks": blocks}, {"window": window, "softcap": cap}, tolerance
    elif name == "g-vllm-triton-decode":
        for seqs, head, (key, value), size in product(
            grid["seqs"], heads, product((128, 192, 576), (128, 512)), grid["page_sizes"]
        ):
            shape = dict(lengths=[grid["kv_len"][0]] * seqs, heads=head, head_dim=key, value_dim=value)
            blocks = grid["cache_tokens"] // size
            allclose = {"atol": 1e-8, "rtol": 1e-5}  # torch.allclose's defaults, here against float64
            yield shape | {"block_size": size, "num_blocks": blocks}, {}, allclose | {"atol": 2e-6}
    elif name == "g-vllm-prefix-prefill":
        q_heads, long = grid["q_heads"], dict(lengths=[130, 37, 300], new=[100, 1, 20])
        for group, dim, dtype, kv, window in product(
            grid["group_sizes"], grid["head_sizes"], dtypes, kv_dtypes, grid["windows"]
        ):
            shape = long | dict(heads=(q_heads, q_heads // group), head_dim=dim, dtype=dtype, cache_dtype=kv)
            yield shape, {"window": window or None}, grid["tolerance_fp8"] if kv else tolerance
        for many, group, dim, size in grid["odd_block_sizes"]:
            shape = dict(lengths=[size + 1, 30], new=[20, 1], heads=(many, many // group), head_dim=dim)
            yield shape | {"block_size": size, "dtype": torch.float16}, {}, tolerance
    elif name == "g-vllm-flashinfer":
        for lengths, head, dim, size, cap, window in product(
            grid["kv_lens"],
            heads,
            grid["head_sizes"],
            grid["block_sizes"],
            grid["soft_caps"],
            grid["windows"],
        ):
            shape = dict(lengths=lengths, heads=head, head_dim=dim, block_size=size, dtype=dtypes[0])
            blocks = grid["num_blocks"]
            yield shape | {"num_blocks": blocks}, {"softcap": cap, "window": window}, grid["tolerance_decode"]
    elif name == "g-flashinfer-decode":
        for seqs, length, size, head, dim, kv in product(
            grid["seqs"], grid["kv_len"], grid["page_sizes"], heads, grid["head_dims"], kv_dtypes
        ):
            shape = dict(lengths=[length] * seqs, heads=head, head_dim=dim, block_size=size)
            yield shape | {"dtype": dtypes[0], "cache_dtype": kv}, {}, tolerance
    elif name == "g-flashinfer-prefill":
        for seqs, length, new, size, head, dim in product(
            grid["seqs"], grid["kv_len"], grid["q_len"], grid["page_sizes"], heads, grid["head_dims"]
        ):
            shape = dict(lengths=[length] * seqs, new=[new] * seqs, heads=head, head_dim=dim, block_size=size)
            yield shape | {"dtype": dtypes[0]}, {}, tolerance


def size(shape: dict[str, Any]) -> int:
    """Bytes of the query and of K and V, as they are stored and as float64 beside it."""
    kv = (
        sum(shape["lengths"])
        * shape["heads"][1]
        * (shape["head_dim"] + shape.get("value_dim", shape["head_dim"]))
    )
    return 8 * (sum(shape.get("new", shape["lengths"][:1])) * shape["heads"][0] * shape["head_dim"] + kv)


def steps(shape: dict[str, Any]) -> int:
    """How many tiles the interpreter works through, about."""
    group = max(16, shape["heads"][0] // shape["heads"][1])
    new = shape.get("new", [1] * len(shape["lengths"]))
    return shape["heads"][1] * sum(
        (1 + count * group // 64) * (1 + length // 64)
        for count, length in zip(new, shape["lengths"], strict=True)
    )


ATTENTION = [name for name in GRIDS if name not in ("g-vllm-cache-write", "g-torch-paged")]


def check(combination: Combination, backends: list[str]) -> int:
    """Run one combination on each backend that serves it; return on how many that was."""
    shape, options, tolerance = combination
    made = batch(**{name: value for name, value in shape.items() if value is not None})
    exact = by_hand(made, **options)
    served = 0
    for backend in backends:
        try:
            out, lse = made.paged(backend=backend, return_lse=True, **options)
        except ValueError as refused:
            assert f"{backend} cannot serve this call" in str(refused)
            continue
        rtol = max(tolerance["rtol"], TOLERANCE[out.dtype][1])
        torch.testing.assert_close(
            out.double(), torch.from_numpy(exact[0]), atol=tolerance["atol"], rtol=rtol
        )
        torch.testing.assert_close(lse.double(), torch.from_numpy(exact[1]), atol=1e-4, rtol=1e-4)
        served += 1
    return served


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTENTION)
def test_cpu_and_reference_on_all_that_fits(name: str) -> None:
    by_size = sorted(combinations(GRIDS[name]), key=lambda combination: size(combination[0]))
    fitting = [combination for combination in by_size if size(combination[0]) <= MOST_BYTES]
    for number, combination in enumerate(fitting if len(fitting) >= 8 else by_size[:8]):
        shape = combination[0] | {"layout": ["NHD", "HND"][number % 2], "seed": number}
        assert check((shape, *combination[1:]), ["reference", "cpu"]) >= 1


@pytest.mark.slow
@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("name", [name for name in ATTENTION if name != "g-vllm-triton-decode"])
def test_interpreter_on_a_thin_subset(name: str) -> None:
    """MLA's unlike heads are the reference's alone, and its grid with them."""
    small = [each for each in combinations(GRIDS[name]) if steps(each[0]) <= MOST_STEPS]
    for combination in (small[0], small[-1]):
        assert check(combination, ["triton"]) == 1


def test_every_behaviour_of_the_file_has_its_test() -> None:
    tests = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*.py"))
    assert [
        each["id"] for each in json.loads(FILE.read_text())["behaviours"] if each["id"] not in tests
    ] == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_error_is_the_unpaged_references_own(backend: str, dtype: torch.dtype) -> None:
    """g-torch-paged: against float64 at most 1.1 times that of the unpaged reference in the same dtype."""
    grid = GRIDS["g-torch-paged"]
    lengths = [grid["max_len"], 300, 129, 1]
    sizes = dict(block_size=grid["page_size"], heads=(grid["heads"],) * 2, head_dim=grid["head_dim"])
    for heads in (sizes["heads"], (8, 2)):
        made = batch(lengths, dtype=dtype, **sizes | {"heads": heads})
        exact = torch.from_numpy(by_hand(made)[0])
        paged, unpaged = (
            (out.double() - exact).abs()
            for out in (made.paged(backend=backend), made.contiguous(backend="reference"))
        )
        if dtype == torch.float32:
            assert paged.max() <= 2e-6
        else:
            assert paged.max() <= 1.1 * unpaged.max() and paged.norm() <= 1.1 * unpaged.norm()
