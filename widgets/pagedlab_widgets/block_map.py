"""The block map: every block of one or several runs, on one timeline, drawn and played in the browser."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import anywidget
import traitlets as t

from .assets import script, style
from .picture import WORDS, tell
from .trace import Trace


class BlockMap(anywidget.AnyWidget):
    """The blocks of one or several runs side by side, moved by one control bar.

    A block has the colour of the sequence that holds it and is filled as far as it stores tokens: what is
    pale is held and empty, what is grey is free, what is hatched is free and still cached, a corner marks a
    block that several sequences share. The whole of every trace is in the browser, so play, step, scrub,
    jump to an event, zoom, follow and hover work without the kernel, and in a saved page.

    `frame` is the frame shown (the blocks *after* its events). It follows the reader when they pause, step
    or scrub, at most five times a second; while it plays it moves in the page alone, so `ipywidgets.jslink`
    can tie it to something else there. Setting it moves every view. A shorter run holds its last frame
    while a longer one goes on. Maps with the same `timeline` move together, and so does any widget of this
    package that takes one.

    `follow` is the name of a sequence whose block table is shown beside the map ("": none); `speed` is in
    frames a second (0: the whole run in about 20 s), `loop` begins anew at the end, `columns` are the blocks
    in a row (0: what fits), `word` says where the numbers come from.

    >>> from pagedlab_widgets import TraceBuilder
    >>> builder = TraceBuilder("paged, blocks of 16", num_blocks=4, block_size=16)
    >>> builder.write(0, builder.owner("request 7"), fill=9, refs=1); builder.end_frame()
    >>> BlockMap(builder.build())
    BlockMap(paged, blocks of 16; frame 0 of 1)
    """

    _esm = script("block_map.js")
    _css = style("theme.css", "timeline.css", "block_map.css")

    panels = t.List(t.Dict()).tag(sync=True)
    frame = t.Int(0).tag(sync=True)
    speed = t.Float(0.0, min=0.0).tag(sync=True)
    loop = t.Bool(False).tag(sync=True)
    follow = t.Unicode("").tag(sync=True)
    timeline = t.Unicode().tag(sync=True)
    columns = t.Int(0, min=0).tag(sync=True)
    word = t.Enum(WORDS, "simulated").tag(sync=True)

    def __init__(self, *traces: Trace, **traits: Any) -> None:
        self.traces = _checked(traces)
        super().__init__(panels=[_panel(trace) for trace in traces], **{"timeline": uuid4().hex} | traits)

    @property
    def frames(self) -> int:
        """Frames on the timeline: those of the longest run."""
        return max((trace.frames for trace in self.traces), default=0)

    def show(self, *traces: Trace) -> None:
        """Show these runs instead, in one message; the frame stays if the new runs are long enough."""
        self.traces = _checked(traces)
        tell(self, panels=[_panel(trace) for trace in traces], frame=self.frame)  # clamped anew

    @t.validate("frame")
    def _clamp_frame(self, proposal: dict[str, Any]) -> int:
        """Clamped like a slider's value: a browser may still report a frame of the run before."""
        return max(0, min(int(proposal["value"]), self.frames - 1))

    def __repr__(self) -> str:
        labels = " | ".join(trace.label for trace in self.traces)
        return f"BlockMap({labels or 'no run'}; frame {self.frame} of {self.frames})"


def _checked(traces: tuple[Trace, ...]) -> tuple[Trace, ...]:
    for trace in traces:
        if not isinstance(trace, Trace):
            raise TypeError(f"a block map shows Trace objects, not {type(trace).__name__}")
    return traces


def _panel(trace: Trace) -> dict[str, Any]:
    """A trace as the browser reads it; ipywidgets sends the bytes beside the JSON, as they are."""
    shown = ("label", "num_blocks", "block_size", "frames", "events")
    return {name: getattr(trace, name) for name in shown} | {"names": list(trace.names)}
