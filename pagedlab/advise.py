"""Advice on KV memory from your own trace: block size, capacity, what to set, and the evidence.

Reads Azure's CSV, ShareGPT's lengths, Mooncake's and RAGPulse's JSON lines, two plain columns, or a workload
that comes with the package by its name.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from pagedlab.arguments import UsageError, writable

HELP = "a block size, a capacity and the flags to set, from a trace of request lengths"
_OPTIONS: tuple[tuple[str, str, type, str], ...] = (
    ("--model", "model", str, "model whose K and V are kept"),
    ("--gpu", "gpu", str, "GPU to serve it on"),
    ("--tp", "tp", int, "tensor-parallel ranks"),
    ("--backend", "engine", str, "engine: vllm, sglang or tensorrt-llm"),
    ("--kv-dtype", "dtype", str, "dtype of K and V"),
    ("--block-size", "block_size", int, "a block size of yours to be judged too"),
    ("--gpu-gb", "gpu_gb", float, "memory of one GPU as its driver reports it, 1e9 bytes"),
    ("--weight-gb", "weight_gb", float, "weights of the whole model, 1e9 bytes"),
    ("--activation-gb", "activation_gb", float, "what a step needs on each rank, 1e9 bytes"),
    ("--max-running", "max_running", int, "requests at once at most"),
    ("--step-ms", "step_ms", float, "a step that reads no K or V"),
    ("--prefill-us", "prefill_us", float, "computing one token of a prompt"),
    ("--entry-ns", "entry_ns", float, "what a step takes longer for each table entry"),
)
_OF_A_LOG = ("model", "tp", "dtype")
"""What may be said of a start-up log that no trace comes with."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", nargs="?", metavar="TRACE", help="file of requests, or a workload's name")
    for flag, name, kind, text in _OPTIONS:
        metavar = "N" if kind is not str else "NAME"
        parser.add_argument(flag, dest=name, type=kind, metavar=metavar, help=text)
    parser.add_argument("--vllm-log", metavar="FILE", help="vLLM start-up log to explain, alone or too")
    parser.add_argument("--measure", action="store_true", help="time tables and attention on this machine")
    parser.add_argument("--html", metavar="FILE", help="write the advice as one page")


def command(args: argparse.Namespace) -> int:
    from pagedlab.advice import AdviceError, Told, advise, engine_log

    choices: dict[str, Any] = {
        name: getattr(args, name) for _, name, _, _ in _OPTIONS if getattr(args, name) is not None
    }
    if args.trace is None:
        _without_trace(args)
    writable("--html", args.html)
    told: Told
    try:
        log = engine_log.read(args.vllm_log) if args.vllm_log else None
        if args.trace is None and log is not None:
            told = engine_log.alone(log, **choices)
        else:
            told = advise(args.trace, log=log, measure=args.measure, progress=sys.stderr.isatty(), **choices)
    except AdviceError as error:
        raise UsageError(str(error)) from None
    if args.html:
        Path(args.html).write_text(told.to_html(), encoding="utf-8", errors="backslashreplace")
    print(told.to_json() if args.json else told)
    return 0


def _without_trace(args: argparse.Namespace) -> None:
    """Refuse what only a trace can answer."""
    if args.vllm_log is None:
        raise UsageError("a TRACE is needed: a file of requests, or the name of a workload (or --vllm-log)")
    options = [(flag, getattr(args, name)) for flag, name, _, _ in _OPTIONS if name not in _OF_A_LOG]
    given = [flag for flag, value in [*options, ("--measure", args.measure or None)] if value is not None]
    if given:
        raise UsageError(f"{', '.join(given)}: a TRACE is needed; a log alone is explained by its own lines")
