"""What a block size costs, and the explorer of it, without a page."""

from __future__ import annotations

import numpy as np
import pytest

from pagedlab import overhead, waste, workloads
from pagedlab.cost import Outdated
from pagedlab.overhead import BLOCK_SIZES, DecodeSetting
from pagedlab_widgets import OverheadExplorer, measuring

SMALL = DecodeSetting(context=16, batch=2)


# ---- the costs --------------------------------------------------------------------------------


@pytest.mark.parametrize("block_size, lookups", [(1, 300), (16, 21), (64, 6), (256, 3)])
def test_a_step_looks_up_each_block_of_each_sequence_once(block_size, lookups):
    assert DecodeSetting(context=100, batch=3).lookups(block_size) == lookups


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"layout": "DHN"}, "layout must be one of HND, NHD, got 'DHN'"),
        ({"order": "sorted"}, "order must be one of in order, shuffled, scattered, got 'sorted'"),
        ({"context": 8192, "batch": 64}, "64 sequences of 8,192 tokens are 524,288: 1 to 32,768"),
        ({"batch": 0}, "0 sequences of 1,024 tokens are 0: 1 to 32,768"),
    ],
)
def test_a_step_that_is_not_measured_here_says_why(wrong, says):
    with pytest.raises(ValueError, match=says):
        DecodeSetting(**wrong)


def test_what_is_counted_is_the_waste_and_the_tables_of_the_workload():
    workload = workloads.named("azure-code")
    counted, lengths = overhead.count(workload), overhead.mid_decode(workload)
    assert len(lengths) == 64 and (lengths <= workload.stored.max()).all()
    for place, size in enumerate(BLOCK_SIZES):
        assert counted.wasted[place] == waste.paged(workload, size).wasted_share
        blocks = np.ceil(lengths / size)
        assert counted.entries[place] == blocks.sum() and counted.padded[place] == 64 * blocks.max()


@pytest.mark.parametrize("layout, order", [("HND", "in order"), ("NHD", "scattered")])
def test_a_step_is_measured_beside_its_twin_of_the_same_layout(layout, order):
    comparison = overhead.step(DecodeSetting(16, 2, layout, order), block_size=4)
    assert [timing.name for timing in comparison.timings] == ["contiguous", "paged 4", "read"]
    assert [timing.layout for timing in comparison.timings[:2]] == [
        f"{layout}, one piece",
        f"{layout}, blocks {order}",
    ]
    assert comparison.rounds == 15 and comparison.limit == "read"


def test_a_sweep_measures_kernel_and_host_at_every_block_size_and_says_how_far_it_is():
    parts = []
    swept = overhead.sweep(SMALL, [5, 16], (1, 16), progress=lambda done, of: parts.append((done, of)))
    assert [timing.name for timing in swept.kernel.timings] == ["contiguous", "paged 1", "paged 16", "read"]
    assert [timing.name for timing in swept.host.timings] == ["paged 1", "paged 16"]
    assert parts == [(done, 15) for done in range(1, 16)]


def test_a_measurement_that_is_stopped_has_no_answer():
    asked = []

    def should_stop():
        asked.append(1)
        return len(asked) > 20

    with pytest.raises(Outdated):
        overhead.step(SMALL, 4, should_stop=should_stop)


# ---- the explorer -----------------------------------------------------------------------------


class Here:
    """A worker that does the work in this process."""

    def run(self, task, *arguments, should_stop, progress):
        return task(*arguments, should_stop=should_stop, progress=progress)


@pytest.fixture
def explorer(monkeypatch):
    monkeypatch.setattr(measuring, "WORKER", Here())
    explorer = OverheadExplorer("uniform", context=16, batch=2, block_size=4, measure=False)
    yield explorer
    explorer.close()


def test_the_step_that_is_set_is_measured_and_drawn(explorer):
    assert explorer.cost.caption == "8 look-ups a layer, a block table of 32 B (computed)."
    explorer.layout_list.value = "NHD"
    explorer.measure()
    names = [row["label"] for row in explorer.cost.rows]
    assert names == ["contiguous", "paged, blocks of 4", "the same bytes, only read"]
    assert explorer.cost.rows[1]["note"].startswith("NHD, blocks shuffled, ")
    assert "2 sequences x 16 tokens" in explorer.cost.caption and explorer.cost.device
    assert explorer.cost.status == ""
    explorer.order.value = "in order"
    assert explorer.cost.status == "out of date"


def test_two_costs_are_there_at_once_and_two_when_asked(explorer):
    assert [line["name"] for line in explorer.costs.lines] == ["memory wasted", "block table"]
    assert explorer.costs.cursor == 4
    explorer.measure_all()
    lines = {line["name"]: line for line in explorer.costs.lines}
    assert list(lines)[2:] == ["host builds the table", "kernel"]
    assert {line["word"] for line in explorer.costs.lines[:2]} == {"computed"}
    assert {line["word"] for line in explorer.costs.lines[2:]} == {"measured"}
    for line in lines.values():
        assert len(line["y"]) == len(line["texts"]) == 9 and max(line["y"]) == pytest.approx(100)
    assert lines["memory wasted"]["texts"][0] == "0.0 %"
    explorer.block_size.value = 64  # every block size was measured
    assert len(explorer.costs.lines) == 4 and explorer.costs.cursor == 64
    explorer.order.value = "scattered"
    assert len(explorer.costs.lines) == 2 and explorer.costs.status == ""


def test_another_workload_changes_what_it_wastes(explorer):
    before = explorer.costs.lines
    explorer.chooser.names.value = "mooncake-conversation"
    assert explorer.costs.lines[0]["texts"] != before[0]["texts"]
    assert "mooncake-conversation" in explorer.costs.caption


def test_a_step_that_is_too_large_is_said_and_not_measured(explorer):
    explorer.context.value, explorer.batch.value = 8192, 64
    assert explorer.cost.rows == [] and "64 sequences of 8,192 tokens are 524,288" in explorer.cost.caption
    with pytest.raises(ValueError, match="1 to 32,768 are measured here"):
        explorer.measure()
    explorer.batch.value = 1
    assert "look-ups a layer" in explorer.cost.caption


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"context": 100}, "context must be one of 16, 32, .*, got 100"),
        ({"layout": "nhd"}, "layout must be one of HND, NHD, got 'nhd'"),
    ],
)
def test_a_value_that_a_control_lacks_is_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        OverheadExplorer("uniform", measure=False, **wrong)
