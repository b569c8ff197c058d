"""The script for a GPU machine, tried without one: the plan, the format, and what is said of what fails."""

from __future__ import annotations

import subprocess

import pytest

from pagedlab import bench_gpu, machine, recordings
from pagedlab.decoding import Decode, device

DTYPES = ("bfloat16", "float8_e4m3fn", "int8")


@pytest.fixture
def no_gpu() -> None:
    if device() == "cuda":
        pytest.skip("tries what happens without a GPU")


def test_the_plan_holds_what_was_asked_for_the_most_telling_first():
    plan = bench_gpu.points()
    grid = {(point.sizes.seqs, point.sizes.tokens, point.sizes.dtype) for point in plan}
    assert len(grid) == len(plan) == 4 * 5 * 3
    assert {seqs for seqs, _, _ in grid} == {1, 8, 64, 256}
    assert {tokens for _, tokens, _ in grid} == {128, 1024, 8192, 32768, 131072}
    assert {dtype for _, _, dtype in grid} == set(DTYPES)
    assert {size for point in plan for size in point.blocks} == {1, 2, 4, 8, 16, 32, 64, 128, 256}
    assert all(point.sizes.tokens == 8192 for point in plan[:12])


def test_batches_that_a_cache_could_hold_take_turns(monkeypatch):
    monkeypatch.setattr(machine, "beyond_caches", lambda: 120 * 2**20)
    for point in bench_gpu.points():
        assert point.turns * point.sizes.bytes_read >= 120 * 2**20 or point.turns == bench_gpu.MOST_TURNS
        assert point.turns == 1 or (point.turns - 1) * point.sizes.bytes_read < 120 * 2**20


def test_a_dry_run_times_every_case_and_writes_a_recording(tmp_path, capsys, no_gpu):
    file = tmp_path / "dry.json"
    assert bench_gpu.main([str(file), "--dry-run", "--no-tests"]) == 0
    kept = recordings.load(file)
    assert (kept.kind, kept.tests, kept.notes) == (recordings.DRY_RUN, None, ())
    assert len(kept.comparisons) == len(DTYPES)
    for comparison, dtype in zip(kept.comparisons, DTYPES, strict=True):
        names = [timing.name for timing in comparison.timings]
        ours = ["contiguous", "paged 1", "paged 16", "paged 64", "contiguous, split", "paged 16, split"]
        ours += ["paged 64, bulk"]
        once, last = (["sdpa"], ["flex 16"]) if dtype == "bfloat16" else ([], [])
        assert names == [*ours, *once, "copy", "paged 16, launched", *last]
        assert f"{dtype}, " in comparison.what and "2 turns" in comparison.what
        assert comparison.limit == "copy" and comparison.rounds == 2
        assert comparison["copy"].bytes_moved == 2 * comparison["paged 16"].bytes_moved
    out = capsys.readouterr().out
    assert "3 comparisons in" in out and "paged 16, launched" in out
    assert " ms" not in out and "GB/s" not in out, "an interpreter's time is no kernel's speed"


def test_turns_share_the_time_of_a_call():
    alone, many = (Decode(bench_gpu.dry_points()[0].sizes, turns=turns, on="cpu") for turns in (1, 3))
    assert len(many.query) == 3 * len(alone.query) and len(many.table(16)) == len(many.query)

    class Clock:
        name, device = "a clock", "a machine"

        def measure(self, call, calls):
            call()
            return 6.0

        def evict(self):
            raise AssertionError("not asked for")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pagedlab.decoding.clock_for", lambda device: Clock())
        found = many.compare([many.twin()], caches="as left", rounds=2)
    assert found["contiguous"].seconds == (2.0, 2.0) and found.again == (2.0, 2.0)


def test_a_wrong_answer_is_left_out_and_fails_the_run(tmp_path, capsys, monkeypatch, no_gpu):
    def wrong(self, *args, **options):
        raise ArithmeticError("contiguous is off by 1.0e+00\nmore")

    monkeypatch.setattr(Decode, "twin", wrong)
    file = tmp_path / "dry.json"
    assert bench_gpu.main([str(file), "--dry-run", "--no-tests"]) == 1
    kept = recordings.load(file)
    assert kept.comparisons[0].baseline == "paged 1"
    assert kept.notes[0].startswith("WRONG: contiguous of one decode step")
    assert kept.notes[0].endswith("ArithmeticError: contiguous is off by 1.0e+00")


def test_what_cannot_be_had_is_noted_and_the_rest_goes_on(monkeypatch):
    plan = bench_gpu.dry_points()
    seen = []

    def point(point, should_stop, kind):
        seen.append(point)
        return None, [f"no case of {point.sizes}: OutOfMemoryError: none left"]

    monkeypatch.setattr(bench_gpu, "time_point", point)
    monkeypatch.setattr(machine, "gpus", lambda: ())
    monkeypatch.setattr(machine, "memory", lambda: 9 * plan[1].turns * plan[1].sizes.bytes_read)
    *_, last = bench_gpu.run(plan, lambda: len(seen) == 2)
    assert seen == plan[1:] and not last.comparisons
    assert "left out" in last.notes[0] and "takes more than 20% of the memory" in last.notes[0]
    assert "OutOfMemoryError" in last.notes[1] and "OutOfMemoryError" in last.notes[2]
    *_, stopped = bench_gpu.run(plan, lambda: True)
    assert stopped.notes[-1].startswith("no time was left for 3 points, from one decode step")


def test_the_marked_tests_alone_are_run_and_what_pytest_says_is_kept(monkeypatch):
    def fake(command, **options):
        asked.append(command)
        return subprocess.CompletedProcess(
            command, 1, "..F\nFAILED tests/a.py::b - no\n1 failed, 2 passed", ""
        )

    asked: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", fake)
    said = bench_gpu.gpu_tests()
    assert (said["summary"], said["exit_code"]) == ("1 failed, 2 passed", 1)
    assert said["failed"] == ["FAILED tests/a.py::b - no"]
    files = [argument for argument in asked[0] if argument.endswith(".py")]
    assert any(file.endswith("tests/kernels/test_grid.py") for file in files)
    assert not any("browser" in file for file in files)

    def slow(command, **options):
        raise subprocess.TimeoutExpired(command, 240)

    monkeypatch.setattr(subprocess, "run", slow)
    assert bench_gpu.gpu_tests()["exit_code"] == 124


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gpu.json"], "torch sees no GPU here; --dry-run tries the script without one"),
        (["/nowhere/at/all/gpu.json", "--dry-run"], "there is no folder /nowhere/at/all"),
    ],
)
def test_arguments_that_will_not_do_are_told_before_anything_runs(arguments, says, capsys, no_gpu):
    with pytest.raises(SystemExit) as stopped:
        bench_gpu.main(arguments)
    assert stopped.value.code == 2 and says in capsys.readouterr().err
