"""Several ranks at work: one table, the shards, the messages, and what a fault does to them."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import anywidget
import ipywidgets
import traitlets as t

from pagedlab import _format
from pagedlab.machine import cpu_device
from pagedlab.parallel import FAULTS, METHODS, Fault, Plan, Ranks, RanksRun
from pagedlab.parallel.cost import run_cost
from pagedlab.parallel.plan import FAULTS_OF_DELIVERY

from .assets import script, style
from .controls import button, choice_list, row
from .names import named
from .picture import tell

NONE = "none"
_TELL_S = 0.25  # seconds between two updates of the page while a run goes on
_MOST_FRAMES = 400  # of the newest steps: about a megabyte in each update


class RanksPicture(anywidget.AnyWidget):
    """A run of several ranks, step by step: what each holds and was told; it plays in the browser.

    `frames` are the newest steps so far, `shards` the heads of each rank, `culprit` and `status` how it
    ended, or what goes on while it is `busy`.
    """

    _esm = script("ranks_view.js")
    _css = style("theme.css", "timeline.css", "block_map.css", "ranks_view.css")

    frames = t.List(t.Dict()).tag(sync=True)
    shards = t.List(t.Dict()).tag(sync=True)
    heads = t.Int(1).tag(sync=True)
    busy = t.Bool(False).tag(sync=True)
    status = t.Unicode("").tag(sync=True)
    summary = t.Unicode("").tag(sync=True)
    culprit = t.Int(-1).tag(sync=True)
    frame = t.Int(0).tag(sync=True)


class RanksView(ipywidgets.VBox):
    """Real processes, one block table: choose how they keep it, and break one.

    `plan` says what runs (`pagedlab.parallel.Plan`); the controls change its ranks, KV heads, method, fault
    and whether checks are on. *Run* starts the processes in the background and *Stop* ends them; `run()`
    does the same and waits, and Ctrl-C (or an interrupted cell) ends every rank. `outcome` is the last run's.

    >>> view = RanksView(Plan(ranks=2, steps=10))
    >>> view.outcome is None
    True
    """

    def __init__(self, plan: Plan | None = None) -> None:
        self._plan = replace(plan or Plan(ranks=3, steps=40, kv_heads=4), show_tables=True)
        self.outcome: RanksRun | None = None
        self.picture = RanksPicture(heads=self._plan.kv_heads)
        self._ranks: Ranks | None = None
        self._busy = threading.Lock()
        fault = self._plan.fault
        self._choose_ranks = choice_list(
            "ranks", _with(self._plan.ranks, 1, 2, 3, 4), self._plan.ranks, "Ranks"
        )
        heads = _with(self._plan.kv_heads, 1, 2, 4, 8)
        self._choose_heads = choice_list("kv_heads", heads, self._plan.kv_heads, "KV heads")
        self._choose_method = choice_list("method", METHODS, self._plan.method, "Kept in step by")
        self._choose_fault = choice_list("fault", (NONE, *FAULTS), fault.kind if fault else NONE, "Fault")
        checks = ipywidgets.Checkbox(value=self._plan.detect, description="Checks on", indent=False)
        self._checks = named(checks, "Number and digest of every update are checked")
        self.start_button = button("Run", self.start, None, icon="play")
        self.stop_button = button("Stop", self.stop, None, icon="stop", disabled=True)
        controls = (self._choose_ranks, self._choose_heads, self._choose_method, self._choose_fault)
        buttons = ipywidgets.HBox([self.start_button, self.stop_button])
        super().__init__([row(*controls, self._checks), buttons, self.picture])

    @property
    def plan(self) -> Plan:
        """The plan that the controls say; raises `ValueError` for one that cannot run."""
        kind, ranks = self._choose_fault.value, self._choose_ranks.value
        fault = None if kind == NONE else Fault(kind, _whose(kind, ranks), self._plan.steps // 3)
        return replace(
            self._plan,
            ranks=ranks,
            kv_heads=self._choose_heads.value,
            method=self._choose_method.value,
            detect=self._checks.value,
            fault=fault,
        )

    def start(self) -> None:
        """Run in the background; a second call while a run goes on does nothing."""
        if not self._busy.acquire(blocking=False):
            return
        try:
            self._ranks = Ranks(self.plan)
        except ValueError as error:
            self.picture.status = f"Cannot run: {error}."
            self._busy.release()
        else:
            threading.Thread(target=self._go, args=(False,), daemon=True).start()

    def run(self) -> RanksRun:
        """Run and wait; raises `ValueError` for a plan that cannot run, `RuntimeError` while another runs."""
        plan = self.plan
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("a run is going on already; stop it first")
        self._ranks = Ranks(plan)
        self._go(in_cell=True)
        assert self.outcome is not None
        return self.outcome

    def stop(self) -> None:
        """End every rank of the run that goes on or begins, and wait until they are gone."""
        ranks = self._ranks
        if ranks is not None:
            ranks.close()

    def _go(self, in_cell: bool) -> None:
        """All of a run, from its first word in the view to its last, whatever ends it.

        While a cell runs it, the kernel hears no button: *Stop* is not offered.
        """
        ranks = self._ranks
        assert ranks is not None
        plan = ranks.outcome.plan
        try:
            self.start_button.disabled, self.stop_button.disabled = True, in_cell
            nothing: dict[str, Any] = {"frames": [], "shards": [], "culprit": -1, "frame": 0, "summary": ""}
            status = f"starting {_processes(plan.ranks)} ..."
            tell(self.picture, busy=True, heads=plan.kv_heads, status=status, **nothing)
            at_work = f"{_processes(plan.ranks)} at work"
            at_work += "; interrupt the cell to end them" if in_cell else ""
            with ranks:
                told = time.monotonic()
                for _ in ranks.listen():
                    if time.monotonic() - told > _TELL_S:
                        self._draw(ranks.outcome, at_work)
                        told = time.monotonic()
            self.outcome = ranks.outcome
            self._draw(ranks.outcome, _how_it_ended(ranks.outcome))
        except BaseException as error:
            what = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
            self._draw(ranks.outcome, f"Ended early: {what}. Every rank has ended.")
            raise
        finally:
            self._ranks, self.picture.busy = None, False
            self.start_button.disabled, self.stop_button.disabled = False, True
            self._busy.release()

    def _draw(self, outcome: RanksRun, status: str) -> None:
        ending = outcome.ending
        with self.picture.hold_sync():
            self.picture.shards = sorted(outcome.shards, key=lambda said: said["rank"])
            self.picture.frames = _frames(outcome)
            self.picture.status = status
            if ending is not None and ending.culprit is not None:
                self.picture.culprit = ending.culprit
                self.picture.frame = max(0, len(self.picture.frames) - 1)
            elif ending is not None:
                self.picture.summary = _summary(outcome) if ending.complete else ""
                self.picture.frame = _where_tables_part(self.picture.frames)


def _with(chosen: int, *usual: int) -> tuple[int, ...]:
    """The usual choices, and the one that a plan makes."""
    return tuple(sorted({chosen, *usual}))


def _whose(kind: str, ranks: int) -> int:
    """The rank that a fault is planted in: the last; rank 0 gets no messages."""
    return ranks - 1 if ranks > 1 or kind not in FAULTS_OF_DELIVERY else 1


def _processes(ranks: int) -> str:
    return "1 process" if ranks == 1 else f"{ranks} processes"


def _frames(outcome: RanksRun) -> list[dict[str, Any]]:
    """One entry for each of the newest steps: what went out, what came of it, each rank's tables."""
    frames: dict[int, dict[str, Any]] = {}
    newest = max((record["step"] for record in outcome.records), default=0)
    for record in outcome.records:
        if record["step"] <= newest - _MOST_FRAMES:
            continue
        frame = frames.setdefault(
            record["step"], {"step": record["step"], "bytes": 0, "error": None, "ranks": {}}
        )
        frame["bytes"] = max(frame["bytes"], record["message_bytes"])
        frame["error"] = record.get("error", frame["error"])
        frame["ranks"][str(record["rank"])] = {
            "tables": record.get("tables", {}),
            "tokens": record.get("tokens", {}),
            "digest": record["digest"][:6],
            "waited_us": round(1e6 * record["waited_s"]),
        }
    return [frames[step] for step in sorted(frames)]


