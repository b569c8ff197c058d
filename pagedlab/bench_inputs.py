"""What `pagedlab bench` times: one buffer of K, one of V, and every case's view of them.

    contiguous   block = sequence     [seqs, kv_heads, tokens, head_dim]
    paged B      shuffled blocks      [blocks, kv_heads, B, head_dim], the buffer cut anew for each B
    sdpa         torch, as contiguous
    read         sums every element and does nothing else: the best that memory allows

So the whole run needs the memory of one cache, whatever the number of block sizes, and all cases read the
same bytes. What a token holds differs from cut to cut; how much is read, and where the blocks lie, does not
depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pagedlab import _format, machine
from pagedlab_kernels import contiguous_attention, paged_attention

if TYPE_CHECKING:
    import torch

TWIN, TORCH = "contiguous", "sdpa"
TOLERANCE = 1e-4
CHECKED = 2  # sequences whose answers are compared with float64; more would need more memory


@dataclass(frozen=True)
class Settings:
    """The sizes of one run: `seqs` sequences of `tokens` tokens each, fp32, every kernel on `threads`
    threads."""

    seqs: int = 16
    tokens: int = 2048
    kv_heads: int = 8
    q_heads: int = 32
    head_dim: int = 128
    block_sizes: tuple[int, ...] = (1, 8, 16, 32, 128)
    threads: int = field(default_factory=lambda: min(2, machine.usable_cores()))
    rounds: int = 25
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("seqs", "tokens", "kv_heads", "q_heads", "head_dim", "threads", "rounds"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"{name}={value}: must be at least 1")
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed={self.seed}: must be 0 to 2**63 - 1")
        if self.q_heads % self.kv_heads:
            raise ValueError(f"q_heads={self.q_heads}: must be a multiple of kv_heads={self.kv_heads}")
        if (
            not self.block_sizes
            or min(self.block_sizes) < 1
            or len(set(self.block_sizes)) < len(self.block_sizes)
        ):
            raise ValueError(
                f"block_sizes={list(self.block_sizes)}: must be different whole numbers, at least 1"
            )
        if self.threads > (cores := machine.usable_cores()):
            raise ValueError(f"threads={self.threads}: this process may use {cores} cores")
        memory = machine.memory()
        if memory and self.buffer_bytes > memory // 2:
            raise ValueError(
                f"these sizes need {_format.size(self.buffer_bytes)} for K and V, more than half of this "
                f"machine's {_format.size(memory)}: ask for fewer or shorter sequences"
            )

    @property
    def bytes_read(self) -> int:
        """Bytes of K and V that one call must read."""
        return 2 * 4 * self.seqs * self.tokens * self.kv_heads * self.head_dim

    @property
    def slots(self) -> int:
        """Tokens that the buffer holds: the last block of a sequence may be part-filled."""
        return self.seqs * max(math.ceil(self.tokens / size) * size for size in (1, *self.block_sizes))

    @property
    def buffer_bytes(self) -> int:
        return 2 * 4 * self.slots * self.kv_heads * self.head_dim


class Inputs:
    """One buffer of K, one of V, and every case's view of them."""

    def __init__(self, settings: Settings) -> None:
        import torch

        self.settings, s = settings, settings
        source = torch.Generator().manual_seed(s.seed)
        self.key, self.value = (
            torch.randn(s.slots * s.kv_heads * s.head_dim, generator=source) for _ in range(2)
        )
        self.query = torch.randn(s.seqs, s.q_heads, s.head_dim, generator=source)
        self.lengths = torch.full((s.seqs,), s.tokens, dtype=torch.int32)
        self.rows = [self.cut(buffer, s.seqs, s.tokens) for buffer in (self.key, self.value)]
        self.used = tuple(buffer[: s.bytes_read // 8] for buffer in (self.key, self.value))
        self.tables = {size: self._table(size, source) for size in s.block_sizes}

    def cut(self, buffer: torch.Tensor, blocks: int, size: int) -> torch.Tensor:
        """The first blocks of a buffer as a head-major cache, `[blocks, size, kv_heads, head_dim]`."""
        s = self.settings
        used = buffer[: blocks * s.kv_heads * size * s.head_dim]
        return used.view(blocks, s.kv_heads, size, s.head_dim).permute(0, 2, 1, 3)

    def _table(self, size: int, source: torch.Generator) -> torch.Tensor:
        """Every block of the cut once, in random order: `[seqs, blocks per sequence]` int32."""
        import torch

        each = math.ceil(self.settings.tokens / size)
        order = torch.randperm(self.settings.seqs * each, generator=source)
        return order.to(torch.int32).view(self.settings.seqs, each)

    def paged(self, size: int) -> Callable[[], Any]:
        """A call of the paged kernel over the cut with blocks of `size` tokens."""
        table = self.tables[size]
        key, value = (self.cut(buffer, table.numel(), size) for buffer in (self.key, self.value))
        return lambda: paged_attention(
            self.query, key, value, table, self.lengths, backend="cpu", check=False
        )

    def twin(self) -> Any:
        key, value = self.rows
        return contiguous_attention(self.query, key, value, self.lengths, backend="cpu", check=False)

    def sdpa(self) -> torch.Tensor:
        """torch's attention, with the query heads of a group as rows of one query: its fastest way here."""
        from torch.nn.functional import scaled_dot_product_attention

        key, value = (rows.permute(0, 2, 1, 3) for rows in self.rows)
        grouped = self.query.view(self.settings.seqs, self.settings.kv_heads, -1, self.settings.head_dim)
        return scaled_dot_product_attention(grouped, key, value).view_as(self.query)

    def read(self) -> float:
        from pagedlab_kernels.cpu import stream_read

        return stream_read(*self.used)

    def check(self) -> dict[str, float]:
        """Each kernel's largest error on the first sequences; raises ArithmeticError past TOLERANCE."""
        import torch

        answers = {TWIN: self.twin(), TORCH: self.sdpa()}
        errors = {name: self._error(answer, *self.rows) for name, answer in answers.items()}
        for size in self.settings.block_sizes:
            table = self.tables[size]
            caches = (self.cut(buffer, table.numel(), size) for buffer in (self.key, self.value))
            # Gathered with torch's own indexing, so that the answer does not share the kernel's look-up.
            key, value = (
                torch.stack([cache[ids.long()].flatten(0, 1) for ids in table[:CHECKED]]) for cache in caches
            )
            errors[f"paged {size}"] = self._error(self.paged(size)(), key, value)
        for name, error in errors.items():
            if not error <= TOLERANCE:
                raise ArithmeticError(
                    f"{name} is off by {error:.1e} from the float64 answer, more than {TOLERANCE}"
                )
        return errors

    def _error(self, answer: Any, keys: torch.Tensor, values: torch.Tensor) -> float:
        query, keys, values = (tensor[:CHECKED].double() for tensor in (self.query, keys, values))
        exact: Any = contiguous_attention(query, keys, values, self.lengths[:CHECKED], backend="reference")
        return float((answer[:CHECKED] - exact).abs().max())
