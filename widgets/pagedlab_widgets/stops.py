"""A kernel's trace as the stepper shows it: stops where something happens, the same ones on both sides.

A stop is one line of one program that loaded, stored or changed a watched variable. Two traces of one source
run the same lines but for the paging, so their stops are laid side by side by kernel, program and line, as
two versions of a text are; where one side has a stop and the other has none, the other waits.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from pagedlab.kernel_cases import KernelCase
from pagedlab_kernels.inside.trace import LANES, LINE, SECTOR

if TYPE_CHECKING:
    from pagedlab_kernels.inside.trace import Access, Step, Trace

MOST_ROWS = 256  # listed of one access


def side(trace: Trace, case: KernelCase, table: tuple[int, ...]) -> dict[str, Any]:
    """One side of the stepper as plain data; `table` is what the kernel was told."""
    size = case.block_size or case.length
    home = np.array(case.table or (0,))
    at = np.arange(case.length)
    return {
        "label": f"paged, blocks of {size}" if case.block_size else "contiguous twin",
        "word": "recorded" if trace.recorded else "computed",
        "about": trace.recorded or "by the kernel, in Triton's interpreter",
        "paged": case.block_size is not None,
        "table": list(table),
        "block_size": size,
        "num_blocks": len(home) + case.spare if case.block_size else 1,
        "token_slots": (home[at // size] * size + at % size).tolist(),
        "splits": case.num_splits,
        "stops": [_stop(step) for step in trace.steps if step.accesses or step.values],
        "trouble": [*map(str, trace.strays), *([trace.failure] if trace.failure else [])],
    }


def beside(sides: list[dict[str, Any]]) -> list[list[int]]:
    """For each frame the stop that every side has reached, -1 before its first; one that waits stays."""
    if len(sides) == 1:
        return [[i] for i in range(len(sides[0]["stops"]))]
    keys = [[(*stop["program"], stop["kernel"], stop["line"]) for stop in each["stops"]] for each in sides]
    frames, now = [], [-1, -1]
    for _, a, b, c, d in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        for i, j in zip_longest(range(a, b), range(c, d)):
            now = [now[0] if i is None else i, now[1] if j is None else j]
            frames.append(now)
    return frames


def _stop(step: Step) -> dict[str, Any]:
    return {
        "kernel": step.launch.kernel,
        "program": list(step.program),
        "line": step.line,
        "accesses": [access_shown(access) for access in step.accesses],
        "values": {name: _value(step, name, value) for name, value in step.values.items()},
    }


def access_shown(access: Access) -> dict[str, Any]:
    """A load or a store as plain data: what it touches, and what every lane of each request takes."""
    element, offset = access.elements()
    tensor, place = access.tensor, access.tensor.place(offset)
    shown = {
        "kind": access.kind, "tensor": tensor.name, "width": access.lane_bytes, "requests": lanes(access),
        "bytes": len(element) * tensor.itemsize, "sectors": len(access.touched(SECTOR)),
        "lines": len(access.touched(LINE)), "rows": _rows(access),
    }  # fmt: skip
    if tensor.name in ("keys", "values"):
        shown["slots"] = np.unique(place["block"] * tensor.shape[1] + place["slot"]).tolist()
    elif tensor.name == "table":
        shown["entries"] = np.unique(place["entry"]).tolist()
    return shown


def lanes(access: Access) -> list[list[int | None]]:
    """For each request the byte that each of 32 lanes starts at, from the tensor's allocation; None: idle."""
    element, offset = access.elements()
    per_lane = max(1, access.lane_bytes // access.tensor.itemsize)
    lane, first = np.unique(element // per_lane, return_index=True)
    requests: dict[int, list[int | None]] = {}
    for at, byte in zip(lane.tolist(), (offset[first] + access.tensor.start).tolist(), strict=True):
        requests.setdefault(at // LANES, [None] * LANES)[at % LANES] = byte
    return list(requests.values())


def _rows(access: Access) -> list[list[Any]]:
    """Which element lies where: a row of the tensor, its first byte, its bytes; each once, in order."""
    offset = access.elements()[1]
    place = access.tensor.place(offset)
    axes = [axis for axis in place if axis != "dim"]
    rows: dict[str, list[int]] = {}
    for i, byte in enumerate(offset.tolist()):
        rows.setdefault(", ".join(f"{axis} {place[axis][i]}" for axis in axes), []).append(byte)
    itemsize = access.tensor.itemsize
    return [[name, min(bytes_), len(set(bytes_)) * itemsize] for name, bytes_ in rows.items()][:MOST_ROWS]


def _value(step: Step, name: str, value: Any) -> Any:
    """A variable without the rows and head dimensions that pad a tile; ids as text."""
    numbers = step.launch.numbers
    if name in ("block", "slot"):
        return _series(value) if isinstance(value, list) else str(value)
    if "GROUP" not in numbers or not isinstance(value, list):  # the merge pads its splits
        return value[: numbers["SPLITS"]] if name in ("weight", "part_lse") else value
    rows = value[: numbers["GROUP"]]
    return [row[: numbers["HEAD_DIM"]] for row in rows] if name in ("total", "result") else rows


def _series(numbers: list[int]) -> str:
    """Numbers with what repeats or counts on told once.

    >>> _series([9, 9, 9, 4, 5, 6, 7])
    '9 \u00d7 3, 4\u20137'
    """
    parts: list[list[int]] = []
    for number in numbers:
        last = parts[-1] if parts else []
        step = number - last[-1] if last else None
        if step in (0, 1) and (len(last) == 1 or last[1] - last[0] == step):
            last.append(number)
        else:
            parts.append([number])
    return ", ".join(
        str(part[0]) if len(part) == 1
        else f"{part[0]} \u00d7 {len(part)}" if part[0] == part[1]
        else f"{part[0]}\u2013{part[-1]}"
        for part in parts
    )  # fmt: skip