def _where_tables_part(frames: list[dict[str, Any]]) -> int:
    """The first step after which the ranks hold different tables; the first of all when there is none."""
    digests = ({rank["digest"] for rank in frame["ranks"].values()} for frame in frames)
    return next((number for number, found in enumerate(digests) if len(found) > 1), 0)


def _how_it_ended(outcome: RanksRun) -> str:
    ending, plan = outcome.ending, outcome.plan
    assert ending is not None
    if ending.culprit is not None:
        found = f"rank {ending.culprit}, step {ending.last_step}: {ending.why}"
        return f"Ended by a fault. {found}. Every rank had ended {ending.took_s:.1f} s after it was found."
    if not ending.complete:
        return f"Ended early: {ending.why}."
    same = outcome.steps_in_step
    wrong = plan.steps - same
    if not wrong:
        return f"All {plan.steps} steps: the same tables on every rank after each."
    return f"All {plan.steps} steps, nothing reported, and different tables after {wrong} of them."


def _summary(outcome: RanksRun) -> str:
    """The times of a run, in a line that says where they come from."""
    cost = run_cost(outcome)
    return (
        f"median step (measured, {cpu_device()}): host {_format.seconds(cost.host_s)}, sending and waiting "
        f"{_format.seconds(cost.waited_s)}, attention {_format.seconds(cost.attention_s)}; "
        f"{cost.message_bytes:,.0f} bytes a message (mean). Processes on one machine: nothing of a network."
    )
