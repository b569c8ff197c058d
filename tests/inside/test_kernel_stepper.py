"""The stepper shows what the kernel did, side by side, and what another does when its text changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import traitlets

from pagedlab import kernel_cases
from pagedlab.kernel_cases import CASES, STEPPED, VALUES, KernelCase, recorded
from pagedlab_kernels import kernel_source
from pagedlab_widgets import KernelStepper, LaneView


@pytest.fixture
def from_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without Triton."""
    monkeypatch.setattr(kernel_cases, "live", lambda: False)


def loads(stepper: KernelStepper, side: int, tensor: str) -> list[dict]:
    stops = stepper.sides[side]["stops"]
    return [access for stop in stops for access in stop["accesses"] if access["tensor"] == tensor]


@pytest.mark.usefixtures("from_recordings")
class TestWithoutTriton:
    def test_both_sides_are_shown_as_recorded(self) -> None:
        stepper = KernelStepper()
        assert [side["word"] for side in stepper.sides] == ["recorded", "recorded"]
        assert "triton" in stepper.sides[0]["about"] and not stepper.live

    def test_every_token_is_read_once_where_the_table_says(self) -> None:
        stepper = KernelStepper()
        for side in (0, 1):
            slots = [slot for access in loads(stepper, side, "keys") for slot in access["slots"]]
            assert sorted(slots) == sorted(stepper.sides[side]["token_slots"])
        entries = [entry for access in loads(stepper, 0, "table") for entry in access["entries"]]
        assert entries == list(range(len(STEPPED.table))) and loads(stepper, 1, "table") == []

    def test_sides_stop_at_the_same_lines_but_for_the_paging(self) -> None:
        stepper = KernelStepper()
        lines = kernel_source().splitlines()
        apart = set()
        before = [-1, -1]
        for frame in stepper.beside:
            moved = [i for i in (0, 1) if frame[i] != before[i]]
            at = {stepper.sides[i]["stops"][frame[i]]["line"] for i in moved}
            if len(moved) == 1 or len(at) == 2:
                apart |= {lines[line - 1].split("#")[0].strip() for line in at}
            before = frame
        assert apart == {
            "block = tl.load(entries + position // BLOCK_SIZE, mask=inside, other=0)",
            "slot = position % BLOCK_SIZE",
            "block = tl.zeros_like(position) + seq",
            "slot = position",
        }
        assert stepper.beside[-1] == [len(side["stops"]) - 1 for side in stepper.sides]

    def test_paging_changes_where_and_not_what(self) -> None:
        """Block after block, both sides hold the same scores, maxima, sums and results."""
        stepper, kept = KernelStepper(CASES["paged, 3 splits"]), set(VALUES) - {"block", "slot"}
        paged, twin = (
            [
                (stop["program"], {name: stop["values"][name] for name in stop["values"] if name in kept})
                for stop in side["stops"]
                if kept & stop["values"].keys()
            ]
            for side in stepper.sides
        )
        assert paged == twin and set().union(*(values for _, values in paged)) == kept

    def test_values_leave_out_what_only_pads_a_tile(self) -> None:
        stops = KernelStepper().sides[0]["stops"]
        score = next(stop["values"]["score"] for stop in stops if "score" in stop["values"])
        total = next(stop["values"]["total"] for stop in stops if "total" in stop["values"])
        assert len(score) == len(total) == STEPPED.group and len(total[0]) == STEPPED.head_dim

    def test_the_step_is_kept_in_range(self) -> None:
        stepper = KernelStepper(step=10**6)
        assert stepper.step == stepper.frames - 1
        assert f"step {stepper.step} of {stepper.frames}" in repr(stepper)

    def test_what_is_not_recorded_is_said_to_need_triton(self) -> None:
        stepper = KernelStepper()
        shown = stepper.sides
        stepper.source = kernel_source() + "# edited\n"
        stepper.wait()
        assert "triton is not installed" in stepper.trouble and stepper.sides == shown
        with pytest.raises(ModuleNotFoundError, match="triton is not installed"):
            KernelStepper(KernelCase(length=40))

    def test_a_table_of_another_length_is_refused(self) -> None:
        stepper = KernelStepper()
        with pytest.raises(traitlets.TraitError, match="table must have 10 entries, got 1"):
            stepper.table = [1]
        with pytest.raises(traitlets.TraitError, match="int32"):
            stepper.table = [2**40] * 10
        with pytest.raises(ValueError, match="at most 512 tokens and 256 blocks, got 513 tokens"):
            KernelStepper(KernelCase(length=513))


