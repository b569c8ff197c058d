"""From a trace and a choice to advice: read, judge every block size, serve a window, say what to set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from pagedlab import _format, workloads
from pagedlab.advice import findings, here, served
from pagedlab.advice.block_cost import (
    SIZES,
    BlockCost,
    Demand,
    advised,
    behind,
    block_costs,
    running,
    slots,
    step_time,
)
from pagedlab.advice.decision import decision, why
from pagedlab.advice.engine_log import EngineLog, explain
from pagedlab.advice.engines import Flag
from pagedlab.advice.report import Advice, Change
from pagedlab.advice.served import Pool
from pagedlab.advice.setting import AdviceError, Choice, Setting, resolve
from pagedlab.workloads import Workload

AWAY_SHARE = 0.05
"""Share of the total from which on a size of the reader's own is warned of."""
PREFIXES = "shared prefixes"


def advise(
    trace: str | Path | Workload,
    *,
    log: EngineLog | None = None,
    measure: bool = False,
    progress: bool = False,
    **choices: object,
) -> Advice:
    """Advice for a trace: a path, the name of a workload that comes with the package, or a `Workload`.

    `choices` are the fields of `Choice`. `log` is what a vLLM start-up log said (`engine_log.read`): its
    tokens are taken instead of the sum, where they are this model's. `measure` times paged attention and
    table building on this machine. Raises `AdviceError` for a choice that cannot be, or when no request of
    the trace fits; what `workloads.load` raises for a file.

    >>> advice = advise("azure-code", gpu="h100")
    >>> advice.block_size, advice.finding("what bounds a step").values["kv_bound"]
    (64, True)
    """
    setting = resolve(Choice(**choices))  # type: ignore[arg-type]
    source, notes, unused = "", [], []
    if log is not None:
        notes = list(explain(log, setting.rank, setting.choice.dtype))
        if log.fits(setting.rank, setting.choice.dtype):
            setting = setting.with_pool(log.tokens or 0)
            source = f"recorded: the {log.tokens:,} tokens of the start-up log"
        else:
            unused = [f"{log.name} is of another model, dtype or rank: its tokens are not used"]
    workload, refused = _that_fit(_load(trace, progress), setting)
    endless = Demand.of(workload, _sizes(setting))
    demand = in_pool(workload, endless, setting)
    if measure:
        measured, setting = here.measure(demand, setting)
        notes += measured
    costs = block_costs(demand, setting)
    chosen = advised(costs, setting)
    pool = Pool(
        slots(demand, setting, chosen.block_size),
        chosen.block_size,
        setting.max_running,
        step_time(demand, setting),
    )
    share, preemptions = findings.watermark(workload, pool, setting)
    others = findings.other_policies(workload, pool, setting)
    flags, title = tuple(_flags(setting, chosen, demand, share, logged=bool(source))), setting.engine.title
    found = [
        decision(costs, chosen, demand, setting, flags, others),
        *why(demand, endless.hits, setting, costs, chosen, preemptions),
        *findings.trace(workload, refused, pool.slots),
        findings.block_size(costs, chosen, demand, setting),
        *findings.capacity(setting, chosen.block_size, demand, chosen.running, source),
        others,
        findings.wasted(workload, chosen.block_size),
        findings.short(workload, chosen),
        findings.bound(demand, setting, chosen.running),
        preemptions,
        findings.load(workload, pool),
        findings.step_time(demand, setting, chosen),
        findings.prefix(endless.hits, demand.hits, setting, chosen.block_size),
        findings.settings(setting.engine),
        *notes,
    ]
    ranks = f"{setting.choice.tp} x " if setting.choice.tp > 1 else ""
    return Advice(
        f"{workload.name}: {setting.model.name} on {ranks}{setting.gpu.title}, {title}",
        tuple(found),
        title,
        chosen.block_size,
        costs,
        tuple(_changes(workload, demand, setting, chosen)),
        flags,
        (*unused, *_warnings(setting, costs, chosen)),
    )


def in_pool(workload: Workload, demand: Demand, setting: Setting) -> Demand:
    """The demand with the prefixes that a pool of this setting would find, where the trace tells any."""
    if demand.hits is None:
        return demand
    pool = Pool(slots(demand, setting, 16), 16, setting.max_running, step_time(demand, setting))
    return replace(demand, hits=served.found_in_pool(workload, pool, demand.hits))


def _load(trace: str | Path | Workload, progress: bool) -> Workload:
    if isinstance(trace, Workload):
        return trace
    if isinstance(trace, str) and trace in workloads.names() and not Path(trace).exists():
        return workloads.named(trace)
    try:
        return workloads.load(trace, tolerant=True, progress=progress)
    except FileNotFoundError:
        known = _format.near(str(trace), workloads.names())
        raise AdviceError(f"{trace}: no such file, and no such workload; {known}") from None


def _that_fit(workload: Workload, setting: Setting) -> tuple[Workload, np.ndarray]:
    """The requests that an empty pool could hold, and the tokens of those that it could not."""
    fit = setting.fit(workload.stored)
    refused = workload.stored[~fit]
    if not fit.any():
        raise AdviceError(
            f"no request of {workload.name} fits: the shortest stores {int(workload.stored.min()):,} tokens, "
            f"and {setting.slots(16):,} fit on {setting.choice.tp} x {setting.gpu.title}"
        )
    return (workload.only(fit) if len(refused) else workload), refused


