"""What the Triton backend would launch: how many programs a device gets, told without one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton")

from pagedlab_kernels import triton_launch, triton_offline  # noqa: E402

H200 = triton_launch.Device("large", knows_e4m3=True, multiprocessors=132)


def plan(device=H200, seqs=None, **options):
    call = triton_offline.example(**options)
    if seqs:
        table = call.table and replace(call.table, num_seqs=seqs, entries=call.table.entries[: seqs * 64])
        call = replace(call, query=call.query[:seqs], seq_lens=call.seq_lens[:seqs], table=table)
    return triton_launch.plan(call, device).launches


@pytest.mark.parametrize(
    ("seqs", "options", "splits"),
    [
        (1, {}, 4),  # 64 blocks of 16: no part is shorter than 256 tokens
        (1, {"block_size": 256}, 32),  # 8 KV heads: 264 programs wanted
        (4, {"block_size": 256}, 8),
        (16, {"block_size": 256}, 2),
        (1, {"block_size": 256, "window": 1000}, 2),
        (16, {"block_size": 256, "paged": False}, 2),
        (16, {"block_size": 256, "csr": True}, 2),
        (1, {"num_splits": 3}, 3),  # as the caller said
    ],
)
def test_few_sequences_are_cut_until_they_occupy_the_device(seqs, options, splits):
    launches = plan(seqs=seqs, **options)
    assert launches[0].grid[2] == launches[0].constants["SPLITS"] == splits
    assert [launch.kernel.__name__ for launch in launches] == ["attention", "merge"][: 1 + (splits > 1)]


def test_a_device_that_is_not_known_cuts_nothing():
    for device in (replace(H200, multiprocessors=0), triton_launch.device_of(torch.empty(0))):
        assert plan(device, seqs=1, block_size=256)[0].grid[2] == 1


def test_prefill_has_a_program_for_every_tile_of_queries():
    launch = plan(prefill=True, group=4)[0]
    rows = launch.constants["QUERY_TILE"] * launch.constants["GROUP_TILE"]
    assert launch.constants["GROUP_TILE"] == 4 and rows == 128
    assert launch.grid == (
        512 // 32 + 16,
        8,
        1,
    )  # 512 tokens, and one part of a tile for each of 16 sequences


def test_a_group_larger_than_a_tile_takes_several_programs():
    assert plan(group=64)[0].grid[1] == 8 * 4
    assert plan(group=64, prefill=True, dtype=torch.float32)[0].grid[1] == 8 * 4
