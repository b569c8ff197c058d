"""Full or slow: the two walls that a decoding GPU meets, and what moves each of them.

    memory      how many tokens of K and V fit beside the weights
    bandwidth   each step reads all weights once, and all K and V of every sequence

        tokens a second = n / ((weights + n * K and V of a sequence) / bandwidth)        n sequences

The curve rises while the weights are shared by more sequences, and flattens where K and V are most of what
is read; paging moves the reader along the curve, fewer bytes for a token lift it. Only reading is counted, at
the published bandwidth: beyond some hundreds of sequences arithmetic is the limit, and the curve too high.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from pagedlab.gpus import Gpu
from pagedlab.models import LayerGroup, ModelShape
from pagedlab.sizing import Capacity, capacity

FRACTION = 0.9
"""Of the memory, as engines take it by default."""
LATENT = 576
"""Numbers that DeepSeek's latent attention keeps of a token in each layer."""


@dataclass(frozen=True)
class Walls:
    """A model on `ranks` GPUs of one kind, K and V in `dtype`, `context` tokens in each sequence.

    `shape` and `weight_bytes` are those of the whole model. Raises `ValueError` with the numbers when not one
    block fits beside the weights, or when the heads do not split over the ranks.

    >>> from pagedlab import gpus, models
    >>> walls = Walls(gpus.named("h100-sxm"), models.preset("llama-3.1-8b"), 16_060_000_000, context=1024)
    >>> walls.capacity.tokens, round(walls.sequences), round(walls.tokens_per_s(1)), round(walls.most_per_s)
    (426784, 417, 207, 24959)
    """

    gpu: Gpu
    shape: ModelShape
    weight_bytes: int
    dtype: str = "bf16"
    context: int = 1024
    ranks: int = 1

    def __post_init__(self) -> None:
        _ = self.capacity  # says what is wrong

    @cached_property
    def rank(self) -> ModelShape:
        """What one GPU holds of each token."""
        return self.shape.on_rank(self.ranks)

    @cached_property
    def capacity(self) -> Capacity:
        """What one GPU has room for, in blocks of 16."""
        weights = -(-self.weight_bytes // self.ranks)
        return capacity(self.gpu.capacity_bytes, weights, 0, FRACTION, self.rank, dtype=self.dtype)

    @property
    def sequences(self) -> float:
        """Sequences of `context` tokens that fit at once: the wall of memory."""
        return self.capacity.concurrency(self.context)

    @property
    def weights_s(self) -> float:
        """Seconds of a step to read the weights."""
        return self.capacity.weight_bytes / self.gpu.bandwidth_bytes_s

    @property
    def kv_s(self) -> float:
        """Seconds of a step to read K and V of one sequence."""
        return self.rank.kv_bytes(self.context, self.dtype) / self.gpu.bandwidth_bytes_s

    def tokens_per_s(self, sequences: float) -> float:
        """Tokens a second of so many sequences, each one token a step."""
        return sequences / (self.weights_s + sequences * self.kv_s)

    @property
    def most_per_s(self) -> float:
        """What the curve tends to, however many sequences: the wall of bandwidth."""
        return 1 / self.kv_s

    def reserving(self, slots: int) -> float:
        """Sequences that fit when each sets `slots` tokens aside."""
        return self.capacity.concurrency(slots)


def with_heads(shape: ModelShape, kv_heads: int) -> ModelShape:
    """The same model with so many KV heads in every layer; 0: one latent vector of `LATENT` numbers."""
    if kv_heads:
        groups = (replace(group, kv_heads=kv_heads) for group in shape.layer_groups)
    else:
        groups = (LayerGroup(each.layers, latent=LATENT, window=each.window) for each in shape.layer_groups)
    return replace(shape, layer_groups=tuple(groups), source=f"{shape.source}; KV heads changed")


def with_window(shape: ModelShape, window: int) -> ModelShape:
    """The same model, every layer looking at `window` tokens only."""
    groups = tuple(replace(group, window=window) for group in shape.layer_groups)
    return replace(shape, layer_groups=groups, source=f"{shape.source}; window set")