def _sizes(setting: Setting) -> tuple[int, ...]:
    own = setting.choice.block_size
    return tuple(sorted({*SIZES, own} if own else SIZES))


def _changes(workload: Workload, demand: Demand, setting: Setting, chosen: BlockCost) -> Iterator[Change]:
    """The advice with one input at a time changed."""
    fit, half = running(demand, setting.unlimited, chosen.block_size), max(1, int(chosen.running / 2))
    known = [factor * setting.constants.entry_s for factor in (0, 1, 4)]
    others = [
        *(("table work an entry, known", f"{1e9 * cost:.0f} ns", _knowing(setting, cost)) for cost in known),
        ("memory for K and V", "half", replace(setting, kv_bytes=setting.kv_bytes // 2)),
        ("memory for K and V", "twice", replace(setting, kv_bytes=setting.kv_bytes * 2)),
        ("weights", "a quarter (4 bits)", replace(setting, weight_bytes=setting.weight_bytes // 4)),
        ("requests at once", f"at most {half:,}", replace(setting, max_running=half)),
    ]
    if fit > setting.max_running:
        raised = round(fit)
        others.append(("requests at once", f"at most {raised:,}", replace(setting, max_running=raised)))
    if demand.hits is not None:
        others += [
            ("a prompt token", "twice as dear", replace(setting, prefill_s=2 * setting.prefill_s)),
            (PREFIXES, "none", setting),
        ]
    for input, becomes, other in others:
        asked = demand if input != PREFIXES else replace(demand, hits=None)
        if (other.kv_bytes, other.max_running) != (setting.kv_bytes, setting.max_running):
            asked = in_pool(workload, asked, other)
        costs = block_costs(asked, other)
        yield Change(
            input, becomes, advised(costs, other).block_size, behind(costs, chosen.block_size, other)
        )


def _knowing(setting: Setting, entry_s: float) -> Setting:
    """As if the reader had given what table work costs."""
    return replace(
        setting,
        choice=replace(setting.choice, entry_ns=1e9 * entry_s),
        constants=replace(setting.constants, entry_s=entry_s),
    )


def _flags(
    setting: Setting, chosen: BlockCost, demand: Demand, watermark: float, *, logged: bool
) -> Iterator[Flag]:
    """What to set in the engine, with what it allows; not its memory where a log tells what that came to."""
    server, choice = setting.engine, setting.choice
    rules = "; ".join(str(rule) for rule in server.rules(setting.model, setting.gpu))
    block = server.set("block", str(chosen.block_size), "never far from the least cost (simulated)")
    yield replace(block, allowed=rules)
    fraction = setting.capacity.fraction
    value = server.data.get("free_share", round(fraction, 3))
    if not logged:
        reason = "the share this advice counted with (assumed)"
        yield server.set("memory", f"{value:g}", reason, changed=False)
    fit = running(demand, setting.unlimited, chosen.block_size)
    binds = (
        "it binds before memory, which would hold" if fit > setting.max_running else "memory binds first, at"
    )
    reason = f"{binds} {fit:,.1f} requests of this trace on the mean (computed)"
    yield server.set("running", str(setting.max_running), reason, changed=choice.max_running is not None)
    if server.has_watermark:
        reason = "finished first on a full server (simulated)"
        yield server.set("watermark", f"{watermark:g}", reason, changed=watermark > 0)
    else:
        yield server.set(
            "watermark", server.data["watermark"]["default"], "no share of blocks", changed=False
        )
    prefix, reason = server.data["prefix"], _prefix_reason(demand)
    yield server.set("prefix", prefix.get("value", prefix["default"]), reason, changed=False)
    dtype = server.data["dtypes"].get(choice.dtype)
    if dtype and choice.dtype != "bf16":
        yield server.set("dtype", dtype, "the K and V counted with (assumed)")


def _prefix_reason(demand: Demand) -> str:
    if demand.hits is None:
        return "the trace does not tell what prompts share"
    share = _format.percent(demand.hits.share_of_prompts)
    return f"{share} of this trace's prompt tokens would be found in this pool (simulated)"


def _warnings(setting: Setting, costs: tuple[BlockCost, ...], chosen: BlockCost) -> Iterator[str]:
    """What the reader should not miss."""
    server, own = setting.engine, setting.choice.block_size
    sizes = [size for size in (chosen.block_size, own) if size]
    for size in dict.fromkeys(sizes):
        for rule in server.rules(setting.model, setting.gpu):
            if not rule.takes(size):
                yield f"{server.title} would change a block size of {size} under {rule}"
    if own is not None:
        mine = next(cost for cost in costs if cost.block_size == own)
        more = mine.total_us / chosen.total_us - 1
        if more > AWAY_SHARE:
            yield f"blocks of {own} cost {more:.0%} more than blocks of {chosen.block_size} (simulated)"
    if setting.choice.dtype not in server.data["dtypes"]:
        known = ", ".join(server.data["dtypes"])
        yield f"{server.title} has no K and V of {setting.choice.dtype} that is known here; it has {known}"
    for overflow in setting.capacity.overflows:
        yield str(overflow)
