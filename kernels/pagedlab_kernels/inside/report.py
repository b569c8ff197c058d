"""What the compiler makes of the Triton kernels, for GPUs that are not here.

compile_report   compiles kernels for targets, in a process of its own
CompiledKernel   one kernel on one target: loads, copies in flight, registers, stack, shared memory
Occupancy        how many programs a multiprocessor can hold at once: an estimate from those numbers
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from . import child

TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100", "gfx942")
CACHES = ("keys", "values", "key_tiles", "value_tiles")  # parameters of the kernels that are K and V
NO_TILE = "no tile is wide enough for a head of"
# Kernels by what sets their calls apart; the merge needs a call that is split.
KERNELS: dict[str, dict[str, Any]] = {
    "decode": {}, "decode-twin": {"paged": False}, "prefill": {"prefill": True},
    "prefill-twin": {"prefill": True, "paged": False}, "merge": {"num_splits": 7},
    "decode-bulk": {"block_size": 64, "bulk_copies": True},
}  # fmt: skip


@dataclass(frozen=True)
class Multiprocessor:
    """What one multiprocessor shares out among programs."""

    warps: int
    programs: int
    shared: int  # bytes
    reserved: int  # bytes of it that every program loses
    registers: int  # 32-bit, for all lanes
    lanes: int = 32
    step: int = 8  # registers a lane are handed out in steps of so many


# NVIDIA: CUDA C++ Programming Guide, compute capabilities. AMD: 4 SIMDs of 512 registers and 8 waves a lane.
MULTIPROCESSORS = {
    "sm_75": Multiprocessor(32, 16, 64 << 10, 0, 65536),
    "sm_80": Multiprocessor(64, 32, 164 << 10, 1024, 65536),
    "sm_90": Multiprocessor(64, 32, 228 << 10, 1024, 65536),
    "sm_100": Multiprocessor(64, 32, 228 << 10, 1024, 65536),
    "gfx942": Multiprocessor(32, 16, 64 << 10, 0, 4 * 512 * 64, lanes=64),
}


@dataclass(frozen=True)
class Occupancy:
    """Programs that fit on one multiprocessor at once, the share of its warps, and what runs out first."""

    programs: int
    warps: float
    limit: str


@dataclass(frozen=True)
class Load:
    """The loads from global memory of one source line that are alike."""

    line: int
    reads: str  # the pointer that the line names first
    width: int  # bytes that a lane takes at once; 0 for a copy in one piece, in which no lane takes part
    asynchronous: bool  # straight to shared memory, without waiting
    count: int  # in the text, unrolled copies included


@dataclass(frozen=True)
class SourceLine:
    """A line of the kernels beside what became of it; for AMD the assembly stands in place of PTX."""

    number: int
    text: str
    ptx: tuple[str, ...]
    sass: tuple[str, ...]


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel as compiled for one target. After a refusal only the first five fields say something."""

    kernel: str
    target: str
    dtype: str
    head_dim: int
    refusal: str | None = None
    num_warps: int = 0
    num_stages: int = 0  # pipeline stages, the look-up's included
    copies_in_flight: int = 0  # tiles of K or V on their way while one is computed with
    registers: int = 0  # a lane
    stack: int = 0  # bytes a lane: above 0, registers did not suffice
    shared: int = 0  # bytes a program
    loads: tuple[Load, ...] = ()
    listing: tuple[SourceLine, ...] = ()

    @property
    def cache_loads(self) -> tuple[Load, ...]:
        """Those of K and V."""
        return tuple(load for load in self.loads if load.reads in CACHES)

    @property
    def occupancy(self) -> Occupancy:
        """The estimate for this target; a cache of the same memory (L1) is taken to be as small as can be."""
        return occupancy(self.target, self.num_warps, self.registers, self.shared)


def occupancy(target: str, num_warps: int, registers: int, shared: int) -> Occupancy:
    """How many programs fit on a multiprocessor at once.

    >>> occupancy("sm_90", num_warps=4, registers=128, shared=100 * 1024)
    Occupancy(programs=2, warps=0.125, limit='shared memory')
    """
    has = MULTIPROCESSORS[target]
    per_warp = -(-max(registers, 1) // has.step) * has.step * has.lanes
    fits = {
        "warps": has.warps // num_warps,
        "programs": has.programs,
        "registers": has.registers // per_warp // num_warps,
        "shared memory": has.shared // (shared + has.reserved) if shared + has.reserved else has.programs,
    }
    limit = min(fits, key=lambda name: fits[name])
    return Occupancy(fits[limit], fits[limit] * num_warps / has.warps, limit)


def compile_report(
    kernels: Iterable[str] | Mapping[str, Mapping[str, Any]] = tuple(KERNELS),
    targets: Iterable[str] = TARGETS,
    *,
    dtype: str = "float16",
    cache_dtype: str | None = None,
    head_dim: int = 128,
    group: int = 4,
    block_size: int = 16,
    num_stages: int | None = None,
    listing: bool = False,
    source: str | None = None,
    seconds: float = 300.0,
) -> list[CompiledKernel]:
    """Compile each kernel for each target, as it would be launched there, and report what came out.

    No GPU is needed. `kernels` are names in `KERNELS`, or names of your own with the options of
    `triton_offline.example` that lead to them, or with `bulk_copies` for tiles in one piece. `dtype` and
    `cache_dtype` are torch's names; `num_stages` replaces the launcher's choice; `listing` brings the
    assembly of every line; `source` is the text of a module to take the kernels from, `kernel_source()`
    edited, say. A kernel that a target refuses is a row with the reason.

    Raises ValueError for an unknown kernel or target, ModuleNotFoundError where Triton is not installed.
    """
    calls = kernels if isinstance(kernels, Mapping) else KERNELS
    kernels, targets = tuple(kernels), tuple(targets)
    for name, given, known in (("kernels", kernels, calls), ("targets", targets, TARGETS)):
        if unknown := [each for each in given if each not in known]:
            raise ValueError(f"{name} must be among {', '.join(known)}, got {unknown[0]!r}")
    call = {"dtype": dtype, "head_dim": head_dim, "group": group, "block_size": block_size}
    call |= {"cache_dtype": cache_dtype} if cache_dtype else {}
    jobs = [
        {"kernel": kernel, "target": target, "num_stages": num_stages, "listing": listing}
        | {"call": call | dict(calls[kernel])}
        for target, kernel in product(targets, kernels)
    ]
    answers: list[dict[str, Any]] = []
    while len(answers) < len(jobs):
        left = {"kernels": jobs[len(answers) :], "source": source}
        done, ending = child.run("compiling", left, interpret=False, seconds=seconds)
        answers += done
        if ending is not None and len(answers) < len(jobs):  # a compiler may take its process with it
            answers.append({"refusal": ending})
    text = (source if source is not None else child.kernel_source()).splitlines()
    return [_compiled(job, answer, text) for job, answer in zip(jobs, answers, strict=True)]


def _compiled(job: dict[str, Any], answer: dict[str, Any], text: list[str]) -> CompiledKernel:
    answer["loads"] = tuple(Load(**load) for load in answer.get("loads", ()))
    answer["listing"] = tuple(
        SourceLine(line, text[line - 1].strip(), tuple(ptx), tuple(sass))
        for line, ptx, sass in answer.get("listing", ())
    )
    call = job["call"]
    return CompiledKernel(job["kernel"], job["target"], call["dtype"], call["head_dim"], **answer)
