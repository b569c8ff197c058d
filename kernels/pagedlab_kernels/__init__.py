"""Attention over tensors and tables of integers: decode and prefill, and the cache that they read.

The package knows nothing of sequences, requests or pools: whoever calls it brings a query, a cache and a
block table. Importing it costs nothing; torch, numba and triton wait until a kernel is called.

    attention   the four public calls and how one is carried out
    writing     new tokens into their slots, and copies of blocks
    quantised   int8 and fp8: rounding into them, and how far off the numbers come back
    csr         the compressed form of a block table
    ids         blocks and slots as they come from outside
    checks, check_tables            every rule that an argument must obey, and the error when it does not
    call        what a backend receives once the rules hold
    backends    who can serve here, who cannot and why; the one place that chooses
    reference   torch, reads like the equation
    cpu, cpu_kernels                numba: compiled, threaded, prefetching
    triton_launch, triton_kernels   Triton: compiled on a GPU, interpreted elsewhere
    triton_offline                  Triton: compiled for a GPU that is not here
    inside                          what the Triton kernels touch, and what the compiler makes of them
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .attention import contiguous_attention, contiguous_prefill, paged_attention, paged_prefill
from .backends import Backend, backends
from .csr import CSRTable

if TYPE_CHECKING:
    from .inside.child import kernel_hash, kernel_source
    from .inside.report import CompiledKernel, compile_report
    from .inside.trace import Trace, address_trace
    from .quantised import Error, dequantise, error_against, quantise
    from .writing import copy_blocks, write_kv

__all__ = [
    "Backend", "CSRTable", "CompiledKernel", "Error", "Trace", "address_trace", "backends", "compile_report",
    "contiguous_attention", "contiguous_prefill", "copy_blocks", "dequantise", "error_against", "kernel_hash",
    "kernel_source", "paged_attention", "paged_prefill", "quantise", "write_kv",
]  # fmt: skip

_LATER = dict.fromkeys(("Error", "dequantise", "error_against", "quantise"), "quantised")
_LATER |= dict.fromkeys(("copy_blocks", "write_kv"), "writing")
_LATER |= dict.fromkeys(("Trace", "address_trace"), "inside.trace")
_LATER |= dict.fromkeys(("CompiledKernel", "compile_report"), "inside.report")
_LATER |= dict.fromkeys(("kernel_hash", "kernel_source"), "inside.child")


def __getattr__(name: str) -> Any:
    if name in _LATER:  # these bring torch or numpy
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
