"""What a table costs on this machine: building it, and attention over it beside its contiguous twin."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pagedlab import _format, machine
from pagedlab.advice.block_cost import Demand
from pagedlab.advice.report import CANNOT_TELL, Finding
from pagedlab.advice.setting import Setting
from pagedlab.comparison import FASTER, SLOWER
from pagedlab.events import SeqId
from pagedlab.table import padded_table

if TYPE_CHECKING:
    from pagedlab.comparison import Comparison
    from pagedlab.cost import AttentionCost

SLOTS, LONGEST = 16_384, 4_096
SIZES = (16, 32, 64, 128, 256)


def measure(demand: Demand, setting: Setting) -> tuple[list[Finding], Setting]:
    """Findings, and the setting with the kernel's ratio where this machine has a GPU of that kind."""
    host = _host(demand)
    try:
        from pagedlab.cost import AttentionCost

        attention = AttentionCost(SLOTS)
        comparisons = {size: _kernel(attention, demand, size) for size in SIZES}
    except (ImportError, MemoryError, RuntimeError, StopIteration) as error:
        missing = f"no kernel could be timed here: {error or type(error).__name__}"
        return [host, Finding("kernel here", f"{CANNOT_TELL} its cost", CANNOT_TELL, missing)], setting
    device = machine.gpu_device() if attention.device == "cuda" else machine.cpu_device()
    paged = {size: comparison.timings[1].name for size, comparison in comparisons.items()}
    ratios = {size: comparisons[size].ratio(name).median for size, name in paged.items()}
    text = "time of paged over contiguous attention: " + ", ".join(
        f"blocks of {size} {ratio:.2f} ({comparisons[size].difference(paged[size])})"
        for size, ratio in ratios.items()
    )
    same = attention.device == "cuda" and _number(setting.gpu.name) in device.lower()
    if not same:
        text += f". Not used: this is no {setting.gpu.title}"
    evidence = f"{device}; {attention.backend} kernel, one layer of {attention.heads}, medians of 15 rounds"
    finding = Finding("kernel here", text, "measured", evidence, {"ratios": ratios})
    # A difference that was not seen is none.
    seen = {
        size: ratios[size] if comparisons[size].difference(name) in (FASTER, SLOWER) else 1.0
        for size, name in paged.items()
    }
    return [host, finding], replace(setting, kernel_ratio=seen) if same else setting


def _number(gpu: str) -> str:
    """What a driver's name of a GPU has too: h100 of "h100-sxm", 4090 of "rtx-4090"."""
    return next(part for part in gpu.split("-") if any(sign.isdigit() for sign in part))


def _batch(demand: Demand, block_size: int) -> tuple[dict[SeqId, list[int]], dict[SeqId, int]]:
    """Tables over shuffled blocks for contexts of the trace, as many as the pool holds."""
    free = np.random.default_rng(0).permutation(SLOTS // block_size).tolist()
    tables: dict[SeqId, list[int]] = {}
    tokens: dict[SeqId, int] = {}
    for context in np.random.default_rng(1).permutation(demand.contexts).tolist():
        length = min(context, LONGEST)
        blocks = -(-length // block_size)
        if blocks > len(free):
            break
        tables[len(tables)], free = free[:blocks], free[blocks:]
        tokens[len(tokens)] = length
    return tables, tokens


def _kernel(attention: AttentionCost, demand: Demand, size: int) -> Comparison:
    tables, tokens = _batch(demand, size)
    return attention.measure(tables, tokens, size).comparison


def _host(demand: Demand) -> Finding:
    tables, _ = _batch(demand, 1)
    rows = list(tables.values())
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        table = padded_table(rows)
        seconds.append(time.perf_counter() - start)
    entries = sum(map(len, rows))
    each = statistics.median(seconds) / entries
    text = (
        f"building a padded table takes {_format.seconds(each)} an entry; it holds "
        f"{table.size / entries:.1f} times the real entries ({len(rows)} requests of this trace)"
    )
    evidence = f"{machine.cpu_device()}; the whole table, where an engine changes only what grew"
    return Finding("table here", text, "measured", evidence, {"seconds_per_entry": each})
