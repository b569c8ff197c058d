"""The cache lines of a start-up log, explained; real logs of vLLM 0.32 and lines as they stand in issues."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagedlab.advice import AdviceError, Choice, engine_log
from pagedlab.advice.engine_log import explain, parse
from pagedlab.advice.setting import resolve

LOGS = Path(__file__).parent.parent / "cases" / "vllm_startup_logs"
LLAMA = resolve(Choice())
GPU_LOG = """\
INFO 11-06 10:51:30 [gpu_model_runner.py:2653] Model loading took 14.9889 GiB and 3.2 seconds
(Worker_TP0 pid=1) INFO 11-06 10:51:48 [gpu_worker.py:349] Available KV cache memory: 51.71 GiB
(Worker_TP1 pid=2) INFO 11-06 10:51:48 [gpu_worker.py:349] Available KV cache memory: 50.00 GiB
(EngineCore pid=3) INFO 11-06 10:51:48 [kv_cache_utils.py:1229] GPU KV cache size: 409,600 tokens
INFO 11-06 10:51:48 [kv_cache_utils.py:1234] Maximum concurrency for 120,000 tokens per request: 3.41x
INFO 05-26 21:34:14 [gpu_model_runner.py:6243] Graph capturing finished in 2 secs, took 0.11 GiB
""".splitlines()


def text(log: engine_log.EngineLog, topic: str, setting=LLAMA) -> str:
    return next(finding.text for finding in explain(log, setting) if finding.topic == f"log: {topic}")


def test_a_log_with_the_default_block_size_tells_it_by_its_tokens():
    log = engine_log.read(LOGS / "llama_bf16_auto_util0.15_defaultbs.txt")
    assert (log.version, log.tokens, log.per_request, log.concurrency) == ("0.32.0", 302_464, 4_096, 73.84)
    assert text(log, "memory") == "1.15 GiB for K and V = 1.85 GiB requested - 0.70 GiB other uses"
    assert "302,464 tokens = 2,363 blocks of 128 (at most:" in text(log, "tokens")
    assert "= 73.84; the log says 73.84" in text(log, "concurrency")


def test_a_log_with_a_given_block_size_and_memory():
    log = engine_log.read(LOGS / "llama_bf16_explicit64MiB_bs32.txt")
    assert (log.tokens, log.block_size, log.kv_gib) == (16_384, 32, 0.06)
    assert "16,384 tokens = 512 blocks of 32 (set by its arguments)" in text(log, "tokens")
    # 64 MiB over 16,384 tokens are 4,096 bytes; the log prints 0.06 GiB, and its rounding is told
    assert abs(4096 / log.bytes_per_token - 1) < log.rounding < 0.09


def test_a_log_of_another_model_is_explained_but_not_used():
    log = engine_log.read(LOGS / "llama_bf16_auto_util0.15_defaultbs.txt")
    assert not log.fits(LLAMA)
    assert "4,082 bytes each" in text(log, "tokens") and "does not use this log" in text(log, "tokens")


def test_of_several_workers_the_one_with_the_least_memory_counts():
    log = parse(GPU_LOG)
    assert (log.kv_gib, log.weights_gib, log.graphs_gib, log.tokens) == (50.0, 14.9889, 0.11, 409_600)
    assert log.fits(LLAMA) and "131,072 bytes each" in text(log, "tokens")
    assert text(log, "memory") == "50.00 GiB for K and V; weights 14.99 GiB; captured graphs 0.11 GiB"
    assert "= 3.41; the log says 3.41" in text(log, "concurrency") + "."


def test_a_concurrency_that_tokens_do_not_explain_is_said_so():
    lines = ["GPU KV cache size: 409,600 tokens, Maximum concurrency for 4,096 tokens per request: 180.00x"]
    assert "the log says 180.00: more than the tokens alone tell" in text(parse(lines), "concurrency")


def test_what_the_log_does_not_say_cannot_be_told():
    log = parse(["GPU KV cache size: 409,600 tokens"])
    assert {finding.topic: finding.word for finding in explain(log, LLAMA)} == {
        "log: memory": "cannot tell",
        "log: tokens": "recorded",
        "log: concurrency": "cannot tell",
    }
    assert "cannot tell the bytes of one" in text(log, "tokens")


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["hello"],
        ["GPU KV cache size: none tokens"],
        ["# GPU blocks: 512"],
        ["KV cache size: 0 tokens"],
        [f"KV cache size: {'9' * 5000} tokens"],
    ],
)
def test_a_file_that_is_no_such_log_is_one_error(lines):
    with pytest.raises(AdviceError, match="start.log: no line tells a cache of vLLM's"):
        parse(lines, "start.log")


def test_a_cache_that_no_memory_holds_is_one_error():
    with pytest.raises(AdviceError, match="log: a cache of 999,999,999 tokens is none, at most 268,435,456"):
        parse(["KV cache size: 999,999,999 tokens"])


def test_older_logs_count_blocks():
    assert parse(["'block_size': 16}", "# GPU blocks: 1,381, # CPU blocks: 0"]).tokens == 1381 * 16


def test_a_huge_line_is_read_in_pieces(tmp_path):
    path = tmp_path / "long.log"
    path.write_text("x" * 3_000_000 + "\nGPU KV cache size: 4,096 tokens\n")
    assert engine_log.read(path).tokens == 4096
