"""The record of `pagedlab bench` at tiny sizes: its shape and its answers, never its times."""

from __future__ import annotations

import dataclasses
import json

import pytest

from pagedlab import bench, cli, machine, peers, recordings
from pagedlab.bench_inputs import Settings
from pagedlab.comparison import FEWEST_ROUNDS, TOO_FEW
from pagedlab.decoding import Decode
from pagedlab.timing import Case

pytest.importorskip("numba")
TINY = [
    "--seqs",
    "3",
    "--tokens",
    "37",
    "--kv-heads",
    "2",
    "--q-heads",
    "6",
    "--head-dim",
    "16",
    "--threads",
    "1",
]
TINY += ["--block-sizes", "1,5,16", "--rounds", "5"]
NAMES = ["contiguous", "paged 1", "paged 5", "paged 16", "sdpa", "read"]


def test_the_record_is_complete(capsys) -> None:
    assert cli.main(["bench", *TINY, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [case["name"] for case in record["cases"]] == NAMES
    assert record["baseline"] == "contiguous"
    assert record["rounds"] == 5
    assert list(record["kernels"]) == ["contiguous", "paged N", "sdpa", "read"]
    assert {case["difference"] for case in record["cases"]} == {TOO_FEW}
    assert record["settings"]["block_sizes"] == [1, 5, 16]
    assert record["threads"] == {"torch": 1, "numba": 1}
    assert set(record["max_abs_error"]) == set(NAMES) - {"read"}
    for case in record["cases"]:
        assert case["bytes_moved"] == 2 * 4 * 3 * 37 * 2 * 16
        assert len(case["seconds"]) == 5
        assert case["ratio_to_sdpa"]["median"] > 0 and case["ratio_to_twin"]["median"] > 0
    assert record["cases"][4]["ratio_to_sdpa"] == {"q1": 1.0, "median": 1.0, "q3": 1.0}


def test_the_table_names_cases_conditions_and_ratios(capsys) -> None:
    assert cli.main(["bench", *TINY]) == 0
    out = capsys.readouterr().out
    for text in [
        *NAMES,
        "numba CPU kernel, K and V [seqs, kv_heads, tokens, head_dim] (HND)",
        "K and V [blocks, kv_heads, N, head_dim] (HND), shuffled",
        "torch's scaled_dot_product_attention on the contiguous K and V",
        "time / sdpa",
        "time / contiguous",
        "GB/s",
        "noise floor",
        machine.cpu_device(),
        "37 tokens",
    ]:
        assert text in out


def test_threads_of_torch_are_put_back() -> None:
    import torch

    before = torch.get_num_threads()
    bench.run(
        Settings(seqs=1, tokens=8, kv_heads=1, q_heads=1, head_dim=8, block_sizes=(4,), threads=1, rounds=1)
    )
    assert torch.get_num_threads() == before


def test_a_wrong_answer_is_never_timed(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", lambda q, k, v: q)
    assert cli.main(["bench", *TINY]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "sdpa is off by" in err and err.count("\n") == 1


def test_a_quick_run_has_rounds_enough_for_a_reading() -> None:
    assert bench.QUICK >= FEWEST_ROUNDS


def test_a_kernel_that_fails_while_it_is_timed_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def fail() -> float:
        raise OSError("no more threads")

    monkeypatch.setattr(Decode, "reader", lambda self: Case("read", fail))
    assert cli.main(["bench", *TINY]) == 1
    assert "case 'read' failed: OSError: no more threads" in capsys.readouterr().err


def test_ctrl_c_prints_the_rounds_that_were_finished(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def interrupt(done: int, rounds: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(bench, "_show_progress", interrupt)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert cli.main(["bench", *TINY]) == 130
    assert "2 interleaved rounds (interrupted; 5 were planned)" in capsys.readouterr().out


def test_the_buffer_is_one_cache_whatever_the_number_of_block_sizes() -> None:
    few, many = Settings(block_sizes=(16,)), Settings(block_sizes=(1, 8, 16, 32, 128))
    assert few.buffer_bytes == many.buffer_bytes == few.batch.bytes_read == 2**28
    assert Settings(tokens=100, block_sizes=(1, 64)).slots == 16 * 128, "the last block may be part-filled"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seqs", "0"], "seqs=0: must be 1 to 2**31 - 1"),
        (["--tokens", "1" + "0" * 400], "0: must be 1 to 2**31 - 1"),
        (["--rounds", "0"], "rounds=0: must be 1 to 2**31 - 1"),
        (["--seed", "9" * 26], f"seed={'9' * 26}: must be 0 to 2**63 - 1"),
        (["--q-heads", "12"], "q_heads=12: must be a multiple of kv_heads=8"),
        (["--block-sizes", "16,0"], "block_sizes=[16, 0]"),
        (["--block-sizes", "16,16"], "block_sizes=[16, 16]"),
        (["--suite", "decode", "--manager"], "--suite and --record are for attention"),
        (["--record", "/nowhere/at/all.json"], "there is no folder /nowhere/at"),
        (["--threads", "100000"], "threads=100000: this process may use"),
        (["--seqs", "100000000"], "more than half of this machine's"),
        (["--q-heads", "800000000"], "more than half of this machine's"),
    ],
)
def test_sizes_that_make_no_sense_are_one_line(arguments: list[str], message: str, capsys) -> None:
    assert cli.main(["bench", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pagedlab bench: ") and message in err and err.count("\n") == 1


def test_a_suite_is_tables_with_the_ratios_that_they_are_for(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    slow = next(peer for peer in peers.all() if peer.name == "flex")
    monkeypatch.setattr(peers, "all", lambda: (dataclasses.replace(slow, for_speed=True), absent))
    absent = dataclasses.replace(slow, name="absent", missing="nobody installed it")
    assert cli.main(["bench", *TINY, "--suite", "all", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    names = [[case["name"] for case in part["cases"]] for part in record["parts"]]
    assert names == [
        ["contiguous", "paged 16", "sdpa", "read"],
        ["contiguous", "paged 16", "sdpa", "read"],
        ["paged float32", "paged bfloat16", "paged int8", "sdpa float32", "sdpa bfloat16"],
        ["paged 16", "flex 16"],
    ]
    assert [(asked["case"], asked["to"]) for part in record["parts"] for asked in part["asked"]] == [
        ("paged 16", "sdpa"),
        ("paged 16", "contiguous"),
        ("contiguous", "read"),
        ("paged 16", "read"),
        ("paged int8", "paged float32"),
        ("paged bfloat16", "sdpa bfloat16"),
        ("flex 16", "paged 16"),
    ]
    assert "8 query and 2 KV heads" in record["parts"][0]["what"]
    assert "2 query and 2 KV heads" in record["parts"][1]["what"]
    assert record["parts"][3]["notes"] == ["absent: not here; nobody installed it"]
    int8, fp32 = record["parts"][2]["cases"][2], record["parts"][2]["cases"][0]
    assert 4 * int8["bytes_moved"] == fp32["bytes_moved"]


def test_a_suite_reads_as_tables_and_is_kept_as_a_recording(tmp_path, capsys) -> None:
    file = tmp_path / "here.json"
    assert cli.main(["bench", *TINY, "--suite", "dtypes", "--record", str(file)]) == 0
    out = capsys.readouterr().out
    assert "paged int8 / paged float32: " in out and TOO_FEW in out
    (kept,) = recordings.load(file).comparisons
    assert [timing.name for timing in kept.timings][2] == "paged int8" and kept.rounds == 5
    assert str(kept) in out


def test_ctrl_c_keeps_the_tables_that_were_finished(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    seen = []

    def interrupt(done: int, rounds: int) -> None:
        seen.append(done)
        if len(seen) == 7:
            raise KeyboardInterrupt

    monkeypatch.setattr(bench, "_show_progress", interrupt)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert cli.main(["bench", *TINY, "--suite", "all", "--json"]) == 130
    parts = json.loads(capsys.readouterr().out)["parts"]
    assert [part["rounds"] for part in parts] == [5, 2]
