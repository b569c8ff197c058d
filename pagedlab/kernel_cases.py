"""Small attention calls to look into, and their traces: live where Triton is, else as they were recorded.

A case is a call that needs no data: its numbers come from a seed, and its twin and every layout hold the
same ones. Recordings lie in one file, beside the hash of the kernels they were made with; when a kernel
changes they are made anew with `python -m pagedlab.kernel_cases`.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pagedlab_kernels import Trace

RECORDED = Path(__file__).parent / "data" / "kernel_traces.json.gz"
# Variables of the kernels that the stepper shows.
REMEDY = "python -m pagedlab.kernel_cases"
VALUES = ("tile", "block", "slot", "score", "top", "shrink", "share", "total", "part_lse", "weight", "result")


@dataclass(frozen=True)
class KernelCase:
    """A decode step of one sequence: its newest token attends to all that is cached."""

    length: int = 150  # tokens
    block_size: int | None = 16  # tokens in a block; None: the contiguous twin
    layout: str = "NHD"
    order: str = "shuffled"  # of the blocks in the pool, or "sequential"
    kv_heads: int = 2
    group: int = 2  # query heads of each KV head
    head_dim: int = 16
    dtype: str = "float32"
    num_splits: int = 1
    spare: int = 2  # blocks of the pool that hold other tokens
    seed: int = 0

    @property
    def kernel(self) -> str:
        """The public call that serves it."""
        return "paged_attention" if self.block_size else "contiguous_attention"

    @property
    def table(self) -> tuple[int, ...]:
        """The blocks of the sequence, in token order; a contiguous case has none."""
        if self.block_size is None:
            return ()
        count = -(-self.length // self.block_size)
        ids = np.arange(count + self.spare)
        if self.order == "shuffled":
            np.random.default_rng(self.seed).shuffle(ids)
        return tuple(map(int, ids[:count]))

    def call(self, table: Sequence[int] | None = None) -> tuple[str, list[Any], dict[str, Any]]:
        """The name of the kernel call, its arguments and its options.

        `table` is what the kernel is told instead of `self.table`; the tokens stay where they are.
        """
        import torch

        from pagedlab.cache import PagedKVCache

        source = torch.Generator().manual_seed(self.seed)

        def numbers(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=source).to(getattr(torch, self.dtype))

        query = numbers(1, self.kv_heads * self.group, self.head_dim)
        keys, values = (numbers(self.length, self.kv_heads, self.head_dim) for _ in "KV")
        # The twin is a pool of one block: same layout, same numbers.
        size, blocks = self.block_size or self.length, len(self.table) + self.spare if self.block_size else 1
        pool = PagedKVCache(blocks, size, *keys.shape[1:], dtype=keys.dtype, layout=self.layout)
        for tensor in (pool.key, pool.value):
            tensor.copy_(numbers(*tensor.shape))
        token = np.arange(self.length)
        home = np.array(self.table or (0,), dtype=np.int64)
        pool.write(keys, values, (home[token // size] * size + token % size).tolist())
        arguments = [query, pool.key, pool.value]
        if self.block_size:
            told = self.table if table is None else table
            arguments.append(torch.tensor([list(told)], dtype=torch.int32))
        arguments.append(torch.tensor([self.length], dtype=torch.int32))
        return self.kernel, arguments, {"num_splits": self.num_splits, "check": False}


STEPPED = KernelCase()
LAID_OUT = KernelCase(length=128, kv_heads=4, group=4, head_dim=64, dtype="float16")
CASES = {
    "paged": STEPPED,
    "contiguous": replace(STEPPED, block_size=None),
    "paged, 3 splits": replace(STEPPED, num_splits=3),
    "contiguous, 3 splits": replace(STEPPED, block_size=None, num_splits=3),
    **{
        f"{f'block {size}' if size else 'contiguous'}, {layout}": replace(
            LAID_OUT, block_size=size, layout=layout
        )
        for size in (1, 4, 16, 64, None)
        for layout in ("NHD", "HND")
    },
}
"""The cases whose traces are recorded: some to step through with values, and one read in every layout."""
LAYOUTS = tuple(name for name, case in CASES.items() if case.head_dim == LAID_OUT.head_dim)
"""The names of the latter."""


def live() -> bool:
    """Whether kernels can be traced on this machine."""
    return importlib.util.find_spec("triton") is not None


def trace(
    case: KernelCase,
    *,
    table: Sequence[int] | None = None,
    source: str | None = None,
    values: Sequence[str] = VALUES,
) -> Trace:
    """What the kernels do in a case for KV head 0: in all its splits, and where they are merged.

    `table` and `source` are what a reader changed: the block table that the kernel is told, and the text of
    the kernels. Without Triton, a case of `CASES` as it stands is answered by its recording, which says so in
    `recorded`.

    Raises ModuleNotFoundError where a case can neither be traced nor is recorded.
    """
    if live():
        from pagedlab_kernels import address_trace

        call, arguments, options = case.call(table)
        # The attention counts its programs by (sequence, KV head, split), the merge by (query head, piece).
        programs = [(0, 0, split) for split in range(case.num_splits)]
        programs += [(head, 0, 0) for head in range(1, case.group)]
        return address_trace(call, *arguments, values=values, programs=programs, source=source, **options)
    for name, known in CASES.items():
        if case == known and source is None and table in (None, case.table):
            return recorded(name)
    reason = "triton is not installed, and of the kernels' traces only CASES, unchanged, are recorded"
    raise ModuleNotFoundError(reason, name="triton")


def recorded(name: str) -> Trace:
    """The recorded trace of a case of `CASES`.

    Raises KeyError for another name, ValueError when the kernels are no longer those that were recorded.

    >>> recorded("paged").recorded
    'recorded with triton ...'
    """
    from pagedlab_kernels import Trace, kernel_hash, kernel_source

    kept = _read()
    if kept["kernels"] != kernel_hash():
        raise ValueError(f"the kernels have changed since {RECORDED.name} was recorded: {REMEDY}")
    how = f"recorded with triton {kept['triton']}"
    return Trace.of(CASES[name].kernel, kernel_source(), kept["traces"][name], recorded=how)


def record() -> dict[str, Any]:
    """Trace every case and return what the file of recordings holds."""
    from importlib.metadata import version

    from pagedlab_kernels import kernel_hash

    traces = {}
    for name, case in CASES.items():
        done = trace(case, values=VALUES if case.head_dim == STEPPED.head_dim else ())
        if done.failure or done.strays:
            raise RuntimeError(f"{name}: {done.failure or done.strays[0]}")
        traces[name] = done.answers
    return {"kernels": kernel_hash(), "triton": version("triton"), "traces": traces}


@cache
def _read() -> dict[str, Any]:
    return json.loads(gzip.decompress(RECORDED.read_bytes()))


if __name__ == "__main__":
    RECORDED.write_bytes(gzip.compress(json.dumps(record()).encode(), mtime=0))
