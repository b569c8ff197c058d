"""All claims of the chapter on one page of a notebook: run, stopped, gone on with, exported."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path

import ipywidgets

from pagedlab import claims, machine, sweeps
from pagedlab.claims import Verdict
from pagedlab.claims.page import SIGNS, page, summary
from pagedlab.claims_command import measure

from .activity import Activity
from .controls import button

KEPT = "verdicts.jsonl"


class ClaimsOnTrial(ipywidgets.VBox):
    """The table of claims with their verdicts, kept in a file so that a run that was stopped goes on.

    *Run all* puts every claim that has no verdict yet to the test, in the background, one after the other,
    since two would time each other; *Cancel* ends after the one at work. `run(only)` does the same for some
    and waits. `export(path)` writes the page that `pagedlab claims --html` writes. Delete `kept` to begin
    anew. Raises `SweepError`, with its line, for a file that holds other things.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trial = ClaimsOnTrial(kept=f"{folder}/verdicts.jsonl")
    ...     trial.run(["short-blocks"])[0].outcome.value
    'holds when'
    """

    def __init__(self, kept: str | Path = KEPT) -> None:
        self.kept = Path(kept)
        self._stopping = threading.Event()
        self._busy = threading.Lock()
        self.table = ipywidgets.HTML()
        self.run_button = button("Run all", self.start, None, icon="play")
        self.activity = Activity(self._stopping.set)
        self._verdicts: dict[str, Verdict] = {}
        self._seconds = 0.0
        super().__init__([ipywidgets.HBox([self.run_button, self.activity]), self.table])
        self._draw()

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts so far, in the order of the chapter."""
        known = (self._verdicts.get(claim.id) for claim in claims.all())
        return [verdict for verdict in known if verdict is not None]

    def run(self, only: str | Sequence[str] = ()) -> list[Verdict]:
        """Put these claims, by id (one, several, or all when none is named), to the test, wait, and return
        their verdicts.

        Raises `KeyError` for an unknown claim, `RuntimeError` while another run goes on.
        """
        only = [only] if isinstance(only, str) else only
        chosen = [claims.get(id).id for id in only] or [claim.id for claim in claims.all()]
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("claims are on trial already; stop that run first")
        self._stopping.clear()
        self.run_button.disabled, start = True, time.monotonic()
        try:
            for number, id in enumerate(chosen):
                if self._stopping.is_set():
                    break
                self.activity.begin(id)
                self.activity.progress(number, len(chosen))
                point = {"claim": id, "quick": True}
                row = sweeps.run(measure, [point], path=self.kept, check=Verdict.from_dict)[0]
                self._verdicts[id] = Verdict.from_dict(row)
                self._draw()
        finally:
            self._seconds += time.monotonic() - start
            self.run_button.disabled = False
            self.activity.end()
            self._busy.release()
        return [self._verdicts[id] for id in chosen if id in self._verdicts]

    def start(self) -> None:
        """`run()` in the background; what goes wrong is told beside the button."""
        threading.Thread(target=self._run_and_tell, daemon=True).start()

    def export(self, path: str | Path = "claims.html") -> Path:
        """Write every verdict so far, with charts, as one page that needs nothing else; returns its path.

        Raises `ValueError` when there is no verdict yet.
        """
        if not self._verdicts:
            raise ValueError("no claim has a verdict yet: run some first")
        note = summary(self.verdicts, machine.describe().device, self._seconds)
        Path(path).write_text(page(self.verdicts, note), encoding="utf-8")
        return Path(path)

    def _run_and_tell(self) -> None:
        try:
            self.run()
        except Exception as error:  # in a thread nobody would see it
            self.activity.end(f"Stopped: {error}")

    def _draw(self) -> None:
        rows = "".join(map(self._row, claims.all()))
        done = f"{len(self._verdicts)} of {len(claims.all())} claims have a verdict. {machine.cpu_device()}."
        head = "<tr><th>claim</th><th>verdict</th><th>when, or why</th></tr>"
        self.table.value = f"<table>{head}{rows}</table><p>{escape(done)}</p>"

    def _row(self, claim: claims.Claim) -> str:
        verdict = self._verdicts.get(claim.id)
        says = f'<td title="{escape(claim.id)}">{escape(claim.says)}</td>'
        if verdict is None:
            return f"<tr>{says}<td>not tried yet</td><td></td></tr>"
        sign = f"{SIGNS[verdict.outcome]} {escape(verdict.outcome.value)}"
        return f"<tr>{says}<td><b>{sign}</b></td><td>{escape(verdict.conditions[0])}</td></tr>"
