"""The same cache as engines keep it, with the block table in their form.

Every engine stores the same numbers, in another order. That order is all that a layout is here: the axes of
memory from the outermost to the innermost, once for K and once for V.

    flash-attn       K and V each   block offset head element, or any strides with element dense
    flashinfer       K and V each   block offset head element (NHD) or block head offset element (HND)
    flex-attention   K and V each   block offset head element, seen as [1, heads, slots, elements]
    vllm             one tensor     block head offset kv element
    vllm-cpu         one tensor     K: block head kv element offset    V: block head kv offset element
    tensorrt-llm     one tensor     block kv head offset element

K and V in tensors of their own are views: what is written to the cache later shows in them. Fused into one
tensor they are a copy. A size that an engine does not take is refused with its rule.

Sources: vLLM 0.32, its attention backends (the CPU one as its vector code reads it; AMX packs bf16 anew);
FlashInfer, page layout; flash-attn 2 and 3, `flash_attn_with_kvcache`; TensorRT-LLM, `kvCacheUtils.h`;
torch 2.13, `torch.nn.attention.experimental._paged_attention`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pagedlab.table import csr_table, padded_table

if TYPE_CHECKING:
    from pagedlab.cache import PagedKVCache

Tables: TypeAlias = Sequence[Sequence[int]]
Lengths: TypeAlias = Sequence[int]
KV = ("key", "value")
_STORED = {"NHD": "block offset head element", "HND": "block head offset element"}


@dataclass(frozen=True)
class Engine:
    """How an engine keeps K and V, and which sizes it takes.

    Either `view` makes its tensor of one pool of the cache, or `shape` is that of its one fused tensor and
    `axes` are the axes of K and of V in it. Each rule is a size, what it must be, and whether one is that.
    """

    title: str
    tensors: tuple[str, ...]
    table: Callable[[Tables, Lengths, int], dict[str, Any]]
    view: Callable[[Tensor, str], Tensor] | None = None
    shape: str = ""
    axes: tuple[str, ...] = ()
    rules: tuple[tuple[str, str, Callable[[int], bool]], ...] = ()

    def check(self, pool: Tensor) -> None:
        """Raise ValueError with the rule when the engine does not take the sizes of such a pool."""
        given = {"block_size": pool.shape[1], "head_dim": pool.shape[3]}
        for name, rule, holds in self.rules:
            if not holds(given[name]):
                raise ValueError(f"{name}={given[name]}: {self.title} takes {rule}")


@dataclass(frozen=True, eq=False)
class EngineLayout:
    """A cache as an engine keeps it.

    `tensors` go by the engine's own names for them. `copied` says whether they are a copy, which later writes
    to the cache do not reach. `axes` are those of memory, for K and for V, and `sizes` how long each axis is.
    """

    engine: str
    tensors: dict[str, Tensor]
    copied: bool
    axes: tuple[str, ...]
    sizes: dict[str, int]

    def table(self, tables: Tables, seq_lens: Lengths) -> dict[str, Tensor]:
        """The tables and lengths of sequences as the engine takes them: int32 tensors by its argument names.

        Raises ValueError when a table has too few blocks for its length.
        """
        size, device = self.sizes["offset"], next(iter(self.tensors.values())).device
        csr_table(tables, seq_lens, size)  # says so when a table does not fit its length
        arrays = ENGINES[self.engine].table(tables, seq_lens, size)
        return {name: torch.as_tensor(array).int().to(device) for name, array in arrays.items()}

    def address(self, which: str, block: int, offset: int, head: int, element: int = 0) -> tuple[str, int]:
        """Where one number of K or V lies: the tensor's name, and how many numbers come before it there.

        `which` is "key" or "value". Raises ValueError for another, IndexError for what is outside.

        >>> from pagedlab import PagedKVCache
        >>> layout = PagedKVCache(8, 16, num_kv_heads=2, head_dim=64).as_layout("vllm")
        >>> layout.address("value", block=3, offset=5, head=1, element=7)
        ('kv_cache', 15047)
        >>> (((3 * 2 + 1) * 16 + 5) * 2 + 1) * 64 + 7
        15047
        """
        at = {"block": block, "offset": offset, "head": head, "element": element, "kv": _which(which)}
        for name, index in at.items():
            if not 0 <= index < self.sizes[name]:
                raise IndexError(f"{name} {index} is outside 0 to {self.sizes[name] - 1}")
        before = 0
        for axis in self.axes[at["kv"]].split():
            before = before * self.sizes[axis] + at[axis]
        names = list(self.tensors)
        return names[at["kv"] % len(names)], before

    def formula(self, which: str) -> str:
        """The address as arithmetic, for a reader.

        >>> from pagedlab import PagedKVCache
        >>> PagedKVCache(8, 32, num_kv_heads=2, head_dim=64).as_layout("vllm-cpu").formula("key")
        '(((block * 2 + head) * 2 + 0) * 64 + element) * 32 + offset'
        """
        kv = _which(which)
        text, *inner = self.axes[kv].split()
        for axis in inner:
            text = f"({text})" if "+" in text else text
            text += f" * {self.sizes[axis]} + {kv if axis == 'kv' else axis}"
        return text

    def __str__(self) -> str:
        made = "a copy: what is written to the cache later is not in it" if self.copied else "views, no copy"
        lines = [f"{ENGINES[self.engine].title}: {made}"]
        lines += [f"  {name} {list(t.shape)}, strides {list(t.stride())}" for name, t in self.tensors.items()]
        return "\n".join([*lines, *(f"  {which}: number {self.formula(which)}" for which in KV)])


def as_layout(cache: PagedKVCache, engine: str) -> EngineLayout:
    """What `PagedKVCache.as_layout` does."""
    if engine not in ENGINES:
        raise ValueError(f"engine={engine!r}: must be one of {', '.join(ENGINES)}")
    wanted = ENGINES[engine]
    wanted.check(cache.key)
    if isinstance(cache.k_scale, Tensor) or isinstance(cache.v_scale, Tensor):
        raise ValueError(
            "k_scale and v_scale: engines keep scales of single tokens each in a way of their own; give the "
            "cache one number for K and one for V"
        )
    sizes = _sizes(cache.key)
    if not wanted.view:
        tensors = dict.fromkeys(wanted.tensors, fused(engine, cache.key, cache.value))
        return EngineLayout(engine, tensors, True, wanted.axes, sizes)
    views = [wanted.view(pool, cache.layout) for pool in (cache.key, cache.value)]
    copied = views[0].data_ptr() != cache.key.data_ptr()
    axes = (_STORED["NHD" if copied else cache.layout],) * 2
    return EngineLayout(engine, dict(zip(wanted.tensors, views, strict=True)), copied, axes, sizes)


def fused(engine: str, key_cache: Tensor, value_cache: Tensor) -> Tensor:
    """K and V `[blocks, block_size, kv_heads, head_dim]` copied into an engine's one tensor."""
    wanted, sizes = ENGINES[engine], _sizes(key_cache)
    flat = torch.empty(2 * key_cache.numel(), dtype=key_cache.dtype, device=key_cache.device)
    for kv, (pool, order) in enumerate(zip((key_cache, value_cache), wanted.axes, strict=True)):
        axes = order.split()
        half = flat.view([sizes[axis] for axis in axes]).select(axes.index("kv"), kv)
        axes.remove("kv")
        half.permute([axes.index(axis) for axis in _STORED["NHD"].split()]).copy_(pool)
    groups = (group.split("*") for group in wanted.shape.split())
    return flat.view([math.prod(sizes[axis] for axis in group) for group in groups])


