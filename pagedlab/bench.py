"""What paging costs a decode step on this machine's CPU, beside torch and the memory's own speed.

Before anything is timed the answers are checked against float64. torch is timed once before numba is loaded
and again beside it: a second thread pool that slows torch down must not flatter the kernels.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pagedlab import _format, bench_suites
from pagedlab.arguments import UsageError, writable
from pagedlab.bench_inputs import Settings
from pagedlab.comparison import AS_LEFT, FEWEST_ROUNDS, Comparison, Spread
from pagedlab.decoding import READER, TORCH, TWIN, Decode
from pagedlab.timing import CaseFailed

HELP = "paged attention against its contiguous twin, torch and the memory's speed, on the CPU"
SLOWED = 1.25  # sdpa beside numba over sdpa alone, from which on a run is not to be trusted
QUICK, FULL = FEWEST_ROUNDS, Settings.rounds
KERNELS = {
    TWIN: "numba CPU kernel, K and V [seqs, kv_heads, tokens, head_dim] (HND), one piece a sequence",
    "paged N": "the same loops with a block table, K and V [blocks, kv_heads, N, head_dim] (HND), shuffled",
    TORCH: "torch's scaled_dot_product_attention on the contiguous K and V, a query group as one query",
    READER: "numba loop that sums the same bytes and does nothing else",
}
"""Whose code each case times, and how its K and V lie."""


@dataclass(frozen=True)
class Bench:
    """One run: its sizes, the comparison, torch alone (seconds, None when numba was loaded already), errors.

    `errors` maps a kernel to its largest absolute difference from the float64 answer on the first sequences.
    """

    settings: Settings
    comparison: Comparison
    torch_alone: Spread | None
    errors: dict[str, float] = field(default_factory=dict)

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return (self.comparison,)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data: the comparison's record, and both ratios of every case."""
        record = self.comparison.to_dict()
        for case in record["cases"]:
            for key, other in (("ratio_to_sdpa", TORCH), ("ratio_to_twin", TWIN)):
                spread = self.comparison.ratio(case["name"], other) if self.comparison.rounds else None
                case[key] = spread and asdict(spread)
        alone = self.torch_alone and asdict(self.torch_alone)
        return {
            "settings": asdict(self.settings),
            "kernels": KERNELS,
            "sdpa_alone_s": alone,
            "max_abs_error": self.errors,
            **record,
        }

    def __str__(self) -> str:
        comparison = self.comparison
        if not comparison.rounds:
            return str(comparison)
        worst = max(self.errors.values())
        return "\n".join(
            [
                comparison.what,
                comparison.table(TORCH, TWIN),
                *(f"{name}: {kernel}" for name, kernel in KERNELS.items()),
                "ratios are taken within each round, quartiles in brackets: below 1 is faster",
                *comparison.conditions(),
                *self._beside(),
                f"largest difference from the float64 answer: {worst:.1e}",
            ]
        )

    def _beside(self) -> list[str]:
        if self.torch_alone is None:
            return []
        alone, beside = self.torch_alone.median, self.comparison[TORCH].median
        times = f"{_format.seconds(alone)}, beside it: {_format.seconds(beside)}"
        lines = [f"sdpa before numba was loaded: {times}"]
        if beside > SLOWED * alone:
            lines.append(
                "WARNING: sdpa was slowed down, by numba's threads or by other work on this machine. Until a "
                "run on an idle machine says otherwise, the ratios to it flatter the kernels."
            )
        return lines


