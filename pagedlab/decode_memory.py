"""The memory of decode steps to time: one buffer of K and one of V, cut into pieces or blocks as asked.

All cuts read the same bytes, and a run needs the memory of one cache, whatever the number of block sizes.
What a token holds differs from cut to cut; how much is read, and where the blocks lie, does not depend on it.
torch comes with the first batch, not with the module.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagedlab import _format

if TYPE_CHECKING:
    from torch import Tensor

HND, NHD, BY_HEAD = "HND", "NHD", "HND, a head's blocks together"
IN_ORDER, SHUFFLED, SCATTERED = "in order", "shuffled", "scattered"
"""How the blocks of a table lie: one after the other, at random, each a third of the pool past the last."""
STEP = 1 / 32  # what a number of one byte counts in: normal numbers end at 4
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "float8_e4m3fn": 1}


@dataclass(frozen=True)
class Sizes:
    """A batch of `seqs` sequences of `tokens` tokens each, and the heads of one layer.

    `dtype` is float32, bfloat16 or float16, or int8 or float8_e4m3fn: K and V in one byte with one scale, the
    query in float32 (on a GPU in bfloat16).
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


class Memory:
    """K, V, queries and lengths of `turns` batches of such sizes, side by side.

    `slots` is the number of tokens that the buffers hold, by default enough for blocks of up to 256.
    """

    def __init__(
        self, sizes: Sizes, seed: int = 0, *, slots: int | None = None, on: str = "", turns: int = 1
    ) -> None:
        import torch

        self.sizes, self.device = sizes, on or device()
        self._random = torch.Generator(self.device).manual_seed(seed)
        self.parts = [slice(turn * sizes.seqs, (turn + 1) * sizes.seqs) for turn in range(turns)]
        seqs = turns * sizes.seqs
        # Slots for the widest cut: the last block of a sequence may be part filled.
        slots = slots or seqs * -(-sizes.tokens // 256) * 256
        self.scales = {"k_scale": STEP, "v_scale": STEP} if _BYTES[sizes.dtype] == 1 else {}
        self.key, self.value = (self._stored(slots * sizes.kv_heads * sizes.head_dim) for _ in "KV")
        wide = torch.bfloat16 if self.device == "cuda" else torch.float32
        dtype = wide if self.scales else self.key.dtype
        self.query = self._normal(seqs, sizes.q_heads, sizes.head_dim).to(dtype)
        self.lengths = torch.full((seqs,), sizes.tokens, dtype=torch.int32, device=self.device)

    def table(self, block_size: int, order: str = SHUFFLED) -> Tensor:
        """A block table `[seqs, blocks]` int32 over the first blocks of that size, each used once."""
        import torch

        each = -(-self.sizes.tokens // block_size)
        count = len(self.query) * each
        ids = torch.arange(count, device=self.device)
        if order == SHUFFLED:
            ids = torch.randperm(count, generator=self._random, device=self.device)
        elif order == SCATTERED:
            stride = next(step for step in range(count // 3 + 1, 2 * count + 2) if math.gcd(step, count) == 1)
            ids = ids * stride % count
        return ids.to(torch.int32).view(-1, each)

    def blocks(self, buffer: Tensor, size: int, layout: str = HND) -> Tensor:
        """A buffer cut into blocks of `size` tokens, as a cache `[blocks, size, kv_heads, head_dim]`."""
        heads, dim = self.sizes.kv_heads, self.sizes.head_dim
        blocks = len(buffer) // (size * heads * dim)
        used = buffer[: blocks * size * heads * dim]
        if layout == HND:
            return used.view(blocks, heads, size, dim).transpose(1, 2)
        if layout == BY_HEAD:
            return used.view(heads, blocks, size, dim).permute(1, 2, 0, 3)
        return used.view(blocks, size, heads, dim)

    @property
    def bytes_read(self) -> int:
        """Bytes of K and V that one step must read."""
        return self.sizes.token_bytes * int(self.lengths.sum()) // len(self.parts)

    def used(self) -> list[Tensor]:
        """The part of the buffers that a call reads."""
        used = len(self.parts) * self.bytes_read // 2 // self.key.itemsize
        return [buffer[:used] for buffer in (self.key, self.value)]

    def rows(self, layout: str) -> list[Tensor]:
        """K and V as one piece a sequence, `[seqs, tokens, kv_heads, head_dim]`."""
        return [
            self.blocks(buffer, self.sizes.tokens, layout)[: len(self.query)]
            for buffer in (self.key, self.value)
        ]

    def _normal(self, *shape: int) -> Tensor:
        import torch

        return torch.randn(shape, generator=self._random, device=self.device)

    def _stored(self, count: int) -> Tensor:
        import torch

        from pagedlab_kernels.quantised import quantise

        dtype, numbers = getattr(torch, self.sizes.dtype), self._normal(count)
        return quantise(numbers, dtype, STEP)[0] if self.scales else numbers.to(dtype)
