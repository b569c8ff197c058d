"""What a table costs on this machine: building it, and attention over it beside its contiguous twin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pagedlab import _format, machine, timing
from pagedlab.advice.block_cost import Demand
from pagedlab.advice.report import CANNOT_TELL, Finding
from pagedlab.advice.setting import Setting
from pagedlab.comparison import FASTER, SLOWER
from pagedlab.events import SeqId
from pagedlab.overhead import building

SLOTS, LONGEST = 16_384, 4_096
SIZES = (16, 32, 64, 128, 256)


def measure(demand: Demand, setting: Setting) -> tuple[list[Finding], Setting]:
    """Findings, and the setting with the kernel's ratio where this machine has a GPU of that kind."""
    host = _host(demand)
    try:
        from pagedlab.cost import AttentionCost

        attention = AttentionCost(SLOTS)
        comparisons = {size: attention.measure(*_batch(demand, size), size).comparison for size in SIZES}
    except (ImportError, MemoryError, RuntimeError, StopIteration) as error:
        missing = f"no kernel could be timed here: {error or type(error).__name__}"
        return [host, Finding("kernel here", f"{CANNOT_TELL} its cost", CANNOT_TELL, missing)], setting
    pool, device = attention.pool, comparisons[SIZES[0]].device
    ratios = {size: found.ratio(f"paged {size}").median for size, found in comparisons.items()}
    differences = {size: found.difference(f"paged {size}") for size, found in comparisons.items()}
    text = "time of paged over contiguous attention: " + ", ".join(
        f"blocks of {size} {ratio:.2f} ({differences[size]})" for size, ratio in ratios.items()
    )
    same = pool.device == "cuda" and _number(setting.gpu.name) in device.lower()
    if not same:
        text += f". Not used: this is no {setting.gpu.title}"
    evidence = f"{device}; {pool.kernel} kernel, one layer of {attention.heads}, medians of 15 rounds"
    finding = Finding("kernel here", text, "measured", evidence, {"ratios": ratios})
    # A difference that was not seen is none.
    seen = {size: ratios[size] if what in (FASTER, SLOWER) else 1.0 for size, what in differences.items()}
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


def _host(demand: Demand) -> Finding:
    _, tokens = _batch(demand, 1)
    timed = timing.compare({"table": building(tokens.values(), 1)}, repeats=5)["table"]
    entries, padded = sum(tokens.values()), len(tokens) * max(tokens.values())
    each = timed.median / entries
    text = (
        f"building a padded table takes {_format.seconds(each)} an entry; it holds "
        f"{padded / entries:.1f} times the real entries ({len(tokens)} requests of this trace)"
    )
    evidence = f"{machine.cpu_device()}; the whole table, where an engine changes only what grew"
    return Finding("table here", text, "measured", evidence, {"seconds_per_entry": each})
