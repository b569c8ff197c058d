"""The sizes of a run of `pagedlab bench`, and what they may be on this machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pagedlab import _format, machine
from pagedlab.decoding import Sizes


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
            if not 1 <= value < 1 << 31:
                raise ValueError(f"{name}={value}: must be 1 to 2**31 - 1")
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed={self.seed}: must be 0 to 2**63 - 1")
        if self.q_heads % self.kv_heads:
            raise ValueError(f"q_heads={self.q_heads}: must be a multiple of kv_heads={self.kv_heads}")
        if (
            not self.block_sizes
            or min(self.block_sizes) < 1
            or len(set(self.block_sizes)) < len(self.block_sizes)
        ):
            raise ValueError(f"block_sizes={list(self.block_sizes)}: must be different numbers, at least 1")
        if self.threads > (cores := machine.usable_cores()):
            raise ValueError(f"threads={self.threads}: this process may use {cores} cores")
        memory = machine.memory()
        needed = self.buffer_bytes + 8 * self.seqs * self.q_heads * self.head_dim
        if memory and needed > memory // 2:
            raise ValueError(
                f"these sizes need {_format.size(needed)} for Q, K, V and the output, more than half of this "
                f"machine's {_format.size(memory)}: ask for fewer or shorter sequences, or fewer heads"
            )

    @property
    def batch(self) -> Sizes:
        """The batch without how it is run."""
        return Sizes(self.seqs, self.tokens, self.kv_heads, self.q_heads, self.head_dim)

    @property
    def slots(self) -> int:
        """Tokens that the buffer holds: the last block of a sequence may be part-filled."""
        return self.seqs * max(math.ceil(self.tokens / size) * size for size in (1, *self.block_sizes))

    @property
    def buffer_bytes(self) -> int:
        return self.slots * self.batch.token_bytes
