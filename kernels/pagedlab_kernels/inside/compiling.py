"""The program behind `compile_report`: compiles kernels for GPUs that are not here and writes what came out.

What is compiled is what the launcher would launch for such a call. The job names kernels by the options of
`triton_offline.example` that lead to them.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from . import assembly, child
from .report import CACHES, NO_TILE

BULK_COPIES = 90  # the first compute capability that has them
NVIDIA = Path(triton.__file__).parent / "backends/nvidia/bin"


def planned(job: dict[str, Any]) -> tuple[Any, GPUTarget]:
    """The launch that the launcher would make of such a call, and the GPU it is for."""
    from .. import triton_launch, triton_offline

    nvidia = job["target"].startswith("sm_")
    target = GPUTarget("cuda", int(job["target"][3:]), 32) if nvidia else GPUTarget("hip", job["target"], 64)
    options = {key: getattr(torch, value) if "dtype" in key else value for key, value in job["call"].items()}
    device = replace(triton_offline.device_for(target), bulk_copies=options.pop("bulk_copies", False))
    if device.bulk_copies and not (nvidia and target.arch >= BULK_COPIES):
        raise ValueError(f"only sm_{BULK_COPIES} and later copy a tile in one piece")
    call = triton_offline.example(**options)
    try:
        launches = triton_launch.plan(call, device).launches
    except StopIteration:
        raise ValueError(f"{NO_TILE} {call.head_dim} in {job['call']['dtype']}") from None
    launch = launches[-1 if job["kernel"] == "merge" else 0]
    return replace(launch, num_stages=job["num_stages"] or launch.num_stages), target


def compile_kernel(job: dict[str, Any], source: str, folder: Path) -> dict[str, Any]:
    """Compile one kernel for one GPU; say what it takes and what it loads."""
    from .. import triton_offline

    launch, target = planned(job)
    compiled, nvidia = triton_offline.compile_launch(launch, target), target.backend == "cuda"
    text = compiled.asm["ptx" if nvidia else "amdgcn"]
    code = list(assembly.instructions(text, child.KERNELS))
    reads = assembly.load_lines(source)
    caches = {line for line, name in reads.items() if name in CACHES}
    found: dict[str, Any] = {
        "num_warps": launch.num_warps, "num_stages": launch.num_stages, "shared": compiled.metadata.shared,
        "copies_in_flight": assembly.in_flight(code, caches),
        "loads": [row | {"reads": reads.get(row["line"], "")} for row in assembly.loads(code)],
    }  # fmt: skip
    sass: list[tuple[int, str]] = []
    if nvidia:
        binary = folder / "kernel.cubin"
        binary.write_bytes(compiled.asm["cubin"])
        usage = _tool("cuobjdump", "-res-usage", binary)
        found["registers"] = _number(r"\bREG:(\d+)", usage)
        found["stack"] = _number(r"\bSTACK:(\d+)", usage) + _number(r"\bLOCAL:(\d+)", usage)
        if job["listing"]:
            sass = list(assembly.instructions(_tool("nvdisasm", "-g", "-c", binary), child.KERNELS))
    else:
        found["registers"] = _number(r"; TotalNumVgprs: (\d+)", text)
        found["stack"] = _number(r"; ScratchSize: (\d+)", text)
    if job["listing"]:
        by_line: dict[int, tuple[list[str], list[str]]] = {}
        for which, instructions in enumerate((code, sass)):
            for line, instruction in instructions:
                by_line.setdefault(line, ([], []))[which].append(instruction)
        found["listing"] = sorted((line, *both) for line, both in by_line.items() if line)
    return found


def _tool(name: str, *arguments: str | Path) -> str:
    return subprocess.run([NVIDIA / name, *arguments], capture_output=True, text=True, check=True).stdout


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    if not found:
        raise LookupError(f"the compiler's output has no {pattern}")
    return int(found[1])


def main(folder: Path) -> None:
    job = json.loads((folder / child.JOB).read_text(encoding="utf-8"))
    module = child.take_kernels(job["source"], folder)
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    with open(folder / child.ANSWERS, "w", encoding="utf-8", buffering=1) as answers:
        for each in job["kernels"]:
            try:
                answer = compile_kernel(each, source, folder)
            except Exception as error:
                answer = {"refusal": " ".join(f"{type(error).__name__}: {error}".split())}
            answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    child.serve(main)
