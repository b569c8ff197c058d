"""What stands first: the decision, and what about this trace led to it. The evidence follows elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pagedlab import _format
from pagedlab.advice.block_cost import PARTS, SPARE, BlockCost, Demand, Hits, behind, prompt_share, running
from pagedlab.advice.engines import Flag
from pagedlab.advice.report import DECISION, NOTHING, WHY, Finding
from pagedlab.advice.setting import Setting

LONG_RUNNING = 64
"""With fewer requests at once than this, they are called long."""
SHARED = 0.05
"""Share of prompt tokens seen before from which on prefixes are spoken of."""
_MEAN = "means over every request at each of its steps"


def decision(
    costs: tuple[BlockCost, ...],
    chosen: BlockCost,
    demand: Demand,
    setting: Setting,
    flags: Iterable[Flag],
    others: Finding,
) -> Finding:
    """What to set and what it buys; `others` is `findings.other_policies`' answer."""
    size, slots = chosen.block_size, setting.slots(chosen.block_size)
    changed = " ".join(f"{flag.flag} {flag.value}" for flag in flags if flag.changed)
    text = f"set {changed} and leave the rest. Blocks of {size} tokens cost "
    far, entry = behind(costs, size, setting), f"{1e9 * setting.constants.entry_s:.0f} ns an entry"
    text += "least" if far < NOTHING else f"at most {_format.percent(far)} more than the best"
    if setting.choice.entry_ns is None:
        text += f", whether table work is free or {entry}, the published bounds"
    else:
        text += f", with table work at {entry} (assumed: given)"
    text += _beside_default(costs, chosen, demand, setting)
    at_once = _format.count(round(chosen.running), "request")
    text += f". {slots:,} tokens fit (computed): {at_once} of this trace at once (computed)"
    paged, reserve = others.values["paged"], others.values["reserve"]
    if 0 < reserve < 0.95 * paged:
        text += f", {paged / reserve:.1f} times as many as with memory reserved for the longest"
    values = {"block_size": size, "tokens": slots, "running": chosen.running}
    return Finding(DECISION, text, "simulated", "the findings under evidence, each with its own", values)


def _beside_default(costs: tuple[BlockCost, ...], chosen: BlockCost, demand: Demand, setting: Setting) -> str:
    """What the engine's own block size would cost, at both bounds of table work and with prompts counted."""
    usual = setting.engine.block_size
    other = next((cost for cost in costs if cost.block_size == usual and cost.backends), None)
    if other is None or other is chosen:
        return ""
    dear, free = other.total_us / chosen.total_us - 1, other.free_us / chosen.free_us - 1
    said = _more(dear)
    if setting.choice.entry_ns is None:
        said = f"{_more(free)} if free, {said} at {1e9 * setting.constants.entry_s:.0f} ns"
    most = max(abs(dear), abs(free)) * (1 - prompt_share(demand, setting, chosen))
    return (
        f"; the default of {setting.engine.name}, {usual}, costs {said}: with computing prompts, at most "
        f"{_format.percent(most)} of all GPU time"
    )


def _more(share: float) -> str:
    return f"{_format.percent(abs(share))} {'more' if share >= 0 else 'less'}"


def why(
    demand: Demand,
    seen: Hits | None,
    setting: Setting,
    costs: tuple[BlockCost, ...],
    chosen: BlockCost,
    preempted: Finding,
) -> Iterator[Finding]:
    """What is particular about the trace, as far as it bears on a setting, and what moved the block size.

    `seen` are the prefixes of a cache without end, `preempted` is `findings.watermark`'s answer.
    """
    yield from _memory(demand, setting, chosen)
    yield from _prefixes(demand, seen, setting, chosen)
    yield _time(demand, setting, chosen)
    yield _growth(demand, setting, preempted)
    yield from _neighbours(costs, chosen, setting)