def by_head(pool: Tensor, layout: str = "") -> Tensor:
    """A pool as `[1, heads, slots, elements]`: a view when its slots lie at one distance, as in NHD."""
    return pool.flatten(0, 1).transpose(0, 1)[None]


def _as_stored(pool: Tensor, layout: str) -> Tensor:
    return pool if layout == "NHD" else pool.transpose(1, 2)


def _as_it_is(pool: Tensor, layout: str) -> Tensor:
    return pool


def _sizes(pool: Tensor) -> dict[str, int]:
    return dict(zip(_STORED["NHD"].split(), pool.shape, strict=True)) | {"kv": 2}


def _which(which: str) -> int:
    if which not in KV:
        raise ValueError(f"which={which!r}: must be one of {', '.join(KV)}")
    return KV.index(which)


# -- Tables.


def _padded(lengths: str) -> Callable[[Tables, Lengths, int], dict[str, Any]]:
    """A row of block ids for each sequence, and the lengths under that name."""
    return lambda tables, seq_lens, size: {"block_table": padded_table(tables), lengths: list(seq_lens)}


def _csr(tables: Tables, seq_lens: Lengths, size: int) -> dict[str, Any]:
    return vars(csr_table(tables, seq_lens, size))


def _offsets(tables: Tables, seq_lens: Lengths, size: int) -> dict[str, Any]:
    """`[pools, seqs, 2, max_blocks]`: K of block b is piece 2b of the pool, its V piece 2b + 1."""
    twice = 2 * padded_table(tables)
    return {
        "kv_cache_block_offsets": np.stack([twice, twice + 1], axis=1)[None],
        "sequence_length": list(seq_lens),
    }


