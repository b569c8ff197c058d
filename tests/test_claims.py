"""The logic of each verdict, on fixed records: no test here depends on how fast anything runs."""

from __future__ import annotations

import dataclasses
import functools
import json
import re

import numpy as np
import pytest

from pagedlab import claims, machine, published, timing, waste, workloads
from pagedlab.claims import (
    Claim,
    Outcome,
    access_pattern,
    capacity_not_bandwidth,
    default_16,
    fewer_bytes,
    gains_exceed_overhead,
    indirection,
    large_blocks,
    long_context_bound,
    no_clever_allocation,
    reading,
    short_blocks,
    short_sequences,
    small_blocks_cost,
    small_blocks_waste_less,
    use_a_framework,
    workload_fit,
)
from pagedlab.claims.gains_exceed_overhead import Served
from pagedlab.claims.long_context_bound import Model
from pagedlab.claims.use_a_framework import Tried
from pagedlab.claims.verdict import Verdict
from pagedlab.comparison import Comparison, Timing
from pagedlab.decoding import Decode, Sizes
from pagedlab.workloads import Workload

HOLDS, HOLDS_WHEN, FAILS, UNTOLD = Outcome
QUIET = (1.0, 1.01, 0.99, 1.005, 0.995) * 3
NOISY = (1.0, 3.0, 0.4, 2.0, 0.6) * 3


def timed(times: dict[str, float], moved: dict[str, int] | None = None, jitter=QUIET) -> Comparison:
    """A comparison of cases that take so many seconds, times a jitter that differs from case to case."""
    moved = moved or {}
    timings = tuple(
        Timing(name, "HND", moved.get(name, 100), 1, _jittered(seconds, jitter, shift))
        for shift, (name, seconds) in enumerate(times.items())
    )
    first = next(iter(times))
    again = _jittered(times[first], jitter, len(times))
    limit = "read" if "read" in times else ""
    return Comparison(
        "a test", first, timings, again, "a machine", "a clock", {}, {}, 1, len(jitter), 0, "", limit, "cold"
    )


def _jittered(seconds: float, jitter: tuple[float, ...], shift: int) -> tuple[float, ...]:
    return tuple(seconds * jitter[(round_ + 2 * shift) % len(jitter)] for round_ in range(len(jitter)))


def sweep(jitter: tuple[float, ...] = QUIET, **times: float) -> Comparison:
    """`b16=1.2` is a case "paged 16" that takes 1.2 times as long as the twin; the reader takes half."""
    cases = {f"paged {name[1:]}": seconds for name, seconds in times.items()}
    return timed({"contiguous": 1.0, **cases, "read": 0.5}, jitter=jitter)


def _lengths(*lengths: int, name: str = "case") -> Workload:
    return Workload(name, "assumed", "a test", np.array(lengths), np.ones(len(lengths), np.int64))


# ---- reading a comparison ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ratio, jitter, told",
    [(1.2, QUIET, True), (1.03, QUIET, False), (0.5, QUIET, False), (1.075, QUIET, True), (1.2, NOISY, None)],
)
def test_slower_is_told_by_the_interval_of_the_ratio(ratio, jitter, told):
    assert reading.slower(sweep(jitter, b16=ratio), "paged 16") is told


def test_a_baseline_that_differs_from_itself_is_no_baseline_for_less():
    biased = dataclasses.replace(sweep(b16=1.2), again=tuple(1.3 * j for j in QUIET))
    assert reading.slower(biased, "paged 16") is None


def test_too_few_rounds_tell_nothing():
    assert reading.slower(sweep(QUIET[:5], b16=9.0), "paged 16") is None


def test_rounds_are_added_until_a_verdict_is_told():
    class Fake:
        asked: list[int] = []

        def compare(self, cases, *, caches, rounds, seed=0, what=""):
            self.asked.append(seed)
            return sweep(b16=1.2)

    seen = []

    def judge(comparison: Comparison) -> Verdict:
        seen.append(comparison.rounds)
        told = HOLDS if comparison.rounds >= 45 else UNTOLD
        return Verdict("a claim", told, (), (), (), "a machine")

    assert reading.settle(Fake(), [], judge, quick=True).outcome is HOLDS
    assert seen == [15, 30, 45] and Fake.asked == [0, 1, 2]


