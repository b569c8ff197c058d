"""All that a GPU machine is needed for, in one command that ends within ten minutes.

    python -m pagedlab.bench_gpu gpu.json              the tests marked `gpu`, then the timings
    python -m pagedlab.bench_gpu dry.json --dry-run    the same at tiny sizes, on whatever there is

torch, triton, numpy, numba and pytest are enough. Every point is a batch size, a context and a dtype, and its
cases run interleaved: blocks of several sizes, the contiguous twin, torch, and a copy on the device as the
limit. Batches that would fit into the L2 cache are there many times over and take turns, so that each finds
it cold; a round of turns is one CUDA graph, and one case is launched from Python all the same, to show what a
launch costs. The recording is written anew after every point, the most telling points come first, and what
there was no time or room for is noted in it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pagedlab import _format, machine, peers, recordings
from pagedlab.comparison import AS_LEFT, FEWEST_ROUNDS, Comparison
from pagedlab.decoding import Decode, Sizes, device
from pagedlab.recordings import DRY_RUN, MEASURED, Recording
from pagedlab.timing import Case, deadline
from pagedlab_kernels import backends

MINUTES, TESTS_S = 9.0, 240
BATCHES, CONTEXTS = (1, 64, 8, 256), (8192, 131072, 1024, 32768, 128)
DTYPES = ("bfloat16", "float8_e4m3fn", "int8")
BLOCKS, ALL_BLOCKS = (1, 16, 64, 256), tuple(2**power for power in range(9))
SHARE_OF_MEMORY = 0.2  # that K and V of a point may take: they are copied, and checked in float64
MOST_TURNS = 256


@dataclass(frozen=True)
class Point:
    """One batch to time, in so many copies that take turns; `peers` are frameworks' kernels beside ours."""

    sizes: Sizes
    blocks: tuple[int, ...]
    turns: int = 1
    peers: tuple[str, ...] = ()


