"""The program behind `address_trace`: runs one attention call in Triton's interpreter and writes what it did.

The kernel runs unchanged. What it is given instead of each tensor is an address of our own making: argument i
begins at (i + 1) * 2^50, so any address says whose it is, also one that went astray, and every tensor begins
on a 256-byte boundary, as a GPU's allocator places it. Each load and store is translated to real memory on
its way; an element that leads outside its tensor is written down and left out, so nothing can crash.

The lines in between come from Python's own tracing, as in a debugger: after every line the wanted variables
that changed are written down as the kernel computed them.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, TextIO

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.jit import mangle_type

import pagedlab_kernels
from pagedlab_kernels.csr import CSRTable

from . import child

REGION = 50  # bits of address space for each argument


class Tracer:
    """Listens to the kernels of one module; writes a line of JSON for each launch, step and stray address."""

    def __init__(self, kernels: ModuleType, job: dict[str, Any], answers: TextIO) -> None:
        self.kernels, self.path, self.answers = kernels, str(kernels.__file__), answers
        self.values, self.programs = set(job["values"]), job["programs"] and set(map(tuple, job["programs"]))
        self.statements = statements(Path(self.path).read_text(encoding="utf-8"))
        self.launched = False
        self.tensors: list[tuple[str, torch.Tensor]] = []
        self.steps: list[dict[str, Any]] = []  # begun, in order, and not yet written
        self.current: dict[FrameType, dict[str, Any]] = {}  # the step that each running function is at
        self.seen: dict[FrameType, dict[str, Any]] = {}  # its variables as they were written down

    def write(self, what: str, **fields: Any) -> None:
        self.answers.write(json.dumps({"is": what, **fields}) + "\n")

    # -- Launches: tensors become addresses.

    def listen(self) -> None:
        for name, kernel in list(vars(self.kernels).items()):
            if isinstance(kernel, interpreter.InterpretedFunction):
                setattr(self.kernels, name, Launcher(self, name, kernel))
        builder = interpreter.interpreter_builder
        self.load, self.store = builder.create_masked_load, builder.create_masked_store
        builder.create_masked_load, builder.create_masked_store = self.traced_load, self.traced_store

    def launch(self, name: str, kernel: Any, grid: Any, args: Any, options: dict[str, Any]) -> None:
        signature = inspect.signature(kernel.fn)
        known = {key: value for key, value in options.items() if key in signature.parameters}
        given = signature.bind(*args, **known).arguments
        self.tensors = [(key, value) for key, value in given.items() if isinstance(value, torch.Tensor)]
        self.write(
            "launch", kernel=name, grid=list(grid),
            tensors=[
                {"name": key, "shape": list(tensor.shape), "strides": list(tensor.stride()),
                 "itemsize": tensor.element_size(), "start": tensor.storage_offset() * tensor.element_size()}
                for key, tensor in self.tensors
            ],
            numbers={key: plain(value) for key, value in given.items() if isinstance(value, int | float)},
        )  # fmt: skip
        for index, (key, tensor) in enumerate(self.tensors):
            kind = tl.str_to_ty(mangle_type(tensor), None)
            address = np.array([self.base(index)], dtype=np.uint64)
            given[key] = tl.tensor(interpreter.TensorHandle(address, kind), kind)
        self.launched = True
        sys.settrace(self.enter)
        try:
            kernel[grid](**given)
        finally:
            sys.settrace(None)
            self.flush()

    def base(self, index: int) -> int:
        tensor = self.tensors[index][1]
        return ((index + 1) << REGION) + int(tensor.storage_offset()) * tensor.element_size()

    # -- Lines: which one runs, and what it changed.

    def enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename != self.path or frame.f_code.co_name == "<module>":
            return None
        program = interpreter.interpreter_builder.grid_idx
        if self.programs is not None and program not in self.programs:
            return None
        self.seen[frame] = dict(frame.f_locals)
        return self.follow

    def follow(self, frame: FrameType, event: str, arg: Any) -> Any:
        self.changes(frame)
        if event == "return":
            self.current.pop(frame, None)
            self.seen.pop(frame, None)
        elif event == "line":
            line = self.statements.get(frame.f_lineno, frame.f_lineno)
            step = self.current.get(frame)
            if step is None or step["line"] != line:
                if frame.f_back not in self.seen:
                    self.flush()
                program = list(interpreter.interpreter_builder.grid_idx)
                step = {"program": program, "function": frame.f_code.co_name, "line": line}
                step |= {"accesses": [], "values": {}}
                self.current[frame] = step
                self.steps.append(step)
        return self.follow

    def changes(self, frame: FrameType) -> None:
        step, seen, variables = self.current.get(frame), self.seen[frame], frame.f_locals
        for name in self.values & variables.keys():
            if step is not None and seen.get(name) is not variables[name]:
                step["values"][name] = plain(variables[name])
                seen[name] = variables[name]

    def flush(self) -> None:
        for step in self.steps:
            self.write("step", **step)
        self.steps.clear()

    # -- Loads and stores.

    def traced_load(self, pointers: Any, mask: Any, other: Any, *hints: Any) -> Any:
        return self.load(*self.access("load", pointers, mask), other, *hints)

    def traced_store(self, pointers: Any, value: Any, mask: Any, *hints: Any) -> Any:
        real, inside = self.access("store", pointers, mask)
        return self.store(real, value, inside, *hints)

    def access(self, kind: str, pointers: Any, mask: Any) -> tuple[Any, Any]:
        """Write an access down; return real addresses, and a mask without the elements that went astray."""
        asked = np.broadcast_to(mask.data, pointers.data.shape)
        address = pointers.data.astype(np.int64)
        owner = ((address + (1 << (REGION - 1))) >> REGION) - 1
        itemsize = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame not in self.current:
            frame = frame.f_back
        step = self.current[frame] if frame else None
        real, inside = np.zeros_like(address), np.zeros_like(asked)
        for index in map(int, np.unique(owner[asked])):
            mine = asked & (owner == index)
            name, tensor = self.tensors[index] if 0 <= index < len(self.tensors) else (None, None)
            offset = address - (self.base(index) if tensor is not None else 0)
            extent = 0 if tensor is None else extent_of(tensor)
            held = mine & (offset >= 0) & (offset + itemsize <= extent)
            if tensor is not None:
                real[held], inside = offset[held] + tensor.data_ptr(), inside | held
            if step is None:
                continue
            if held.any():
                found = {"kind": kind, "tensor": name, "shape": asked.shape}
                step["accesses"].append(found | {"runs": runs(held, offset, itemsize)})
            if (astray := mine & ~held).any():
                first = int(offset[astray][0])
                self.write(
                    "stray", program=step["program"], line=step["line"], kind=kind, tensor=name,
                    beyond=first + itemsize - extent if first >= 0 else first, elements=int(astray.sum()),
                )  # fmt: skip
        handle = interpreter.TensorHandle
        return handle(real.astype(np.uint64), pointers.dtype), handle(inside, mask.dtype)


class Launcher:
    """Stands in for a kernel: `kernel[grid](...)` goes through the tracer, a call from a kernel does not."""

    def __init__(self, tracer: Tracer, name: str, kernel: Any) -> None:
        self.tracer, self.name, self.kernel = tracer, name, kernel

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **options: self.tracer.launch(self.name, self.kernel, grid, args, options)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.kernel(*args, **options)


def extent_of(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first element to the end of its last."""
    if not tensor.numel():
        return 0
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (reach + 1) * tensor.element_size()


