"""The cache lines of a start-up log, explained; real logs of vLLM 0.32 and lines as they stand in issues."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagedlab import cli
from pagedlab.advice import AdviceError, engine_log
from pagedlab.advice.engine_log import alone, explain, parse
from pagedlab.models import preset

LOGS = Path(__file__).parent.parent / "cases" / "vllm_startup_logs"
LLAMA = preset("llama-3.1-8b")
GPU_LOG = """\
INFO 11-06 10:51:30 [gpu_model_runner.py:2653] Model loading took 14.9889 GiB and 3.2 seconds
(Worker_TP0 pid=1) INFO 11-06 10:51:48 [gpu_worker.py:349] Available KV cache memory: 51.71 GiB
(Worker_TP1 pid=2) INFO 11-06 10:51:48 [gpu_worker.py:349] Available KV cache memory: 50.00 GiB
(EngineCore pid=3) INFO 11-06 10:51:48 [kv_cache_utils.py:1229] GPU KV cache size: 409,600 tokens
INFO 11-06 10:51:48 [kv_cache_utils.py:1234] Maximum concurrency for 120,000 tokens per request: 3.41x
INFO 05-26 21:34:14 [gpu_model_runner.py:6243] Graph capturing finished in 2 secs, took 0.11 GiB
""".splitlines()


# As a server of one H100 printed them, and a version that counted blocks.
V1_LOG = """\
Initializing a V1 LLM engine (v0.10.2) with config: model='meta-llama/Llama-3.1-8B-Instruct', \
dtype=torch.bfloat16, tensor_parallel_size=1, kv_cache_dtype=auto, device_config=cuda
Using configuration from /configs/E=8,N=512,device_name=NVIDIA_H100_80GB_HBM3.json for MoE layer.
Available KV cache memory: 55.15 GiB
GPU KV cache size: 451,776 tokens
Maximum concurrency for 4,096 tokens per request: 110.30x
Free memory on device (78.66/79.19 GiB) on startup. Desired GPU memory utilization is (0.9, 71.27 GiB). \
Actual usage is 14.08 GiB for weight, 1.97 GiB for peak activation, 0.07 GiB for non-torch memory, and \
0.67 GiB for CUDAGraph memory.
""".splitlines()
V0_LOG = """\
the current vLLM instance can use total_gpu_memory (14.74GiB) x gpu_memory_utilization (0.89) = 13.18GiB
model weights take 6.02GiB; non_torch_memory takes 0.05GiB; PyTorch activation peak memory takes 0.90GiB; \
the rest of the memory reserved for KV Cache is 6.22GiB.
# cuda blocks: 3637, # CPU blocks: 1170
Maximum concurrency for 2048 tokens per request: 28.41x
""".splitlines()


def text(log: engine_log.EngineLog, topic: str, rank=LLAMA) -> str:
    return next(finding.text for finding in explain(log, rank, "bf16") if finding.topic == f"log: {topic}")


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
    assert not log.fits(LLAMA, "bf16")
    assert "4,082 bytes each" in text(log, "tokens") and "no advice would use this log" in text(log, "tokens")


def test_of_several_workers_the_one_with_the_least_memory_counts():
    log = parse(GPU_LOG)
    assert (log.kv_gib, log.weights_gib, log.graphs_gib, log.tokens) == (50.0, 14.9889, 0.11, 409_600)
    assert log.fits(LLAMA, "bf16") and "131,072 bytes each" in text(log, "tokens")
    assert text(log, "memory") == "50.00 GiB for K and V; weights 14.99 GiB; captured graphs 0.11 GiB"
    assert "= 3.41; the log says 3.41" in text(log, "concurrency") + "."


def test_a_concurrency_that_tokens_do_not_explain_is_said_so():
    lines = ["GPU KV cache size: 409,600 tokens, Maximum concurrency for 4,096 tokens per request: 180.00x"]
    assert "the log says 180.00: more than the tokens alone tell" in text(parse(lines), "concurrency")


def test_what_the_log_does_not_say_cannot_be_told():
    log = parse(["GPU KV cache size: 409,600 tokens"])
    assert {finding.topic: finding.word for finding in explain(log, LLAMA, "bf16")} == {
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


# ---- without a trace ------------------------------------------------------------------------------


def test_memory_is_one_sum_where_the_log_has_its_terms():
    told = (
        "55.15 GiB for K and V = 71.27 GiB requested of 79.19 - 14.08 GiB weights - 0.07 GiB other uses "
        "- 1.97 GiB activations"
    )
    assert text(parse(V1_LOG), "memory") == told
    less = [line.replace("71.27", "70.27") for line in V1_LOG]
    assert text(parse(less), "memory").startswith("55.15 GiB for K and V; weights 14.08 GiB; other uses")


def test_a_version_that_counts_blocks_tells_their_size_by_its_concurrency():
    log = parse(V0_LOG)
    assert (log.block_size, log.tokens) == (16, 3637 * 16)
    assert text(log, "memory").endswith("= 13.18 GiB requested of 14.74 - 6.02 GiB weights - 0.05 GiB other "
                                        "uses - 0.90 GiB activations")  # fmt: skip


def test_a_log_alone_tells_what_it_served_and_how_a_token_comes_to_its_bytes():
    told = alone(parse(V1_LOG, "start.log"))
    assert [finding.topic for finding in told.findings] == [
        "log: served", "log: memory", "log: tokens", "log: concurrency",
    ]  # fmt: skip
    assert {finding.word for finding in told.findings} == {"recorded"}
    served, tokens = told.finding("log: served").text, told.finding("log: tokens").text
    assert "'meta-llama/Llama-3.1-8B-Instruct', counted as llama-3.1-8b; 1 rank, K and V in bf16" in served
    assert "NVIDIA_H100_80GB_HBM3 of 79.19 GiB" in served
    assert "131,072 = 32 layers x 2 x 8 KV heads x 128 x 2 bytes" in tokens and "differ" not in tokens


def test_what_is_given_is_assumed_and_told_apart_when_the_log_contradicts_it():
    told = alone(parse(V1_LOG), model="qwen3-8b", tp=2)
    assert told.finding("log: served").word == "assumed"
    assert "qwen3-8b, one of 2 ranks" in told.finding("log: tokens").text
    assert "They differ" in told.finding("log: tokens").text


@pytest.mark.parametrize("kept", ["fp8", "fp8_e4m3", "fp8_e5m2"])
def test_a_dtype_of_one_byte_and_how_far_the_log_rounds_are_told(kept):
    lines = [
        f"with config: model='org/Llama-3.1-8B', kv_cache_dtype={kept}",
        "Available KV cache memory: 53.29 GiB",
        "KV cache size: 873,088 tokens",
    ]
    text = alone(parse(lines)).finding("log: tokens").text
    assert "x 128 x 1 bytes" in text and "(within 0.009 %: the log rounds)" in text and "differ" not in text


def test_of_several_workers_memory_tokens_and_concurrency_are_those_of_the_one_with_the_least():
    lines = [
        "LLM engine (v0.11.0) with config: model='org/Llama-3.1-8B', dtype=torch.bfloat16",
        *("Available KV cache memory: 4.00 GiB", "Available KV cache memory: 8.00 GiB"),
        *("KV cache size: 32,768 tokens", "Maximum concurrency for 4,096 tokens per request: 8.00x"),
        *("KV cache size: 65,536 tokens", "Maximum concurrency for 4,096 tokens per request: 16.00x"),
    ]
    log = parse(lines)
    assert (log.kv_gib, log.tokens, log.concurrency, log.bytes_per_token) == (4.0, 32_768, 8.0, 131_072)
    again = parse([*lines, lines[0], "Available KV cache memory: 16.00 GiB", "KV cache size: 131,072 tokens"])
    assert (again.kv_gib, again.tokens, again.concurrency) == (16.0, 131_072, None), "the last start counts"


def test_a_latent_model_and_fp8_are_counted_as_they_are_kept():
    lines = [
        "with config: model='deepseek-ai/DeepSeek-V3', kv_cache_dtype=fp8",
        "KV cache size: 4,096 tokens",
    ]
    assert "61 layers x a latent vector of 576 x 1 bytes" in alone(parse(lines)).finding("log: tokens").text


@pytest.mark.parametrize(
    "config, given, words",
    [
        ("", {}, "log: no line tells its model: give --model; near:"),
        ("model='models/tiny2', dtype=torch.bfloat16", {}, "'models/tiny2' is not known here: give --model"),
        ("model='org/Qwen3-8B-FP8'", {}, "no line tells the dtype of K and V: give --kv-dtype"),
        (
            "model='org/Qwen3-8B', kv_cache_dtype=nvfp4",
            {},
            "K and V in nvfp4 are not known here: give --kv-dtype",
        ),
        ("", {"model": "qwen3"}, "no model 'qwen3' here; near: qwen3-8b"),
        ("", {"model": "qwen3-8b", "dtype": "fp9"}, "got 'fp9'"),
        ("", {"model": "qwen3-8b", "dtype": "fp8", "tp": 0}, "ranks must be at least 1, got 0"),
        ("", {"model": "qwen3-8b", "dtype": "fp8", "tp": 3}, "do not split over 3 ranks"),
    ],
)
def test_what_a_log_alone_does_not_tell_is_asked_for(config, given, words):
    log = parse([f"with config: {config}", "KV cache size: 4,096 tokens"])
    with pytest.raises(AdviceError) as raised:
        alone(log, **given)
    assert words in str(raised.value)


def test_the_command_explains_a_log_without_a_trace(capsys, tmp_path):
    path, page = tmp_path / "<b>.log", tmp_path / "log.html"
    path.write_text("\n".join(V1_LOG))
    assert cli.main(["advise", "--vllm-log", str(path), "--html", str(page)]) == 0
    shown = capsys.readouterr().out
    assert "= 110.30; the log says 110.30" in shown and "log: memory (recorded)" in shown
    assert "&lt;b&gt;.log" in page.read_text() and "<b>" not in page.read_text()
    assert cli.main(["advise", "--vllm-log", str(path), "--json"]) == 0
    assert '"topic": "log: tokens"' in capsys.readouterr().out


@pytest.mark.parametrize("option", [["--gpu", "h100"], ["--block-size", "16"], ["--measure"]])
def test_what_only_a_trace_can_answer_is_refused(option, capsys):
    assert cli.main(["advise", "--vllm-log", "start.log", *option]) == 2
    assert f"{option[0]}: a TRACE is needed" in capsys.readouterr().err
