"""What commands share of their arguments: parser, the error of a wrong one, a look at a file to write."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """argparse, but a mistake costs one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class UsageError(ValueError):
    """What was asked for makes no sense, or not on this machine; the message has the rule."""


def writable(flag: str, path: str | Path | None) -> None:
    """Look before minutes of work whether `path` can be written at their end; raises `UsageError`.

    >>> writable("--html", "no such folder/page.html")
    Traceback (most recent call last):
    pagedlab.arguments.UsageError: --html no such folder/page.html: there is no folder ...
    """
    if path is None:
        return
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise UsageError(f"{flag} {path}: there is no folder {folder}")
    if Path(path).is_dir():
        raise UsageError(f"{flag} {path}: that is a folder, a file is needed")
    if not os.access(path if Path(path).exists() else folder, os.W_OK):
        raise UsageError(f"{flag} {path}: cannot be written")
