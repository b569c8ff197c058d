"""What the compiler makes of the Triton kernels, for GPUs that need not be here.

Nothing is run: registers, stack, shared memory and the width of each load are read from what was compiled.
How many programs a multiprocessor holds is computed from them, and is an estimate.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

from pagedlab import _format
from pagedlab.arguments import UsageError
from pagedlab_kernels.inside.report import KERNELS, NO_TILE, TARGETS, CompiledKernel, compile_report

HELP = "compile the Triton kernels for GPUs that need not be here, and see what comes out"
DTYPES = ("float32", "float16", "bfloat16")
CACHE_DTYPES = (*DTYPES, "int8", "float8_e4m3fn")
HEADER = (
    "kernel", "target", "K/V load", "in flight", "stages", "warps", "registers", "stack", "shared",
    "programs", "limited by",
)  # fmt: skip
LEGEND = """\
K/V load   bytes that a lane loads at once of K and V    registers, stack   of a lane; a stack means spills
in flight  tiles of K and V on their way meanwhile       shared             memory of a program
stages     of the pipeline, the look-up's included       programs           at once on a multiprocessor"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name, known in (("kernel", tuple(KERNELS)), ("target", TARGETS)):
        text = f"one of {', '.join(known)}; may be repeated (default: all)"
        parser.add_argument(f"--{name}", action="append", choices=known, metavar="NAME", help=text)
    parser.add_argument("--dtype", choices=DTYPES, default="float16", help="of the query (default: float16)")
    parser.add_argument("--cache-dtype", choices=CACHE_DTYPES, help="of K and V (default: that of the query)")
    for name, default in (("head-dim", 128), ("group", 4), ("block-size", 16)):
        text = f"(default: {default})"
        parser.add_argument(f"--{name}", type=_up_to(1 << 20), default=default, metavar="N", help=text)
    text = "instead of the launcher's choice"
    parser.add_argument("--num-stages", type=_up_to(64), metavar="N", help=text)
    parser.add_argument("--listing", action="store_true", help="each source line beside its PTX and SASS")


def command(args: argparse.Namespace) -> int:
    try:
        found = compile_report(
            args.kernel or tuple(KERNELS), args.target or TARGETS, dtype=args.dtype,
            cache_dtype=args.cache_dtype, head_dim=args.head_dim, group=args.group,
            block_size=args.block_size, num_stages=args.num_stages, listing=args.listing,
        )  # fmt: skip
    except ModuleNotFoundError as error:
        print(f"{args.prog}: {error}", file=sys.stderr)
        return 1
    if all(NO_TILE in (kernel.refusal or "") for kernel in found):
        raise UsageError(f"--head-dim {args.head_dim}: {found[0].refusal}")
    if args.json:
        print(json.dumps([to_dict(kernel) for kernel in found], indent=2))
        return 0
    print(f"Compiled, not run: {args.dtype}, head_dim {args.head_dim}; programs are an estimate, computed.\n")
    print(_format.table(HEADER, [_row(kernel) for kernel in found if not kernel.refusal], left=2))
    for kernel in found:
        if kernel.refusal:
            print(f"\n{kernel.kernel} for {kernel.target} was refused: {kernel.refusal}")
    print(f"\n{LEGEND}")
    for kernel in found:
        if kernel.listing:
            print(f"\n== {kernel.kernel} for {kernel.target}\n{listing(kernel)}")
    return 0


def to_dict(kernel: CompiledKernel) -> dict[str, object]:
    """A kernel as plain data, its occupancy included."""
    return asdict(kernel) | {"occupancy": None if kernel.refusal else asdict(kernel.occupancy)}


def listing(kernel: CompiledKernel) -> str:
    """Each source line of a kernel, and indented under it what became of it."""
    lines = []
    for line in kernel.listing:
        lines.append(f"{line.number:4}  {line.text}")
        for name, code in (("ptx" if line.sass else "asm", line.ptx), ("sass", line.sass)):
            lines += [f"      {name:<4}  {instruction}" for instruction in code]
    return "\n".join(lines)


def _row(kernel: CompiledKernel) -> Sequence[str]:
    widths = sorted({load.width for load in kernel.cache_loads})
    width = "tile" if widths == [0] else f"{', '.join(map(str, widths))} B" if widths else "-"
    occupancy = kernel.occupancy
    return (
        kernel.kernel, kernel.target, width,
        str(kernel.copies_in_flight or "-"), str(kernel.num_stages), str(kernel.num_warps),
        str(kernel.registers), f"{kernel.stack} B", _format.size(kernel.shared), str(occupancy.programs),
        occupancy.limit,
    )  # fmt: skip


def _up_to(most: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        if not (text.isdecimal() and len(text) < 10 and 1 <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {most:,}, got {text[:60]!r}")
        return int(text)

    return count
