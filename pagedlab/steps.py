"""What the steps of a served run looked like, one row a step, and what they add up to.

In most steps nothing happens but growth: the same requests run, each stores one more token. Such rows
are kept as one (`StepRecorder`), in the narrowest integers that hold them, so that a run of millions of steps
stays small, and spread out into arrays when somebody looks (`Steps`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True, eq=False)
class Steps:
    """Each step once it had grown and admitted: int64 arrays, one entry a step.

    running, waiting        requests
    held, stored            slots held, and slots with a token in them
    reserved, internal      held slots without one: for tokens still to come, and for none
    external                free slots in holes too small for the next request in line
    preempted               requests that lost their memory in this step
    computed                tokens that went through the model: prompts, recomputed ones, one a decode
    """

    running: np.ndarray
    waiting: np.ndarray
    held: np.ndarray
    stored: np.ndarray
    reserved: np.ndarray
    internal: np.ndarray
    external: np.ndarray
    preempted: np.ndarray
    computed: np.ndarray

    def __len__(self) -> int:
        return len(self.running)

    def mean(self, column: str) -> float:
        """Mean of a column over the steps, 0 when there were none."""
        values = getattr(self, column)
        return float(values.mean()) if len(values) else 0.0

    def wasted_share(self, weights: np.ndarray | None = None) -> float:
        """Wasted over held slots, all steps added up (0 to 1), each counted `weights` times.

        With one token a step and whole prompts this is a matter of the lengths alone, whatever the
        pool did: `pagedlab.waste` has it in closed form.
        """
        if not self.held.any():
            return 0.0
        if weights is None:
            return 1 - int(self.stored.sum()) / int(self.held.sum())
        weights = weights / weights.sum()  # small numbers: products of nanoseconds and slots can pass 64 bits
        return 1 - float((self.stored * weights).sum()) / float((self.held * weights).sum())


_PACKED_AT_ONCE = 1 << 14


class Row(NamedTuple):
    """`repeats` steps that differ only in `stored`, which grows by `running` from one to the next.

    `final` is what the running will have stored in the end; the rest as in `Steps`.
    """

    repeats: int
    running: int
    waiting: int
    held: int
    stored: int
    final: int
    external: int
    preempted: int
    computed: int


class StepRecorder:
    """Takes rows as a run makes them; `steps()` is the table of them.

    With `reserves`, memory is set aside for all that the running will store in the end; without it, for
    what they store now.

    >>> recorder = StepRecorder(reserves=True)
    >>> recorder.add(Row(3, 2, 0, held=40, stored=10, final=30, external=0, preempted=0, computed=2))
    >>> steps = recorder.steps()
    >>> steps.stored.tolist(), steps.reserved.tolist(), steps.internal.tolist()
    ([10, 12, 14], [20, 18, 16], [10, 10, 10])
    """

    def __init__(self, *, reserves: bool) -> None:
        self.count = 0
        """Steps recorded."""
        self.computed = 0
        """Tokens computed in all of them."""
        self._reserves = reserves
        self._rows: list[Row] = []
        self._packed: list[list[np.ndarray]] = []  # the columns of earlier rows
        self._table: Steps | None = None

    def add(self, row: Row) -> None:
        """One more row."""
        self.count += row.repeats
        self.computed += row.repeats * row.computed
        self._rows.append(row)
        self._table = None
        if len(self._rows) == _PACKED_AT_ONCE:
            self._pack()

    def steps(self) -> Steps:
        """All rows so far."""
        if self._table is None:
            self._pack()
            counts = self._column("repeats").astype(np.intp)  # 32 bits wide in a browser
            columns = {name: np.repeat(self._column(name), counts) for name in Row._fields[1:]}
            within = np.arange(self.count) - np.repeat(np.cumsum(counts) - counts, counts)
            stored = columns["stored"] = columns["stored"] + columns["running"] * within
            final = columns.pop("final")
            set_aside = final if self._reserves else stored
            internal = columns["held"] - set_aside
            self._table = Steps(**columns, reserved=set_aside - stored, internal=internal)
        return self._table

    def _pack(self) -> None:
        if self._rows:
            columns = np.array(self._rows, dtype=np.int64).T
            self._packed.append([column.astype(np.min_scalar_type(column.max())) for column in columns])
            self._rows = []

    def _column(self, name: str) -> np.ndarray:
        at = Row._fields.index(name)
        parts = [np.zeros(0, dtype=np.int64), *(columns[at] for columns in self._packed)]
        return np.concatenate(parts, dtype=np.int64)
