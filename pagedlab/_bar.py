"""A progress bar on standard error, for work that takes a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def bar(show: bool, total: int, **looks: Any) -> Iterator[Callable[[int], object]]:
    """What to call with how much more is done; `looks` are tqdm's. Without `show` there is no bar."""
    if not show:
        yield lambda more: None
        return
    from tqdm import tqdm

    with tqdm(total=total, leave=False, **looks) as shown:
        yield shown.update