# ---- one table for each claim --------------------------------------------------------------------

BOTH_LAYOUTS = [
    f"{layout} {size} {order}"
    for layout in ("HND", "NHD")
    for size in (1, 64)
    for order in access_pattern.ORDERS
]
TRACED = dict.fromkeys(("HND 1", "HND 16"), access_pattern.Traced(16, 1, "recorded"))
COUNTED = {1: (160, 800), 8: (20, 100), 16: (10, 50)}
RISING, NONE = {16: 0.5, 64: 2.0, 256: 8.0}, {16: 0.0, 64: 0.0, 256: 0.0}
HELD = {"short": {8: 1.05, 16: 1.1, 64: 1.5}, "long": {8: 1.0, 16: 1.0, 64: 1.0}}
SPREAD, ALL_512 = _lengths(*range(300, 1500, 7), name="spread"), _lengths(512, 512, name="all 512")
BYTES = dict(
    zip(
        (no_clever_allocation.PRIVATE, no_clever_allocation.SHARED, no_clever_allocation.ONCE),
        (60, 60, 10),
        strict=True,
    )
)


def _orders(jitter=QUIET, **slow: float) -> Comparison:
    """`HND_1=1.5`: shuffled takes 1.5 times as long as in order, there."""
    factor = {f"{key.replace('_', ' ')} shuffled": value for key, value in slow.items()}
    return timed({name: factor.get(name, 1.0) for name in BOTH_LAYOUTS}, jitter=jitter)


def _short(at_64: float, jitter=QUIET) -> Comparison:
    return timed(
        {"contiguous 16": 1, "paged 16": 1, "contiguous 64": 1.5, "paged 64": 1.5 * at_64}, jitter=jitter
    )


def _served(cost: float, **gain: float) -> list[Served]:
    """Tokens a second on two workloads: what the kernel takes, and paged over each opponent without it."""
    runs = [
        Served(name, policy.replace("_", "-"), 10, 100 / value)
        for name in "ab"
        for policy, value in gain.items()
    ]
    free = gains_exceed_overhead.FREE
    paged = [
        Served(name, policy, 20, tokens)
        for name in "ab"
        for policy, tokens in ((free, 100), ("paged", 100 - cost))
    ]
    return [*paged, *runs]


def _ways(shared: float, once: float, jitter=QUIET) -> Comparison:
    return timed(dict(zip(BYTES, (1.0, shared, once), strict=True)), jitter=jitter)


def _variants(*times: float, jitter=QUIET) -> Comparison:
    moved = dict(zip(fewer_bytes.VARIANTS, (320, 80, 10, 40, 20), strict=True))
    return timed(dict(zip(fewer_bytes.VARIANTS, times, strict=True)), moved, jitter)


def _kernels(right: int, cleared: int) -> tuple[Tried, ...]:
    """What FlexAttention gets right of five batches, beside two kernels that get all."""
    return (
        Tried("from scratch", 20, 5, 5, 5),
        Tried("ours", 500, 5, 5, 5),
        Tried("flex", 30, 5, right, cleared),
    )


def _three(scratch: float, flex: float = 2.0, jitter=QUIET) -> Comparison:
    return timed({"paged 32": 1.0, "from scratch": scratch, "flex compiled": flex}, jitter=jitter)