def _memory(demand: Demand, setting: Setting, chosen: BlockCost) -> Iterator[Finding]:
    size = chosen.block_size
    fitting = running(demand, setting.unlimited, size)
    if fitting > setting.max_running:
        text = (
            f"memory would hold {fitting:,.0f} requests, {setting.engine.name} runs {setting.max_running:,}: "
            f"memory does not bind, so waste costs no time. It takes room from prefixes: of the sizes within "
            f"{_format.percent(SPARE)} of the best the smallest is advised"
        )
        yield Finding(f"{WHY}: memory", text, "computed", _MEAN)
    elif fitting < LONG_RUNNING:
        text = (
            f"requests are long: with {demand.stored:,.0f} tokens each only {fitting:,.0f} run at once, and "
            f"share what a step costs anyway; each has {demand.held[size] / size:,.0f} table entries"
        )
        yield Finding(f"{WHY}: memory", text, "computed", _MEAN)


def _prefixes(demand: Demand, seen: Hits | None, setting: Setting, chosen: BlockCost) -> Iterator[Finding]:
    found = demand.hits
    if seen is None or found is None or seen.share_of_prompts < SHARED:
        return
    missed = (seen.share_of_prompts - found.share_of_prompts) * demand.mean_prompt * setting.prefill_s
    text = (
        f"prompts begin alike: {_format.percent(seen.share_of_prompts)} of their tokens were seen before "
        f"(computed), {_format.percent(found.share_of_prompts)} are still in this pool. Finding the rest, by "
        f"a larger pool or by sending requests where their prefix is, would save "
        f"{1e6 * missed / demand.mean_output:,.0f} us of GPU time for each token produced; paging costs "
        f"{chosen.extra_us:,.1f} us"
    )
    evidence = (
        f"see prefix hits; computing a prompt token takes {_format.seconds(setting.prefill_s)} (assumed)"
    )
    yield Finding(f"{WHY}: prefixes", text, "simulated", evidence)


def _time(demand: Demand, setting: Setting, chosen: BlockCost) -> Finding:
    share = prompt_share(demand, setting, chosen)
    text = f"{demand.mean_prompt / demand.mean_output:,.1f} prompt tokens for each one produced (computed): "
    if share > 0.5:
        text += f"computing prompts takes {_format.percent(share)} of GPU time, which no block size changes"
    else:
        text += f"producing takes {_format.percent(1 - share)} of GPU time, where a block size counts"
    evidence = f"a prompt token takes {_format.seconds(setting.prefill_s)} (assumed), a produced one as below"
    return Finding(f"{WHY}: time", text, "simulated", evidence)


def _growth(demand: Demand, setting: Setting, preempted: Finding) -> Finding:
    growth, share = demand.mean_output / demand.mean_prompt, preempted.values["watermark"]
    none, some = (preempted.values["preemptions"][kept] for kept in (0.0, share))
    preemptions = _format.count(none, "preemption")
    text = f"requests grow by {_format.percent(growth)} while they run (computed): "
    if not setting.engine.has_watermark:
        text += f"{preemptions} by vLLM's rule; in {setting.engine.name} {setting.engine.data['when_full']}"
    elif share:
        text += f"{preemptions}, {some:,} with {100 * share:g} % of blocks kept free at admission"
    else:
        text += f"{preemptions}, and keeping blocks free at admission saves no time"
    return Finding(f"{WHY}: growth", text, "simulated", "see preemptions")


def _neighbours(costs: tuple[BlockCost, ...], chosen: BlockCost, setting: Setting) -> Iterator[Finding]:
    """What the next sizes that the engine takes would cost more and less of."""
    taken, said = [cost for cost in costs if cost.backends], []
    at = taken.index(chosen)
    for other in [*taken[max(0, at - 1) : at], *taken[at + 1 : at + 2]]:
        moved = []
        for part in PARTS:
            us = (getattr(other, f"{part}_us") or 0.0) - (getattr(chosen, f"{part}_us") or 0.0)
            if abs(us) >= 0.005:
                moved.append(f"{abs(us):,.2f} us {'more' if us > 0 else 'less'} in {part}")
        said.append(f"blocks of {other.block_size} cost {', '.join(moved) or 'the same'}")
    if said:
        text = f"{'; '.join(said)}, for each token produced"
        if chosen.prefix_us is None and not setting.engine.matches_within_blocks:
            text += ". Prefix hits, which the trace does not tell, would be for smaller ones"
        yield Finding(f"{WHY}: block size", text, "simulated", "see what a block size costs")
