"""A file from the reader's machine, of any size that is sensible.

The upload of ipywidgets sends a file as one message. A Jupyter server drops a message of 10 MiB and more
together with the connection, without a word, and the button never works again. Here a file travels in pieces,
each sent once the kernel has the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets as t

from .assets import script, style

PIECE_BYTES = 2**20


class Upload(anywidget.AnyWidget):
    """A button that asks for a file and hands it to `take(name, content)`.

    Of a file of more than `most` bytes the page says, as soon as it is chosen, that it is too large.

    >>> upload = Upload("File", take=lambda name, content: print(name, len(content)), most=20)
    >>> upload.receive({"name": "a.csv", "size": 3}, [])
    >>> upload.receive({"at": 0}, [b"1,2"])
    a.csv 3
    """

    _esm = script("upload.js")
    _css = style("theme.css", "upload.css")

    label = t.Unicode("").tag(sync=True)
    accept = t.Unicode("").tag(sync=True)
    piece = t.Int(PIECE_BYTES).tag(sync=True)
    most = t.Int().tag(sync=True)

    def __init__(
        self,
        label: str,
        *,
        take: Callable[[str, bytes], object],
        accept: str = "",
        most: int = 128 * 2**20,
    ) -> None:
        super().__init__(label=label, accept=accept, most=most)
        self._take = take
        self._name, self._size, self._content = "", 0, bytearray()
        self.on_msg(lambda _, content, buffers: self.receive(content, buffers))

    def receive(self, content: dict[str, Any], buffers: list[Any]) -> None:
        """A message of the page: the name and size of a file, or the piece of it that was asked for."""
        if "name" in content:
            self._name, self._size, self._content = str(content["name"]), int(content["size"]), bytearray()
            if self._size > self.most:  # the page has said so
                self.send({"want": None})
                return
        elif content.get("at") == len(self._content):  # else of a file that was given up
            self._content += buffers[0]
        if len(self._content) < self._size:
            self.send({"want": len(self._content)})
            return
        try:
            self._take(self._name, bytes(self._content))
        finally:
            self._content = bytearray()
            self.send({"want": None})
