"""How many bytes of K and V one token takes, by model.

A model is a list of layer groups, because the layers of one model need not be alike: gpt-oss mixes
full attention with sliding windows, DeepSeek keeps one latent vector instead of heads.
The presets are shapes as published; each carries where its numbers were read. A source that was read
only in copies says "as reported by copies of", as everywhere in this package.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from pagedlab._format import near
from pagedlab.inputs import at_least, one_of

_BYTES = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}


def element_bytes(dtype: str) -> float:
    """Bytes of one number of K or V.

    Raises `ValueError` for a dtype that is not one of `fp32`, `fp16`, `bf16`, `fp8`, `int8`, `int4`.

    >>> element_bytes("bf16"), element_bytes("int4")
    (2.0, 0.5)
    """
    return _BYTES[one_of(_BYTES, dtype, "dtype")]


@dataclass(frozen=True)
class LayerGroup:
    """`layers` layers that keep the same K and V for each token.

    Either `kv_heads` heads of `head_dim`, K and V apart, or one `latent` vector of that many numbers
    for both (MLA). With a `window`, only the last `window` tokens are kept.
    """

    layers: int
    kv_heads: int = 0
    head_dim: int = 0
    latent: int = 0
    window: int | None = None

    def __post_init__(self) -> None:
        heads = self.kv_heads > 0 and self.head_dim > 0 and self.latent == 0
        latent = self.latent > 0 and self.kv_heads == 0 and self.head_dim == 0
        if self.layers < 1 or not (heads or latent) or (self.window is not None and self.window < 1):
            raise ValueError(f"layers with K and V heads, or with a latent vector, expected: {self}")

    @property
    def numbers_per_token(self) -> int:
        """Numbers kept for one token in all layers of the group."""
        return self.layers * (self.latent or 2 * self.kv_heads * self.head_dim)


@dataclass(frozen=True)
class ModelShape:
    """The layers of a model that hold K and V, and where the figures come from.

    >>> llama = preset("llama-3.1-8b")
    >>> llama.kv_bytes(1, "bf16") // 1024, "KiB a token"
    (128, 'KiB a token')
    >>> preset("gpt-oss-120b").kv_bytes(131_072, "bf16") / 2**30
    4.50439453125
    """

    layer_groups: tuple[LayerGroup, ...]
    name: str = "custom"
    source: str = "given by the reader"

    def __post_init__(self) -> None:
        if not self.layer_groups:
            raise ValueError("a model shape needs at least one group of layers")

    def kv_bytes(self, tokens: int, dtype: str = "bf16") -> int:
        """Bytes of K and V for one sequence of `tokens` tokens.

        Raises `ValueError` for a negative count, or a dtype that `element_bytes` does not know.
        """
        if tokens < 0:
            raise ValueError(f"tokens must not be negative, got {tokens}")
        bytes_of_one = element_bytes(dtype)
        numbers = sum(g.numbers_per_token * min(tokens, g.window or tokens) for g in self.layer_groups)
        return round(numbers * bytes_of_one)

    def on_rank(self, ranks: int) -> ModelShape:
        """What one of `ranks` tensor-parallel ranks holds: its share of the heads.

        Heads are split evenly; with more ranks than heads each rank holds one, the same as others do,
        and a latent vector is held whole by every rank. Raises `ValueError` where neither number divides
        the other. Source: vLLM's documentation of context parallelism.

        >>> preset("llama-3.1-8b").on_rank(16).kv_bytes(1) * 16 / preset("llama-3.1-8b").kv_bytes(1)
        2.0
        """
        if at_least(1, ranks, "ranks") == 1:
            return self
        for heads in (group.kv_heads for group in self.layer_groups if group.kv_heads):
            if heads % ranks and ranks % heads:
                raise ValueError(f"{heads} KV heads of {self.name} do not split over {ranks} ranks")
        groups = tuple(
            group if group.latent else replace(group, kv_heads=max(1, group.kv_heads // ranks))
            for group in self.layer_groups
        )
        return replace(self, layer_groups=groups, name=f"{self.name}, one of {ranks} ranks")


def _uniform(layers: int, kv_heads: int, head_dim: int) -> tuple[LayerGroup, ...]:
    return (LayerGroup(layers, kv_heads, head_dim),)


_WEIGHTS = {"llama-3.1-8b": (16_060_000_000, "computed", "as figure d9 counts them, bf16")}
_BLOCK_TABLE = "block sizes of the vLLM blog, 2026-01-08"
_PRESETS = {
    shape.name: shape
    for shape in (
        ModelShape(_uniform(32, 32, 128), "llama-2-7b", "config in rasbt's LLMs-from-scratch notebook"),
        ModelShape(_uniform(40, 40, 128), "opt-13b", "as reported by copies of the vLLM paper, section 3"),
        ModelShape(_uniform(32, 8, 128), "llama-3.1-8b", f"vAttention paper's text; {_BLOCK_TABLE}"),
        ModelShape(_uniform(80, 8, 128), "llama-3.1-70b", f"as reported by {_BLOCK_TABLE}, at TP 4"),
        ModelShape(_uniform(126, 8, 128), "llama-3.1-405b", "as reported by copies of the model's config"),
        ModelShape(_uniform(16, 8, 64), "llama-3.2-1b", "config in rasbt's LLMs-from-scratch notebook"),
        ModelShape(_uniform(32, 8, 128), "mistral-7b", _BLOCK_TABLE),
        ModelShape(_uniform(40, 8, 128), "mistral-small-24b", _BLOCK_TABLE),
        ModelShape(_uniform(28, 2, 128), "qwen2.5-1.5b", _BLOCK_TABLE),
        ModelShape(_uniform(36, 2, 128), "qwen2.5-3b", _BLOCK_TABLE),
        ModelShape(_uniform(28, 4, 128), "qwen2.5-7b", _BLOCK_TABLE),
        ModelShape(_uniform(64, 8, 128), "qwen2.5-32b", f"{_BLOCK_TABLE} (distilled model, TP 2)"),
        ModelShape(_uniform(28, 8, 128), "qwen3-0.6b", "config in rasbt's LLMs-from-scratch, qwen3.py"),
        ModelShape(_uniform(36, 8, 128), "qwen3-8b", "config in rasbt's LLMs-from-scratch, qwen3.py"),
        ModelShape(_uniform(40, 8, 128), "qwen3-14b", "config in rasbt's LLMs-from-scratch, qwen3.py"),
        ModelShape(_uniform(64, 8, 128), "qwen3-32b", "config in rasbt's LLMs-from-scratch, qwen3.py"),
        ModelShape(_uniform(94, 4, 128), "qwen3-235b-a22b", "vLLM docs, context parallel; MaxText PR 2710"),
        ModelShape((LayerGroup(60, latent=576),), "deepseek-v2", "config in the model's repository"),
        ModelShape((LayerGroup(61, latent=576),), "deepseek-v3", "config in the model's repository"),
        ModelShape(
            (LayerGroup(18, 8, 64), LayerGroup(18, 8, 64, window=128)),
            "gpt-oss-120b",
            "gpt-oss model.py; vLLM blog, 2025-08-05",
        ),
    )
}


def presets() -> tuple[str, ...]:
    """The names of the shapes that come with the package."""
    return tuple(_PRESETS)


def preset(name: str) -> ModelShape:
    """A published shape by name; raises `KeyError` with the nearest names for one that is not here."""
    try:
        return _PRESETS[name]
    except KeyError:
        raise KeyError(f"no model {name!r} here; {near(name, _PRESETS)}") from None


def weights_of(shape: ModelShape, weight_gb: float | None = None) -> tuple[int, str, str]:
    """Bytes of all weights, their word, and where they come from; `ValueError` when nothing says so."""
    if weight_gb is not None:
        return int(weight_gb * 1e9), "assumed", "given"
    if shape.name in _WEIGHTS:
        return _WEIGHTS[shape.name]
    billions = re.search(r"-(\d+(?:\.\d+)?)b(?:-|$)", shape.name)
    if billions is None:
        raise ValueError(f"how large the weights of {shape.name} are is not known here: give weight_gb")
    size = int(float(billions[1]) * 2e9)
    return size, "assumed", f"{billions[1]} billion parameters by its name, 2 bytes each"
