"""What a reader of pagedlab sees and touches.

Widgets draw what the library recorded or measured; they decide nothing. Each runs in the browser once its
data is there: playing, scrubbing and hovering ask nothing of the kernel.

================  ==========================================================================================
`BlockMap`        the blocks of one or several runs on one timeline: play, step, scrub, hover
`Trace`           one run, in the form in which it travels to the browser
`TraceBuilder`    builds a `Trace`, write by write
`BarTable`        a chart that is a table: bars, numbers and notes, row by row (of `Row` and `Segment`)
`LineChart`       lines over one axis, read out at any place (of `Axis`, `Line` and `Wall`)
`named`           gives an ipywidgets control a name that screen readers say, and its arrow keys back
`Predict`         asks for a number before the answer is shown, and keeps it
`paged_trace`     the event log of a block manager as a `Trace`; `contiguous_trace` likewise
`beside`          a guess, the answer here, the published figure; `answered`: the same from a verdict
`card`            a claim's verdict, and `verdict_chart` its curves; `waste_curve` waste by block size
`source`          the library's own code
================  ==========================================================================================

Explorers put them together: `FragmentationExplorer` (where the memory goes), `CopyOnWriteLab` (who may write
where), `OverheadExplorer` (what a look-up costs), `TwoWalls` (full or slow).
`AdviceView` gives advice on a trace (`pagedlab.advice`). `KernelStepper` steps through the real kernel, paged
and contiguous side by side; `LaneView` shows which lanes share a memory transaction.

Importing this package imports none of them: a name loads its module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .advice import AdviceView
    from .bar_table import BarTable, Row, Segment
    from .block_map import BlockMap
    from .chart import Axis, Line, LineChart, Wall
    from .contents import course
    from .copy_on_write import CopyOnWriteLab
    from .encode import contiguous_trace, paged_trace
    from .explorer import FragmentationExplorer
    from .kernel_stepper import KernelStepper
    from .lane_view import LaneView, key_reads
    from .lesson import answered, beside, card, source, waste_curve
    from .museum_view import MuseumView
    from .names import AccessibleNames, named
    from .overhead import OverheadExplorer
    from .own_allocator import own_trace
    from .predict import Predict
    from .ranks_view import RanksView
    from .trace import Counts, Trace, TraceBuilder
    from .trial import ClaimsOnTrial
    from .two_walls import TwoWalls
    from .verdicts import verdict_chart

_HOMES = {
    "advice": ("AdviceView",),
    "bar_table": ("BarTable", "Row", "Segment"),
    "block_map": ("BlockMap",),
    "chart": ("Axis", "Line", "LineChart", "Wall"),
    "contents": ("course",),
    "copy_on_write": ("CopyOnWriteLab",),
    "encode": ("contiguous_trace", "paged_trace"),
    "explorer": ("FragmentationExplorer",),
    "kernel_stepper": ("KernelStepper",),
    "lane_view": ("LaneView", "key_reads"),
    "lesson": ("answered", "beside", "card", "source", "waste_curve"),
    "museum_view": ("MuseumView",),
    "names": ("AccessibleNames", "named"),
    "overhead": ("OverheadExplorer",),
    "own_allocator": ("own_trace",),
    "predict": ("Predict",),
    "ranks_view": ("RanksView",),
    "trace": ("Counts", "Trace", "TraceBuilder"),
    "trial": ("ClaimsOnTrial",),
    "two_walls": ("TwoWalls",),
    "verdicts": ("verdict_chart",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AccessibleNames", "AdviceView", "Axis", "BarTable", "BlockMap", "ClaimsOnTrial", "CopyOnWriteLab",
    "Counts", "FragmentationExplorer", "Line", "LineChart", "MuseumView", "OverheadExplorer", "KernelStepper",
    "LaneView", "Predict", "RanksView", "Row", "Segment", "Trace", "TraceBuilder", "TwoWalls", "Wall",
    "answered", "beside", "card", "contiguous_trace", "course", "key_reads", "named", "own_trace",
    "paged_trace", "source", "verdict_chart", "waste_curve",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