@pytest.mark.usefixtures("triton")
@pytest.mark.slow
class TestLive:
    CASE = replace(STEPPED, length=40, block_size=8)

    def test_a_changed_line_of_the_kernel_changes_what_is_shown(self) -> None:
        stepper = KernelStepper(self.CASE)
        before = loads(stepper, 0, "keys")
        stepper.source = kernel_source().replace(
            "slot = position % BLOCK_SIZE", "slot = position % BLOCK_SIZE // 2"
        )
        stepper.wait()
        after = loads(stepper, 0, "keys")
        assert stepper.trouble == "" and stepper.status == ""
        assert {slot % 8 for access in before for slot in access["slots"]} == set(range(8))
        assert {slot % 8 for access in after for slot in access["slots"]} == set(range(4))

        stepper.source = kernel_source().replace("score = tl.dot(", "score = 2 * tl.dot(")
        stepper.wait()
        scores = [
            next(stop["values"]["score"][0] for stop in side["stops"] if "score" in stop["values"])
            for side in (stepper.sides[0], KernelStepper(self.CASE).sides[0])
        ]
        assert scores[0] == pytest.approx([2 * score for score in scores[1]], rel=1e-5)

    def test_another_table_is_followed_wherever_it_leads(self) -> None:
        stepper = KernelStepper(self.CASE, twin=False)
        wild = [*self.CASE.table[:-1], 77]
        stepper.table = wild
        stepper.wait()
        assert stepper.sides[0]["table"] == wild
        assert "out of bounds of keys" in stepper.trouble and "out of bounds of values" in stepper.trouble
        stepper.table = list(reversed(self.CASE.table))
        stepper.wait()
        assert stepper.trouble == ""
        first = loads(stepper, 0, "keys")[0]["slots"]
        assert {slot // 8 for slot in first} == set(self.CASE.table)

    def test_a_text_that_runs_no_kernel_says_so(self) -> None:
        stepper = KernelStepper(CASES["paged"])
        stepper.source = "raise SystemExit"
        stepper.wait()
        assert stepper.frames == 0 and "before its work was done" in stepper.trouble

    def test_a_kernel_that_fails_is_reported_and_steps_until_then(self) -> None:
        stepper = KernelStepper(self.CASE, twin=False)
        stepper.source = kernel_source().replace("shrink = tl.exp(top", "shrink = tl.expp(top")
        stepper.wait()
        assert "expp" in stepper.trouble
        assert loads(stepper, 0, "values") and not loads(stepper, 0, "out")


# -- Lanes.


def test_lanes_of_a_trace_show_the_sectors_that_it_counted() -> None:
    trace = recorded("block 16, NHD")
    access = next(each for step in trace.steps for each in step.accesses if each.tensor.name == "keys")
    view = LaneView({"keys": access})
    (case,) = view.cases
    assert case["width"] == 16 and all(len(request) == 32 for request in case["requests"])
    assert view.sectors == [len(access.touched(32))]
    assert case["about"].startswith("16 requests ask for 8,192 bytes and touch 256 sectors")


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ({}, "at least one load"),
        ({"x": ([0], 3)}, "x: a lane takes 1, 2, 4, 8 or 16 bytes"),
        ({"x": ([-1], 4)}, "from a byte of 0 or more"),
        ({"x": ([], 4)}, "from 1 to 256 requests can be shown, got 0"),
    ],
)
def test_lanes_that_are_none_are_refused(cases, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LaneView(cases)


def test_idle_lanes_and_bytes_across_a_border_count() -> None:
    assert LaneView({"x": ([None, 30, *[64] * 40], 4)}).sectors == [3 + 1]
