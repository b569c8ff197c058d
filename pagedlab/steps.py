"""What the steps of a served run looked like, one row a step, and what they add up to.

In most steps nothing happens but growth: the same requests run, each stores one more token. Such rows
are kept as one (`StepRecorder`), so that a run of millions of steps stays small, and spread out into
arrays when somebody looks (`Steps`).
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

    def mean_wasted_share(self) -> float:
        """Mean over the steps of wasted over held slots: sparse steps count like crowded ones."""
        busy = self.held > 0
        return float(np.mean(1 - self.stored[busy] / self.held[busy])) if busy.any() else 0.0


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
        self._reserves = reserves
        self._rows: list[Row] = []
        self._table: Steps | None = None

    def add(self, row: Row) -> None:
        """One more row."""
        self.count += row.repeats
        self._rows.append(row)
        self._table = None

    def steps(self) -> Steps:
        """All rows so far."""
        if self._table is None:
            rows = np.array(self._rows, dtype=np.int64).reshape(-1, len(Row._fields))
            counts = rows[:, 0]
            columns = np.repeat(rows, counts, axis=0).T.copy()
            _, running, waiting, held, stored, final, external, preempted, computed = columns
            within = np.arange(self.count) - np.repeat(np.cumsum(counts) - counts, counts)
            stored = stored + running * within
            set_aside = final if self._reserves else stored
            self._table = Steps(
                running=running,
                waiting=waiting,
                held=held,
                stored=stored,
                reserved=set_aside - stored,
                internal=held - set_aside,
                external=external,
                preempted=preempted,
                computed=computed,
            )
        return self._table