TABLE = {
    indirection: [
        ((sweep(b1=2.4, b16=1.15, b128=1.01),), HOLDS_WHEN),
        ((sweep(b1=2.4, b16=1.5, b128=1.3),), HOLDS),
        ((sweep(b1=1.01, b16=1.0, b128=1.01),), FAILS),
        ((sweep(NOISY, b1=2.4, b16=1.15, b128=1.01),), UNTOLD),
    ],
    access_pattern: [
        ((_orders(HND_1=1.5, NHD_1=1.4), TRACED), HOLDS_WHEN),
        ((_orders(HND_1=1.5, NHD_1=1.4, HND_64=1.2, NHD_64=1.2), TRACED), HOLDS),
        ((_orders(), TRACED), FAILS),
        ((_orders(NOISY), TRACED), UNTOLD),
    ],
    short_sequences: [
        ((_short(1.05), (16, 64),), FAILS),
        ((_short(1.5), (16, 64),), HOLDS_WHEN),
        ((_short(40), (16, 64),), HOLDS),
        ((_short(1.05, NOISY), (16, 64),), UNTOLD),
    ],
    gains_exceed_overhead: [
        ((_served(3, reserve=5, power_of_two=1.2, exact=1.1), sweep(b16=1.15)), HOLDS),
        ((_served(3, reserve=5, power_of_two=1.2, exact=1.0), sweep(b16=1.15)), HOLDS_WHEN),
        ((_served(60, reserve=1.5, power_of_two=1.2, exact=1.0), sweep(b16=9)), FAILS),
        ((_served(3, reserve=5, power_of_two=1.2, exact=1.0), sweep(NOISY, b16=1.2)), UNTOLD),
    ],
    short_blocks: [
        ((range(50, 101), (8, 16, 64),), HOLDS_WHEN),
        ((range(50, 101), (64, 128),), HOLDS),
        ((range(50, 101), (8, 16),), FAILS),
    ],
    small_blocks_waste_less: [
        (([SPREAD], ALL_512,), HOLDS_WHEN),
        (([SPREAD], _lengths(513),), HOLDS),
        (([ALL_512], ALL_512,), FAILS),
    ],
    small_blocks_cost: [
        ((sweep(b1=2.4, b8=1.3, b16=1.1), sweep(b1=9, b8=2, b16=1), COUNTED,), HOLDS),
        ((sweep(b1=1, b8=1, b16=1), sweep(b1=9, b8=2, b16=1), COUNTED,), HOLDS_WHEN),
        ((sweep(b1=1, b8=1, b16=1), sweep(b1=1, b8=1, b16=1), COUNTED,), FAILS),
        ((sweep(NOISY, b1=2, b8=1, b16=1), sweep(b1=9, b8=2, b16=1), COUNTED,), UNTOLD),
    ],
    large_blocks: [
        ((sweep(b16=1.2, b64=1.02, b256=1.0), RISING, NONE,), HOLDS_WHEN),
        ((sweep(b16=1.2, b64=1.02, b256=1.0), RISING, RISING,), HOLDS),
        ((sweep(b16=1.0, b64=1.0, b256=1.2), RISING, NONE,), FAILS),
        ((sweep(NOISY, b16=1.2, b64=1, b256=1), RISING, NONE,), UNTOLD),
    ],
    default_16: [
        ((sweep(b8=1.3, b16=1.15, b64=1.0), HELD,), HOLDS_WHEN),
        ((sweep(b8=1.0, b16=1.0, b64=1.0), HELD,), HOLDS),
        ((sweep(b8=1.0, b16=1.3, b64=1.0), HELD,), FAILS),
        ((sweep(NOISY, b8=1.3, b16=1.15, b64=1.0), HELD,), UNTOLD),
    ],
    workload_fit: [
        (([ALL_512, _lengths(520, name="all 520")], [SPREAD],), HOLDS_WHEN),
        (([ALL_512], [SPREAD],), HOLDS),
        (([_lengths(520)], [SPREAD],), FAILS),
    ],
    capacity_not_bandwidth: [
        ((sweep(b16=1.2, b128=1.0), {"a": 9.0},), HOLDS),
        ((sweep(b16=1.2, b128=1.0), {"a": 9.0, "alike": 1.0},), HOLDS_WHEN),
        ((sweep(b16=1.2, b128=0.8), {"a": 9.0},), FAILS),
        ((sweep(NOISY, b16=1.2, b128=1.0), {"a": 9.0},), UNTOLD),
    ],
    long_context_bound: [
        (([Model("a", 100, 1)], {"a": 500},), HOLDS),
        (([Model("a", 100, 1), Model("b", 10**9, 1)], {"a": 500},), HOLDS_WHEN),
        (([Model("a", 10**9, 1), Model("b", 10**8, 1)], {"a": 500},), FAILS),
    ],
    no_clever_allocation: [
        ((_ways(0.7, 0.3), BYTES, 1e-7,), HOLDS_WHEN),
        ((_ways(1, 1, NOISY), BYTES, 1e-7,), HOLDS_WHEN),
        ((_ways(1, 1), dict.fromkeys(BYTES, 60), 1e-7,), HOLDS),
    ],
    fewer_bytes: [
        ((_variants(1.0, 0.25, 0.03, 0.13, 0.07), {},), HOLDS),
        ((_variants(1.0, 0.25, 0.1, 0.2, 0.1), {},), HOLDS_WHEN),
        ((_variants(1.0, 1.0, 1.0, 1.0, 1.0), {},), FAILS),
        ((_variants(1.0, 0.9, 0.9, 0.9, 0.9, jitter=NOISY), {},), UNTOLD),
    ],
    use_a_framework: [
        ((_three(20), _kernels(5, 5),), HOLDS),
        ((_three(20), _kernels(1, 5),), HOLDS_WHEN),
        ((_three(20), _kernels(1, 4),), FAILS),
        ((_three(1.0), _kernels(5, 5),), FAILS),
        ((_three(1.0, jitter=NOISY), _kernels(5, 5),), UNTOLD),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "module, records, outcome",
    [(module, *row) for module, rows in TABLE.items() for row in rows],
    ids=[f"{module.ID}: {outcome.value}" for module, rows in TABLE.items() for _, outcome in rows],
)
def test_the_verdict_follows_from_the_records(module, records, outcome):
    verdict = module.judge(*records)
    assert verdict.outcome is outcome
    assert verdict.claim == module.ID and verdict.conditions and verdict.published


@pytest.mark.parametrize("module", TABLE, ids=lambda module: module.ID)
def test_every_verdict_can_contradict_the_chapter_and_agree_with_it(module):
    ends = {outcome for _, outcome in TABLE[module]}
    assert HOLDS in ends and ends & {FAILS, HOLDS_WHEN}


def test_answers_that_disagree_are_no_verdict():
    with pytest.raises(ArithmeticError, match="disagree by 0.1"):
        no_clever_allocation.judge(_ways(1, 1), BYTES, 0.1)


def test_conditions_say_what_the_numbers_do():
    dear = indirection.judge(sweep(b1=2.4, b16=1.2, b128=1.01))
    assert "blocks of 1 and 16 take more than 5.0 % longer" in dear.conditions[0]
    assert "blocks of 128 do not" in dear.conditions[0]
    best = default_16.judge(sweep(b8=1.3, b16=1.15, b64=1.0), HELD)
    assert best.conditions[:3] == (
        "requests are like short",
        "short: 16 is cheapest, 16 costs 0.0 % more",
        "long: 64 is cheapest, 16 costs 14 % more",
    )
    cleared = use_a_framework.judge(_three(20), _kernels(1, 5))
    assert cleared.conditions[0].startswith("the memory of the cache is cleared first")
    assert "flex: 30 lines of code, right in 1 of 5 batches" in cleared.conditions[3]
    assert cleared.conditions[5].startswith("flex compiled takes ")
    lagging = fewer_bytes.judge(_variants(1.0, 0.25, 0.1, 0.125, 0.0625), {})
    assert lagging.conditions[1:] == (
        "1 KV head, fp32: 3.1 % of the bytes of 32 KV heads, fp32 take 10.0 % of the time",
    )


@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize("layout", ["HND", "NHD"])
def test_a_request_uses_every_byte_of_the_sectors_that_it_touches(size, layout):
    """32 lanes of 16 bytes are 16 sectors, whatever the block: head rows of 128 bytes are read whole."""
    found = access_pattern.traffic(f"block {size}, {layout}", quick=True)
    assert found == (16, 1, "recorded")


def test_floor_and_slope_are_those_of_the_line():
    times = {f"{side} {n}": 2e-5 + 1e-7 * n for side in ("contiguous", "paged") for n in (16, 64, 256)}
    verdict = short_sequences.judge(timed(times, jitter=(1.0,) * 15), (16, 64, 256))
    fitted = {m.what: m.value for m in verdict.measured}
    assert fitted["floor of a call, paged"] == pytest.approx(20)
    assert fitted["slope, contiguous"] == pytest.approx(100)


def test_lines_of_code_are_statements_without_comments_and_docstrings():
    def three_lines(a):
        """Not counted."""
        # nor this
        if a:
            return a

    assert use_a_framework.lines_of(three_lines) == 3


# ---- running them --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verdict_of():
    """The verdict of a claim by id, run once: on a small batch, without a GPU, by a clock that is never
    disturbed. The code is the same; what then cannot be told is for want of a device, not of quiet."""
    torch = pytest.importorskip("torch")

    def measure(clock: object, call, calls: int) -> float:
        call()
        return 1e-3 * calls

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        patch.setattr(reading, "batch", lambda quick: Decode(Sizes(2, 256, 1, 4)))
        patch.setattr(machine, "beyond_caches", lambda: 2**20)
        patch.setattr(timing, "deadline", lambda seconds: lambda: True)
        patch.setattr(timing.HostClock, "measure", measure)
        yield functools.cache(lambda id: claims.get(id).run(quick=True))


def test_without_a_gpu_at_most_four_claims_cannot_be_told(verdict_of):
    """Of all there are, run live; and of those that a machine without a GPU kept."""
    recorded = [kept for claim in claims.all() for kept in claims.recordings(claim.id)]
    without = [kept for kept in recorded if not re.search("NVIDIA|AMD Instinct|cuda", kept.device)]
    assert without
    for verdicts in ([verdict_of(claim.id) for claim in claims.all()], without):
        untold = [verdict for verdict in verdicts if verdict.outcome is UNTOLD]
        assert len(untold) <= 4, [verdict.claim for verdict in untold]
        assert all(re.search(WHAT_IT_TAKES, verdict.conditions[0]) for verdict in untold)


WHAT_IT_TAKES = "needs what is not here: .+|stop other work on this machine and run it again"


@pytest.mark.parametrize("module", TABLE, ids=lambda module: module.ID)
def test_what_cannot_be_told_says_what_it_would_take(module):
    verdicts = [module.judge(*records) for records, outcome in TABLE[module] if outcome is UNTOLD]
    lacking = Claim(module.ID, "", lambda quick: __import__("no_such_kernel"))
    for verdict in [*verdicts, lacking.run()]:
        assert verdict.outcome is UNTOLD and re.search(WHAT_IT_TAKES, verdict.conditions[0])


@pytest.mark.parametrize("claim", claims.all(), ids=lambda claim: claim.id)
def test_a_claim_runs_and_its_verdict_is_plain_data(claim, verdict_of):
    verdict = verdict_of(claim.id)
    assert verdict.claim == claim.id and claims.get(claim.id) is claim
    assert verdict.conditions and verdict.published and verdict.device
    assert verdict.measured or verdict.outcome is UNTOLD
    assert all(m.word in {"measured", "simulated", "computed", "recorded"} for m in verdict.measured)
    plain = json.loads(json.dumps(verdict.to_dict(), allow_nan=False))
    kept = Verdict.from_dict(plain)
    assert (kept.outcome, kept.conditions, kept.published) == (
        verdict.outcome,
        verdict.conditions,
        verdict.published,
    )
    assert not [m for m in kept.recorded().measured if m.word == "measured"]
    assert kept.claim in str(kept)


def test_a_kernel_that_is_charged_more_serves_less():
    cheap, dear = (gains_exceed_overhead.serve("azure-code", "paged", cost, 300) for cost in (1.0, 3.0))
    assert dear.tokens_per_s < cheap.tokens_per_s and dear.running == cheap.running
    assert (
        gains_exceed_overhead.serve("azure-code", gains_exceed_overhead.FREE, 1.0, 300).running
        == cheap.running
    )


@pytest.mark.parametrize("size", [16, 256])
def test_waste_drawn_from_quantiles_is_within_a_seventh_of_that_of_the_whole_traces(size):
    for name, percent in published.figure("s2").values[f"block_{size}_percent"].items():
        drawn = waste.paged(workloads.named(name), size).wasted_share
        assert 100 * drawn == pytest.approx(percent, rel=1 / 7), name


def test_an_unknown_claim_lists_those_that_exist():
    with pytest.raises(KeyError, match="small-blocks-waste-less"):
        claims.get("small-blocks")
