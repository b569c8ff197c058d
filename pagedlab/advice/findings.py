"""The answers, one function each: a sentence with its numbers, their word, and what supports them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pagedlab import _format, gpu_model, gpus, policies, waste
from pagedlab.advice import served
from pagedlab.advice.block_cost import BlockCost, Demand, Hits, base_s, behind, best, kv_bytes_read, prompt_s
from pagedlab.advice.engines import Engine
from pagedlab.advice.report import CANNOT_TELL, Finding
from pagedlab.advice.served import Pool, Served
from pagedlab.advice.setting import Setting, terms
from pagedlab.workloads import Workload

SHORT = 100
"""Tokens, prompt and output together, up to which the chapter calls a request short."""


def trace(workload: Workload, refused: np.ndarray, slots: int) -> Iterator[Finding]:
    """What was read, what was left out, and what can never be served."""
    prompt, output = workload.prompt, workload.output
    lengths = ", ".join(
        f"{name} median {int(np.median(column)):,}, longest {int(column.max()):,}"
        for name, column in (("prompts", prompt), ("outputs", output))
    )
    text = f"{len(workload):,} requests; tokens of {lengths}"
    yield Finding("trace", text, workload.origin, workload.source, {"requests": len(workload)})
    if workload.skipped is not None:
        values = {"rows": workload.skipped.rows}
        yield Finding("left out", str(workload.skipped), "recorded", workload.source, values)
    if len(refused):
        text = (
            f"{len(refused):,} request(s) can never be served and are left out below: the longest stores "
            f"{int(refused.max()):,} tokens, and {slots:,} fit"
        )
        yield Finding("impossible requests", text, "computed", "stored: prompt + output - 1 tokens")


def block_size(costs: tuple[BlockCost, ...], chosen: BlockCost, demand: Demand, setting: Setting) -> Finding:
    """The advised size, and why it is neither smaller nor larger."""
    least = best(costs)
    near = [c.block_size for c in costs if c.backends and c.total_us <= 1.01 * least.total_us]
    lost = "prefix hits are lost and " if chosen.prefix_us else ""
    text = (
        f"blocks of {chosen.block_size}: {chosen.total_us:.2f} us of GPU time for each token produced, "
        f"{chosen.extra_us:.2f} of them the price of paging. Smaller blocks cost more because table work "
        f"grows with the mean context ({demand.stored:,.0f} tokens) over the block size, larger ones because "
        f"{lost}fewer requests fit. Least by the stated cost: {least.block_size}; within 1 % of it: "
        f"{', '.join(map(str, near))}"
    )
    if setting.choice.entry_ns is None:
        worst = _format.percent(behind(costs, chosen.block_size, setting))
        text += (
            f". {chosen.block_size} is within {worst} of the best whether table work costs that or nothing"
        )
        entry = "published: figure a10, a whole server, an upper bound; a5, a kernel alone, saw none"
    else:
        entry = "assumed: given"
    kernel = "look-ups by their bytes" if not setting.kernel_ratio else "kernel ratio measured here"
    evidence = (
        f"cost = shared + K and V + waste + table + kernel + prefix; waste in closed form, {kernel}, table "
        f"work {1e9 * setting.constants.entry_s:.0f} ns an entry ({entry}); GPU model: "
        f"{gpu_model.error_note()}"
    )
    values = {"block_size": chosen.block_size, "least": least.block_size, "within_1_percent": near}
    return Finding("block size", text, "simulated", evidence, values)


def capacity(setting: Setting, size: int, demand: Demand, at_once: float, source: str) -> Iterator[Finding]:
    """Tokens and requests that fit, and what the ranks hold more than once."""
    slots, ranks = setting.slots(size), setting.choice.tp
    per_token = setting.rank.kv_bytes(1, setting.choice.dtype)
    text = (
        f"{slots:,} tokens fit on each rank, {slots // size:,} blocks of {size} at "
        f"{_format.size(per_token * size)}: {at_once:,.1f} requests of this trace at once, with "
        f"{demand.stored:,.0f} tokens each on the mean"
    )
    weights = f"weights {setting.weight_word} ({setting.weight_source})"
    reserve = "" if setting.capacity.activation_bytes else " to fit in the engine's reserve"
    evidence = f"{terms(setting)}; {weights}; activations assumed{reserve}; {_memory_of(setting)}"
    values = {"tokens": slots, "running": at_once, "bytes_per_token_per_rank": per_token}
    yield Finding("capacity", text, "computed", source or evidence, values)
    if ranks > 1:
        groups = setting.model.layer_groups
        heads = ", ".join(f"{g.kv_heads} KV heads" if g.kv_heads else "a latent vector" for g in groups)
        held = "one copy" if setting.copies == 1 else f"{setting.copies:g} copies"
        text = f"the {ranks} ranks together hold {held} of each token"
        evidence = f"{heads} for {ranks} ranks; a head or a latent vector is never split"
        yield Finding("copies", text, "computed", evidence, {"copies": setting.copies})


def _memory_of(setting: Setting) -> str:
    gpu = setting.gpu
    if setting.choice.gpu_gb is not None:
        return f"memory of {gpu.title} assumed: given"
    sold = "" if "driver" in gpu.source else f"; {gpus.DRIVERS}: gpu_gb would count them"
    return f"memory of {gpu.title} published ({gpu.source}{sold})"


def other_policies(workload: Workload, pool: Pool, setting: Setting) -> Finding:
    """How many requests run at once under contiguous and virtual-memory allocation."""
    rules: dict[str, dict[str, Any]] = {}
    try:
        granule = policies.granule_tokens(setting.rank, setting.choice.dtype)
        rules["virtual"] = {"granule": min(granule, pool.slots)}
        note = f"granules of {granule:,} tokens (2 MiB of one layer's K)"
    except ValueError as error:
        note = f"virtual memory: {CANNOT_TELL}, {error}"
    parts, values, paged = [], {}, 0.0
    for policy, title in served.POLICIES.items():
        if policy == "virtual" and policy not in rules:
            continue
        run = served.serve(workload, pool, policy, **rules.get(policy, {}))
        mean = run.full_running if run.full_running is not None else float(run.peak_running)
        values[policy] = mean
        paged = paged or mean
        beside = f" (paging: x {paged / mean:.2f})" if mean and policy != "paged" else ""
        refused = f" ({run.refused:,} never fit)" if run.refused else ""
        parts.append(f"{mean:,.1f} {title}{beside}{refused}")
    text = "requests at once on the mean while others wait: " + "; ".join(parts)
    evidence = (
        f"the first {min(len(workload), served.WINDOW):,} requests, all waiting, {pool.slots:,} slots, at "
        f"most {pool.max_running:,} at once; contiguous without holes, which is kind to it; {note}"
    )
    return Finding("other allocation", text, "simulated", evidence, values)


def wasted(workload: Workload, size: int) -> Finding:
    """Wasted slots over time and at the end, paged and contiguous."""
    paged = waste.paged(workload, size)
    at_end = waste.at_final_length(workload, size)
    reserve, power = waste.reserve_longest(workload), waste.power_of_two(workload)
    text = (
        f"blocks of {size} waste {_format.percent(paged.wasted_share)} of held slots over time "
        f"({_format.percent(at_end)} at final length); reserving for the longest "
        f"{_format.percent(reserve.wasted_share)}, for the next power of two "
        f"{_format.percent(power.wasted_share)}, over time"
    )
    evidence = "closed form over every request at each of its steps; holes between pieces not counted"
    values = {"over_time_share": paged.wasted_share, "at_final_length_share": at_end}
    return Finding("waste", text, "computed", evidence, values)


def short(workload: Workload, chosen: BlockCost) -> Finding:
    """How many requests are short, and what they cost."""
    total = workload.prompt + workload.output
    is_short = total <= SHORT
    share, tokens = float(is_short.mean()), float(total[is_short].sum() / total.sum())
    steps = float(workload.output[is_short].sum() / workload.output.sum())
    text = f"no request has at most {SHORT} tokens"
    if is_short.any():
        text = (
            f"{_format.percent(share)} of requests have at most {SHORT} tokens; they hold "
            f"{100 * tokens:.2f} % of all tokens and take {_format.percent(steps)} of produced ones"
        )
        waste_share = waste.paged(workload.only(is_short), chosen.block_size).wasted_share
        text += (
            f". Each such token costs {chosen.shared_us:.1f} us of shared floor (simulated), paging or not; "
            f"in blocks of {chosen.block_size} they waste {_format.percent(waste_share)} of what they hold"
        )
    values = {"requests_share": share, "tokens_share": tokens, "steps_share": steps}
    return Finding("short requests", text, "computed", "prompt and output together, every request", values)


def bound(demand: Demand, setting: Setting, at_once: float) -> Finding:
    """Whether K and V or the weights bound a step, and where that turns."""
    kv = kv_bytes_read(demand, setting)
    turns = setting.weight_bytes / kv
    by_kv = at_once > turns
    text = (
        f"a full decode step reads {_format.size(at_once * kv)} of K and V and "
        f"{_format.size(setting.weight_bytes)} of weights on each rank: "
        f"{'K and V bound' if by_kv else 'the weights bound'} it; that turns at {turns:,.0f} requests "
        f"({turns * demand.stored:,.0f} tokens)"
    )
    evidence = f"bytes; weights {setting.weight_word}, all of them read in each step"
    values = {"turns_at_requests": turns, "turns_at_tokens": turns * demand.stored, "kv_bound": by_kv}
    return Finding("what bounds a step", text, "computed", evidence, values)


def watermark(workload: Workload, pool: Pool, setting: Setting) -> tuple[float, Finding]:
    """Preemptions by watermark on a full server, and the share that finishes first."""
    share, runs = served.best_watermark(workload, pool)
    rows = "; ".join(
        f"{100 * w:g} %: {run.preemptions:,} ({run.recomputed_tokens:,} tokens computed again), "
        f"{run.seconds:,.1f} s"
        for w, run in runs.items()
    )
    text = f"by share kept free at admission, all requests waiting: {rows}. Least time at {100 * share:g} %"
    if not setting.engine.has_watermark:
        text += f". {setting.engine.title} has no watermark: {setting.engine.data['when_full']}"
    simulated = "the newest running request is preempted and computed again"
    evidence = f"{_of_run(workload, pool, *runs.values())}; {simulated}"
    values = {"watermark": share, "preemptions": {w: run.preemptions for w, run in runs.items()}}
    return share, Finding("preemptions", text, "simulated", evidence, values)


def load(workload: Workload, pool: Pool) -> Finding:
    """How full the pool is at the rate at which the requests came."""
    if workload.arrival_ns is None or int(workload.arrival_ns[-1]) == 0:
        missing = "the trace has no arrival times, or one for all"
        return Finding("at the recorded rate", f"{CANNOT_TELL} how full the pool gets", CANNOT_TELL, missing)
    window = workload.first(served.WINDOW)
    run = served.serve(window, pool, timed=True)
    assert window.arrival_ns is not None
    rate = (len(window) - 1) / max(1e-9, float(window.arrival_ns[-1]) / 1e9)
    text = (
        f"{rate:,.2f} requests a second fill the pool to {_format.percent(run.peak_held_share)} at most, "
        f"with {run.peak_running:,} running and {run.preemptions:,} preemptions"
    )
    if run.peak_held_share < 0.5:
        text += ": memory does not bind at this rate, so the block size hardly matters to capacity"
    values = {"peak_held_share": run.peak_held_share, "peak_running": run.peak_running}
    return Finding("at the recorded rate", text, "simulated", _of_run(workload, pool, run), values)


def step_time(demand: Demand, setting: Setting, chosen: BlockCost) -> Finding:
    """The step assumed, and how the capacity in requests a second moves with it."""
    base = base_s(demand, setting)

    def requests_a_second(factor: float) -> float:
        produced = 1e-6 * (chosen.total_us + (factor - 1) * (chosen.shared_us + chosen.waste_us))
        return 1 / (demand.mean_output * produced + prompt_s(demand, setting))

    rates = {factor: requests_a_second(factor) for factor in (0.5, 1.0, 2.0)}
    moves = ", ".join(f"x {factor:g}: {rate:,.2f}" for factor, rate in rates.items())
    text = (
        f"a step takes {_format.seconds(base)} before it reads K and V, {_format.seconds(setting.prefill_s)} "
        f"for each prompt token; a full server then completes {rates[1.0]:,.2f} requests a second. With the "
        f"step {moves}"
    )
    origin = "given" if setting.choice.step_ms is not None else "GPU model: weights over bandwidth, launches"
    evidence = f"{origin}; unless given, 20 us a prompt token for each 16 GB of dense weights"
    return Finding("step time", text, "assumed", evidence, {"base_s": base, "requests_per_s": rates})


def prefix(seen: Hits | None, found: Hits | None, setting: Setting, size: int) -> Finding:
    """Shared prefixes: in a cache without end, in this pool, and what block edges lose of the latter."""
    if seen is None or found is None:
        missing = "the trace has no hash_ids that tell prefixes; bring Mooncake's form to know"
        return Finding("prefix hits", f"{CANNOT_TELL} what prompts share", CANNOT_TELL, missing)
    lost = 0.0 if setting.engine.matches_within_blocks else found.lost(size)
    text = (
        f"this pool would find {_format.percent(found.share_of_prompts)} of prompt tokens in its cache, in "
        f"{_format.percent(found.share_of_requests)} of requests, and blocks of {size} lose {lost:,.1f} of "
        f"these tokens a request at their edges: the prefix cost. The most that any pool could find, a cache "
        f"without end, is {_format.percent(seen.share_of_prompts)} (computed)"
    )
    evidence = (
        f"served on the real block manager in units of {seen.tokens_per_hash} tokens, one hash each; the "
        f"first {len(found.tokens):,} requests, for the cache without end {len(seen.tokens):,}. Inside a "
        f"unit a prefix is assumed to end anywhere. {setting.engine.data['finer']}"
    )
    values = {
        "unlimited_share": seen.share_of_prompts,
        "in_pool_share": found.share_of_prompts,
        "lost_tokens": lost,
    }
    return Finding("prefix hits", text, "simulated", evidence, values)


def settings(engine: Engine) -> Finding:
    """Where the flags, their defaults and what they allow were read."""
    text = f"flags, defaults and allowed values are those of {engine.title}"
    return Finding("settings", text, "published", engine.data["source"])


def _of_run(workload: Workload, pool: Pool, *runs: Served) -> str:
    step = pool.step_time
    cut = "; cut short: the run had too many steps" if any(run.cut_short for run in runs) else ""
    return (
        f"the first {min(len(workload), served.WINDOW):,} requests on the real block manager, {pool.slots:,} "
        f"slots, blocks of {pool.block_size}; a step {step.base / 1e6:.2f} ms + "
        f"{step.per_token / 1e3:.1f} us a computed token + {step.per_stored} ns a stored one (assumed){cut}"
    )
