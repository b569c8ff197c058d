"""Timing on a clock that only moves when a case says so: no test here depends on how fast anything runs."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Callable, Iterator

import pytest

from pagedlab import machine, timing
from pagedlab.comparison import (
    AS_LEFT,
    COLD,
    FASTER,
    FEWEST_ROUNDS,
    MOST_NOISE,
    NO_DIFFERENCE,
    SLOWER,
    TOO_FEW,
    TOO_NOISY,
    WARM,
    Comparison,
    Spread,
    Timing,
)
from pagedlab.timing import Case, CaseFailed, HostClock, compare


class FakeTime:
    """A clock and the work that moves it."""

    def __init__(self) -> None:
        self.time = 0.0
        self.log: list[str] = []

    def clock(self) -> HostClock:
        return HostClock(now=lambda: self.time)

    def takes(self, name: str, *durations: float) -> Callable[[], None]:
        """A case that takes these durations in turn, over and over."""
        turns: Iterator[float] = iter(())

        def call() -> None:
            nonlocal turns
            duration = next(turns, None)
            if duration is None:
                turns = iter(durations)
                duration = next(turns)
            self.time += duration
            self.log.append(name)

        return call


@pytest.fixture
def fake() -> FakeTime:
    return FakeTime()


def test_the_noise_floor_may_come_from_the_same_work_on_other_memory(fake: FakeTime) -> None:
    cases = {"a": fake.takes("a", 1.0), "b": fake.takes("b", 1.2)}
    again = fake.takes("a elsewhere", 1.22)
    result = compare(cases, again=again, repeats=FEWEST_ROUNDS, clock=fake.clock())
    assert result.noise_floor == pytest.approx(0.22)
    assert result.difference("b") == NO_DIFFERENCE
    assert compare(cases, repeats=FEWEST_ROUNDS, clock=fake.clock()).difference("b") == SLOWER


def test_a_machine_too_noisy_to_tell_says_so(fake: FakeTime) -> None:
    cases = {"a": fake.takes("a", 1.0, 1.0, 1.3), "b": fake.takes("b", 9.0)}
    result = compare(cases, repeats=30, clock=fake.clock())
    assert result.noise_floor == pytest.approx(MOST_NOISE + 0.05)
    assert result.difference("b") == TOO_NOISY


@pytest.mark.parametrize(
    ("caches", "samples"),
    [(AS_LEFT, ["aa", "bb"]), (WARM, ["aaa", "bbb"]), (COLD, ["-a", "-b"])],
)
def test_caches_are_left_warmed_or_emptied_before_each_sample(fake, caches, samples) -> None:
    """Two calls fill a sample; a cold one is of one call, because a second would find the caches warm."""

    class Clock(HostClock):
        def evict(self) -> None:
            fake.log.append("-")

    clock = Clock(now=lambda: fake.time)
    cases = {name: fake.takes(name, 1.0) for name in "ab"}
    result = compare(cases, repeats=20, warmup=1, min_time=2, caches=caches, clock=clock)
    per_round, rounds = len("".join(samples)) + len(samples[0]), "".join(fake.log)
    last = rounds[-per_round:]
    assert sorted(last) == sorted("".join(samples) + samples[0]), "the baseline runs a second time"
    assert all(sample in last for sample in samples)
    assert result["b"].seconds == (1.0,) * 20 and result.caches == caches
    assert f"caches {caches}" in str(result)


def test_emptying_the_caches_writes_more_than_they_hold() -> None:
    clock = HostClock()
    clock.evict()
    assert clock._filler.nbytes == machine.beyond_caches() >= 2 * max(machine.caches().values(), default=0)
    assert clock._filler.all(), "memory that was never written is one page of zeros, over and over"


def test_the_interval_holds_the_median_and_narrows_with_rounds() -> None:
    """Of 100 comparisons of cases that take equally long, about 95 intervals hold 1: fewer than 85 is luck
    of one in ten thousand."""
    draw = random.Random(0)
    empty = compare({"a": lambda: None}, repeats=1, min_time=0)

    def interval(rounds: int) -> tuple[float, float]:
        times = [tuple(math.exp(draw.gauss(0, 0.1)) for _ in range(rounds)) for _ in "ab"]
        timings = tuple(Timing(name, "", None, 1, t) for name, t in zip("ab", times, strict=True))
        return dataclasses.replace(empty, timings=timings, again=times[0]).interval("b")

    intervals = [interval(25) for _ in range(100)]
    assert sum(low <= 1 <= high for low, high in intervals) >= 85
    width = [sum(high - low for low, high in map(interval, [rounds] * 20)) for rounds in (15, 150)]
    assert width[1] < 0.6 * width[0]
    assert all(map(math.isnan, interval(0)))


def test_a_case_is_shown_as_a_share_of_the_best_reader(fake: FakeTime) -> None:
    cases = [
        Case("read", fake.takes("read", 1.0), bytes_moved=100),
        Case("half the bytes", fake.takes("half", 2.0), bytes_moved=50),
        Case("none told", fake.takes("none", 2.0)),
    ]
    result = compare(cases, limit="read", repeats=15, clock=fake.clock())
    assert [result.share_of_limit(case.name) for case in cases] == [1.0, 0.25, None]
    assert "of read" in str(result) and "25 %" in str(result)
    assert result.to_dict()["cases"][1]["share_of_limit"] == 0.25


def test_a_record_becomes_a_data_frame_of_samples(fake: FakeTime) -> None:
    pytest.importorskip("pandas")
    cases = {"a": fake.takes("a", 1.0), "b": fake.takes("b", 2.0)}
    result = compare(cases, what="adding", repeats=3, clock=fake.clock())
    frame = result.to_frame()
    assert frame.groupby("name")["seconds"].sum().to_dict() == {"a": 3.0, "b": 6.0}
    assert list(frame["round"]) == [0, 1, 2, 0, 1, 2]
    assert frame.attrs["what"] == "adding" and frame.attrs["device"] == result.device


def test_medians_quartiles_and_rates(fake: FakeTime) -> None:
    cases = [
        Case("a", fake.takes("a", 1.0), "dense", bytes_moved=8),
        Case("b", fake.takes("b", 1.0, 2.0, 3.0, 4.0, 5.0), "sparse", bytes_moved=30),
    ]
    result = compare(cases, repeats=5, warmup=5, clock=fake.clock())
    assert result["b"].spread == Spread(2.0, 3.0, 4.0)
    assert result["b"].bytes_per_second == 10
    assert result["a"].bytes_per_second == 8
    assert [t.layout for t in result.timings] == ["dense", "sparse"]


def test_ratios_are_taken_within_a_round(fake: FakeTime) -> None:
    """The machine slows down fivefold half way; the ratio within a round does not notice."""

    def slowing(base: float) -> Callable[[], None]:
        def call() -> None:
            fake.time += base * (1 if fake.time < 60 else 5)

        return call

    result = compare({"a": slowing(1.0), "b": slowing(2.0)}, repeats=40, warmup=1, clock=fake.clock())
    assert result["b"].spread.q3 > 4 * result["b"].spread.q1
    assert result.ratio("b") == Spread(2.0, 2.0, 2.0)
    assert result.ratio("a", to="b").median == 0.5


@pytest.mark.parametrize(
    ("durations", "reading"),
    [
        ((1.0,), NO_DIFFERENCE),
        ((1.04,), NO_DIFFERENCE),
        ((1.5,), SLOWER),
        ((0.5,), FASTER),
        ((0.1, 9), NO_DIFFERENCE),
    ],
)
def test_a_ratio_inside_the_noise_is_no_difference(
    fake: FakeTime, durations: tuple[float, ...], reading: str
) -> None:
    # The baseline runs twice a round, so that A'/A is 1.1, 1/1.1, 1.1, … : a noise floor of about 10 %.
    noisy = fake.takes("a", 1.0, 1.1, 1.1, 1.0)
    result = compare({"a": noisy, "b": fake.takes("b", *durations)}, repeats=20, warmup=2, clock=fake.clock())
    assert 0.09 < result.noise_floor < 0.11
    assert result.difference("b") == reading


def test_few_rounds_say_nothing(fake: FakeTime) -> None:
    cases = {"a": fake.takes("a", 1.0), "b": fake.takes("b", 9.0)}
    for rounds, reading in ((FEWEST_ROUNDS - 1, TOO_FEW), (FEWEST_ROUNDS, SLOWER)):
        assert compare(cases, repeats=rounds, clock=fake.clock()).difference("b") == reading


def test_a_difference_is_seldom_found_where_there_is_none() -> None:
    """0.6 % of comparisons of FEWEST_ROUNDS rounds; 2,000 of them leave less than 1.2 % but for bad luck."""
    draw = random.Random(0)

    def times() -> tuple[float, ...]:
        return tuple(math.exp(draw.gauss(0, 0.03)) for _ in range(FEWEST_ROUNDS))

    def nothing_there() -> Comparison:
        timings = tuple(Timing(name, "", None, 1, times()) for name in "ab")
        return dataclasses.replace(empty, timings=timings, again=times())

    empty = compare({"a": lambda: None}, repeats=1, min_time=0)
    readings = [nothing_there().difference("b") for _ in range(2_000)]
    assert readings.count(NO_DIFFERENCE) > 0.988 * len(readings)


def test_every_round_runs_every_case_and_the_baseline_twice(fake: FakeTime) -> None:
    cases = {name: fake.takes(name, 1.0) for name in "abc"}
    compare(cases, repeats=30, warmup=2, clock=fake.clock())
    rounds = [fake.log[i : i + 4] for i in range(0, len(fake.log), 4)]
    assert len(rounds) == 32
    assert all(sorted(order) == ["a", "a", "b", "c"] for order in rounds)
    assert len({tuple(order) for order in rounds[2:]}) > 5, "the order is drawn anew each round"


def test_the_order_follows_the_seed() -> None:
    def order(seed: int) -> list[str]:
        fake = FakeTime()
        compare({n: fake.takes(n, 1.0) for n in "abcd"}, repeats=6, seed=seed, clock=fake.clock())
        return fake.log

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_short_calls_are_repeated_to_fill_a_sample(fake: FakeTime) -> None:
    result = compare(
        {"short": fake.takes("short", 0.25), "long": fake.takes("long", 4.0)},
        repeats=3,
        warmup=1,
        min_time=1.0,
        clock=fake.clock(),
    )
    assert [t.calls for t in result.timings] == [4, 1]
    assert result["short"].median == 0.25, "seconds are per call"
    assert result.again == (0.25, 0.25, 0.25)


def test_stopping_keeps_whole_rounds_only(fake: FakeTime) -> None:
    cases = {"a": fake.takes("a", 1.0), "b": fake.takes("b", 1.0)}
    # Warm-up takes 3 samples, every round 3: the eleventh question falls into the third round.
    asked = iter(range(1000))
    result = compare(cases, repeats=50, warmup=1, clock=fake.clock(), should_stop=lambda: next(asked) >= 10)
    assert (result.rounds, result.planned, result.stopped) == (2, 50, "stopped as asked")
    assert "2 interleaved rounds (stopped as asked; 50 were planned)" in str(result)


def test_stopping_before_the_first_round_is_a_record_of_nothing(fake: FakeTime) -> None:
    result = compare({"a": fake.takes("a", 1.0)}, clock=fake.clock(), should_stop=lambda: True)
    assert result.rounds == 0
    assert math.isnan(result["a"].median)
    assert result.difference("a") == TOO_FEW
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["noise_floor"] is None
    assert "stopped before the first round" in str(result)


def test_ctrl_c_keeps_what_was_measured(fake: FakeTime) -> None:
    def interrupted_in_round_three() -> None:
        fake.time += 1.0
        fake.log.append("a")
        if len(fake.log) == 6:
            raise KeyboardInterrupt

    # Two runs a round: warm-up 1-2, then rounds of 3-4 and 5-6.
    result = compare({"a": interrupted_in_round_three}, repeats=9, warmup=1, clock=fake.clock())
    assert (result.rounds, result.stopped) == (1, "interrupted")


def test_ctrl_c_with_nothing_measured_goes_on(fake: FakeTime) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare({"a": interrupted}, clock=fake.clock())


def test_a_failing_case_is_named(fake: FakeTime) -> None:
    def broken() -> None:
        raise ValueError("table row 3 is too short")

    with pytest.raises(
        CaseFailed, match="case 'paged 16' failed: ValueError: table row 3 is too short"
    ) as info:
        compare({"a": fake.takes("a", 1.0), "paged 16": broken}, clock=fake.clock())
    assert isinstance(info.value.__cause__, ValueError)


def test_progress_counts_rounds(fake: FakeTime) -> None:
    seen: list[tuple[int, int]] = []
    compare({"a": fake.takes("a", 1.0)}, repeats=3, clock=fake.clock(), progress=lambda *p: seen.append(p))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_clock_that_does_not_move_gives_no_ratio(fake: FakeTime) -> None:
    result = compare({"a": lambda: None, "b": lambda: None}, repeats=15, min_time=0.0, clock=fake.clock())
    assert result.difference("b") == NO_DIFFERENCE
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["cases"][1]["ratio"] is None
    assert "a" in str(result)


def test_the_record_names_its_conditions(fake: FakeTime) -> None:
    cases = [
        Case("twin", fake.takes("twin", 1.0), "HND, contiguous", bytes_moved=10**9),
        Case("paged 16", fake.takes("paged 16", 2.0), "HND, block 16", bytes_moved=10**9),
    ]
    result = compare(cases, what="decode attention", repeats=15, clock=fake.clock())
    record = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert record["kind"] == "measured"
    assert record["what"] == "decode attention"
    assert record["device"] and record["versions"]["numpy"] and record["clock"] == "perf_counter"
    paged = record["cases"][1]
    assert (paged["median_s"], paged["ratio"], paged["difference"]) == (2.0, 2.0, SLOWER)
    assert paged["layout"] == "HND, block 16"
    assert len(paged["seconds"]) == 15
    for text in ("decode attention", "time / twin", "HND, block 16", "noise floor 0.0 %", record["device"]):
        assert text in str(result)


@pytest.mark.parametrize(
    ("cases", "options", "error", "message"),
    [
        ({}, {}, ValueError, "nothing to time"),
        ({"a": 3}, {}, TypeError, "neither a Case nor a name with a call"),
        ([Case("a", print), Case("a", print)], {}, ValueError, "names must differ"),
        ({"a": print}, {"limit": "b"}, ValueError, "limit='b': not among the cases a"),
        ({"a": print}, {"caches": "hot"}, ValueError, "caches='hot': must be one of 'as left', 'warm'"),
        ({"a": print}, {"repeats": 0}, ValueError, "repeats=0"),
        ({"a": print}, {"repeats": 2.5}, ValueError, "repeats=2.5"),
        ({"a": print}, {"warmup": 0}, ValueError, "warmup=0"),
        ({"a": print}, {"min_time": math.nan}, ValueError, "min_time=nan"),
    ],
)
def test_bad_input_is_one_clear_error(cases, options, error, message) -> None:
    with pytest.raises(error, match=message):
        compare(cases, **options)


def test_an_unknown_case_lists_the_known_ones(fake: FakeTime) -> None:
    result = compare({"a": fake.takes("a", 1.0)}, repeats=1, clock=fake.clock())
    with pytest.raises(KeyError, match="no case 'z'; there are a"):
        result["z"]


@pytest.mark.gpu
def test_cuda_events_time_what_the_gpu_does() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    small, large = (torch.ones(n, n, device="cuda") for n in (64, 4096))
    result = compare(
        {"small": lambda: small @ small, "large": lambda: large @ large}, repeats=5, clock=timing.CudaClock()
    )
    assert result.clock == "CUDA events"
    assert "GiB" in result.device
    assert all(value > 0 for value in result["large"].seconds)
