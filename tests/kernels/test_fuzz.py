"""A thousand calls that nobody thought of: each backend agrees with the oracle, or refuses and says why."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from batches import Batch, assert_close, batch

CASES = 1000
DTYPES = [torch.float32] * 4 + [torch.float16] * 3 + [torch.bfloat16] * 3 + [torch.float64]
CACHES = [None] * 7 + [torch.int8] * 3 + [torch.float8_e4m3fn]
HEAD_DIMS = [1, 3, 8, 16, 24, 40, 64, 72, 80, 96, 128, 130, 256]
GROUPS = [1, 1, 2, 3, 4, 5, 7, 8, 16, 64]
BLOCK_SIZES = [1, 2, 3, 4, 5, 8, 16, 32, 48, 128]


@dataclass(frozen=True)
class Case:
    """One call: what `batch` makes, how the table is given, and the options."""

    shape: dict[str, Any]
    form: str  # padded, csr or contiguous
    options: dict[str, Any]

    def batch(self) -> Batch:
        made = batch(**self.shape)
        return replace(made, block_tables=made.csr()) if self.form == "csr" else made

    def call(self, made: Batch, backend: str) -> Any:
        call = made.contiguous if self.form == "contiguous" else made.paged
        return call(backend=backend, return_lse=True, **self.options)


def random_case(number: int) -> Case:
    """Small enough for the interpreter, odd enough for everyone: the same for a number, everywhere."""
    pick = random.Random(number)

    def sometimes(chance: float, value: Any) -> Any:
        return value if pick.random() < chance else None

    block_size = pick.choice(BLOCK_SIZES)
    edges = [0, 1, block_size - 1, block_size, block_size + 1, 2 * min(block_size, 48), 63, 64, 65]
    lengths = [
        pick.choice([*edges, pick.randint(0, 75)]) for _ in range(pick.choice([0, 1, 1, 1, 1, 2, 2, 3]))
    ]
    new = [pick.choice([0, 1, 1, 2, pick.randint(0, min(length, 20) + 9)]) for length in lengths]
    if lengths and pick.random() < 0.03:
        lengths[0] = pick.randint(300, 600)
    head_dim, group = pick.choice(HEAD_DIMS), pick.choice(GROUPS)
    kv_heads = pick.choice([1, 1, 1, 2, 3]) if group < 16 else 1
    cache_dtype = pick.choice(CACHES)
    shape = {
        "lengths": lengths,
        "new": sometimes(0.2, new),
        "heads": (kv_heads * group, kv_heads),
        "head_dim": head_dim,
        "value_dim": sometimes(0.05, pick.choice(HEAD_DIMS)),
        "block_size": block_size,
        "dtype": pick.choice(DTYPES),
        "cache_dtype": cache_dtype,
        "scales": sometimes(0.5, (pick.uniform(0.01, 0.1), pick.uniform(0.01, 0.1))) if cache_dtype else None,
        "layout": pick.choice(["NHD", "HND"]),
        "seed": number,
    }
    options = {
        "scale": sometimes(0.3, pick.uniform(0.1, 1.2) * head_dim**-0.5),
        "window": sometimes(0.3, pick.choice([1, 2, 16, pick.randint(1, 100), 10**6])),
        "softcap": sometimes(0.3, pick.uniform(0.1, 50.0)),
        "num_splits": sometimes(0.1, pick.choice([1, 2, 3, 7])),
    }
    return Case(shape, pick.choice(["padded", "padded", "csr", "contiguous"]), options)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Tensors this small are slower on two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_a_thousand_calls_agree_with_the_oracle_or_are_refused(backend: str) -> None:
    served = 0
    for number in range(CASES):
        case = random_case(number)
        made = case.batch()
        try:
            found = case.call(made, backend)
        except ValueError as refused:
            assert f"{backend} cannot serve this call: " in str(refused), (number, case)
            continue
        served += 1
        try:
            assert_close(found, made.exact(**case.options), case.shape["dtype"])
        except AssertionError as error:
            raise AssertionError(f"case {number}, {case}: {error}") from None
    assert served >= CASES // 2, f"{backend} served {served} of {CASES}"


def test_spoiled_tables_and_lengths_are_refused_or_harmless() -> None:
    """Any int32 anywhere: compiled code never sees what would lead it astray."""
    refused = 0
    for number in range(400):
        pick = random.Random(number)
        case = random_case(number)
        made = case.batch()
        arrays = {"seq_lens": made.seq_lens, "query_starts": made.query_starts}
        tables = vars(made.block_tables) if case.form == "csr" else {"block_tables": made.block_tables}
        arrays |= {name: torch.as_tensor(array) for name, array in tables.items()}
        name = pick.choice(
            [name for name, array in arrays.items() if array is not None and array.numel()] or [""]
        )
        if not name:
            continue
        spoiled, place = arrays[name], pick.randrange(arrays[name].numel())
        here = tuple(int(each) for each in np.unravel_index(place, spoiled.shape))
        old = int(spoiled[here])
        spoiled[here] = pick.choice([-1, 2**31 - 1, -(2**31), pick.randint(-5, 700), min(old, 2**31 - 2) + 1])
        try:
            case.call(made, "auto")
        except (ValueError, IndexError) as error:
            assert str(error).startswith(("block_tables", "seq_lens", "cu_seqlens_q")), (number, error)
            refused += 1
    assert refused > 100
