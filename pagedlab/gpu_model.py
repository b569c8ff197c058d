"""A GPU in five numbers: what one decode step takes by block size, for readers without one. *Simulated*.

    seconds = weights / bandwidth                                every step reads them once
            + layers * (launch + waves * wave                    the floor of a kernel, whatever it reads
                        + (K and V + table) / bandwidth)         bytes, the look-ups' own among them
            + entries of all tables * entry                      host and kernel work that grows with a table

A program reads one KV head of one sequence; with fewer programs than processors, sequences are split until
they fill one wave. Each tile of 128 tokens looks up its blocks: 4 bytes an entry, at least one sector of 32.

The constants are fitted to published rows by `constants()`, not typed in; `checks()` sets the model beside
those rows and beside others that it was not fitted to. What it leaves out: prefill, messages between
GPUs, caches, and every difference between one kernel and the next, which is larger than the model's error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from pagedlab import _format, gpus, published
from pagedlab.gpus import Gpu
from pagedlab.models import LayerGroup, ModelShape, element_bytes, preset, weights_of

TILE, SECTOR, ENTRY_BYTES = 128, 32, 4
_PROCESSORS = {"a100-80gb": 108, "h100-sxm": 132, "h200-sxm": 132, "b200": 148, "rtx-4090": 128}
"""Streaming multiprocessors, from specification pages that agree; an H100's also from its deviceQuery."""
_LLAMA_WEIGHTS, *_ = weights_of(preset("llama-3.1-8b"))


@dataclass(frozen=True)
class Constants:
    """What was fitted, and to which published figures.

    bandwidth_share   of the published bandwidth that a long decode reaches (d2)
    launch_s, wave_s  seconds of one layer's kernel whatever it reads, and of each wave (a17, a19)
    entry_s           seconds a step takes longer for each table entry, kernel and host together: what pages
                      of 1 cost a whole server beside pages of 64 (a10). An upper bound: `LEAN` has none
    """

    bandwidth_share: float
    launch_s: float
    wave_s: float
    entry_s: float


@dataclass(frozen=True)
class Step:
    """Seconds of one decode step, by what takes them."""

    weights: float
    floor: float
    kv: float
    look_ups: float
    entries: float

    @property
    def seconds(self) -> float:
        """The whole step."""
        return self.weights + self.floor + self.kv + self.look_ups + self.entries


@dataclass(frozen=True)
class Check:
    """The model beside one published number; `fitted` says whether a constant comes from that row."""

    figure: str
    case: str
    unit: str
    published: float
    simulated: float
    fitted: bool

    @property
    def error(self) -> float:
        """Simulated over published, less 1."""
        return self.simulated / self.published - 1


