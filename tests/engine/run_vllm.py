"""Runs a real vLLM with our recorder inside, and replays what it wrote: `make test-vllm`.

The model is a Llama of four small layers with random weights, so nothing is downloaded and no answer means
anything; what counts is what the scheduler does with its blocks. Requests share prompts and the pool is
small, so that there are hits, evictions and preemptions.

    run_vllm.py [--processes 2]   the engine in a process of its own, as a server has it
                [--keep FILE]     also keep the recording there, gzipped; with PYTHONHASHSEED=0 two runs
                                  of one process give the same bytes
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCHEDULER = "pagedlab.recorders.vllm.RecordingScheduler"
BLOCK_SIZE, BLOCKS, REQUESTS = 32, 24, 30
WANTED = ("touched", "evicted", "preempted", "refused", "cached", "cache_reset", "kv_event")
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "torch_dtype": "float32",
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def settle_environment(log: Path, processes: int) -> None:
    """Before vLLM is imported: offline, the same hashes in every run, and where to write."""
    os.environ.update(
        PAGEDLAB_VLLM_LOG=str(log),
        VLLM_ENABLE_V1_MULTIPROCESSING="1" if processes > 1 else "0",
        VLLM_CPU_KVCACHE_SPACE="1",
        VLLM_NO_USAGE_STATS="1",
        VLLM_LOGGING_LEVEL="ERROR",
        HF_HUB_OFFLINE="1",
        PYTHONPATH=str(ROOT),
    )


def start(folder: Path):
    """vLLM on the small model, its scheduler replaced by the recording one."""
    from vllm import LLM

    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    return LLM(
        str(model),
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="float32",
        block_size=BLOCK_SIZE,
        num_gpu_blocks_override=BLOCKS,
        max_model_len=512,
        max_num_seqs=8,
        max_num_batched_tokens=512,
        enforce_eager=True,
        scheduler_cls=SCHEDULER,
        kv_events_config={"enable_kv_cache_events": True, "publisher": "null"},
        seed=0,
    )


def requests() -> Iterator[tuple[str, list[int], int]]:
    """Name, prompt and output length; two of three prompts begin like one of four others."""
    choose = random.Random(0)
    tokens = range(3, CONFIG["vocab_size"])  # type: ignore[call-overload]
    beginnings = [choose.choices(tokens, k=64 + 32 * i) for i in range(4)]
    for number in range(REQUESTS):
        shared = choose.choice(beginnings) if choose.random() < 2 / 3 else []
        prompt = shared + choose.choices(tokens, k=choose.randint(20, 110))
        yield f"request {number:02}", prompt, choose.randint(10, 60)


def serve(llm) -> None:
    """Two requests arrive in every other step until all are there; then one after a cache reset."""
    from vllm import SamplingParams

    engine = llm.llm_engine
    to_come = list(requests())

    def add(name: str, prompt: list[int], output: int) -> None:
        params = SamplingParams(temperature=0.0, max_tokens=output, ignore_eos=True, detokenize=False)
        engine.add_request(name, {"prompt_token_ids": prompt}, params)

    step = 0
    while to_come or engine.has_unfinished_requests():
        if step % 2 == 0:
            for _ in range(min(2, len(to_come))):
                add(*to_come.pop(0))
        engine.step()
        step += 1
    engine.reset_prefix_cache()
    add("after the reset", list(range(3, 43)), 2)
    while engine.has_unfinished_requests():
        engine.step()


def check(log: Path) -> None:
    """The recording loads, so it replays: tables, token counts and free blocks at every step."""
    from pagedlab import recorders

    recording = recorders.load(log)
    print(recording, dict(recording.lines))
    missing = [kind for kind in WANTED if not recording.lines[kind]]
    if missing:
        sys.exit(f"the run shows no {', '.join(missing)}: it proves too little")
    if recording.lines["finished"] != REQUESTS + 1:
        sys.exit(f"{recording.lines['finished']} of {REQUESTS + 1} requests finished")
    state = recording.events.state_at(recording.events.num_steps - 1, recording.block_size)
    if state.tables:
        sys.exit(f"blocks are still held at the end: {state.tables}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", type=Path, help="where to keep the recording, gzipped")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "blocks.jsonl"
        settle_environment(log, options.processes)
        sys.path.insert(0, str(ROOT))
        serve(start(Path(folder)))
        check(log)
        if options.keep:
            options.keep.write_bytes(gzip.compress(log.read_bytes(), mtime=0))


if __name__ == "__main__":
    main()
