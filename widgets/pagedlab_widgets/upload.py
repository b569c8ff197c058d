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

from pagedlab import _format

from .assets import script, style

PIECE_BYTES = 2**20


class Upload(anywidget.AnyWidget):
    """A button that asks for a file and hands it to `take(name, content)`.

    A file of more than `most` bytes is refused before a byte of it is read; `refuse(message)` is told.

    >>> upload = Upload("File", take=lambda name, content: print(name, len(content)), refuse=print, most=20)
    >>> upload.receive({"name": "a.csv", "size": 3}, [])
    >>> upload.receive({"at": 0}, [b"1,2"])
    a.csv 3
    >>> upload.receive({"name": "b.csv", "size": 21}, [])
    b.csv has 21 B; at most 20 B are read.
    """

    _esm = script("upload.js")
    _css = style("theme.css", "upload.css")

    label = t.Unicode("").tag(sync=True)
    accept = t.Unicode("").tag(sync=True)
    piece = t.Int(PIECE_BYTES).tag(sync=True)

    def __init__(
        self,
        label: str,
        *,
        take: Callable[[str, bytes], object],
        refuse: Callable[[str], object],
        accept: str = "",
        most: int = 256 * 2**20,
    ) -> None:
        super().__init__(label=label, accept=accept)
        self._take, self._refuse, self._most = take, refuse, most
        self._name, self._size, self._content = "", 0, bytearray()
        self.on_msg(lambda _, content, buffers: self.receive(content, buffers))

    def receive(self, content: dict[str, Any], buffers: list[Any]) -> None:
        """A message of the page: the name and size of a file, or the piece of it that was asked for."""
        if "name" in content:
            self._name, self._size, self._content = str(content["name"]), int(content["size"]), bytearray()
            if self._size > self._most:
                read = _format.size(self._most)
                self._refuse(f"{self._name} has {_format.size(self._size)}; at most {read} are read.")
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
