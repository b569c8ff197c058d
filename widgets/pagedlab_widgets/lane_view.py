"""The lane view: who shares a memory transaction, lane by lane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets as t

from pagedlab import kernel_cases
from pagedlab_kernels.inside.trace import LANES, SECTOR

from . import stops
from .assets import script, style
from .picture import WORDS

if TYPE_CHECKING:
    from pagedlab_kernels.inside.trace import Access

MOST_REQUESTS = 256


class LaneView(anywidget.AnyWidget):
    """The 32 lanes of a warp, each in the colour of the 32-byte sector it reads, and the 128-byte lines.

    `cases` maps a name to an `Access` of an address trace, or to a pair: the byte that each lane starts at
    (None: idle; 32 lanes a request), and the bytes that a lane takes. The reader chooses among them; `chosen`
    is the index. It all runs in the page.

    Raises ValueError for no case, for one too long, and for bytes that are none.

    >>> LaneView({"one after the other": ([4 * lane for lane in range(32)], 4),
    ...           "a row apart": ([256 * lane for lane in range(32)], 4)}, word="assumed").sectors
    [4, 32]
    """

    _esm = script("lane_view.js")
    _css = style("theme.css", "lanes.css")

    cases = t.List(t.Dict()).tag(sync=True)
    chosen = t.Int(0, min=0).tag(sync=True)
    word = t.Enum(WORDS, "computed").tag(sync=True)

    def __init__(self, cases: Mapping[str, Access | tuple[Sequence[int | None], int]], **traits: Any) -> None:
        if not cases:
            raise ValueError("cases must name at least one load to look at")
        super().__init__(cases=[_case(name, case) for name, case in cases.items()], **traits)

    @property
    def sectors(self) -> list[int]:
        """Sectors touched in each case, summed over its requests."""
        return [case["sectors"] for case in self.cases]


def key_reads(names: Iterable[str]) -> dict[str, Access]:
    """The first tile of K that the kernel read in each of these cases, as their traces were recorded.

    Raises what `kernel_cases.recorded` raises.

    >>> LaneView(key_reads(["block 16, HND"]), word="recorded").sectors
    [256]
    """
    steps = {name: kernel_cases.recorded(name).steps for name in names}
    return {
        name: next(access for step in ran for access in step.accesses if access.tensor.name == "keys")
        for name, ran in steps.items()
    }


def _case(name: str, case: Access | tuple[Sequence[int | None], int]) -> dict[str, Any]:
    if isinstance(case, tuple):
        bytes_, width = case
        if width not in (1, 2, 4, 8, 16) or any(byte is not None and byte < 0 for byte in bytes_):
            raise ValueError(f"{name}: a lane takes 1, 2, 4, 8 or 16 bytes from a byte of 0 or more")
        requests = [
            list(bytes_[i : i + LANES]) + [None] * (i + LANES - len(bytes_))
            for i in range(0, len(bytes_), LANES)
        ]
    else:
        requests, width = stops.lanes(case), case.lane_bytes
    if not 1 <= len(requests) <= MOST_REQUESTS:
        raise ValueError(f"{name}: from 1 to {MOST_REQUESTS} requests can be shown, got {len(requests)}")
    touched = [
        {sector for byte in request if byte is not None
         for sector in range(byte // SECTOR, (byte + width - 1) // SECTOR + 1)}
        for request in requests
    ]  # fmt: skip
    sectors = sum(map(len, touched))
    asked = width * sum(byte is not None for request in requests for byte in request)
    about = f"{len(requests)} requests ask for {asked:,} bytes and touch {sectors:,} sectors of 32 bytes"
    return {"label": name, "width": width, "requests": requests, "sectors": sectors, "about": about}