def run(settings: Settings, *, progress: Callable[[int, int], object] | None = None) -> Bench:
    """Check the kernels' answers, then time them. Ctrl-C keeps the rounds that were finished.

    Raises ImportError when torch or numba is missing, ArithmeticError when an answer is wrong.
    """
    numba_loaded = "numba" in sys.modules
    decode = Decode(settings.batch, settings.seed, threads=settings.threads, slots=settings.slots, on="cpu")
    time = partial(decode.compare, caches=AS_LEFT)
    sdpa = decode.sdpa()
    alone = None if numba_loaded else time([sdpa], rounds=min(settings.rounds, QUICK))[TORCH].spread
    # From here on numba's threads are there, too.
    cases = [decode.twin(), *map(decode.paged, settings.block_sizes), sdpa, decode.reader()]
    comparison = time(cases, rounds=settings.rounds, seed=settings.seed, progress=progress)
    return Bench(settings, comparison, alone, decode.errors)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = asdict(Settings())
    for name, meaning in (
        ("threads", "threads of every kernel"),
        ("seqs", "sequences"),
        ("tokens", "tokens in each sequence"),
        ("kv-heads", "KV heads"),
        ("q-heads", "query heads"),
        ("head-dim", "elements in a head"),
        ("seed", "of the data, the tables and the order of cases"),
    ):
        value = default[name.replace("-", "_")]
        text = f"{meaning} (default: {value})"
        parser.add_argument(f"--{name}", type=int, default=value, help=text, metavar="N")
    sizes = default["block_sizes"]
    text = f"tokens in a block (default: {','.join(map(str, sizes))})"
    parser.add_argument("--block-sizes", type=_sizes, default=sizes, help=text, metavar="N,N,...")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"interleaved rounds (default: {FULL})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} rounds instead of {FULL}")
    text = "the tables that the kernels are held to, in place of the one by block size; sizes hold for all"
    parser.add_argument("--suite", choices=[*bench_suites.SUITES, bench_suites.ALL], help=text)
    text = "keep every sample in this file too, with the machine and the commit, as a recording"
    parser.add_argument("--record", type=Path, metavar="FILE", help=text)
    text = "time the block manager instead, by pool size (--quick: the small pools only)"
    parser.add_argument("--manager", action="store_true", help=text)
    parser.add_argument("--chart", type=Path, metavar="FILE", help="with --manager: draw it, as an SVG file")
    text = "time several ranks instead, and count the bytes that keep their tables alike"
    parser.add_argument("--ranks", action="store_true", help=text)
    text = "time the block map in a browser instead: needs playwright and a Chromium"
    parser.add_argument("--ui", action="store_true", help=text)


def command(args: argparse.Namespace) -> int:
    progress = _show_progress if sys.stderr.isatty() else None
    if args.chart and not args.manager:
        raise UsageError("--chart draws what --manager measures; give both")
    if (args.suite or args.record) and (args.manager or args.ranks or args.ui):
        raise UsageError("--suite and --record are for attention, not for --manager, --ranks or --ui")
    writable("--record", args.record)
    writable("--chart", args.chart)
    if args.manager or args.ranks or args.ui:
        return _other(args, progress)
    rounds = args.rounds if args.rounds is not None else QUICK if args.quick else FULL
    chosen = {name: getattr(args, name) for name in Settings.__dataclass_fields__ if name != "rounds"}
    try:
        settings = Settings(**chosen, rounds=rounds)
    except ValueError as error:
        raise UsageError(str(error)) from None
    result: Bench | bench_suites.Suite
    try:
        if args.suite:
            result = bench_suites.run(args.suite, settings, progress)
        else:
            result = run(settings, progress=progress)
    except (ImportError, ArithmeticError, CaseFailed) as error:
        print(f"{args.prog}: {error}; `pagedlab doctor` says more", file=sys.stderr)
        return 1
    if args.record:
        from pagedlab import recordings

        recordings.record(result.comparisons).save(args.record)
    print(json.dumps(result.to_dict(), indent=2, allow_nan=False) if args.json else result)
    return 130 if any(each.stopped for each in result.comparisons) else 0


def _other(args: argparse.Namespace, progress: Callable[[int, int], object] | None) -> int:
    """What has nothing to do with attention."""
    from pagedlab import bench_manager, bench_ranks, bench_ui
    from pagedlab.claims.drawing import document

    result: bench_manager.ManagerBench | bench_ranks.RanksBench | bench_ui.UiBench
    if args.ui:
        try:
            result = bench_ui.run(presses=20, shows=2, seconds=2) if args.quick else bench_ui.run()
        except bench_ui.NoBrowser as error:
            print(f"{args.prog} --ui: {error}", file=sys.stderr)
            return 1
    elif args.ranks:
        result = bench_ranks.run(args.quick, progress)
    else:
        sizes = bench_manager.QUICK_SIZES if args.quick else bench_manager.SIZES
        result = bench_manager.run(sizes, progress=progress)
        if args.chart:
            args.chart.write_text(document(result.chart(), result.note), encoding="utf-8")
    print(json.dumps(result.to_dict(), indent=2) if args.json else result)
    return 0


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of whole numbers such as 1,16,128"
        ) from None


def _show_progress(done: int, rounds: int) -> None:
    print(f"\rround {done} of {rounds}", end="\n" if done == rounds else "", file=sys.stderr, flush=True)
