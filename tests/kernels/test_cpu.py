"""What is the CPU backend's own: its threads, its disk cache, its reader and its reach beyond 32 bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pagedlab_kernels import cpu

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
