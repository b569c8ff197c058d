"""The two walls: the arithmetic, and what the widget shows of it."""

from __future__ import annotations

import html

import pytest

from pagedlab import gpus, models, published
from pagedlab.walls import Walls, with_heads, with_window
from pagedlab_widgets import TwoWalls
from pagedlab_widgets.two_walls import MODELS

LLAMA, H100 = models.preset("llama-3.1-8b"), gpus.named("h100-sxm")
WEIGHTS = 16_060_000_000


# ---- the arithmetic ---------------------------------------------------------------------------


def test_a_step_reads_the_weights_once_and_every_sequences_tokens():
    walls = Walls(H100, LLAMA, WEIGHTS, context=2048)
    read = WEIGHTS + 10 * LLAMA.kv_bytes(2048)
    assert walls.tokens_per_s(10) == pytest.approx(10 * H100.bandwidth_bytes_s / read)
    assert walls.tokens_per_s(1e9) == pytest.approx(walls.most_per_s, rel=1e-3)


def test_kv_overtakes_the_weights_at_the_published_number_of_tokens_on_any_gpu():
    for name in gpus.names():
        walls = Walls(gpus.named(name), LLAMA, WEIGHTS, context=1)
        tokens = walls.weights_s / walls.kv_s
        assert tokens == pytest.approx(published.figure("d9").values["tokens"], rel=0.01)


def test_paging_moves_along_the_curve_and_fewer_bytes_lift_it():
    paged = Walls(H100, LLAMA, WEIGHTS, context=1024)
    reserved = paged.reserving(8192)
    assert paged.sequences == pytest.approx(8 * reserved)
    assert paged.tokens_per_s(paged.sequences) > 2 * paged.tokens_per_s(reserved)
    half = Walls(H100, LLAMA, WEIGHTS, "fp8", 1024)
    assert half.most_per_s == pytest.approx(2 * paged.most_per_s)
    assert half.tokens_per_s(1) < 1.02 * paged.tokens_per_s(1)  # weights bound one sequence


@pytest.mark.parametrize("heads, factor", [(8, 1), (32, 4), (1, 1 / 8), (0, 576 / 2048)])
def test_the_bytes_of_a_token_follow_the_heads_and_a_latent_vector_replaces_them(heads, factor):
    assert with_heads(LLAMA, heads).kv_bytes(1) == factor * LLAMA.kv_bytes(1)


def test_a_window_bounds_what_a_sequence_holds_and_reads():
    windowed = with_window(LLAMA, 1024)
    assert windowed.kv_bytes(100_000) == LLAMA.kv_bytes(1024)
    long = Walls(H100, windowed, WEIGHTS, context=65_536)
    assert long.sequences == pytest.approx(Walls(H100, windowed, WEIGHTS, context=131_072).sequences)


def test_ranks_share_weights_and_heads_and_beyond_the_heads_hold_copies():
    one, eight = (Walls(H100, LLAMA, WEIGHTS, ranks=ranks) for ranks in (1, 8))
    assert eight.weights_s == pytest.approx(one.weights_s / 8) and eight.kv_s == pytest.approx(one.kv_s / 8)
    assert Walls(H100, with_heads(LLAMA, 4), WEIGHTS, ranks=8).kv_s == eight.kv_s
    with pytest.raises(ValueError, match="no block fits: .* weights take 140,000,000,000"):
        Walls(H100, LLAMA, 140_000_000_000)


# ---- the widget -------------------------------------------------------------------------------


def test_what_is_set_stands_beside_what_was_published():
    widget = TwoWalls()
    assert [line["name"] for line in widget.chart.lines] == ["as published", "one request, d1"]
    point = widget.chart.lines[1]
    assert point["word"] == "published" and point["y"][0] == pytest.approx(1e3 / (6.44 + 1024 * 4.37e-5))
    widget.kv_heads.value = 1
    assert [line["name"] for line in widget.chart.lines] == ["as published", "as set"]
    before, now = widget.chart.lines
    assert before["x"] == now["x"] and now["until"] == pytest.approx(8 * before["until"], rel=0.01)
    assert [row["label"] for row in widget.steps.rows] == ["as published", "as set"]
    assert "3.00 TB/s, 90 %" in html.unescape(widget.beside.value)


def test_the_walls_are_where_the_curve_meets_them():
    widget = TwoWalls(context=2048, longest=16_384)
    memory, bandwidth, reserved = widget.chart.walls
    assert memory["x"] == widget.walls.sequences == widget.chart.cursor
    assert bandwidth["y"] == widget.walls.most_per_s > max(widget.chart.lines[0]["y"])
    assert reserved["x"] == pytest.approx(memory["x"] / 8) and "16,384 set aside" in reserved["label"]
    widget.longest.value = 1024
    assert len(widget.chart.walls) == 2


def test_a_published_point_is_shown_only_where_it_was_measured():
    widget = TwoWalls(dtype="fp8")
    assert widget.chart.lines[-1]["name"] == "one request, d1"
    for control, value in ((widget.dtype, "int8"), (widget.gpu, "a100-80gb"), (widget.window, 1024)):
        before, control.value = control.value, value
        assert "one request, d1" not in [line["name"] for line in widget.chart.lines]
        control.value = before


def test_what_does_not_fit_says_so_with_the_numbers_and_more_gpus_help():
    widget = TwoWalls(model="llama-3.1-70b")
    assert widget.walls is None and widget.chart.lines == [] == widget.steps.rows
    assert "weights take 140,000,000,000" in widget.chart.caption
    widget.ranks.value = 4
    assert widget.walls is not None and "assumed: 70 billion parameters" in widget.chart.caption
    widget.kv_heads.value, widget.ranks.value = 2, 8
    assert widget.walls.rank.layer_groups[0].kv_heads == 1


@pytest.mark.parametrize("model", MODELS)
def test_every_model_of_the_list_has_weights_and_walls_on_eight_gpus(model):
    widget = TwoWalls(model=model, gpu="b200", ranks=8)
    assert widget.walls is not None and widget.chart.caption.startswith("A token takes")


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"model": "deepseek-v3"}, "model must be one of llama-2-7b, .*, got 'deepseek-v3'"),
        ({"gpu": "h100"}, "gpu must be one of a100-80gb, h100-sxm, .*, got 'h100'"),
        ({"window": 3}, "window must be one of 0, 128, .*, got 3"),
    ],
)
def test_a_value_that_a_control_lacks_is_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        TwoWalls(**wrong)