def points() -> list[Point]:
    """The grid, the most telling points first: 64 sequences of 8,192 tokens come with every block size, and
    with the peers."""
    cold = machine.beyond_caches()
    found = []
    for tokens in CONTEXTS:
        for dtype in DTYPES:
            for seqs in BATCHES:
                sizes = Sizes(seqs, tokens, kv_heads=8, q_heads=32, dtype=dtype)
                turns = min(MOST_TURNS, -(-cold // sizes.bytes_read))
                point = Point(sizes, BLOCKS, turns)
                if (seqs, tokens, dtype) == (64, 8192, DTYPES[0]):
                    point = replace(point, blocks=ALL_BLOCKS, peers=("flex compiled",))
                found.append(point)
    return found


def dry_points() -> list[Point]:
    """Sizes that take seconds anywhere; the times mean nothing."""
    plan = [Point(Sizes(2, 20, 1, 2, 16, dtype), (1, 16, 64), turns=2) for dtype in DTYPES]
    return [replace(plan[0], peers=("flex",)), *plan[1:]]


def run(
    plan: Sequence[Point],
    should_stop: Callable[[], bool],
    kind: str = MEASURED,
    tests: dict[str, Any] | None = None,
) -> Iterator[Recording]:
    """Time the points in order; after each comes the recording of all so far, and what was left out of it."""
    memory = max((gpu.memory for gpu in machine.gpus()), default=machine.memory() or 0)
    found = recordings.record([], kind=kind, tests=tests)
    for number, point in enumerate(plan):
        if should_stop():
            left = f"no time was left for {_format.count(len(plan) - number, 'point')}, from {point.sizes} on"
            yield replace(found, notes=(*found.notes, left))
            return
        if point.turns * point.sizes.bytes_read > SHARE_OF_MEMORY * memory:
            notes = [f"left out: {point.sizes} takes more than {SHARE_OF_MEMORY:.0%} of the memory"]
        else:
            comparison, notes = time_point(point, should_stop, kind)
            if comparison is not None:
                found = replace(found, comparisons=(*found.comparisons, comparison))
        found = replace(found, notes=(*found.notes, *notes))
        yield found


def time_point(
    point: Point, should_stop: Callable[[], bool], kind: str = MEASURED
) -> tuple[Comparison | None, list[str]]:
    """The comparison of a point's cases, and why some are not in it, or why there is none."""
    notes: list[str] = []
    if device() == "cuda":  # what the last point held
        import torch

        torch.cuda.empty_cache()
    try:
        decode = Decode(point.sizes, turns=point.turns, graphs=True)
        if kind == DRY_RUN and decode.device == "cpu":  # the kernel of a GPU, interpreted, or the reference
            decode.kernel = next(each.name for each in backends() if each.available and each.name != "cpu")
        cases = []
        for name, make in _makers(decode, point):
            try:
                cases.append(make())
            except (ArithmeticError, RuntimeError, ValueError) as error:
                notes.append(_note(point, error, name))
        rounds = 2 if kind == DRY_RUN else FEWEST_ROUNDS
        what = f"{point.sizes}, {_format.count(point.turns, 'turn')}"
        return decode.compare(cases, caches=AS_LEFT, rounds=rounds, what=what, should_stop=should_stop), notes
    except (RuntimeError, ValueError) as error:
        # No memory, a case that failed while it was timed, or no case at all.
        return None, [*notes, _note(point, error)]


def _makers(decode: Decode, point: Point) -> Iterator[tuple[str, Callable[[], Case]]]:
    """What makes each case, by name; the contiguous twin is the baseline.

    Each sequence is read in one part, but for "split": into as many as the kernel finds best.
    """
    some = point.blocks[min(1, len(point.blocks) - 1)]
    yield "contiguous", partial(decode.twin, num_splits=1)
    for size in point.blocks:
        yield f"paged {size}", partial(decode.paged, size, num_splits=1)
    for name, make in (("contiguous", decode.twin), (f"paged {some}", partial(decode.paged, some))):
        yield f"{name}, split", partial(make, name=f"{name}, split")
    if decode.kernel == "triton":
        name = f"paged {point.blocks[-1]}, bulk"
        yield name, partial(decode.paged, point.blocks[-1], name=name, attend=_in_bulk, num_splits=1)
    if not decode.scales:
        yield "sdpa", decode.sdpa
    yield "copy", decode.copier
    decode.graphs = False
    name = f"paged {some}, launched"
    yield name, partial(decode.paged, some, name=name, num_splits=1)
    for peer in map(peers.get, point.peers):
        yield peer.name, partial(decode.peer, peer, 16)


def _in_bulk(
    query: Any,
    key: Any,
    value: Any,
    table: Any,
    lengths: Any,
    *,
    backend: str,
    check: bool = True,
    **options: Any,
) -> Any:
    """`paged_attention`, each tile copied in one piece. Raises ValueError for blocks too small for that."""
    from pagedlab_kernels import checks, triton_launch

    call = checks.paged_call(query, key, value, table, lengths, None, checks.Options(**options), check=check)
    return triton_launch.attend(call, bulk_copies=True)[0]


def _dry(comparison: Comparison) -> str:
    """What was run, without times: an interpreter's are no kernel's."""
    return f"{comparison.what}: {', '.join(timing.name for timing in comparison.timings)}"


def _note(point: Point, error: Exception, case: str = "") -> str:
    """What failed, in one line; an answer that is wrong begins with WRONG."""
    said = str(error).strip().partition("\n")[0]
    wrong = "WRONG: " if isinstance(error, ArithmeticError) else ""
    return f"{wrong}{case or 'no case'} of {point.sizes}: {type(error).__name__}: {said}"


def gpu_tests() -> dict[str, Any]:
    """Run the tests marked `gpu` of the checkout, in a process of their own, and keep what pytest says."""
    root = Path(__file__).resolve().parents[1]
    marked = [
        str(file)
        for file in root.glob("tests/**/test_*.py")
        if "mark.gpu" in file.read_text(encoding="utf-8")
    ]
    if not marked:
        return {"summary": "no tests: this is no checkout", "exit_code": None, "seconds": 0.0}
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", *marked]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=TESTS_S)
    except subprocess.TimeoutExpired:
        return {"summary": f"not done in {TESTS_S} s", "exit_code": 124, "seconds": float(TESTS_S)}
    lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["pytest said nothing"]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    seconds = time.monotonic() - started
    return {"summary": lines[-1], "failed": failed, "exit_code": done.returncode, "seconds": seconds}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 when a test failed or an answer was wrong, 2 for wrong arguments."""
    parser = argparse.ArgumentParser("python -m pagedlab.bench_gpu", description=__doc__.partition("\n\n")[0])
    parser.add_argument("file", type=Path, help="the recording that is written")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes, for the script's sake")
    parser.add_argument("--no-tests", action="store_true", help="the timings alone")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"for all (default: {MINUTES:g})")
    args = parser.parse_args(argv)
    if not args.file.parent.is_dir():
        parser.error(f"there is no folder {args.file.parent}")
    if device() != "cuda" and not args.dry_run:
        parser.error("torch sees no GPU here; --dry-run tries the script without one")
    should_stop = deadline(60 * args.minutes)
    tests = None if args.no_tests else gpu_tests()
    print("tests:", tests["summary"] if tests else "not run", flush=True)
    kind, plan = (DRY_RUN, dry_points()) if args.dry_run else (MEASURED, points())
    recording, shown = recordings.record([], kind=kind, tests=tests), 0
    for recording in run(plan, should_stop, kind, tests):
        recording.save(args.file)
        for comparison in recording.comparisons[shown:]:
            print(f"\n{_dry(comparison) if args.dry_run else comparison}", flush=True)
        shown = len(recording.comparisons)
    print("", *recording.notes, f"{len(recording.comparisons)} comparisons in {args.file}", sep="\n")
    wrong = any(note.startswith("WRONG") for note in recording.notes)
    return 1 if wrong or (tests and tests["exit_code"] not in (0, None)) else 0


if __name__ == "__main__":
    sys.exit(main())
