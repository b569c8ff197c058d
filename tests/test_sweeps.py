"""Sweeps: the same rows whoever measures them, and no row measured twice."""

from __future__ import annotations

import json
import math
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

from pagedlab import sweeps
from pagedlab.sweeps import SweepError, grid, run

POINTS = grid(seqs=[1, 2, 8], block_size=[1, 16])


def blocks(seqs: int, block_size: int) -> dict[str, object]:
    """Something to measure that takes no time: table entries of sequences of 100 tokens."""
    return {"entries": seqs * math.ceil(100 / block_size), "sizes": (block_size, seqs)}


EXPECTED = [{**point, **json.loads(json.dumps(blocks(**point)))} for point in POINTS]


def test_rows_come_in_the_order_of_the_grid():
    assert run(blocks, POINTS) == EXPECTED
    assert [row["entries"] for row in EXPECTED] == [100, 7, 200, 14, 800, 56]


def test_threads_and_processes_give_the_same_rows(tmp_path):
    with ThreadPoolExecutor(2) as threads:
        assert run(blocks, POINTS, executor=threads) == EXPECTED
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        path = tmp_path / "rows.jsonl"
        assert run(blocks, POINTS, executor=processes, path=path) == EXPECTED
    assert run(_forbidden, [], path=path) == []


def test_dask_gives_the_same_rows(tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        path = tmp_path / "rows.jsonl"
        assert run(blocks, POINTS, executor=client.get_executor(), path=path) == EXPECTED
    assert len(path.read_text().splitlines()) == len(POINTS)


def test_an_interrupted_sweep_measures_only_what_is_missing(tmp_path):
    path, measured = tmp_path / "rows.jsonl", []

    def interrupted(seqs: int, block_size: int) -> dict[str, object]:
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append((seqs, block_size))
        return blocks(seqs, block_size)

    with pytest.raises(KeyboardInterrupt):
        run(interrupted, POINTS, path=path)
    kept, measured[:] = list(measured), []
    assert run(interrupted, POINTS, path=path) == EXPECTED
    assert kept + measured == [(point["seqs"], point["block_size"]) for point in POINTS]


def test_a_line_cut_off_as_it_was_written_is_measured_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    run(blocks, POINTS, path=path)
    path.write_bytes(path.read_bytes()[:-9])
    assert run(blocks, POINTS, path=path) == EXPECTED
    assert [json.loads(line)["row"] for line in path.read_text().splitlines()] == EXPECTED


def test_rows_belong_to_a_function_and_its_parameters(tmp_path):
    path = tmp_path / "rows.jsonl"
    run(blocks, POINTS, path=path)
    assert run(lambda seqs, block_size: {"entries": 0}, POINTS[:1], path=path) == [
        {**POINTS[0], "entries": 0}
    ]
    assert run(_forbidden, [], path=path) == []
    assert run(blocks, POINTS[:1] * 3, path=path) == EXPECTED[:1] * 3


@pytest.mark.parametrize("with_executor", [False, True])
def test_a_measurement_that_raises_is_named_and_the_others_are_kept(tmp_path, with_executor):
    path = tmp_path / "rows.jsonl"

    def fails_at_the_end(seqs: int, block_size: int) -> dict[str, object]:
        if (seqs, block_size) == (8, 16):
            raise ValueError("does not fit")
        return blocks(seqs, block_size)

    with (
        ThreadPoolExecutor(1) as threads,
        pytest.raises(SweepError, match="'seqs': 8.*16}: ValueError: does not"),
    ):
        run(fails_at_the_end, POINTS, path=path, executor=threads if with_executor else None)
    assert [json.loads(line)["row"] for line in path.read_text().splitlines()] == EXPECTED[:-1]


@pytest.mark.parametrize("line", ["no json", "[1]", '{"key": "a"}', '{"key": "a", "row": 3}'])
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(SweepError, match="rows.jsonl, line 1: no row of a sweep"):
        run(blocks, POINTS, path=path)
    assert path.read_text() == line + "\n"


@pytest.mark.parametrize(
    "content", [b"notes of somebody else", b'{"precious": 1}', b"\xff\xfe\x00", b"[1]\n{"]
)
def test_a_file_without_a_last_newline_is_cut_only_where_a_row_was(tmp_path, content):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(SweepError, match=r"rows\.jsonl.*no row"):
        run(blocks, POINTS, path=path)
    assert path.read_bytes() == content


def test_what_json_cannot_say_is_refused():
    with pytest.raises(TypeError, match="not JSON serializable"):
        run(blocks, [{"seqs": {1}, "block_size": 1}])
    with pytest.raises(ValueError, match="not JSON compliant"):
        run(lambda seqs: {"time": math.nan}, [{"seqs": 1}])


def test_a_bar_counts_rows_and_starts_at_those_found(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    run(blocks, POINTS[:4], path=path)
    run(blocks, POINTS, path=path, progress=True)
    assert "4/6" in capsys.readouterr().err
    run(blocks, POINTS, path=path)
    assert capsys.readouterr().err == ""


def test_rows_become_a_data_frame():
    pytest.importorskip("pandas")
    frame = sweeps.frame(run(blocks, POINTS))
    assert frame.groupby("block_size")["entries"].sum().to_dict() == {1: 1100, 16: 77}


def _forbidden(**point: object) -> dict[str, object]:
    raise AssertionError(f"{point} was measured again")