def runs(held: np.ndarray, offset: np.ndarray, itemsize: int) -> list[list[int]]:
    """The elements of an access in order, as [first element, elements, first offset] while both count on."""
    element = np.flatnonzero(held)
    place = offset.reshape(-1)[element]
    breaks = np.flatnonzero((np.diff(element) != 1) | (np.diff(place) != itemsize)) + 1
    starts = np.concatenate(([0], breaks))
    lengths = np.diff(np.concatenate((starts, [len(element)])))
    return np.stack((element[starts], lengths, place[starts]), axis=1).tolist()


def statements(source: str) -> dict[int, int]:
    """For each line of a statement that spans several, the one it begins at."""
    simple = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt))
    return {
        line: node.lineno
        for node in simple
        if not hasattr(node, "body")
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def plain(value: Any) -> Any:
    """A kernel's value as numbers and lists; what JSON has no number for becomes text: "-inf"."""
    if isinstance(value, tl.tensor):
        data = value.handle.data
        if value.dtype.scalar == tl.bfloat16:
            data = (data.astype(np.uint32) << 16).view(np.float32)
        scalar = not value.type.is_block()
        return plain(data.reshape(-1)[0].item() if scalar else data.tolist())
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tl.constexpr):
        return plain(value.value)
    if isinstance(value, float):
        return float(f"{value:.7g}") if np.isfinite(value) else str(value)
    return value if isinstance(value, int | str) else repr(value)


def main(folder: Path) -> None:
    job = json.loads((folder / child.JOB).read_text(encoding="utf-8"))
    tensors = torch.load(folder / child.TENSORS, map_location="cpu", weights_only=True)
    args = [CSRTable(**value) if isinstance(value, dict) else value for value in tensors["args"]]
    with open(folder / child.ANSWERS, "w", encoding="utf-8", buffering=1) as answers:
        tracer = Tracer(child.take_kernels(job["source"], folder), job, answers)
        tracer.listen()
        try:
            getattr(pagedlab_kernels, job["call"])(*args, backend="triton", **tensors["options"])
        except (ValueError, TypeError, IndexError) as error:
            if tracer.launched:
                raise
            tracer.write("refused", error=type(error).__name__, message=str(error))


if __name__ == "__main__":
    child.serve(main)
