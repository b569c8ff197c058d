"""Decode steps to time: every way of laying out one batch, over one buffer of K and one of V.

    contiguous        a piece for each sequence, no table
    paged B           blocks of B tokens; the buffer is cut anew for each B, so all read the same bytes
    read              adds up every element and does nothing else: the best that memory allows

Each in two layouts. In HND a head's tokens are neighbours (in a block, or in the whole piece), in NHD a
token's heads are; contiguous NHD is itself slow on a CPU, so a paged time means nothing unless its twin is
named. The device is the GPU where there is one, else the CPU. torch comes with the first batch, not with
the module.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagedlab import _format, timing
from pagedlab.comparison import COLD, FEWEST_ROUNDS, Comparison
from pagedlab.timing import Case
from pagedlab_kernels import backends, contiguous_attention, paged_attention

if TYPE_CHECKING:
    from torch import Tensor

HND, NHD = "HND", "NHD"
TWIN, READER = "contiguous", "read"
IN_ORDER, SHUFFLED, SCATTERED = "in order", "shuffled", "scattered"
"""How the blocks of a table lie: one after the other, at random, each a third of the pool past the last."""
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}
_FILL_S = 0.005  # a sample of warm calls
_STEP = 1 / 32  # of int8: normal numbers end at 4


@dataclass(frozen=True)
class Sizes:
    """A batch of `seqs` sequences of `tokens` tokens each, and the heads of one layer.

    `dtype` is float32, bfloat16, float16, or int8: K and V in one byte with one scale, the query in float32.
    """

    seqs: int
    tokens: int
    kv_heads: int = 4
    q_heads: int = 16
    head_dim: int = 128
    dtype: str = "float32"

    @property
    def token_bytes(self) -> int:
        """Bytes of K and V that one token takes in this layer."""
        return 2 * self.kv_heads * self.head_dim * _BYTES[self.dtype]

    @property
    def bytes_read(self) -> int:
        """Bytes of K and V that one step must read."""
        return self.seqs * self.tokens * self.token_bytes

    def __str__(self) -> str:
        return (
            f"one decode step, one layer: {self.seqs} sequences x {self.tokens:,} tokens, {self.q_heads} "
            f"query and {self.kv_heads} KV heads of {self.head_dim}, {self.dtype}, "
            f"{_format.size(self.bytes_read)} of K and V"
        )


def device() -> str:
    """Where kernels are timed: "cuda" where torch can use a GPU, else "cpu"."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def kernel_for(device: str) -> str:
    """The fastest backend there whose times mean something.

    >>> kernel_for("cpu") in ("cpu", "reference")
    True
    """
    return next(
        backend.name
        for backend in backends()
        if backend.available and backend.for_speed and backend.runs_on in (device, "any device")
    )


def clock_for(device: str) -> timing.Clock:
    """What times work on one thread, or on a GPU."""
    if device == "cuda":
        return timing.CudaClock()
    return timing.HostClock() if sys.platform == "win32" else timing.CpuTimeClock()


