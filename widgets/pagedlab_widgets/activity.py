"""What goes on in the background: in words, how far it is, and a button that ends it."""

from __future__ import annotations

from collections.abc import Callable

import anywidget
import traitlets as t

from .assets import script, style
from .picture import tell


class Activity(anywidget.AnyWidget):
    """One line about work under way, with a bar and a Cancel button; empty while there is none.

    `text` says what is being done ("" for nothing), `done` of `of` how far it is (`of` 0: nobody knows yet),
    `message` how the last work ended, where that needs saying. A page whose kernel has gone says so instead.

    >>> activity = Activity()
    >>> activity.begin("measuring"); activity.progress(3, 15); activity.end("cancelled")
    >>> activity.text, activity.message
    ('', 'cancelled')
    """

    _esm = script("activity.js")
    _css = style("theme.css", "activity.css")

    text = t.Unicode("").tag(sync=True)
    message = t.Unicode("").tag(sync=True)
    done = t.Int(0).tag(sync=True)
    of = t.Int(0).tag(sync=True)

    def __init__(self, on_cancel: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._on_cancel = on_cancel
        self.on_msg(self._receive)

    def begin(self, text: str) -> None:
        """Work began."""
        tell(self, text=text, message="", done=0, of=0)

    def progress(self, done: int, of: int) -> None:
        """`done` of `of` parts of the work are finished."""
        tell(self, done=done, of=of)

    def end(self, message: str = "") -> None:
        """Nothing goes on any more."""
        tell(self, text="", message=message)

    def _receive(self, _: object, content: object, buffers: object) -> None:
        if content == "cancel":
            self._on_cancel()
