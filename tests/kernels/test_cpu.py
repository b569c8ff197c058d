"""What is the CPU backend's own: its threads, its disk cache, its reader and its reach beyond 32 bits."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pagedlab_kernels import contiguous_attention, cpu

CALL = """
import torch
from pagedlab_kernels import contiguous_attention, cpu_kernels
value = torch.arange(1.0, 9.0).view(1, 8, 1, 1)
def call():
    query, lengths = torch.zeros(1, 1, 1), torch.tensor([8], dtype=torch.int32)
    return contiguous_attention(query, torch.zeros_like(value), value, lengths, backend="cpu").item()
"""


@pytest.fixture
def says(run_python):
    def run(code: str, **environment: str) -> str:
        done = run_python("-c", code, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_second_process_compiles_nothing(says, tmp_path):
    code = CALL + "call(); print(sum(cpu_kernels.decode.stats.cache_misses.values()))"
    folder = str(tmp_path / "numba")
    assert [says(code, NUMBA_CACHE_DIR=folder) for _ in range(2)] == ["1", "0"]


def test_kernel_runs_where_no_folder_can_be_written(says):
    code = "from numba.core import caching; caching.CacheImpl._locator_classes.clear()\n" + CALL
    code = code.replace("_locator_classes.clear()", "_locator_classes[:] = []")
    assert says(code + "print(call(), cpu_kernels.decode.stats.cache_path)") == "4.5 None"


def test_kernel_stays_inside_its_arrays(says, tmp_path):
    """With numba's bounds checks: full tiles, blocks that straddle two of them, a window."""
    code = """
import sys; sys.path.insert(0, {folder!r})
from batches import batch
case = batch([0, 1, 512, 1025], heads=(5, 1), block_size=5)
for options in ({{}}, {{"window": 600}}):
    found = case.paged(backend="cpu", **options)
    assert (found.double() - case.exact(**options)[0]).abs().max() < 2e-6
print("inside")
"""
    code = code.format(folder=str(Path(__file__).parent))
    assert says(code, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path)) == "inside"


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collector_is_left_as_it_was(enabled):
    values, lengths = torch.ones(1, 8, 1, 1), torch.tensor([8], dtype=torch.int32)
    (gc.enable if enabled else gc.disable)()
    try:
        contiguous_attention(torch.zeros(1, 1, 1), values, values, lengths, backend="cpu")
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


def test_threads_of_torch_are_left_alone_and_followed(says):
    code = (
        CALL
        + """
import numba
torch.set_num_threads(1)
call()
print(torch.get_num_threads(), numba.get_num_threads())
"""
    )
    assert says(code) == "1 1"


def test_two_python_threads_may_call_at_once(says):
    code = (
        CALL
        + """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    print(set(pool.map(lambda _: call(), range(200))))
"""
    )
    assert says(code, NUMBA_THREADING_LAYER="workqueue") == "{4.5}"


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_long_sequences_are_dealt_out_evenly(threads):
    lengths = np.array([1000] * 8 + [10] * 24, np.int32)
    order = cpu._deal(lengths, threads)
    assert sorted(order) == list(range(32))
    loads = [lengths[piece].sum() for piece in np.array_split(order, threads)]
    assert max(loads) - min(loads) <= 1010


def test_stream_read_reads_every_byte():
    source = torch.randn(3, 1001)
    assert cpu.stream_read(source, source[0]) == pytest.approx(
        float(source.sum() + source[0].sum()), abs=1e-2
    )
    assert cpu.stream_read() == 0
    assert cpu.stream_read(torch.empty(0)) == 0
    halves = torch.tensor([1.0, -2.5]).view(torch.bfloat16)
    assert cpu.stream_read(halves) == -1.5


@pytest.mark.parametrize(
    "tensor", [torch.ones(4, 4).t()[1:], torch.ones(3, dtype=torch.int8), torch.ones(2, device="meta")]
)
def test_stream_read_refuses_what_it_cannot_read_in_one_go(tensor):
    with pytest.raises(ValueError, match="tensors must be contiguous, on the CPU"):
        cpu.stream_read(tensor)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_refused_the_threads_it_has_not_and_answers_all_the_same() -> None:
    code = """
import os, torch
from pagedlab_kernels import contiguous_attention
q, k = torch.randn(2, 4, 16), torch.randn(2, 64, 2, 16)
lens = torch.tensor([64, 9], dtype=torch.int32)
before = contiguous_attention(q, k, k, lens)
child = os.fork()
if child == 0:
    torch.set_num_threads(1)
    same = torch.allclose(contiguous_attention(q, k, k, lens), before, atol=1e-5)
    try:
        contiguous_attention(q, k, k, lens, backend="cpu")
    except ValueError as error:
        os._exit(7 if same and "did not come along" in str(error) else 1)
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.stdout.strip() == "7", ran.stdout + ran.stderr
