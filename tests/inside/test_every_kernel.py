"""Every Triton kernel on every target: no spills, wide loads, and as many copies in flight paged as not."""

from __future__ import annotations

import pytest

from pagedlab_kernels import CompiledKernel, compile_report
from pagedlab_kernels.inside.report import TARGETS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[64, 128, 256], ids="head_dim {}".format)
def everywhere(request: pytest.FixtureRequest) -> dict[tuple[str, str], CompiledKernel]:
    """Every kernel on every target."""
    pytest.importorskip("triton")
    return {(each.kernel, each.target): each for each in compile_report(head_dim=request.param)}


def test_every_kernel_compiles_without_a_stack_and_loads_caches_wide(everywhere) -> None:
    refused = {key: each.refusal for key, each in everywhere.items() if each.refusal}
    assert set(refused) == {("decode-bulk", target) for target in ("sm_75", "sm_80", "gfx942")}
    assert all("only sm_90 and later" in reason for reason in refused.values())
    assert {key: each.stack for key, each in everywhere.items() if each.stack} == {}
    caches = {key: each.cache_loads for key, each in everywhere.items() if key[0] != "merge"}
    assert all(loads or key in refused for key, loads in caches.items())
    by_lanes = [loads for (kernel, _), loads in caches.items() if kernel != "decode-bulk"]
    assert {load.width for loads in by_lanes for load in loads} == {16}


def test_paged_keeps_as_many_copies_in_flight_as_its_twin(everywhere) -> None:
    for kernel in ("decode", "prefill"):
        for target in TARGETS:
            paged, twin = everywhere[kernel, target], everywhere[f"{kernel}-twin", target]
            assert paged.copies_in_flight >= twin.copies_in_flight
            asynchronous = target in ("sm_80", "sm_90", "sm_100")
            assert {load.asynchronous for load in paged.cache_loads} == {asynchronous}
            assert kernel != "decode" or (twin.copies_in_flight > 0) == asynchronous
            assert paged.num_stages == 2 * twin.num_stages - 1


def test_a_tile_in_one_piece_takes_no_lane_and_as_many_are_in_flight(everywhere) -> None:
    for target in ("sm_90", "sm_100"):
        bulk, lanes = everywhere["decode-bulk", target], everywhere["decode", target]
        assert {(load.reads, load.width, load.asynchronous) for load in bulk.cache_loads} == {
            ("key_tiles", 0, True),
            ("value_tiles", 0, True),
        }
        assert bulk.copies_in_flight >= lanes.copies_in_flight > 0
