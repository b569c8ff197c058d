"""The explorer without a page: what its controls do to its figures, in the kernel."""

from __future__ import annotations

import html

import numpy as np
import pytest

from pagedlab import BlockManager, moment, serving, waste, workloads
from pagedlab.contiguous import ContiguousManager
from pagedlab.extents import FirstFit
from pagedlab_widgets import FragmentationExplorer, contiguous_trace, paged_trace
from pagedlab_widgets.controls import BLOCK_SIZES, POOLS, WorkloadChooser


@pytest.fixture
def explorer():
    explorer = FragmentationExplorer("azure-conversation", num_slots=16_384, measure=False)
    yield explorer
    explorer.close()


def _shares(table, row):
    return {segment["kind"]: segment["value"] for segment in table.rows[row]["segments"]}


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_the_waste_shown_is_the_waste_of_all_requests(explorer, block_size):
    explorer.block_size.value = block_size
    expected = waste.paged(workloads.named("azure-conversation"), block_size)
    shown = _shares(explorer.waste, 0)
    assert shown["internal"] == pytest.approx(100 * expected.wasted_share)
    assert explorer.map.traces[0].block_size == block_size


def test_the_picture_is_the_run_at_every_step(explorer):
    run, trace = explorer.run, explorer.map.traces[0]
    for frame in range(0, trace.frames, 37):
        counts = trace.counts(frame)
        assert (counts.held, counts.stored) == (run.steps.held[frame], run.steps.stored[frame])


def test_contiguous_pictures_hold_the_same_tokens_as_their_runs(explorer):
    for played in explorer._contiguous:
        for frame in (0, played.trace.frames // 2, played.trace.frames - 1):
            assert played.trace.counts(frame).stored == played.run.steps.stored[frame]


def test_a_new_block_size_leaves_the_contiguous_runs_alone(explorer):
    before = explorer.map.traces[1:]
    explorer.block_size.value = 64
    assert all(old is new for old, new in zip(before, explorer.map.traces[1:], strict=True))


def test_the_parts_of_the_pool_make_the_whole(explorer):
    for pool in POOLS:
        explorer.pool.value = pool
        for row in range(3):
            assert sum(_shares(explorer.pool_use, row).values()) == pytest.approx(100)


def test_paging_runs_more_requests_than_reserving(explorer):
    paged, power_of_two, reserve = (row["note"] for row in explorer.pool_use.rows)
    running = [float(note.split()[0]) for note in (paged, power_of_two, reserve)]
    assert running[0] > running[1] > running[2]


def test_alike_requests_leave_no_internal_waste_when_reserved(explorer):
    explorer.spread.value = 0
    assert explorer.requests.origin == "assumed"
    assert _shares(explorer.waste, 2)["internal"] == pytest.approx(0)


def test_small_blocks_of_a_large_pool_are_cut_to_what_a_map_shows(explorer):
    explorer.pool.value = 262_144
    explorer.block_size.value = 1
    assert explorer.map.traces[0].num_blocks == 16_384
    assert "cut to 16,384 slots" in explorer.pool_use.caption


def test_a_long_workload_gets_a_pool_that_holds_its_longest_request():
    explorer = FragmentationExplorer("mooncake-conversation", measure=False)
    assert explorer.pool.value == 131_072
    explorer.chooser.names.value = "uniform"
    assert explorer.pool.value == 16_384 and len(explorer.requests) == 10_000
    explorer.close()


def _upload(explorer, content, name="mine.csv"):
    """As the page sends a file: its name, then the pieces that are asked for."""
    upload, asked = explorer.chooser.file, []
    upload.send = lambda message: asked.append(message["want"])
    upload.receive({"name": name, "size": len(content)}, [])
    while asked[-1] is not None:
        upload.receive({"at": asked[-1]}, [memoryview(content[asked[-1] : asked[-1] + upload.piece])])
    return asked


def test_an_uploaded_trace_is_looked_at(explorer):
    _upload(explorer, b"num_prefill_tokens,num_decode_tokens\n700,50\n80,20\n")
    assert explorer.chooser.names.value == "mine.csv" and explorer.requests.prompt.tolist() == [700, 80]
    assert "2 requests read" in html.unescape(explorer.chooser.message.value)
    explorer.chooser.names.value = "sharegpt"
    explorer.chooser.names.value = "mine.csv"
    assert len(explorer.requests) == 2
    _upload(explorer, b"num_prefill_tokens,num_decode_tokens\n5,5\n")  # edited, and uploaded again
    assert explorer.requests.prompt.tolist() == [5]


def test_a_file_travels_in_pieces_and_a_huge_one_is_refused_before_it_does(explorer):
    explorer.chooser.file.piece = 1_000
    rows = b"input_length,output_length\n" + b"7,5\n" * 1_000
    assert _upload(explorer, rows) == [0, 1_000, 2_000, 3_000, 4_000, None]
    assert len(explorer.requests) == 1_000
    explorer.chooser.file.most = 4_000
    assert _upload(explorer, rows + b"7,5\n") == [None]
    assert len(explorer.requests) == 1_000


def test_rows_that_are_no_requests_are_left_out_and_counted(explorer):
    _upload(explorer, b"input_length,output_length\n" + b"7,5\n" * 30 + b"7,0\nnan,5\n7")
    assert len(explorer.requests) == 30
    said = html.unescape(explorer.chooser.message.value)
    assert said.startswith("30 requests read from mine.csv. Not all of it: 1 row(s) left out, first line 32")
    assert "line 33" in said and "line 34" in said


def test_a_path_is_read_as_an_upload_is(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("input_length,output_length\n" + "7,5\n" * 30 + "7,0\n")
    chooser = WorkloadChooser(file)
    assert len(chooser.chosen) == 30
    assert "Not all of it: 1 row(s) left out, first line 32" in html.unescape(chooser.message.value)


def test_a_file_named_like_a_workload_of_the_package_does_not_replace_it(explorer):
    _upload(explorer, b"input_length,output_length\n5,5\n", name="uniform")
    assert explorer.chooser.names.value == "uniform (your own)" and len(explorer.requests) == 1
    assert "1 request read" in explorer.chooser.message.value
    explorer.chooser.names.value = "uniform"
    assert len(explorer.requests) == 10_000


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "is empty"),
        (b"ContextTokens,GeneratedTokens\n5,x\n", "line 2"),
        (bytes(range(256)), "line 1"),
    ],
)
def test_a_file_that_is_no_trace_changes_nothing(explorer, content, words):
    before = explorer.waste.rows
    _upload(explorer, content)
    assert words in html.unescape(explorer.chooser.message.value) and "nothing was changed" in html.unescape(
        explorer.chooser.message.value
    )
    assert explorer.waste.rows == before and explorer.chooser.names.value == "azure-conversation"


