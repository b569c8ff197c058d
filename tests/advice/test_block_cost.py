"""What a block size costs: against plain counting, request by request and step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pagedlab import gpus, workloads
from pagedlab.advice.block_cost import (
    SPARE,
    Demand,
    Hits,
    advised,
    behind,
    best,
    block_costs,
    find_hits,
    running,
    slots,
)
from pagedlab.advice.engines import ENGINES, engine
from pagedlab.advice.setting import AdviceError, Choice, resolve
from pagedlab.models import preset

SETTING = resolve(Choice())


def requests(rows: list[tuple[int, int]]) -> workloads.Workload:
    return workloads.parse("".join(f"{prompt},{output}\n" for prompt, output in rows))


def contexts(workload: workloads.Workload) -> np.ndarray:
    """What each request stores at each of its steps."""
    pairs = zip(workload.prompt.tolist(), workload.output.tolist(), strict=True)
    return np.concatenate([np.arange(prompt, prompt + output) for prompt, output in pairs])


def test_demand_is_the_mean_over_every_step_of_every_request():
    workload = requests([(3, 4), (100, 30), (17, 1), (65, 200)])
    demand, stored = Demand.of(workload), contexts(workload)
    assert demand.stored == stored.mean() and demand.mean_output == workload.output.mean()
    assert demand.held == {size: (-(-stored // size) * size).mean() for size in demand.held}
    assert sorted(demand.contexts.tolist()) == sorted(stored.tolist()), "few steps are all looked at"


def test_the_sample_of_contexts_is_even():
    workload = workloads.named("azure-conversation", requests=2_000)
    demand, stored = Demand.of(workload), contexts(workload)
    for share in (0.1, 0.5, 0.9):
        assert np.quantile(demand.contexts, share) == pytest.approx(np.quantile(stored, share), rel=0.05)


def test_a_request_waits_for_memory_or_for_the_limit():
    demand = Demand.of(requests([(1000, 1)] * 5))
    tokens = SETTING.kv_bytes / (128 * 1024)
    assert running(demand, SETTING, 1) == pytest.approx(tokens / 1000)
    assert running(demand, SETTING, 256) == pytest.approx(tokens / 1024)
    assert running(demand, replace(SETTING, max_running=7), 256) == 7


def test_where_the_limit_binds_waste_costs_nothing_and_the_largest_block_is_best():
    demand = Demand.of(workloads.named("azure-conversation", requests=500))
    costs = block_costs(demand, replace(SETTING, max_running=4))
    assert all(cost.waste_us == 0 for cost in costs)
    assert best(costs).block_size == max(cost.block_size for cost in costs)


def test_the_four_costs_move_as_they_should():
    costs = block_costs(Demand.of(workloads.named("azure-conversation", requests=2_000)), SETTING)
    waste, table = ([getattr(cost, part) for cost in costs] for part in ("waste_us", "table_us"))
    assert waste == sorted(waste) and table == sorted(table, reverse=True)
    assert {cost.prefix_us for cost in costs} == {None}
    for cost in costs:
        parts = (cost.shared_us, cost.kv_us, cost.waste_us, cost.table_us, cost.kernel_us)
        assert cost.total_us == pytest.approx(sum(parts))


def test_the_size_advised_is_the_best_or_between_the_best_at_either_end():
    costs = block_costs(Demand.of(workloads.named("azure-conversation", requests=2_000)), SETTING)
    free = min((cost for cost in costs if cost.backends), key=lambda cost: cost.free_us)
    chosen, dear = advised(costs, SETTING), best(costs)
    assert free.block_size < chosen.block_size <= dear.block_size
    far, *others = (behind(costs, cost.block_size, SETTING) for cost in (chosen, free, dear))
    assert far < min(others)


def test_of_sizes_that_cost_the_same_the_one_that_wastes_least_is_advised():
    """Where the limit on requests binds, 256 would save a thousandth of table work and waste most slots."""
    setting = replace(SETTING, max_running=8)
    costs = block_costs(Demand.of(workloads.named("uniform", requests=500)), setting)
    chosen, dear = (size.block_size for size in (advised(costs, setting), best(costs)))
    assert chosen < dear
    assert behind(costs, chosen, setting) - behind(costs, dear, setting) < 1e-3


def test_where_the_limit_hides_waste_a_hundredth_is_given_for_blocks_that_waste_less():
    """A server that may run few gains little by the largest blocks, and loses the room they waste."""
    setting = replace(SETTING, max_running=64)
    costs = block_costs(Demand.of(workloads.named("azure-conversation", requests=2_000)), setting)
    chosen, least = advised(costs, setting), best(costs)
    assert least.block_size == max(cost.block_size for cost in costs) and chosen.waste_share < 0.05
    smaller = max(cost.block_size for cost in costs if cost.block_size < chosen.block_size)
    near, far = (behind(costs, size, setting) for size in (chosen.block_size, smaller))
    assert near < SPARE + 5e-4 < far


def test_a_ratio_measured_on_such_a_gpu_takes_the_place_of_counted_bytes():
    demand = Demand.of(requests([(1000, 10)] * 3))
    measured = block_costs(demand, replace(SETTING, kernel_ratio={16: 1.5, 256: 0.9}))
    for cost in measured:  # sizes that were not measured take the nearest that was; paging never gives time
        assert cost.kernel_us == pytest.approx(cost.kv_us / 2 if cost.block_size <= 64 else 0)


# ---- shared prefixes ------------------------------------------------------------------------------


def shared(rows: list[tuple[int, list[int]]]) -> workloads.Workload:
    lines = (f'{{"prompt": {prompt}, "output": 2, "hash_ids": {ids}}}\n' for prompt, ids in rows)
    return workloads.parse("".join(lines))


def test_hits_are_the_hashes_that_an_earlier_request_had():
    workload = shared([(1100, [1, 2, 3]), (1100, [1, 2, 4]), (300, [9]), (300, [9]), (1024, [1, 5])])
    hits = find_hits(workload)
    assert hits is not None and hits.tokens.tolist() == [0, 1024, 0, 300, 512]
    assert hits.share_of_requests == 0.6 and hits.share_of_prompts == 1836 / 3824


def test_a_block_edge_loses_half_a_block_and_above_a_hash_what_is_known():
    hits = Hits(np.array([0, 512, 1536, 2048]), 0.5, 512)
    assert hits.lost(1) == 0 and hits.lost(17) == 0.75 * 8
    assert hits.lost(1024) == (512 + 512) / 4 + 0.75 * 511 / 2


def test_an_engine_that_matches_inside_blocks_loses_nothing_of_a_prefix():
    demand = Demand.of(shared([(1100, [1, 2, 3])] * 4))
    vllm, trt = (block_costs(demand, resolve(Choice(engine=name))) for name in ("vllm", "tensorrt-llm"))
    assert vllm[5].prefix_us > 0 and {cost.prefix_us for cost in trt} == {0.0}


def test_without_hashes_nobody_knows():
    assert find_hits(requests([(5, 5)])) is None


# ---- settings -------------------------------------------------------------------------------------


def test_memory_is_counted_as_the_engine_takes_it():
    taken = {name: resolve(Choice(engine=name)).capacity for name in ENGINES}
    assert taken["vllm"].usable_bytes == int(80e9 * 0.92)
    assert taken["sglang"].usable_bytes == pytest.approx(70e9, abs=1)
    assert taken["sglang"].activation_bytes == 0, "its reserve of 10 GB is there for them"
    assert resolve(Choice(engine="sglang", activation_gb=12.0)).capacity.activation_bytes == 2e9
    free = 80e9 - 16.06e9 - 2e9
    assert taken["tensorrt-llm"].kv_bytes == pytest.approx(0.9 * free, abs=2)


def test_ranks_beyond_the_heads_hold_copies():
    assert resolve(Choice(tp=8)).copies == 1 and resolve(Choice(tp=16)).copies == 2
    assert resolve(Choice(model="deepseek-v2", tp=8, gpu="h200", weight_gb=472)).copies == 8


def test_a_model_with_windows_is_served_from_a_pool_of_as_many_requests():
    setting = resolve(Choice(model="gpt-oss-120b", weight_gb=63))
    demand = Demand.of(requests([(4096, 1)] * 3))
    at_once = setting.kv_bytes / setting.capacity.sequence_bytes(4096)
    assert running(demand, setting, 16) == pytest.approx(at_once)
    assert slots(demand, setting, 16) == int(at_once * 4096) // 16 * 16 > setting.slots(16)
    assert setting.fit(np.array([4096, 10**7])).tolist() == [True, False]


@pytest.mark.parametrize(
    "choices, words",
    [
        ({"model": "lama-3.1-8b"}, "no model 'lama-3.1-8b' here; near: llama-3.1-8b"),
        ({"gpu": "h"}, "no GPU 'h' here; near: h100-sxm, h200-sxm"),
        ({"gpu": ""}, "no GPU ''"),
        ({"engine": "vlm"}, "no engine 'vlm' here; near: vllm"),
        ({"tp": 0}, "tp must be a whole number from 1 to 1,000,000, got 0"),
        ({"tp": True}, "tp must be a whole number"),
        ({"tp": 3}, "8 KV heads of llama-3.1-8b do not split over 3 ranks"),
        ({"dtype": "fp9"}, "dtype must be one of .* got 'fp9'"),
        ({"weight_gb": float("nan")}, "weight_gb must be a number from 0 to 1,000,000, got nan"),
        ({"step_ms": 1e300}, "step_ms must be a number from 0 to 1,000,000, got 1e\\+300"),
        ({"max_running": 10**30}, "max_running must be a whole number from 1 to 1,000,000, got 10"),
        ({"block_size": 5000}, "block_size must be at most 4,096, got 5,000"),
        ({"model": "llama-3.1-70b"}, "weights take 140,000,000,000, activations 2,000,000,000"),
        ({"model": "deepseek-v3"}, "weights of deepseek-v3 are is not known here: give weight_gb"),
    ],
)
def test_a_choice_that_cannot_be_names_the_rule_or_the_nearest_names(choices, words):
    with pytest.raises(AdviceError, match=words):
        resolve(Choice(**choices))


@pytest.mark.parametrize(
    "name, model, gpu, taken",
    [
        ("vllm", "llama-3.1-8b", "h100-sxm", {16, 32, 48, 64, 128, 256}),
        ("vllm", "deepseek-v2", "h100-sxm", {64}),
        ("vllm", "deepseek-v2", "b200", {32, 64, 128}),
        ("vllm", "deepseek-v2", "a100-80gb", {16, 32, 48, 64, 128, 256}),
        ("sglang", "llama-3.1-8b", "h100-sxm", {1, 2, 8, 16, 32, 48, 64, 128, 256}),
        ("tensorrt-llm", "llama-3.1-8b", "h100-sxm", {2, 8, 16, 32, 64, 128, 256}),
    ],
)
def test_what_each_engine_takes(name, model, gpu, taken):
    rules = engine(name).rules(preset(model), gpus.named(gpu))
    sizes = (1, 2, 8, 16, 32, 48, 64, 128, 256)
    assert {size for size in sizes if any(rule.takes(size) for rule in rules)} == taken


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_flashmla_needs_a_hopper_or_newer(name):
    """Its kernels are built on instructions that an A100 (sm_80) and an RTX 4090 (sm_89) lack."""
    runs_on = {
        gpu
        for gpu in gpus.names()
        if any(
            rule.backend == "FlashMLA" for rule in engine(name).rules(preset("deepseek-v2"), gpus.named(gpu))
        )
    }
    assert runs_on == {"h100-sxm", "h200-sxm", "b200"}
