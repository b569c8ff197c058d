"""How much memory a policy wastes on a workload, over all its requests at once, without a simulation.

A request with a prompt of P and an output of O tokens is in the cache for O steps, and stores P, then
P + 1, ... up to F = P + O - 1 tokens (the last token produced is never stored). So what it holds and
what it stores, summed over its steps, depends on P, O and the policy alone: not on the size of the
pool, on the arrivals or on preemption. All figures here are *slot-steps*: slots times steps.

    paged, blocks of B    at k tokens it holds ceil(k / B) * B; the last block's rest is internal waste
    virtual, granules     the same, with a granule for a block
    contiguous, R slots   it holds R throughout: F - k are reserved for its own future, R - F internal

External waste needs a pool in which pieces lie side by side: `pagedlab.serving` counts it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pagedlab.inputs import at_least
from pagedlab.usage import Waste
from pagedlab.workloads import Workload


@dataclass(frozen=True)
class Footprint:
    """Slot-steps held and stored by a whole workload under one policy."""

    policy: str
    held: int
    stored: int
    waste: Waste

    @property
    def wasted_share(self) -> float:
        """Wasted over held, 0 to 1."""
        return self.waste.total / self.held if self.held else 0.0


def paged(workload: Workload, block_size: int) -> Footprint:
    """Blocks of `block_size` slots, taken as tokens come.

    >>> from pagedlab.workloads import parse
    >>> one = parse("input_length,output_length\\n3,3\\n")     # stores 3, 4, then 5 tokens
    >>> footprint = paged(one, block_size=2)                  # holds 4, 4, then 6 slots
    >>> footprint.held, footprint.stored, footprint.waste
    (14, 12, Waste(reserved=0, internal=2, external=0))
    """
    at_least(1, block_size, "block_size")

    def held_up_to(tokens: np.ndarray) -> np.ndarray:
        """Blocks held at 1, 2, ... `tokens` tokens, added up."""
        full, rest = np.divmod(tokens, block_size)
        return block_size * full * (full + 1) // 2 + rest * (full + 1)

    blocks = held_up_to(workload.stored) - held_up_to(workload.prompt - 1)
    held = block_size * _exact_sum(blocks)
    stored = _stored(workload)
    return Footprint(f"paged, blocks of {block_size}", held, stored, Waste(0, held - stored, 0))


def reserve_longest(workload: Workload, slots: int | None = None) -> Footprint:
    """Each request holds `slots` contiguous slots, by default as many as the longest one stores."""
    longest = int(workload.stored.max())
    if slots is not None and slots < longest:
        raise ValueError(f"{slots} slots a request are too few: the longest stores {longest}")
    return _contiguous(workload, "longest", np.full(len(workload), slots or longest))


def power_of_two(workload: Workload) -> Footprint:
    """Each request holds the next power of two above what it will store."""
    return _contiguous(workload, "power of two", next_power_of_two(workload.stored))


def exact(workload: Workload) -> Footprint:
    """Each request holds what it will store in the end, from the start: an oracle's reservation."""
    return _contiguous(workload, "exactly what it will store", workload.stored)


def virtual(workload: Workload, granule: int) -> Footprint:
    """Contiguous addresses over granules of `granule` tokens, mapped as tokens come.

    The same figures as blocks of that size. Source: vAttention (Prabhu et al., ASPLOS 2025).
    """
    at_least(1, granule, "granule")
    return replace(paged(workload, granule), policy=f"virtual memory, granules of {granule}")


def next_power_of_two(tokens: np.ndarray) -> np.ndarray:
    """The least powers of two that are not below `tokens` (int64, at least 1)."""
    return 1 << np.ceil(np.log2(tokens)).astype(np.int64)


def at_final_length(workload: Workload, block_size: int) -> float:
    """Share of paged slots wasted when each request is looked at once, at its end (0 to 1)."""
    held = -(-workload.stored // block_size) * block_size
    return 1 - _exact_sum(workload.stored) / _exact_sum(held)


def _contiguous(workload: Workload, policy: str, slots: np.ndarray) -> Footprint:
    stored = _stored(workload)
    needed = _exact_sum(workload.output * workload.stored)
    held = _exact_sum(workload.output * slots)
    return Footprint(policy, held, stored, Waste(needed - stored, held - needed, 0))


def _stored(workload: Workload) -> int:
    prompt, output = workload.prompt, workload.output
    return _exact_sum(output * prompt + output * (output - 1) // 2)


def _exact_sum(values: np.ndarray) -> int:
    """The sum of int64 values as a Python integer, right where a 64-bit sum would wrap around."""
    high, low = values >> 32, values & 0xFFFFFFFF
    return (int(high.sum()) << 32) + int(low.sum())