def decode_step(
    gpu: Gpu,
    shape: ModelShape,
    lengths: Sequence[int] | np.ndarray,
    block_size: int,
    *,
    weight_bytes: int = 0,
    dtype: str = "bf16",
    fitted: Constants | None = None,
) -> Step:
    """One step that produces one token for each sequence of `lengths` (tokens in the cache).

    `shape` and `weight_bytes` are those of one rank. Raises `ValueError` for a block size or length below 1,
    or for a GPU whose number of processors is not known.

    >>> step = decode_step(gpus.named("h100-sxm"), preset("llama-3.1-8b"), [1000] * 64, 16)
    >>> round(1e3 * step.kv, 2), step.look_ups / step.kv < 0.01
    (2.78, True)
    """
    known = np.asarray(lengths, dtype=np.int64)
    if block_size < 1 or (known < 1).any():
        raise ValueError(f"block_size ({block_size}) and every length must be at least 1")
    if gpu.name not in _PROCESSORS:
        raise ValueError(f"the number of processors of {gpu.name} is not known here")
    fitted = fitted or constants()
    rate = gpu.bandwidth_bytes_s * fitted.bandwidth_share
    floor = kv = look_ups = 0.0
    for group in shape.layer_groups:
        layer = _layer(group, known, block_size, element_bytes(dtype), _PROCESSORS[gpu.name])
        waves, kv_bytes, table_bytes = layer
        floor += group.layers * (fitted.launch_s + waves * fitted.wave_s)
        kv += group.layers * kv_bytes / rate
        look_ups += group.layers * table_bytes / rate
    entries = int((-(-known // block_size)).sum())
    return Step(weight_bytes / rate, floor, kv, look_ups, entries * fitted.entry_s)


def _layer(
    group: LayerGroup, known: np.ndarray, block_size: int, element: float, processors: int
) -> tuple[int, float, int]:
    """Waves, bytes of K and V and bytes of table entries of one layer."""
    read = np.minimum(known, group.window or known)
    heads = group.kv_heads or 1
    waves = -(-len(known) * heads // processors) if len(known) else 0
    kv_bytes = int(read.sum()) * group.numbers_per_token / group.layers * element
    tiles = int((-(-read // TILE)).sum()) * heads
    return waves, kv_bytes, tiles * max(SECTOR, ENTRY_BYTES * -(-TILE // block_size))


# ---- fitting and checking -------------------------------------------------------------------------

_H100 = "h100-sxm"
_LLAMA_70B = LayerGroup(1, kv_heads=8, head_dim=128)
_QWEN_32B_HALF = LayerGroup(1, kv_heads=4, head_dim=128)


@cache
def constants() -> Constants:
    """Fitted to figures d2, a17, a19 and a10 by least squares of the relative error.

    >>> found = constants()
    >>> round(found.bandwidth_share, 2), round(1e6 * found.launch_s), round(1e9 * found.entry_s)
    (0.9, 11, 62)
    """
    share = published.figure("d2").values["bf16_percent"] / 100
    bare = Constants(share, 0.0, 0.0, 0.0)
    rows = []
    for _, group, lengths, block_size, us in _kernel_rows():
        waves, *_ = _layer(group, np.array(lengths), block_size, 2.0, _PROCESSORS[_H100])
        rest = 1e-6 * us - _one_layer(group, lengths, block_size, bare)
        rows.append((1e6 / us, waves * 1e6 / us, rest * 1e6 / us))
    table = np.array(rows)
    (launch, wave), *_ = np.linalg.lstsq(table[:, :2], table[:, 2], rcond=None)
    kernel = Constants(share, float(launch), float(wave), 0.0)
    one, many = (_sglang_step(size, kernel) for size in (1, 64))
    steps = published.figure("a10").values
    slower = 1e-3 * (steps["page_1_ms"] - steps["page_64_ms"]) - (one.seconds - many.seconds)
    return Constants(
        share, kernel.launch_s, kernel.wave_s, slower / (_sglang_entries(1) - _sglang_entries(64))
    )


def lean() -> Constants:
    """The same without a cost of table entries beyond the bytes that the kernel reads.

    FlashInfer's decode with pages of 1 stays within 1 % of contiguous memory (a5): that is the other end
    of what has been published.
    """
    return replace(constants(), entry_s=0.0)


def checks() -> tuple[Check, ...]:
    """The model beside every published row that it can be set beside.

    >>> worst = max(checks(), key=lambda check: abs(check.error))
    >>> abs(worst.error) < 0.15
    True
    """
    found = [
        Check(figure, case, "us", us, 1e6 * _one_layer(group, lengths, block_size, constants()), True)
        for (figure, case), group, lengths, block_size, us in _kernel_rows()
    ]
    d1, d2, a10 = (published.figure(id).values for id in ("d1", "d2", "a10"))
    for case, name, dtype, value, fitted in (
        ("slope, H100, bf16", _H100, "bf16", d1["bf16_slope_ms"], True),
        ("slope, H100, fp8", _H100, "fp8", d1["fp8_slope_ms"], False),
        ("slope, B200, bf16", "b200", "bf16", d2["b200_slope_ms"], False),
    ):
        figure = "d2" if name == "b200" else "d1"
        found.append(Check(figure, case, "ns a token", 1e6 * value, 1e9 * _slope(name, dtype), fitted))
    one = decode_step(gpus.named(_H100), preset("llama-3.1-8b"), [1], 16, weight_bytes=_LLAMA_WEIGHTS)
    found.append(Check("d1", "floor, H100, bf16", "ms", d1["bf16_floor_ms"], 1e3 * one.seconds, False))
    for size in (1, 64, 128):
        step = 1e3 * _sglang_step(size, constants()).seconds
        found.append(Check("a10", f"step, pages of {size}", "ms", a10[f"page_{size}_ms"], step, False))
    return (*found, *_line_of_2023())


def error_note() -> str:
    """One line on how far the model is from what was published."""
    fitted = [abs(check.error) for check in checks() if check.fitted]
    others = [abs(check.error) for check in checks() if not check.fitted]
    return (
        f"simulated; within {_format.percent(max(fitted))} of the {len(fitted)} published times it was "
        f"fitted to, within {_format.percent(max(others))} of {len(others)} others"
    )


def _kernel_rows() -> list[tuple[tuple[str, str], LayerGroup, list[int], int, float]]:
    """Published times of one layer's kernel on an H100: (figure, case), heads, lengths, block size, us."""
    a17, a19 = published.figure("a17").values["tokens_to_us"], published.figure("a19").values
    rows = [
        (("a17", f"64 sequences of {tokens} tokens"), _LLAMA_70B, [int(tokens)] * 64, 256, us)
        for tokens, us in a17.items()
    ]
    for kernel in ("fa3", "flashinfer"):
        for tokens, us in a19[f"{kernel}_us"].items():
            rows.append((("a19", f"{tokens} tokens, {kernel}"), _QWEN_32B_HALF, [int(tokens)], 16, us))
    return rows


def _one_layer(group: LayerGroup, lengths: list[int], block_size: int, fitted: Constants) -> float:
    fitted = replace(fitted, entry_s=0.0)
    return decode_step(gpus.named(_H100), ModelShape((group,)), lengths, block_size, fitted=fitted).seconds


def _slope(name: str, dtype: str) -> float:
    """Seconds that one more cached token adds to a step of Llama-3.1-8B with one request."""
    few, many = (
        decode_step(
            gpus.named(name), preset("llama-3.1-8b"), [tokens], 16, dtype=dtype, fitted=lean()
        ).seconds
        for tokens in (10_000, 110_000)
    )
    return (many - few) / 100_000


_SGLANG = [1024 + 256] * 16  # figure a10: batch 16, 1,024 tokens in and half of the 512 out


def _sglang_step(page: int, fitted: Constants) -> Step:
    shape = preset("llama-3.1-8b")
    return decode_step(gpus.named(_H100), shape, _SGLANG, page, weight_bytes=_LLAMA_WEIGHTS, fitted=fitted)


def _sglang_entries(page: int) -> int:
    return sum(-(-tokens // page) for tokens in _SGLANG)


def _line_of_2023() -> list[Check]:
    """Figure a18 names neither heads nor GPU; only its shape can be checked: a floor and a straight line."""
    rows = {int(tokens): us for tokens, us in published.figure("a18").values["tokens_to_us"].items()}
    (first, low), *middle, (last, high) = rows.items()
    slope = (high - low) / (last - first)
    return [
        Check(
            "a18",
            f"{tokens} tokens, on the line of {first} and {last}",
            "us",
            us,
            low + slope * (tokens - first),
            False,
        )
        for tokens, us in middle
    ]
