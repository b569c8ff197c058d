"""Names for ipywidgets controls, which have none of their own where it matters.

The handle of an ipywidgets slider is an element with the role of a slider and no name: a screen reader says
"slider, 3". And while the notebook is in command mode, JupyterLab takes the arrow keys that should move it.
`named` mends both.
"""

from __future__ import annotations

from typing import Any, TypeVar

import anywidget
import ipywidgets
import traitlets as t

from .assets import script

W = TypeVar("W", bound=ipywidgets.DOMWidget)


class AccessibleNames(anywidget.AnyWidget):
    """Gives names to the controls in a page. It shows nothing and need not be displayed; `named` makes one
    a kernel.

    `names` maps a CSS class to the name of the control that has it.
    """

    _esm = script("names.js")

    names = t.Dict().tag(sync=True)


_shared: AccessibleNames | None = None


def named(widget: W, name: str) -> W:
    """The same widget, its control called `name` by assistive technology, its keys its own.

    Sliders (their value read as shown), ranges (two handles: "name, from" and "name, to"), drop-downs, text
    and number fields, check boxes, radio and toggle buttons. Calling it again renames. Raises TypeError for
    what is no widget, ValueError for an empty name.

    >>> slider = named(ipywidgets.IntSlider(value=16, min=1, max=256), "Block size")
    >>> slider.value
    16
    """
    if not isinstance(widget, ipywidgets.DOMWidget):
        raise TypeError(f"only a widget that can be displayed has a name, not {type(widget).__name__}")
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"a name is text that says what the control sets, not {name!r}")
    names = _names()
    mark = f"pl-named-{widget.model_id}"
    widget.add_class(mark)
    names.names = {**names.names, mark: name.strip()}

    def forget(change: dict[str, Any]) -> None:
        if change["new"] is None:
            names.names = {key: value for key, value in names.names.items() if key != mark}

    widget.observe(forget, "comm")
    return widget


def _names() -> AccessibleNames:
    """The one of this kernel: made anew if somebody closed it."""
    global _shared
    if _shared is None or _shared.comm is None:
        _shared = AccessibleNames()
    return _shared
