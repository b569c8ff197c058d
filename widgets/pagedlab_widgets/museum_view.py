"""The bug museum: one fault at a time, the test it passes, the one it fails, and what your own test says."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets

from pagedlab import museum
from pagedlab.museum import Exhibit

from .bar_table import BarTable, Row, Segment
from .controls import button, choice_list, on_change, row


class MuseumView(ipywidgets.VBox):
    """Walk through the exhibits; for each, both tests are run on the faulty kernel as it is shown.

    With `test`, a function that raises for a faulty kernel, a table says which exhibits it kills. `exhibit`
    is the name of the one that is shown first.

    >>> view = MuseumView(exhibit="tail")
    >>> "One token too many" in view.card.value
    True
    """

    def __init__(self, test: Callable[[Any], Any] | None = None, *, exhibit: str | None = None) -> None:
        names = [each.name for each in museum.exhibits()]
        first = museum.get(exhibit).name if exhibit else names[0]
        self.chooser = choice_list("exhibit", names, first, "Exhibit")
        self.before = button("Previous", lambda: self._go(-1), "auto")
        self.after = button("Next", lambda: self._go(1), "auto")
        self.card = ipywidgets.HTML()
        self.table = BarTable("Exhibits that your test kills", {"killed": "killed"}, word="measured", unit="")
        chosen = row(self.before, self.chooser, self.after)
        super().__init__([chosen, self.card, *([self.table] if test is not None else [])])
        on_change(self._show, self.chooser)
        self._show()
        if test is not None:
            self.score(test)

    def score(self, test: Callable[[Any], Any]) -> tuple[int, int]:
        """Try a test on every scored exhibit and every sound kernel: how many it kills, of how many.

        A test that raises for a sound kernel kills nothing: it cannot tell the two apart.
        """
        scored = museum.exhibits(scored=True)
        refused = sum(museum.killed(test, kernel) for kernel in museum.sound())
        killed = [not refused and museum.killed(test, exhibit.faulty) for exhibit in scored]
        rows = [_row(exhibit, dead) for exhibit, dead in zip(scored, killed, strict=True)]
        note = f"It raises for {refused} sound kernels, so nothing counts." if refused else ""
        self.table.show(rows, caption=f"{sum(killed)} of {len(scored)} killed. {note}")
        return sum(killed), len(scored)

    def _go(self, by: int) -> None:
        names = list(self.chooser.options)
        self.chooser.value = names[(names.index(self.chooser.value) + by) % len(names)]

    def _show(self) -> None:
        exhibit = museum.get(self.chooser.value)
        self.card.value = _card(exhibit)


def _row(exhibit: Exhibit, dead: bool) -> Row:
    return Row(exhibit.name, (Segment("killed", float(dead)),), "" if dead else f"lives: {exhibit.title}")


def _card(exhibit: Exhibit) -> str:
    naive, careful = (
        "fails, as it should" if museum.killed(test, exhibit.faulty) else "passes"
        for test in (exhibit.naive, exhibit.careful)
    )
    lines = [
        f"<h4>{escape(exhibit.title)}</h4>",
        f"<p>{escape(exhibit.story)} <i>({escape(exhibit.citation)})</i></p>",
        _lines("-", exhibit.before) + _lines("+", exhibit.after),
        f"<p>The naive test <b>{naive}</b>. The careful test <b>{careful}</b>.</p>",
    ]
    if exhibit.scored:
        smallest = museum.smallest_failing(exhibit.faulty)
        lines.append(f"<p>Smallest failing input found: <code>{escape(str(smallest))}</code></p>")
    else:
        lines.append("<p>A decode kernel's own test cannot reach this one: it does not count in a score.</p>")
    lines.append(f"<details><summary>What a test must do to see it</summary>{escape(exhibit.hint)}</details>")
    return "".join(lines)


def _lines(sign: str, text: str) -> str:
    """What left a line or came into it, each piece with its sign."""
    lines = [f"{sign} {escape(line)}" for line in text.splitlines() or ["(nothing)"]]
    return f'<pre style="overflow: auto">{chr(10).join(lines)}</pre>'