def test_what_a_file_says_is_neither_markup_nor_mathematics(explorer):
    _upload(explorer, b"input_length,output_length\n5,5\n", name="<b>$\\href{x}{y}$</b>.csv")
    assert "&lt;b&gt;" in explorer.chooser.message.value
    assert "<b>" not in explorer.chooser.message.value and "$" not in explorer.chooser.message.value


def test_the_measured_tables_are_those_on_the_map():
    explorer = FragmentationExplorer("uniform", num_slots=4_096, block_size=8, measure=False)
    explorer.map.frame = 7
    tables, lengths, *_ = explorer.tables_shown()
    assert sum(lengths.values()) == explorer.run.steps.stored[7]
    drawn = np.flatnonzero(explorer.map.traces[0].blocks(7)[:, 2])
    assert sorted(block for table in tables.values() for block in table) == drawn.tolist()
    cost = explorer.measure()
    assert cost.tokens == sum(lengths.values()) and cost.block_size == 8
    assert explorer.cost.word == "measured" and explorer.cost.device
    assert [row["label"] for row in explorer.cost.rows] == ["contiguous", "paged, blocks of 8"]
    explorer.close()


def test_nothing_to_measure_is_said_not_raised():
    explorer = FragmentationExplorer(workloads.parse("input_length,output_length\n900000,5\n"), measure=False)
    assert explorer.map.frames == 0 and "1 request refused" in explorer.pool_use.rows[0]["note"]
    with pytest.raises(ValueError, match="no sequence stores a token"):
        explorer.measure()
    explorer.close()


