"""What a block size costs, in one unit: microseconds of GPU time for each token produced.

    shared     a step's fixed part (weights, launches) over the requests that run at once
    kv         reading a request's own K and V                              the same for every size
    waste      fewer requests run at once, so each pays more of the fixed part
    table      host and kernel work that grows with the entries of the block table
    kernel     the look-ups' own bytes, or a measured ratio of paged to contiguous
    prefix     tokens of a cached prefix computed again, since a hit ends at a block's edge

    total = shared + kv + waste + table + kernel + prefix          *best* is the least total

What table work costs is known within bounds only: a whole server (figure a10) paid 62 ns an entry, a kernel
(a5) nothing that could be seen. So the size *advised* is the one that is never far from the best, whichever
is true; a reader who knows the cost gives it, and gets the best.

The server is full: as many requests run as memory or the engine's limit admits. Computing the rest of the
prompts costs the same whatever the size and is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pagedlab import gpu_model, waste
from pagedlab.advice.setting import Setting
from pagedlab.steptime import StepTime
from pagedlab.workloads import Workload

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_SAMPLE = 4096
_MOST_HASHES = 4_000_000
SPARE = 0.01
"""Share that is given for blocks that waste less, where the limit on requests hides what waste costs."""
PARTS = ("waste", "table", "kernel", "prefix")


@dataclass(frozen=True)
class Hits:
    """Tokens of prompts that an earlier request had too and that a cache still has, of the first requests.

    `find_hits` says what a cache without end would have, `served.found_in_pool` what this one would.
    """

    tokens: np.ndarray
    share_of_prompts: float
    tokens_per_hash: int

    @property
    def share_of_requests(self) -> float:
        """Requests that find anything."""
        return float((self.tokens > 0).mean())

    def lost(self, block_size: int) -> float:
        """Mean tokens a request computes again because its hit ends at a block's edge.

        Hashes tell a prefix in steps of `tokens_per_hash`; below, it is assumed to end anywhere.
        """
        if block_size <= self.tokens_per_hash:
            return self.share_of_requests * (block_size - 1) / 2
        return float((self.tokens % block_size).mean()) + self.lost(self.tokens_per_hash)


@dataclass(frozen=True)
class Demand:
    """What a workload asks of memory, so that a size can be judged without looking at every request again.

    Per running request and over all steps: `stored` tokens and `held` slots by block size. `contexts` is an
    even sample of the tokens that a decoding request has in the cache. `hits` are of a cache without end
    until `served.found_in_pool` has taken their place.
    """

    mean_prompt: float
    mean_output: float
    stored: float
    held: dict[int, float]
    contexts: np.ndarray
    hits: Hits | None

    @classmethod
    def of(cls, workload: Workload, sizes: tuple[int, ...] = SIZES) -> Demand:
        """Look once at every request; blocks are counted in closed form (`pagedlab.waste`)."""
        steps = int(workload.output.sum())
        footprints = {size: waste.paged(workload, size) for size in sizes}
        held = {size: footprint.held / steps for size, footprint in footprints.items()}
        stored = next(iter(footprints.values())).stored / steps
        ends = np.cumsum(workload.output)
        at = np.linspace(0, steps - 1, min(_SAMPLE, steps)).astype(np.int64)
        request = np.searchsorted(ends, at, side="right")
        contexts = workload.prompt[request] + at - (ends[request] - workload.output[request])
        return cls(
            float(workload.prompt.mean()), steps / len(workload), stored, held, contexts, find_hits(workload)
        )


def find_hits(workload: Workload) -> Hits | None:
    """Prefixes that an earlier request had too: a cache without end, the most that any pool can find.

    None where the trace does not tell.
    """
    hashes = workload.prefix_hashes
    if hashes is None or not len(hashes.ids):
        return None
    looked_at = int(np.searchsorted(hashes.starts, _MOST_HASHES, side="right")) - 1
    if looked_at < len(workload):  # a window, so that memory stays bounded
        return find_hits(workload.first(max(1, looked_at)))
    _, first = np.unique(hashes.ids, return_index=True)
    seen = np.ones(len(hashes.ids) + 1, dtype=np.int64)
    seen[first] = 0
    seen[-1] = 0
    counts = np.add.reduceat(seen, hashes.starts[:-1])
    tokens = np.minimum(counts * hashes.tokens_per_hash, workload.prompt)
    return Hits(tokens, float(tokens.sum() / workload.prompt.sum()), hashes.tokens_per_hash)


@dataclass(frozen=True)
class BlockCost:
    """One size: who takes it, the share of held slots wasted over time, requests at once, microseconds.

    `prefix_us` is None where the trace does not tell; the total then leaves it out.
    """

    block_size: int
    backends: tuple[str, ...]
    waste_share: float
    running: float
    shared_us: float
    kv_us: float
    waste_us: float
    table_us: float
    kernel_us: float
    prefix_us: float | None

    @property
    def extra_us(self) -> float:
        """The four costs together: what a choice of size decides about."""
        return self.waste_us + self.table_us + self.kernel_us + (self.prefix_us or 0.0)

    @property
    def free_us(self) -> float:
        """The total if table work cost nothing."""
        return self.total_us - self.table_us

    @property
    def total_us(self) -> float:
        """Microseconds of GPU time for each token produced."""
        return self.shared_us + self.kv_us + self.extra_us


def block_costs(demand: Demand, setting: Setting) -> tuple[BlockCost, ...]:
    """Every size of the demand, judged in this setting."""
    rules = setting.engine.rules(setting.model, setting.gpu)
    base = base_s(demand, setting)
    kv_s = kv_bytes_read(demand, setting) / setting.rate
    shared = base / running(demand, setting, 1)
    costs = []
    for size, held in demand.held.items():
        at_once = running(demand, setting, size)
        backends = tuple(str(rule) for rule in rules if rule.takes(size))
        kernel = _kernel_s(demand, setting, size, kv_s)
        prefix = None
        if demand.hits is not None:
            lost = 0.0 if setting.engine.matches_within_blocks else demand.hits.lost(size)
            prefix = 1e6 * lost * setting.prefill_s / demand.mean_output
        costs.append(
            BlockCost(
                size,
                backends,
                1 - demand.stored / held,
                at_once,
                shared_us=1e6 * shared,
                kv_us=1e6 * kv_s,
                waste_us=1e6 * (base / at_once - shared),
                table_us=1e6 * held / size * setting.constants.entry_s,
                kernel_us=1e6 * max(0.0, kernel),
                prefix_us=prefix,
            )
        )
    return tuple(costs)


def best(costs: tuple[BlockCost, ...]) -> BlockCost:
    """The least total among the sizes that some backend of the engine takes."""
    return min((cost for cost in costs if cost.backends), key=lambda cost: cost.total_us)


def behind(costs: tuple[BlockCost, ...], size: int, setting: Setting) -> float:
    """By what share a size is dearer than the best: by the reader's own cost of table work, else at most.

    That is the greater of two shares, with table work at what was published and free: published servers and
    kernels disagree on it more than on any other cost.
    """
    taken = [cost for cost in costs if cost.backends]
    mine = next(cost for cost in costs if cost.block_size == size)
    dearer = mine.total_us / min(cost.total_us for cost in taken) - 1
    if setting.choice.entry_ns is None:
        dearer = max(dearer, mine.free_us / min(cost.free_us for cost in taken) - 1)
    return dearer


def advised(costs: tuple[BlockCost, ...], setting: Setting) -> BlockCost:
    """The size least behind the best; of those alike to a thousandth, the smallest: it wastes least.

    Where the engine's limit binds, waste costs no time, but room that prefixes would have, or more requests
    if the limit were raised: a size may then be `SPARE` behind.
    """

    def rank(cost: BlockCost) -> tuple[float, int]:
        spare = SPARE if cost.running >= setting.max_running else 0.0
        return max(0.0, round(behind(costs, cost.block_size, setting) - spare, 3)), cost.block_size

    return min((cost for cost in costs if cost.backends), key=rank)


def prompt_s(demand: Demand, setting: Setting) -> float:
    """Seconds that a request's prompt takes beyond what this pool finds of it; the same for every size."""
    found = demand.hits.share_of_prompts if demand.hits else 0.0
    return demand.mean_prompt * (1 - found) * setting.prefill_s


