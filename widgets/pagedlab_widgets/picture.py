"""What all pictures of numbers have: a title, and where the numbers come from."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets as t

WORDS = ("measured", "simulated", "computed", "published", "recorded", "assumed")
"""They say where a number comes from. Every number on a screen carries one of them."""


class Picture(anywidget.AnyWidget):
    """`word` and `device` say where the numbers come from; a `status` ("measuring …") greys them."""

    title = t.Unicode("").tag(sync=True)
    caption = t.Unicode("").tag(sync=True)
    word = t.Enum(WORDS, "computed").tag(sync=True)
    device = t.Unicode("").tag(sync=True)
    status = t.Unicode("").tag(sync=True)


def tell(widget: anywidget.AnyWidget, **traits: Any) -> None:
    """Change these traits of a widget, in one message."""
    with widget.hold_sync():
        for name, value in traits.items():
            widget.set_trait(name, value)
