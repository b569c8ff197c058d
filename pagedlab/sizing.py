"""How many blocks a machine has room for, term by term.

    memory of the GPU * fraction        what the engine may take at all
      - weights                         held for good
      - activations                     the most that one step needs while it runs
      - other                           captured graphs, communication buffers, the rest of the process
      = memory for K and V              divided by the bytes of one block of all layers: blocks

Each rank of a tensor-parallel group comes to a number of its own, and all must use the smallest: they
share one block table. Layers with a sliding window give blocks back, so that a long sequence takes
fewer than its length says; layers that keep a latent vector count its width. Bytes are bytes
everywhere: 80 GB is 80 * 10**9, 80 GiB is 80 * 2**30.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pagedlab.inputs import at_least
from pagedlab.models import LayerGroup, ModelShape, element_bytes

_OFFSETS = 1 << 31  # a signed 32-bit offset stays below this


@dataclass(frozen=True)
class Overflow:
    """Blocks of one layer's cache whose elements a 32-bit offset cannot reach."""

    layers: str
    elements_per_block: int
    first_block: int

    def __str__(self) -> str:
        return (
            f"{self.layers}: {self.elements_per_block:,} elements a block, so block {self.first_block:,} "
            f"and those after it reach element offsets of 2**31 and more: a kernel needs 64-bit offsets"
        )


@dataclass(frozen=True)
class Capacity:
    """The terms (bytes) and what they come to; `capacity` makes it.

    `blocks` are those a manager may hand out; `tokens` is their number of slots. `overflows` lists the
    layers whose cache is too large for 32-bit element offsets, K and V counted as one tensor.
    """

    gpu_bytes: int
    fraction: float
    weight_bytes: int
    activation_bytes: int
    other_bytes: int
    shape: ModelShape
    dtype: str
    block_size: int
    kept_blocks: int

    @property
    def usable_bytes(self) -> int:
        """What the engine may take at all."""
        return int(self.gpu_bytes * self.fraction)

    @property
    def kv_bytes(self) -> int:
        """What is left for K and V; negative when the rest does not fit."""
        return self.usable_bytes - self.weight_bytes - self.activation_bytes - self.other_bytes

    @property
    def block_bytes(self) -> int:
        """One block: `block_size` tokens in every layer."""
        return sum(_group_block_bytes(g, self.block_size, self.dtype) for g in self.shape.layer_groups)

    @property
    def blocks(self) -> int:
        """Whole blocks that fit, less those the engine keeps for itself."""
        return self.kv_bytes // self.block_bytes - self.kept_blocks

    @property
    def tokens(self) -> int:
        """Slots in those blocks. With windows more tokens than this can be in service: see `concurrency`."""
        return self.blocks * self.block_size

    def sequence_bytes(self, tokens: int) -> int:
        """The most that one sequence of up to `tokens` tokens takes, in whole blocks.

        A layer with a window holds the blocks that the window touches: one more than its length says
        when it straddles a boundary.
        """
        at_least(1, tokens, "tokens")
        total = 0
        for group in self.shape.layer_groups:
            held = -(-tokens // self.block_size)
            if group.window is not None:
                held = min(held, -(-(group.window - 1) // self.block_size) + 1)
            total += held * _group_block_bytes(group, self.block_size, self.dtype)
        return total

    def concurrency(self, max_len: int) -> float:
        """How many sequences of `max_len` tokens fit at once, not rounded: 1.5 is one and a half."""
        return self.blocks * self.block_bytes / self.sequence_bytes(max_len)

    @property
    def overflows(self) -> tuple[Overflow, ...]:
        """Layers in whose cache some block lies beyond 32-bit element offsets."""
        found = []
        for group in self.shape.layer_groups:
            elements = self.block_size * group.numbers_per_token // group.layers
            first = _OFFSETS // elements
            if first < self.blocks + self.kept_blocks:
                found.append(Overflow(f"{group.layers} layer(s) of {self.shape.name}", elements, first))
        return tuple(found)

    def terms(self) -> dict[str, int]:
        """The sum, in its order, in bytes: what is taken away is negative, the last entry is the result."""
        return {
            f"GPU memory * {self.fraction:g}": self.usable_bytes,
            "weights": -self.weight_bytes,
            "activations": -self.activation_bytes,
            "other": -self.other_bytes,
            "K and V": self.kv_bytes,
        }


def capacity(
    gpu_bytes: int,
    weight_bytes: int,
    activation_bytes: int,
    fraction: float,
    shape: ModelShape,
    block_size: int = 16,
    *,
    dtype: str = "bf16",
    other_bytes: int = 0,
    kept_blocks: int = 0,
) -> Capacity:
    """What a GPU has room for beside a model, every term named; all sizes in bytes, of one rank.

    `fraction` (0 to 1) of the GPU's memory may be used. `shape` is what one rank holds: see
    `ModelShape.on_rank`. `dtype` is that of K and V. `kept_blocks` are blocks that the engine never
    hands out (vLLM keeps one). Raises `ValueError` with the numbers for a term that cannot be, or when
    not one block fits, `TypeError` for a size that is no whole number, or a shape that is none.

    >>> from pagedlab.models import preset
    >>> h100 = capacity(80 * 10**9, int(16.06e9), 0, 0.9, preset("llama-3.1-8b"))
    >>> h100.blocks, h100.tokens, round(h100.concurrency(131_072), 2)
    (26674, 426784, 3.26)
    """
    sizes = {
        "gpu_bytes": gpu_bytes,
        "weight_bytes": weight_bytes,
        "activation_bytes": activation_bytes,
        "other_bytes": other_bytes,
        "kept_blocks": kept_blocks,
    }
    whole = {name: _whole(0, value, name) for name, value in sizes.items()}
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be above 0 and at most 1, got {fraction}")
    block_size = _whole(1, block_size, "block_size")
    if not isinstance(shape, ModelShape):
        raise TypeError(f"shape must be a ModelShape (`models.preset` has some by name), got {shape!r}")
    found = Capacity(fraction=fraction, shape=shape, dtype=dtype, block_size=block_size, **whole)
    if found.blocks < 1:
        kept = f" beside the {found.kept_blocks:,} kept" if found.kept_blocks else ""
        raise ValueError(
            f"no block fits: of {found.usable_bytes:,} bytes ({found.gpu_bytes:,} * {fraction:g}), weights "
            f"take {found.weight_bytes:,}, activations {found.activation_bytes:,} and the rest "
            f"{found.other_bytes:,}; that leaves {found.kv_bytes:,} for blocks of {found.block_bytes:,}{kept}"
        )
    return found


def agree_on_blocks(counts: Sequence[int]) -> int:
    """The pool that all ranks can use: the smallest of theirs, since they share one block table.

    Raises `ValueError` when there is no rank, or one without a block, `TypeError` for a part of a block.

    >>> agree_on_blocks([2111, 2055])
    2055
    """
    if not len(counts):
        raise ValueError("no rank gave a number of blocks")
    return min(at_least(1, n, f"the number of blocks of rank {rank}") for rank, n in enumerate(counts))


def _whole(least: int, value: Any, name: str) -> int:
    """As `at_least`, but 80e9 is the whole number that it looks like."""
    return at_least(least, int(value) if isinstance(value, float) and value.is_integer() else value, name)


def _group_block_bytes(group: LayerGroup, block_size: int, dtype: str) -> int:
    return -int(-group.numbers_per_token * block_size * element_bytes(dtype) // 1)
