"""What a kernel reads and writes, address by address, taken from the real Triton kernel.

    address_trace   runs one call in Triton's interpreter, in a process of its own
    Trace           its launches and, program after program, the lines that ran
    Step            one line: its loads and stores, and the watched variables that it changed
    Access          one load or store of a tile; every element mapped back to tensor, block, slot and head
    Traffic         what a line moved: requests, bytes, 32-byte sectors, 128-byte lines

A request is what the 32 lanes of a warp ask for together. Which lane takes which element is the compiler's
choice, and the one thing assumed here: elements in row order, as many a lane as one instruction can take.
Addresses are what the kernel asked for, with every tensor placed as a GPU's allocator places it.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from . import child

LANES, SECTOR, LINE = 32, 32, 128
WIDEST = 16  # bytes: the most that a lane loads at once
CALLS = ("paged_attention", "contiguous_attention", "paged_prefill", "contiguous_prefill")
_CACHE, _RESULT = ("block", "slot", "head", "dim"), ("token", "head", "split", "dim")
_AXES: dict[str, tuple[str, ...]] = {
    "keys": _CACHE, "values": _CACHE, "table": ("entry",), "starts": ("seq",), "seq_lens": ("seq",),
    "key_scales": _CACHE[:3], "value_scales": _CACHE[:3], "query_starts": ("seq",),
    "query": ("token", "head", "dim"), "out": ("token", "head", "dim"), "lse": ("token", "head"),
    "parts": _RESULT, "part_lses": _RESULT[:3],
}  # fmt: skip


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as a kernel was given it: strides in elements, `start` in bytes from its allocation."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    start: int

    def place(self, offset: Any) -> dict[str, Any]:
        """Which element lies `offset` bytes after the first, or which do: indices along each axis.

        >>> keys = TensorInfo("keys", (8, 16, 2, 64), (2048, 128, 64, 1), 2, 0)
        >>> keys.place(2 * (5 * 2048 + 3 * 128 + 64))
        {'block': 5, 'slot': 3, 'head': 1, 'dim': 0}
        """
        rest, index = offset // self.itemsize, [offset * 0] * len(self.shape)
        for axis in sorted(range(len(index)), key=lambda axis: -self.strides[axis]):
            if self.shape[axis] > 1 and self.strides[axis]:
                index[axis], rest = divmod(rest, self.strides[axis])
        return dict(zip(self.axes, index, strict=True))

    @property
    def axes(self) -> tuple[str, ...]:
        """What each axis counts."""
        split = {"out": "parts", "lse": "part_lses"}.get(self.name, "")  # as a kernel of one split calls out
        known = (_AXES.get(name, ()) for name in (self.name, split))
        numbered = tuple(f"axis {axis}" for axis in range(len(self.shape)))
        return next((axes for axes in known if len(axes) == len(self.shape)), numbered)


@dataclass(frozen=True)
class Launch:
    """One launch: programs along each axis, tensors by parameter, and the numbers, constants included."""

    kernel: str
    grid: tuple[int, ...]
    tensors: dict[str, TensorInfo]
    numbers: dict[str, Any]


@dataclass(frozen=True)
class Access:
    """One load or store. `runs` holds its elements in row order, without the masked ones: each row is
    `[first element, how many, byte offset of the first in the tensor]` while both count on together."""

    kind: str  # load or store
    tensor: TensorInfo
    shape: tuple[int, ...]  # of the tile
    runs: np.ndarray  # int64 [runs, 3]

    def elements(self) -> tuple[np.ndarray, np.ndarray]:
        """The number of each element in the tile, and its byte offset in the tensor."""
        first, count, offset = self.runs.T
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return np.repeat(first, count) + within, np.repeat(offset, count) + within * self.tensor.itemsize

    @cached_property
    def lane_bytes(self) -> int:
        """Bytes that a lane takes at once: the most, up to 16, that these addresses allow."""
        element, offset = self.elements()
        width, itemsize = WIDEST, self.tensor.itemsize
        while width > itemsize:
            lane = element // (width // itemsize)
            first, count = np.unique(lane, return_index=True, return_counts=True)[1:]
            whole = count * itemsize == width
            whole &= offset[first + count - 1] - offset[first] == width - itemsize
            if (whole & ((offset[first] + self.tensor.start) % width == 0)).all():
                break
            width //= 2
        return width

    @property
    def stretches(self) -> int:
        """How many pieces of memory without a gap the tile lies in."""
        places = np.unique(self.elements()[1])
        return int((np.diff(places) > self.tensor.itemsize).sum()) + 1

    def touched(self, unit: int, lane_bytes: int | None = None) -> np.ndarray:
        """Int64 `[n, 2]`: for each request the units of so many bytes (32: sectors) that it touches.

        Units are numbered from the tensor's allocation.
        """
        element, offset = self.elements()
        request = element // (LANES * max(1, (lane_bytes or self.lane_bytes) // self.tensor.itemsize))
        both = np.unique((request << 40) + (offset + self.tensor.start) // unit)
        return np.stack((both >> 40, both & ((1 << 40) - 1)), axis=1)


@dataclass(frozen=True)
class Step:
    """One line as one program ran it: its loads and stores, and the watched variables that it changed."""

    launch: Launch
    program: tuple[int, ...]
    function: str
    line: int
    accesses: tuple[Access, ...]
    values: dict[str, Any]


@dataclass(frozen=True)
class Stray:
    """Elements that a load or a store looked for outside its tensor. They were left out: a load read 0."""

    launch: Launch
    program: tuple[int, ...]
    line: int
    kind: str
    tensor: str | None
    beyond: int  # the first one: bytes past the tensor's end, or, negative, before its start
    elements: int

    def __str__(self) -> str:
        at = f"{self.launch.kernel}, line {self.line}, program {self.program}"
        what = f"{at}: {self.kind} of {self.elements:,} elements"
        if self.tensor is None:
            return f"{what} at addresses that belong to no tensor"
        side = "past the end" if self.beyond > 0 else "before the start"
        return f"{what} out of bounds of {self.tensor}, the first by {abs(self.beyond):,} bytes, {side}"


@dataclass(frozen=True)
class Traffic:
    """What one line of a kernel moved from or to one tensor; a byte that several lanes of a request ask for
    counts once."""

    kernel: str
    line: int
    kind: str
    tensor: str
    lane_bytes: int
    requests: int
    bytes: int
    sectors: int
    lines: int
    stretches: int  # pieces of memory without a gap, counted tile by tile


@dataclass(frozen=True)
class Trace:
    """One call, as its kernels ran it in the interpreter."""

    call: str
    source: str  # of the kernels
    launches: tuple[Launch, ...]
    steps: tuple[Step, ...]
    strays: tuple[Stray, ...]
    answers: list[dict[str, Any]]  # all of it as plain data, to keep in a file
    failure: str | None = None  # what ended the run early
    recorded: str | None = None  # how it was recorded, when it did not run just now

    @classmethod
    def of(cls, call: str, source: str, answers: list[dict[str, Any]], **about: str | None) -> Trace:
        """Put together what `tracing` wrote, or what a file kept of it."""
        launches: list[Launch] = []
        steps, strays = [], []
        for answer in answers:
            fields = {key: value for key, value in answer.items() if key != "is"}
            if answer["is"] == "launch":
                tensors = [TensorInfo(**each) for each in fields["tensors"]]
                launches.append(Launch(**fields | {"tensors": {each.name: each for each in tensors}}))
                continue
            fields |= {"launch": launches[-1], "program": tuple(fields["program"])}
            if answer["is"] == "stray":
                strays.append(Stray(**fields))
                continue
            named = launches[-1].tensors
            fields["accesses"] = tuple(
                Access(each["kind"], named[each["tensor"]], tuple(each["shape"]), np.array(each["runs"]))
                for each in fields["accesses"]
            )
            steps.append(Step(**fields))
        return cls(call, source, tuple(launches), tuple(steps), tuple(strays), answers, **about)

    def traffic(self, lane_bytes: int | None = None) -> list[Traffic]:
        """What each line moved over all programs traced, in the order of the lines.

        `lane_bytes`: what a lane takes at once, if not the most that the addresses allow.
        """
        found: dict[tuple[str, int, str, str], list[Access]] = {}
        for step in self.steps:
            for access in step.accesses:
                place = (step.launch.kernel, step.line, access.kind, access.tensor.name)
                found.setdefault(place, []).append(access)
        rows = []
        for place, accesses in sorted(found.items()):
            width = lane_bytes or min(access.lane_bytes for access in accesses)
            itemsize = accesses[0].tensor.itemsize
            elements, sectors, lines = (
                [access.touched(unit, width) for access in accesses] for unit in (itemsize, SECTOR, LINE)
            )
            requests = sum(len(np.unique(each[:, 0])) for each in sectors)
            size = sum(map(len, elements)) * itemsize
            counts = requests, size, sum(map(len, sectors)), sum(map(len, lines))
            rows.append(Traffic(*place, width, *counts, sum(access.stretches for access in accesses)))
        return rows


def address_trace(
    kernel: str | Callable[..., Any],
    *args: Any,
    values: Iterable[str] = (),
    programs: Iterable[tuple[int, int, int]] | None = None,
    source: str | None = None,
    seconds: float = 120.0,
    **options: Any,
) -> Trace:
    """Run one call with the Triton kernels and return every address that they read and wrote, in order.

    `kernel` is one of `CALLS`, the function or its name; `args` and `options` are its own. The call runs in
    Triton's interpreter, in a process of its own: what goes wrong there is part of the trace. Addresses
    outside a tensor are `strays`; a kernel that raises, crashes, leaves early or does not end in time is a
    `failure`.

    - `values`: names of variables whose values are kept after each line that changes them;
    - `programs`: indices in the grid of those to trace, by default all; the others run as well;
    - `source`: the text of a module to take the kernels from, `kernel_source()` edited, say;
    - `seconds`: how long it may take.

    Raises what the call itself would raise about its arguments (pass `check=False` to see a kernel follow a
    wrong table), ValueError for an unknown kernel, and ModuleNotFoundError where Triton is not installed.
    """
    name = kernel if isinstance(kernel, str) else getattr(kernel, "__name__", repr(kernel))
    if name not in CALLS:
        raise ValueError(f"kernel must be one of {', '.join(CALLS)}, got {name}")
    wanted = None if programs is None else [list(map(int, program)) for program in programs]
    job = {"call": name, "source": source, "values": sorted(values), "programs": wanted}
    answers, failure = child.run(
        "tracing", job, interpret=True, seconds=seconds, prepare=lambda folder: _save(folder, args, options)
    )
    for answer in answers:
        if answer["is"] == "refused":
            raise getattr(builtins, answer["error"])(answer["message"])
    return Trace.of(name, source or child.kernel_source(), answers, failure=failure)


def _save(folder: Path, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    import torch

    from ..csr import CSRTable

    plain = [
        {name: torch.as_tensor(array) for name, array in vars(value).items()}
        if isinstance(value, CSRTable)
        else value
        for value in args
    ]
    torch.save({"args": plain, "options": options}, folder / child.TENSORS)