def prompt_share(demand: Demand, setting: Setting, cost: BlockCost) -> float:
    """Share of all GPU time that computing prompts takes."""
    computing = prompt_s(demand, setting)
    return computing / (computing + 1e-6 * demand.mean_output * cost.total_us)


def running(demand: Demand, setting: Setting, block_size: int) -> float:
    """Requests at once, on the mean: what memory holds, at most what the engine lets run."""
    held = 0.0
    for group in setting.rank.layer_groups:
        slots = demand.held.get(block_size, demand.stored)
        if group.window is not None:
            most = -(-(group.window - 1) // block_size) + 1
            slots = float(np.minimum(-(-demand.contexts // block_size), most).mean()) * block_size
        held += slots * group.numbers_per_token * setting.element
    return min(float(setting.max_running), setting.kv_bytes / held)


def slots(demand: Demand, setting: Setting, block_size: int) -> int:
    """Slots of a pool that holds as many requests; with windows, of one whose layers all keep everything."""
    if all(group.window is None for group in setting.rank.layer_groups):
        return setting.slots(block_size)
    fitting = running(demand, setting.unlimited, block_size)
    return max(1, int(fitting * demand.held[block_size]) // block_size) * block_size


def base_s(demand: Demand, setting: Setting) -> float:
    """Seconds of a step that do not depend on what is in the cache."""
    if setting.choice.step_ms is not None:
        return 1e-3 * setting.choice.step_ms
    sequences = [1] * max(1, round(running(demand, setting, 1)))
    step = gpu_model.decode_step(
        setting.gpu,
        setting.rank,
        sequences,
        16,
        weight_bytes=setting.weight_bytes,
        fitted=replace(setting.constants, entry_s=0.0),
    )
    return step.weights + step.floor


def kv_bytes_read(demand: Demand, setting: Setting) -> float:
    """Bytes of K and V that one request reads in a step, mean over its steps."""
    total = 0.0
    for group in setting.rank.layer_groups:
        window = group.window
        read = demand.stored if window is None else float(np.minimum(demand.contexts, window).mean())
        total += read * group.numbers_per_token * setting.element
    return total


def step_time(demand: Demand, setting: Setting) -> StepTime:
    """The same prices as a line that a served run can follow; nanoseconds."""
    per_stored = kv_bytes_read(demand, setting) / setting.rate / demand.stored
    base, per_token, stored = (
        max(1, round(1e9 * part)) for part in (base_s(demand, setting), setting.prefill_s, per_stored)
    )
    return StepTime(base, per_token, stored, source="the GPU model")


def _kernel_s(demand: Demand, setting: Setting, block_size: int, kv_s: float) -> float:
    """Seconds that paging adds to reading one request's K and V: as the nearest size was measured, else the
    bytes of its look-ups."""
    ratios = setting.kernel_ratio
    if ratios:
        nearest = min(ratios, key=lambda size: abs(np.log(size / block_size)))
        return kv_s * (ratios[nearest] - 1)
    step = gpu_model.decode_step(
        setting.gpu,
        setting.rank,
        demand.contexts,
        block_size,
        dtype=setting.choice.dtype,
        fitted=setting.constants,
    )
    return step.look_ups / len(demand.contexts)
