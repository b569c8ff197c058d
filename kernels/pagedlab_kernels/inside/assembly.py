"""Reads assembly: which source line an instruction comes from, what it loads, what is still under way.

Triton writes a `.loc` before the instructions of each source line, into PTX as into AMD's assembly, and
`nvdisasm -g` writes a comment of the kind into SASS. A line of an inlined function counts as the line in the
kernels' own module, so that a library function belongs to whoever called it. In inline assembly Triton 3.8
counts on from the source's line: all of it belongs to the line where it began.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

_LOC = re.compile(r"\s*\.loc\s.*?(?://|;)\s*(.*)")
_SASS_LOC = re.compile(r'\s*//## File "([^"]*)", line (\d+)')
_ELEMENT = {"b8": 1, "b16": 2, "b32": 4, "b64": 8, "u8": 1, "u16": 2, "u32": 4, "f32": 4, "u64": 8}
_PTX_LOAD = re.compile(r"\bld\.global\b[\w:.]*?(?:\.v(\d))?\.(b8|b16|b32|b64|u8|u16|u32|u64|f32)\b")
_PTX_COPY = re.compile(r"\bcp\.async\.c[ag]\.shared\.global\b[^,]*,[^,]*,\s*(0x[0-9a-f]+|\d+)")
_PTX_BULK = re.compile(r"\bcp\.async\.bulk\.tensor\.\dd\.shared\b")
_AMD_LOAD = re.compile(r"\b(?:buffer|global)_load_(\w+)")
_AMD_BYTES = {"dwordx4": 16, "dwordx3": 12, "dwordx2": 8, "dword": 4, "ushort": 2, "short": 2, "sshort": 2}


def instructions(assembly: str, module: str) -> Iterator[tuple[int, str]]:
    """Each instruction with the line of `module` ("triton_kernels.py") that it comes from, 0 for none.

    >>> list(instructions(".loc 1 8 2  // kernels.py:8:2\\n add.s32 %r1, %r2, 1;", "kernels.py"))
    [(8, 'add.s32 %r1, %r2, 1;')]
    """
    line, inline = 0, False
    for text in assembly.splitlines():
        if "inline asm" in text:
            inline = "begin inline asm" in text
        elif found := _LOC.match(text):
            places = [] if inline else re.findall(rf"\b{re.escape(module)}:(\d+)", found[1])
            line = int(places[0]) if places else line
        elif found := _SASS_LOC.match(text):
            line = int(found[2]) if found[1].endswith(module) else line
        else:
            code = re.sub(r"/\*[0-9a-f]+\*/|//.*|(?<!\S);.*", "", text).strip()
            if code and code[0] not in ".{}$()" and not code.endswith(":"):
                yield line, code


def loads(code: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    """The loads from global memory by source line, width in bytes, and whether they are asynchronous."""
    counts: dict[tuple[int, int, bool], int] = {}
    for line, text in code:
        if found := _PTX_COPY.search(text):
            key = line, int(found[1], 0), True
        elif _PTX_BULK.search(text):
            key = line, 0, True
        elif found := _PTX_LOAD.search(text):
            key = line, int(found[1] or 1) * _ELEMENT[found[2]], False
        elif found := _AMD_LOAD.search(text):
            width = next((size for name, size in _AMD_BYTES.items() if found[1].startswith(name)), 1)
            key = line, width, False
        else:
            continue
        counts[key] = counts.get(key, 0) + 1
    return [
        {"line": line, "width": width, "asynchronous": asynchronous, "count": count}
        for (line, width, asynchronous), count in sorted(counts.items())
    ]


def in_flight(code: Iterable[tuple[int, str]], lines: set[int]) -> int:
    """How many copies begun at `lines` (those of K and V) are still under way while the kernel waits for the
    oldest, at most. A copy here is a whole tile: what was begun between two commits, or one in one piece."""
    groups: deque[set[int]] = deque()
    begun: set[int] = set()
    most = pieces = 0
    for line, text in code:
        if _PTX_COPY.search(text):
            begun.add(line)
        elif _PTX_BULK.search(text):
            pieces += line in lines
        elif "mbarrier.try_wait" in text or re.search(r"\bbra\b", text):
            most = max(most, pieces - 1)
            pieces = 0  # what is begun in the loop takes the place of what has come
        elif "cp.async.commit_group" in text:
            groups.append(begun)
            begun = set()
        elif found := re.search(r"cp\.async\.wait_group\s+(\d+)", text):
            while len(groups) > int(found[1]):
                groups.popleft()
            most = max(most, sum(bool(group & lines) for group in groups))
    return most


def load_lines(source: str) -> dict[int, str]:
    """What each line with a load reads: the first name in its address, a parameter as a rule; or the
    descriptor whose method it is.

    >>> load_lines("k = tl.load(keys + row[:, None], mask=real)")
    {1: 'keys'}
    """
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
            module = ast.unparse(node.func.value) == "tl"
            first = re.search(r"[A-Za-z_]\w*", ast.unparse(node.args[0] if module else node.func.value))
            found[node.lineno] = first[0] if first else ""
    return found
