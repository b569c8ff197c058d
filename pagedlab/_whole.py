"""Files written whole or not at all: a reader, or a crash, never meets half of one."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def write(target: Path, content: bytes) -> None:
    """Write beside the file, then take its place. Raises OSError, and the file is as it was."""
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        draft.write_bytes(content)
        os.replace(draft, target)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
