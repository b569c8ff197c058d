"""A question that wants a number before the answer is shown."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import anywidget
import traitlets as t

from pagedlab.progress import FILE, Progress, ProgressError

from .assets import script, style


class Predict(anywidget.AnyWidget):
    """Asks for a number between `minimum` and `maximum`, and keeps the reader's guess beside the lesson.

    `guess` is None until the reader commits to one. It is kept in `path` (default: progress.json in the
    working folder) under `key`, so it is there again when the cell, or the lesson, is run again; `clear()`,
    or the reader, takes it back. A file that cannot be read or written gets a message in the widget and is
    left as it is; the guess then lives as long as the widget.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> question = Predict("waste", "How much of the pool is wasted?", path=f"{folder.name}/progress.json")
    >>> question.guess = 40
    >>> Predict("waste", "How much of the pool is wasted?", path=f"{folder.name}/progress.json").guess
    40.0
    """

    _esm = script("predict.js")
    _css = style("theme.css", "predict.css")

    key = t.Unicode().tag(sync=True)
    question = t.Unicode("").tag(sync=True)
    unit = t.Unicode("").tag(sync=True)
    minimum = t.Float(0.0).tag(sync=True)
    maximum = t.Float(100.0).tag(sync=True)
    guess = t.Float(None, allow_none=True).tag(sync=True)
    message = t.Unicode("").tag(sync=True)

    def __init__(
        self,
        key: str,
        question: str,
        unit: str = "%",
        minimum: float = 0,
        maximum: float = 100,
        *,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        if not key:
            raise ValueError("key must not be empty: the guess is kept under it")
        if not (math.isfinite(minimum) and math.isfinite(maximum) and minimum < maximum):
            raise ValueError(
                f"minimum ({minimum}) and maximum ({maximum}) must be finite, and the minimum the smaller"
            )
        self._progress = Progress(Path.cwd() / FILE if path is None else path)
        super().__init__(key=key, question=question, unit=unit, minimum=minimum, maximum=maximum)
        self._recall()
        self.observe(self._keep, "guess")

    def clear(self) -> None:
        """Take the guess back, here and in the file."""
        self.guess = None

    def _recall(self) -> None:
        try:
            kept = self._progress.get("predictions", self.key)
        except ProgressError as error:
            self.message = f"Earlier guesses cannot be shown: {error}."
            return
        if kept is None:
            return
        if self._fits(kept):
            self.guess = kept
        else:
            rule = f"no number between {self.minimum:g} and {self.maximum:g}"
            self.message = f"The guess kept in {self._progress.path} does not count: {kept!r} is {rule}."

    def _keep(self, change: dict[str, Any]) -> None:
        try:
            if change["new"] is None:
                self._progress.clear("predictions", self.key)
            else:
                self._progress.set("predictions", self.key, change["new"])
            self.message = ""
        except ProgressError as error:
            self.message = f"Your guess counts, but only as long as this notebook runs: {error}."

    @t.validate("guess")
    def _in_range(self, proposal: dict[str, Any]) -> float | None:
        value: float | None = proposal["value"]
        if value is not None and not self._fits(value):
            raise t.TraitError(f"guess must lie between {self.minimum:g} and {self.maximum:g}, not {value}")
        return value

    def _fits(self, value: object) -> bool:
        return (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and self.minimum <= value <= self.maximum
        )
