"""The kernel stepper: one query group of the real kernel, line by line, paged and contiguous side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anywidget
import traitlets as t

from pagedlab import kernel_cases
from pagedlab.kernel_cases import STEPPED, KernelCase

from . import stops
from .assets import script, style
from .picture import tell

if TYPE_CHECKING:
    from pagedlab_kernels import Trace

MOST_TOKENS, MOST_BLOCKS = 512, 256


class KernelStepper(anywidget.AnyWidget):
    """Step through what the kernel does for one KV head: look-ups, loads, scores, online softmax, merge.

    All that is shown comes from `address_trace`: addresses that the kernel asked for, and the values of its
    own variables. The reader may tell it another block table (`table`) or edit its text (`source`); it is
    then run again, in the background, and both sides follow. Playing and stepping need no kernel.

    `case` is a `KernelCase`; its twin stands beside it unless `twin` is False. Without Triton the cases in
    `kernel_cases.CASES` are shown as recorded. `step` is the frame shown; widgets of one `timeline` move
    together. `trouble` says what went wrong when an edited kernel was run, "" when nothing did.

    Raises ValueError for a case too large to look at, ModuleNotFoundError for one that can be neither traced
    nor is recorded.

    >>> stepper = KernelStepper(kernel_cases.CASES["paged"])
    >>> stepper.frames > 40
    True
    """

    _esm = script("kernel_stepper.js")
    _css = style("theme.css", "timeline.css", "lanes.css", "kernel_stepper.css")

    WAIT = 0.1
    """Seconds without another change before the kernel runs: one message may change table and text."""

    sides = t.List(t.Dict()).tag(sync=True)
    beside = t.List(t.List(t.Int())).tag(sync=True)
    step = t.Int(0).tag(sync=True)
    timeline = t.Unicode().tag(sync=True)
    table = t.List(t.Int()).tag(sync=True)
    source = t.Unicode().tag(sync=True)
    original = t.Dict().tag(sync=True)
    live = t.Bool().tag(sync=True)
    status = t.Unicode("").tag(sync=True)
    trouble = t.Unicode("").tag(sync=True)

    def __init__(self, case: KernelCase = STEPPED, *, twin: bool = True, **traits: Any) -> None:
        from pagedlab_kernels import kernel_source

        if case.length > MOST_TOKENS or len(case.table) > MOST_BLOCKS:
            size = f"{case.length} tokens in {len(case.table)} blocks"
            raise ValueError(
                f"case must have at most {MOST_TOKENS} tokens and {MOST_BLOCKS} blocks, got {size}"
            )
        self.cases = (case, replace(case, block_size=None)) if twin and case.block_size else (case,)
        self._wish, self._turn = 0, threading.Lock()
        self._thread = threading.Thread()
        self._thread.start()  # none runs yet, so there is nothing to wait for
        self.traces: tuple[Trace, ...] = ()
        table, source, step = list(case.table), kernel_source(), traits.pop("step", 0)
        super().__init__(
            table=table, source=source, original={"table": table, "source": source},
            live=kernel_cases.live(), **{"timeline": uuid4().hex} | traits,
        )  # fmt: skip
        self._run(self._wish)
        self.step = step
        self.observe(self._again, ["table", "source"])

    @property
    def frames(self) -> int:
        """How many steps there are."""
        return len(self.beside)

    def wait(self) -> None:
        """Return once the kernel has run as it is now edited."""
        self._thread.join()

    def _again(self, change: dict[str, Any]) -> None:
        """Run what the reader edited; an edit meanwhile makes this run worthless."""
        with self._turn:
            self._wish += 1
        self.status = "running the kernel ..."
        self._thread = threading.Thread(target=self._later, args=(self._wish,), daemon=True)
        self._thread.start()

    def _later(self, wish: int) -> None:
        time.sleep(self.WAIT)
        if wish == self._wish:
            self._run(wish)

    def _run(self, wish: int) -> None:
        table, source = tuple(self.table), self.source
        edited = source if source != self.original.get("source") else None
        try:
            with ThreadPoolExecutor(len(self.cases)) as pool:
                jobs = [pool.submit(self._trace, case, table, edited) for case in self.cases]
                traces = tuple(job.result() for job in jobs)
        except Exception as error:
            if not self.traces:
                raise
            with self._turn:
                if wish == self._wish:
                    self.status, self.trouble = "", f"{error}"
            return
        with self._turn:
            if wish == self._wish:
                self._show(traces, table)

    def _trace(self, case: KernelCase, table: Sequence[int], source: str | None) -> Trace:
        told = table if case.block_size and tuple(table) != case.table else None
        return kernel_cases.trace(case, table=told, source=source)

    def _show(self, traces: tuple[Trace, ...], table: tuple[int, ...]) -> None:
        self.traces = traces
        sides = [
            stops.side(trace, case, table if case.block_size else ())
            for trace, case in zip(traces, self.cases, strict=True)
        ]
        trouble = "\n".join(text for each in sides for text in each["trouble"][:3])
        tell(self, sides=sides, beside=stops.beside(sides), trouble=trouble, status="", step=self.step)

    @t.validate("step")
    def _clamp(self, proposal: dict[str, Any]) -> int:
        return max(0, min(int(proposal["value"]), self.frames - 1))

    @t.validate("table")
    def _fits(self, proposal: dict[str, Any]) -> list[int]:
        table: list[int] = proposal["value"]
        needed = len(self.original.get("table", table))
        if len(table) != needed:
            raise t.TraitError(f"table must have {needed} entries, got {len(table)}")
        if any(not -(2**31) <= entry < 2**31 for entry in table):
            raise t.TraitError("table must hold int32 numbers")
        return table

    def __repr__(self) -> str:
        labels = " | ".join(each["label"] for each in self.sides)
        return f"KernelStepper({labels}; step {self.step} of {self.frames})"
