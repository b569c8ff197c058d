"""An address trace is what the real kernel did: every address, in order, whatever becomes of the kernel."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pagedlab.kernel_cases import STEPPED, KernelCase
from pagedlab_kernels import CSRTable, address_trace, kernel_source
from pagedlab_kernels.inside import child

pytestmark = [pytest.mark.usefixtures("triton"), pytest.mark.slow]
CASE = KernelCase(length=70, block_size=4, kv_heads=2, group=3, head_dim=20, layout="HND")


def traced(case: KernelCase = CASE, table=None, **options):
    kernel, arguments, defaults = case.call(table)
    return address_trace(kernel, *arguments, **defaults | options)


def reads(trace, tensor: str):
    """Where the elements that were read lie, in order: one dict of indices each."""
    accesses = [access for step in trace.steps for access in step.accesses if access.tensor.name == tensor]
    assert {access.kind for access in accesses} == {"load"}
    return [access.tensor.place(int(offset)) for access in accesses for offset in access.elements()[1]]


def test_a_program_reads_its_heads_tokens_once_and_in_order_through_the_table() -> None:
    trace = traced(programs=[(0, 1, 0)])
    assert (trace.failure, trace.strays) == (None, ())
    entries = [place["entry"] for place in reads(trace, "table")]
    assert entries == [position // 4 for position in range(70)]
    expected = [
        {"block": CASE.table[position // 4], "slot": position % 4, "head": 1, "dim": dim}
        for position in range(70)
        for dim in range(20)
    ]
    assert reads(trace, "keys") == reads(trace, "values") == expected


def test_every_result_is_written_once() -> None:
    trace = traced(num_splits=3)
    assert [launch.kernel for launch in trace.launches][-1] == "merge"
    for launch in trace.launches:
        accesses = [access for step in trace.steps if step.launch is launch for access in step.accesses]
        stores = [
            each.elements()[1] for each in accesses if (each.kind, each.tensor.name) == ("store", "out")
        ]
        size, itemsize = int(np.prod(launch.tensors["out"].shape)), launch.tensors["out"].itemsize
        assert np.sort(np.concatenate(stores)).tolist() == list(range(0, size * itemsize, itemsize))


def test_the_twin_reads_the_same_tokens_without_a_table() -> None:
    paged = traced(programs=[(0, 0, 0)])
    kernel, arguments, options = KernelCase(**{**vars(CASE), "block_size": None}).call()
    twin = address_trace(kernel, *arguments, programs=[(0, 0, 0)], values=["score"], **options)
    assert not any(access.tensor.name == "table" for step in twin.steps for access in step.accesses)
    assert [place["slot"] for place in reads(twin, "keys")] == [
        position for position in range(70) for _ in range(20)
    ]
    assert len(reads(twin, "keys")) == len(reads(paged, "keys"))


def test_values_are_those_of_the_kernel() -> None:
    trace = traced(programs=[(0, 1, 0)], values=["score", "top", "share", "total"])
    query, key, value, table, _ = CASE.call()[1]
    keys, values = (pool[table[0].long()].flatten(0, 1)[:70, 1].double() for pool in (key, value))
    scores = query[0, 3:6].double() @ keys.T * 20**-0.5
    kept: dict[str, list] = {}
    for step in trace.steps:
        for name, number in step.values.items():
            kept.setdefault(name, []).append(number)
    tiles = np.concatenate([np.array(tile, dtype=float)[:3] for tile in kept["score"][1::2]], axis=1)
    np.testing.assert_allclose(tiles[:, :70], scores, atol=1e-5)
    assert np.isneginf(tiles[:, 70:]).all()
    top = np.array(kept["top"][-1], dtype=float)[:3]
    np.testing.assert_allclose(top, scores.max(1).values, atol=1e-5)
    weights = (scores - scores.max(1, keepdim=True).values).exp()
    np.testing.assert_allclose(np.array(kept["share"][-1])[:3], weights.sum(1), rtol=1e-5)
    np.testing.assert_allclose(np.array(kept["total"][-1])[:3, :20], weights @ values, atol=1e-4)


@pytest.mark.parametrize(("dtype", "itemsize"), [("float32", 4), ("bfloat16", 2)])
def test_sectors_and_lines_are_counted_as_on_a_gpu(dtype: str, itemsize: int) -> None:
    """One KV head of two: in NHD every second row of 64 bytes, in HND one piece for each block."""
    case = KernelCase(length=32, block_size=8, head_dim=32, group=1, dtype=dtype)
    row = case.head_dim * itemsize
    for layout, stretches in (("NHD", 32), ("HND", 4)):
        trace = traced(KernelCase(**{**vars(case), "layout": layout}), programs=[(0, 0, 0)])
        keys = next(each for each in trace.traffic() if each.tensor == "keys")
        assert (keys.bytes, keys.sectors, keys.stretches) == (32 * row, 32 * row // 32, stretches)
        assert keys.lane_bytes == 16 and keys.requests == 32 * row // (16 * 32)
        assert keys.lines == (32 if layout == "NHD" else 32 * row // 128)
        narrow = next(each for each in trace.traffic(lane_bytes=2) if each.tensor == "keys")
        assert (narrow.requests, narrow.sectors) == (32, keys.sectors)


def test_a_wild_block_is_reported_and_crashes_nothing() -> None:
    table = list(CASE.table)
    table[2] = 10**6
    trace = traced(table=table, programs=[(0, 0, 0)])
    assert trace.failure is None
    (keys, values) = trace.strays
    assert (keys.tensor, values.tensor, keys.kind) == ("keys", "values", "load")
    assert keys.elements == 4 * 20  # the block's slots
    shape = trace.launches[0].tensors["keys"].shape
    block_bytes = 4 * int(np.prod(shape[1:]))
    assert keys.beyond == 10**6 * block_bytes - shape[0] * block_bytes + 4
    assert "out of bounds of keys" in str(keys) and f"{keys.beyond:,} bytes, past the end" in str(keys)

    table[2] = -1
    (keys, _) = traced(table=table, programs=[(0, 0, 0)]).strays
    assert keys.beyond == -block_bytes and "before the start" in str(keys)


def test_an_address_of_nobody_is_reported_too() -> None:
    source = kernel_source().replace(
        "v_row = block * v_block", "v_row = 3 * (block + 1) * 2**56 + block * v_block"
    )
    trace = traced(source=source, programs=[(0, 0, 0)])
    assert trace.failure is None and {stray.tensor for stray in trace.strays} == {None}
    assert "belong to no tensor" in str(trace.strays[0])


def test_a_csr_table_is_read_from_where_its_row_starts() -> None:
    kernel, (query, key, value, table, lengths), options = CASE.call()
    arrays = [np.array(each, np.int32) for each in ([0, 3, 3 + table.shape[1]], [0, 0, 0, *table[0]], [1, 2])]
    both = torch.tensor([9, 70], dtype=torch.int32)
    trace = address_trace(
        kernel, query.repeat(2, 1, 1), key, value, CSRTable(*arrays), both, programs=[(1, 0, 0)], **options
    )
    assert [place["seq"] for place in reads(trace, "starts")] == [1]
    assert [place["entry"] for place in reads(trace, "table")] == [
        3 + position // 4 for position in range(70)
    ]


def test_arguments_are_refused_as_the_call_refuses_them() -> None:
    table = [10**6] * len(CASE.table)
    with pytest.raises(IndexError, match="is 1000000"):
        traced(table=table, check=True)
    with pytest.raises(TypeError, match="query"):
        address_trace("paged_attention", *[None] * 5)
    with pytest.raises(ValueError, match="kernel must be one of paged_attention"):
        address_trace(torch.softmax)


# -- A kernel that somebody edited.

EDITS = {
    "another slot": ("slot = position % BLOCK_SIZE", "slot = (position + 1) % BLOCK_SIZE"),
    "the head of a neighbour": ("+ kv_head * k_head", "+ 0 * k_head"),
    "an entry too far": ("entries + position // BLOCK_SIZE", "entries + position // BLOCK_SIZE + 1"),
    "a maximum for a sum": ("tl.sum(weight, 1)", "tl.max(weight, 1)"),
    "no mask": ("mask=real_query", "mask=None"),
}


@pytest.mark.parametrize(("old", "new"), EDITS.values(), ids=EDITS)
def test_a_changed_line_changes_the_trace(old: str, new: str) -> None:
    source = kernel_source()
    assert source.count(old) >= 1
    options = {"programs": [(0, 1, 0)], "values": ["share"]}
    before, after = traced(**options), traced(**options, source=source.replace(old, new))
    assert before.answers != after.answers
    assert before.answers == traced(**options, source=source).answers


@pytest.mark.parametrize(
    ("source", "failure"),
    [
        ("def attention(:", "SyntaxError"),
        ("import os; os.abort()", "SIGABRT"),
        ("while True: pass", "no end within 6 seconds"),
        (None, "InterpreterError"),
        ("raise SystemExit", "the process ended before its work was done (exit code 0)"),
        ("import os; os._exit(0)", "the process ended before its work was done (exit code 0)"),
        ("print('all is well'); import os; os._exit(3)", "(exit code 3)"),
        ("import sys\nwhile True: print('x' * 99_999, file=sys.stderr)", "more than 32 MB of messages"),
    ],
)
def test_whatever_a_kernel_does_is_reported(source: str | None, failure: str) -> None:
    if source is None:
        source = kernel_source().replace("block, slot = block.to", "block, slot = nothing.to")
    trace = traced(source=source, seconds=6 if "while" in source[:9] else 60)
    assert failure in (trace.failure or "")


def test_a_kernel_that_goes_on_for_ever_is_ended_by_what_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MOST_BYTES", 1 << 20)
    line = "        score = tl.dot"
    source = kernel_source().replace(line, "        while True:\n            score = 0\n" + line, 1)
    trace = traced(source=source, programs=[(0, 0, 0)], seconds=100)
    assert "more than 1 MB of answers: an endless loop?" in (trace.failure or "")
    assert trace.steps


@pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="Linux lists the children of a process there"
)
def test_an_endless_kernel_ends_with_whoever_started_it(child_environment: dict[str, str]) -> None:
    code = (
        "from pagedlab.kernel_cases import STEPPED, trace\n"
        "trace(STEPPED, source='while True: print(input)')\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], env=child_environment)
    tasks, tracing = Path(f"/proc/{parent.pid}/task"), ""
    while not tracing and parent.poll() is None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            pids = " ".join(each.read_text() for each in tasks.glob("*/children")).split()
            commands = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in pids}
            tracing = next((pid for pid, command in commands.items() if "inside.tracing" in command), "")
    gone = os.pidfd_open(int(tracing))
    parent.kill()
    parent.wait()
    assert select.select([gone], [], [], 60)[0], "it runs on"
    os.close(gone)


def test_what_a_kernel_did_before_it_failed_is_kept() -> None:
    source = kernel_source().replace("        score = tl.dot", "        score = tl.dote", 1)
    trace = traced(source=source)
    assert "dote" in (trace.failure or "")
    assert {access.tensor.name for step in trace.steps for access in step.accesses} >= {"keys", "values"}


def test_a_prefill_is_traced_too() -> None:
    query, key, value, table, _ = STEPPED.call()[1]
    starts, lengths = torch.tensor([0, 2], dtype=torch.int32), torch.tensor([150], dtype=torch.int32)
    trace = address_trace(
        "paged_prefill", query.repeat(2, 1, 1), key, value, table, lengths, starts, programs=[(0, 0, 0)]
    )
    assert trace.failure is None and len(reads(trace, "keys")) == 150 * 16
