"""What three engines call their settings, which values they take, and in which version that was read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from pagedlab.gpus import Gpu
from pagedlab.models import ModelShape

ENGINES = ("vllm", "sglang", "tensorrt-llm")
LARGE_BYTES = 70 * 10**9
"""Memory from which on an engine takes its defaults for large GPUs."""


@dataclass(frozen=True)
class BlockRule:
    """The block sizes that one attention backend takes."""

    backend: str
    layers: str
    sizes: tuple[int, ...] = ()
    multiple_of: int = 0
    power_of_two: bool = False
    gpus: tuple[str, ...] = ()
    """GPUs on which the engine takes the backend, of those known here; none named: all."""

    def takes(self, size: int) -> bool:
        """Whether the backend takes blocks of that size.

        >>> BlockRule("FlashInfer", "heads", sizes=(16, 32, 64)).takes(128)
        False
        """
        if self.power_of_two:
            return size > 1 and size & (size - 1) == 0
        return size % self.multiple_of == 0 if self.multiple_of else size in self.sizes

    def __str__(self) -> str:
        if self.power_of_two:
            allowed = "a power of two above 1"
        else:
            multiples = f"multiples of {self.multiple_of}" if self.multiple_of > 1 else "any size"
            allowed = "/".join(map(str, self.sizes)) or multiples
        return f"{self.backend}: {allowed}"


@dataclass(frozen=True)
class Flag:
    """One setting to make, or to leave: its value, its default, what is allowed, and why this value."""

    flag: str
    value: str
    default: str
    allowed: str
    why: str
    changed: bool
    """Whether the engine's own default would be another."""


@dataclass(frozen=True)
class Engine:
    """One engine in the version that was read; `data` is its entry of `data/engines.json`."""

    name: str
    data: dict[str, Any]

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.data['version']}"

    @property
    def matches_within_blocks(self) -> bool:
        """Whether a cached prefix may end in the middle of a block, so that no token of it is lost."""
        return bool(self.data.get("partial_reuse"))

    @property
    def block_size(self) -> int:
        """The block size that it takes by default."""
        return int(self.data["block"]["default"].partition(",")[0])

    @property
    def has_watermark(self) -> bool:
        """Whether a share of blocks may be kept free at admission; `when_full` says what else it does."""
        return "when_full" not in self.data

    def rules(self, shape: ModelShape, gpu: Gpu) -> tuple[BlockRule, ...]:
        """What its attention backends on that GPU take for a model with such layers."""
        kind = "latent" if any(group.latent for group in shape.layer_groups) else "heads"
        rules = (
            BlockRule(**{**row, **{name: tuple(row.get(name, ())) for name in ("sizes", "gpus")}})
            for row in self.data["blocks"]
        )
        return tuple(rule for rule in rules if rule.layers == kind and gpu.name in (rule.gpus or (gpu.name,)))

    def memory(self, gpu_bytes: int, weights: int, activations: int) -> tuple[float, int, int]:
        """The share of all memory it may use; of that, bytes for activations, and bytes it leaves alone.

        A reserve outside the share is there for activations: only what it does not hold counts inside.
        """
        if "memory_share" in self.data:
            return self.data["memory_share"], activations, 0
        if "free_share" in self.data:
            free = max(0, gpu_bytes - weights - activations)
            return 1.0, activations, int((1 - self.data["free_share"]) * free)
        reserve = self.data["reserve_bytes_large" if gpu_bytes > 60 * 10**9 else "reserve_bytes"]
        return 1 - reserve / gpu_bytes, max(0, activations - reserve), 0

    def max_running(self, gpu_name: str, gpu_bytes: int) -> int:
        """Requests that run at once at most, by default."""
        large = gpu_bytes >= LARGE_BYTES and not gpu_name.startswith("a100")
        return int(self.data.get("max_running_large" if large else "max_running", self.data["max_running"]))

    def set(self, setting: str, value: str, why: str, *, changed: bool = True) -> Flag:
        """A setting of its data as advice."""
        row, left = self.data[setting], "" if changed else "left alone: "
        return Flag(row["flag"], value, row["default"], row.get("allowed", ""), f"{left}{why}", changed)


def engine(name: str) -> Engine:
    """An engine by name; raises `KeyError` for another than `ENGINES`.

    >>> engine("vllm").title
    'vllm 0.32'
    """
    return Engine(name, _data()[name])


@cache
def _data() -> dict[str, Any]:
    return json.loads((files("pagedlab") / "data" / "engines.json").read_text(encoding="utf-8"))
