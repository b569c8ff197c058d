"""Attention over tensors and tables of integers, for one new token per sequence (decode).

The package knows nothing of sequences, requests or pools: whoever calls it brings a query, a cache and a
block table. Importing it costs nothing; torch, numba and triton wait until a kernel is called.

    attention   the two public calls and how one is carried out
    csr         the compressed form of a block table
    checks      every rule that an argument must obey, and the error when it does not
    call        what a backend receives once the rules hold
    backends    who can serve here, who cannot and why; the one place that chooses
    reference   torch, reads like the equation
    cpu, cpu_kernels                numba: compiled, threaded, prefetching
    triton_launch, triton_kernels   Triton: compiled on a GPU, interpreted elsewhere
"""

from __future__ import annotations

from .attention import contiguous_attention, paged_attention
from .backends import Backend, backends
from .csr import CSRTable

__all__ = ["Backend", "CSRTable", "backends", "contiguous_attention", "paged_attention"]