class Decode:
    """One batch in memory, and cases of `timing.compare` over it.

    >>> decode = Decode(Sizes(seqs=2, tokens=40, kv_heads=1, q_heads=2, head_dim=16))
    >>> result = decode.compare([decode.twin(), decode.paged(16), decode.reader()], rounds=3)
    >>> [timing.name for timing in result.timings], result.limit
    (['contiguous', 'paged 16', 'read'], 'read')
    """

    def __init__(self, sizes: Sizes, seed: int = 0) -> None:
        import torch

        self.sizes, self.device = sizes, device()
        self.kernel = kernel_for(self.device)
        self._random = torch.Generator().manual_seed(seed)
        # Slots for the widest cut: the last block of a sequence may be part filled.
        slots = sizes.seqs * -(-sizes.tokens // 256) * 256
        self._scales = {"k_scale": _STEP, "v_scale": _STEP} if sizes.dtype == "int8" else {}
        self.key, self.value = (
            self._stored(self._normal(slots * sizes.kv_heads * sizes.head_dim)) for _ in "KV"
        )
        dtype = torch.float32 if self._scales else getattr(torch, sizes.dtype)
        self.query = self._normal(sizes.seqs, sizes.q_heads, sizes.head_dim).to(dtype)
        self.lengths = torch.full((sizes.seqs,), sizes.tokens, dtype=torch.int32, device=self.device)

    def twin(self, layout: str = HND, name: str = TWIN) -> Case:
        """Attention over one contiguous piece a sequence."""
        rows = [
            self.blocks(buffer, self.sizes.tokens, layout)[: self.sizes.seqs]
            for buffer in (self.key, self.value)
        ]
        return self._case(name, f"{layout}, one piece", contiguous_attention, *rows, self.lengths)

    def paged(self, block_size: int, order: str = SHUFFLED, layout: str = HND, name: str = "") -> Case:
        """Attention over blocks of `block_size` tokens that lie in such an order."""
        blocks = [self.blocks(buffer, block_size, layout) for buffer in (self.key, self.value)]
        table = self.table(block_size, order)
        return self._case(
            name or f"paged {block_size}",
            f"{layout}, blocks {order}",
            paged_attention,
            *blocks,
            table,
            self.lengths,
        )

    def reader(self) -> Case:
        """Read the bytes that a step needs, and nothing more."""
        used = self.sizes.bytes_read // 2 // self.key.itemsize
        parts = [buffer[:used] for buffer in (self.key, self.value)]
        if self.device == "cpu":
            from pagedlab_kernels.cpu import stream_read

            return Case(READER, lambda: stream_read(*parts), "as it lies", self.sizes.bytes_read)
        return Case(READER, lambda: [part.sum() for part in parts], "as it lies", self.sizes.bytes_read)

    def table(self, block_size: int, order: str = SHUFFLED) -> Tensor:
        """A block table `[seqs, blocks]` int32 over the first blocks of that size, each used once."""
        import torch

        each = -(-self.sizes.tokens // block_size)
        count = self.sizes.seqs * each
        ids = torch.arange(count)
        if order == SHUFFLED:
            ids = torch.randperm(count, generator=self._random)
        elif order == SCATTERED:
            stride = next(step for step in range(count // 3 + 1, 2 * count + 2) if math.gcd(step, count) == 1)
            ids = ids * stride % count
        return ids.to(torch.int32).view(self.sizes.seqs, each).to(self.device)

    def blocks(self, buffer: Tensor, size: int, layout: str = HND) -> Tensor:
        """A buffer cut into blocks of `size` tokens, as a cache `[blocks, size, kv_heads, head_dim]`."""
        heads, dim = self.sizes.kv_heads, self.sizes.head_dim
        blocks = len(buffer) // (size * heads * dim)
        used = buffer[: blocks * size * heads * dim]
        if layout == HND:
            return used.view(blocks, heads, size, dim).transpose(1, 2)
        return used.view(blocks, size, heads, dim)

    def compare(
        self,
        cases: Iterable[Case],
        *,
        caches: str = COLD,
        rounds: int = FEWEST_ROUNDS,
        seed: int = 0,
        what: str = "",
        should_stop: Callable[[], bool] | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Comparison:
        """Time such cases; the first is the baseline, the reader the limit.

        On a CPU one thread does the work and its CPU time counts, so that a machine with other things to do
        comes to the same ratios.
        """
        import torch

        listed = list(cases)
        threads_before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return timing.compare(
                listed,
                limit=READER if any(case.name == READER for case in listed) else None,
                caches=caches,
                what=f"{what or self.sizes}; kernel: {self.kernel}",
                repeats=rounds,
                min_time=_FILL_S,
                seed=seed,
                clock=clock_for(self.device),
                should_stop=should_stop,
                progress=progress,
            )
        finally:
            torch.set_num_threads(threads_before)

    def _case(self, name: str, layout: str, attend: Callable[..., Any], *data: Tensor) -> Case:
        attend(self.query, *data, backend=self.kernel, **self._scales)  # checked once; timed without

        def call() -> Any:
            return attend(self.query, *data, backend=self.kernel, check=False, **self._scales)

        return Case(name, call, layout, self.sizes.bytes_read)

    def _normal(self, *shape: int) -> Tensor:
        import torch

        return torch.randn(shape, generator=self._random).to(self.device)

    def _stored(self, numbers: Tensor) -> Tensor:
        import torch

        from pagedlab_kernels.quantised import quantise

        dtype = getattr(torch, self.sizes.dtype)
        return quantise(numbers, dtype, _STEP)[0] if self._scales else numbers.to(dtype)