def test_the_moment_names_the_requests_that_hold_what_stores_nothing(explorer):
    assert explorer.moment.rows == []
    explorer.explain.value = True
    explorer.map.frame = 100
    texts = explorer.holders.value.split("</p>")
    for played, row, text in zip(explorer._played, explorer.moment.rows, texts, strict=False):
        run, steps = played.run, played.run.steps
        shown = {segment["kind"]: segment["value"] for segment in row["segments"]}
        assert shown["internal"] == steps.internal[100] and sum(shown.values()) == 16_384
        assert row["note"] == f"{steps.running[100]:,} running"
        held = moment.holders(run, 100)
        assert sum(holder.wasted for holder in held) == steps.held[100] - steps.stored[100]
        assert f"Most of them: request {held[0].request} {held[0]}" in text
        assert f"{steps.waiting[100]:,} requests waiting" in text
    assert "empty in its last block" in texts[0] and "never needed" in texts[2]
    assert "holes too small" in texts[1]
    explorer.map.frame = 101
    assert explorer.moment.title == "The pool at step 101"


def test_every_policy_is_on_one_axis_of_time_and_the_charts_slider_is_the_maps(explorer):
    assert [line["name"] for line in explorer.running.lines] == ["paged", "power of two", "longest"]
    for line, played in zip(explorer.running.lines, explorer._played, strict=True):
        assert line["y"] == played.run.steps.running.tolist()
    assert explorer.running.timeline == explorer.map.timeline


def test_an_interrupted_redraw_shows_no_run_that_was_cut(explorer, monkeypatch):
    before = explorer.map.traces, explorer.waste.rows, explorer.pool_use.rows
    whole = serving.simulate

    def cut(*arguments, **limits):
        run = whole(*arguments, **limits)
        run.stopped = "interrupted"
        return run

    monkeypatch.setattr(serving, "simulate", cut)
    for control, value in ((explorer.block_size, 64), (explorer.pool, 65_536), (explorer.spread, 0.5)):
        control.value = value
        assert "Interrupted" in explorer.chooser.message.value
        assert (explorer.map.traces, explorer.waste.rows, explorer.pool_use.rows) == before
    with pytest.raises(KeyboardInterrupt):
        FragmentationExplorer("uniform", measure=False)


def test_of_a_long_trace_the_first_requests_are_served_and_that_is_said():
    many = workloads.named("uniform", requests=50_000)
    explorer = FragmentationExplorer(many, measure=False)
    assert len(explorer.run.workload) == 20_000 and len(explorer.requests) == 50_000
    assert "the first 20,000 of 50,000 requests" in explorer.pool_use.caption
    assert "50,000 requests" in explorer.waste.caption
    explorer.close()


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"block_size": 3}, "block_size must be one of 1, 2, 4, 8, 16, 32, 64, 128, 256, got 3"),
        ({"num_slots": 5_000}, "num_slots must be one of 4096, .*, got 5000"),
        ({"spread": 3}, "spread must be 0 to 2, got 3"),
    ],
)
def test_a_value_that_a_slider_lacks_is_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        FragmentationExplorer("uniform", measure=False, **wrong)


def test_a_shared_block_is_drawn_shared_and_owned_by_who_had_it_first():
    manager = BlockManager(4, 4)
    manager.allocate("A", 6)
    manager.fork("A", "B")
    manager.append("B")
    manager.free("A")
    trace = paged_trace(manager.events, num_blocks=4, block_size=4)
    assert trace.frames == len(manager.events) == 5
    owners = [trace.names[owner] for owner in trace.blocks(1)[:2, 0]]
    assert owners == ["A", "A"] and trace.blocks(1)[:, 2].tolist() == [2, 2, 0, 0]
    assert trace.blocks(4)[:, 1:].tolist() == [[4, 1], [0, 0], [3, 1], [0, 0]]
    assert trace.names[trace.blocks(4)[0, 0]] == "B"


def test_a_cell_shows_the_tokens_of_every_piece_in_it():
    manager = ContiguousManager(12, FirstFit)
    manager.allocate("A", 5, 6)
    manager.allocate("B", 1, 6)
    manager.append("B")
    trace = contiguous_trace(manager.events, num_slots=12, cell_size=4)
    assert trace.blocks(2)[:, 1].tolist() == [4, 3, 0]  # A has 4 + 1, B has 2 of the second cell
    assert trace.blocks(2)[:, 2].tolist() == [1, 1, 1]


def test_unknown_workloads_and_missing_files_are_refused():
    with pytest.raises(FileNotFoundError):
        FragmentationExplorer("no-such-trace.csv", measure=False)


def test_the_policies_shown_are_policies_of_the_server(explorer):
    shown = [explorer.run.policy, *(played.run.policy for played in explorer._contiguous)]
    assert len(explorer.map.traces) == len(shown) == len(explorer.waste.rows)
    assert set(shown) <= set(serving.POLICIES)
