"""What is to be served on what: the reader's choices, and what follows from them term by term."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from pagedlab import _format, gpu_model, gpus
from pagedlab.advice.engines import ENGINES, Engine, engine
from pagedlab.gpus import Gpu
from pagedlab.models import ModelShape, element_bytes, preset, presets, weights_of
from pagedlab.sizing import Capacity, capacity

MAX_BLOCK, LEAST_GPU_GB = 4096, 4
MOST = 1_000_000
"""Of any number that a reader gives: beyond it, sums are no longer numbers."""
_PREFILL_S_PER_BYTE = 20e-6 / 16.06e9  # 20 us a token for a model of 16 GB: see `steptime.ASSUMED`


class AdviceError(ValueError):
    """The advice asked for cannot be given; the message has the numbers, or the names that exist."""


@dataclass(frozen=True)
class Choice:
    """What the reader chooses; every default is an assumption that the advice names.

    model, gpu       names of `models.presets()` and `gpus.names()`; a beginning that fits one GPU will do
    tp               tensor-parallel ranks, one GPU each
    engine           one of `ENGINES`
    dtype            of K and V
    block_size       one to be judged beside the advised one; None: none
    gpu_gb           memory of one GPU as its driver reports it, 1e9 bytes; None: as published
    weight_gb        of the whole model, 1e9 bytes; None: known, or 2 bytes for each parameter of its name
    activation_gb    what a step needs on each rank while it runs
    max_running      requests at once at most; None: the engine's default
    step_ms          a step that reads no K or V; None: the GPU model's
    prefill_us       computing one token of a prompt; None: 20 us for each 16 GB of weights
    entry_ns         what a step takes longer for each table entry; None: from a published server (a10)
    """

    model: str = "llama-3.1-8b"
    gpu: str = "h100-sxm"
    tp: int = 1
    engine: str = "vllm"
    dtype: str = "bf16"
    block_size: int | None = None
    gpu_gb: float | None = None
    weight_gb: float | None = None
    activation_gb: float = 2.0
    max_running: int | None = None
    step_ms: float | None = None
    prefill_us: float | None = None
    entry_ns: float | None = None

    def __post_init__(self) -> None:
        for name in ("tp", "block_size", "max_running"):
            value = getattr(self, name)
            if value is not None and not (type(value) is int and 1 <= value <= MOST):
                raise AdviceError(f"{name} must be a whole number from 1 to {MOST:,}, got {value!r}")
        for name in ("gpu_gb", "weight_gb", "activation_gb", "step_ms", "prefill_us", "entry_ns"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= MOST:
                raise AdviceError(f"{name} must be a number from 0 to {MOST:,}, got {value!r}")
        if self.block_size and self.block_size > MAX_BLOCK:
            raise AdviceError(f"block_size must be at most {MAX_BLOCK:,}, got {self.block_size:,}")
        if self.gpu_gb is not None and self.gpu_gb < LEAST_GPU_GB:
            raise AdviceError(f"gpu_gb must be at least {LEAST_GPU_GB}, got {self.gpu_gb!r}")


@dataclass(frozen=True)
class Setting:
    """A choice, resolved; bytes and seconds are those of one rank."""

    choice: Choice
    model: ModelShape
    rank: ModelShape
    gpu: Gpu
    engine: Engine
    weight_bytes: int
    weight_word: str
    weight_source: str
    kv_bytes: int
    capacity: Capacity
    constants: gpu_model.Constants
    max_running: int
    prefill_s: float
    kernel_ratio: dict[int, float] = field(default_factory=dict)
    """Paged over contiguous time by block size, where it was measured on such a GPU."""

    @property
    def rate(self) -> float:
        """Bytes a second that a long decode reads."""
        return self.gpu.bandwidth_bytes_s * self.constants.bandwidth_share

    @property
    def copies(self) -> float:
        """How many times over the ranks together hold a token's K and V."""
        return self.choice.tp * self.rank.kv_bytes(1) / self.model.kv_bytes(1)

    @property
    def element(self) -> float:
        """Bytes of one number of K or V."""
        return element_bytes(self.choice.dtype)

    @property
    def unlimited(self) -> Setting:
        """As if the engine let any number run: memory alone decides."""
        return replace(self, max_running=1 << 30)

    def slots(self, block_size: int) -> int:
        """Tokens that fit in whole blocks, for layers that keep them all."""
        sized = replace(self.capacity, block_size=block_size)
        return max(0, self.kv_bytes // sized.block_bytes - sized.kept_blocks) * block_size

    def fit(self, stored: np.ndarray) -> np.ndarray:
        """Which requests an empty pool could hold, by the tokens they store at their end (bool)."""
        size, needed = self.capacity.block_size, np.zeros(len(stored))
        for group in self.rank.layer_groups:
            blocks = -(-stored // size)
            if group.window is not None:
                blocks = np.minimum(blocks, -(-(group.window - 1) // size) + 1)
            needed += blocks * size * group.numbers_per_token * self.element
        return needed <= self.kv_bytes - self.capacity.kept_blocks * self.capacity.block_bytes

    def with_pool(self, tokens: int) -> Setting:
        """The same with memory for so many tokens, as an engine's log has it."""
        return replace(self, kv_bytes=self.rank.kv_bytes(tokens, self.choice.dtype))


def resolve(choice: Choice) -> Setting:
    """What follows from a choice; raises `AdviceError` with near names, or with the numbers that do not fit.

    >>> resolve(Choice(gpu="h100")).gpu.title
    'H100 SXM'
    """
    shape = preset(name_of("model", choice.model, presets()))
    gpu = gpus.named(name_of("GPU", choice.gpu, gpus.names()))
    if choice.gpu_gb is not None:
        gpu = replace(gpu, capacity_bytes=int(choice.gpu_gb * 1e9))
    server = engine(name_of("engine", choice.engine, ENGINES))
    try:
        rank = shape.on_rank(choice.tp)
        element_bytes(choice.dtype)
        weights, word, source = weights_of(shape, choice.weight_gb)
    except ValueError as error:
        raise AdviceError(str(error)) from None
    weights = -(-weights // choice.tp)
    fraction, activations, other = server.memory(gpu.capacity_bytes, weights, int(choice.activation_gb * 1e9))
    try:
        room = capacity(
            gpu.capacity_bytes,
            weights,
            activations,
            fraction,
            rank,
            dtype=choice.dtype,
            other_bytes=other,
            kept_blocks=1 if server.name == "vllm" else 0,
        )
    except ValueError as error:
        told = f"{shape.name} on {choice.tp} x {gpu.title}: {error}; weights {word} ({source})"
        raise AdviceError(f"{told}: weight_gb would give them") from None
    constants = gpu_model.constants()
    if choice.entry_ns is not None:
        constants = replace(constants, entry_s=1e-9 * choice.entry_ns)
    prefill = 1e-6 * choice.prefill_us if choice.prefill_us is not None else weights * _PREFILL_S_PER_BYTE
    running = choice.max_running or server.max_running(gpu.name, gpu.capacity_bytes)
    return Setting(
        *(choice, shape, rank, gpu, server, weights, word, source),
        kv_bytes=room.kv_bytes,
        capacity=room,
        constants=constants,
        max_running=running,
        prefill_s=prefill,
    )


def name_of(what: str, given: str, names: Iterable[str]) -> str:
    """The name that was given, or whose only beginning; raises `AdviceError` with near names for another."""
    names = list(names)
    wanted = given.strip().lower()
    fitting = [name for name in names if name == wanted] or [n for n in names if n.startswith(wanted)]
    if len(fitting) == 1 and wanted:
        return fitting[0]
    raise AdviceError(f"no {what} {given[:60]!r} here; {_format.near(wanted, fitting or names)}")


def terms(setting: Setting) -> str:
    """The sum that leads to the tokens, in one line."""
    parts = []
    for name, value in setting.capacity.terms().items():
        if value or name == "K and V":
            parts.append(f"{name} {_format.size(abs(value))}")
    return " - ".join(parts[:-1]) + f" = {parts[-1]}"