def _flex(tables: Tables, seq_lens: Lengths, size: int) -> dict[str, Any]:
    """Entries without a block are -1."""
    held = np.arange(max(map(len, tables), default=0)) < np.array([[len(row)] for row in tables])
    return {"page_table": np.where(held, padded_table(tables), -1), "kv_len": list(seq_lens)}


_CPU_HEADS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
_FLASH_HEADS = ("head_dim", "multiples of 8 up to 256", lambda n: n % 8 == 0 and n <= 256)
_FLASH = Engine(
    "flash-attn 2",
    ("k_cache", "v_cache"),
    _padded("cache_seqlens"),
    view=_as_it_is,
    rules=(("block_size", "multiples of 256 (flash-attn-3 any)", lambda n: n % 256 == 0), _FLASH_HEADS),
)
ENGINES = {
    "vllm": Engine(
        "vLLM on a GPU",
        ("kv_cache",),
        _padded("seq_lens"),
        shape="block head offset kv*element",
        axes=("block head offset kv element",) * 2,
        rules=(("block_size", "multiples of 16", lambda n: n % 16 == 0),),
    ),
    "vllm-cpu": Engine(
        "vLLM on a CPU",
        ("kv_cache",),
        _padded("seq_lens"),
        shape="block head offset kv*element",
        axes=("block head kv element offset", "block head kv offset element"),
        rules=(
            ("block_size", "multiples of 32", lambda n: n % 32 == 0),
            ("head_dim", f"one of {', '.join(map(str, _CPU_HEADS))}", lambda n: n in _CPU_HEADS),
        ),
    ),
    "flashinfer": Engine("FlashInfer", ("k_cache", "v_cache"), _csr, view=_as_stored),
    "flash-attn": _FLASH,
    "flash-attn-3": replace(_FLASH, title="flash-attn 3", rules=(_FLASH_HEADS,)),
    "tensorrt-llm": Engine(
        "TensorRT-LLM",
        ("pool",),
        _offsets,
        shape="block kv head offset element",
        axes=("block kv head offset element",) * 2,
        rules=(("block_size", "powers of two above 1", lambda n: n > 1 and n & (n - 1) == 0),),
    ),
    "flex-attention": Engine("torch's FlexAttention", ("k_cache", "v_cache"), _flex, view=by_head),
}
"""Whose layouts are known, by the name that `as_layout` takes."""
