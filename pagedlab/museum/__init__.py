"""The bug museum: faults that were made in paged attention, hung where they can be looked at.

>>> from pagedlab import museum
>>> exhibit = museum.get("tail")
>>> print(exhibit)
One token too many (vllm pull request 936, review). A fix ...
  - slot < length
  + slot <= length
>>> museum.killed(museum.naive, exhibit.faulty), museum.killed(museum.careful, exhibit.faulty)
(False, True)
>>> print(museum.smallest_failing(exhibit.faulty))
Batch(lengths=[1])

kernels    the sound ones, in plain torch: no Triton, no GPU
batches    inputs by a few numbers, with poison where nobody may look
faults     the exhibits, each one line of a sound function; a naive and a careful test
others     functions and tests for what a decode kernel's test cannot reach
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pagedlab.exercises.shrink import shrink
from pagedlab.museum.batches import Batch
from pagedlab.museum.faults import CAREFUL, EXHIBITS, Exhibit, Test, careful, naive
from pagedlab.museum.kernels import gathered_decode, paged_decode, split_decode

__all__ = ["Batch", "Exhibit", "careful", "exhibits", "get", "killed", "naive", "smallest_failing", "sound"]


def exhibits(*, scored: bool | None = None) -> tuple[Exhibit, ...]:
    """All exhibits, or those that do, or do not, count in a test's score."""
    return tuple(exhibit for exhibit in EXHIBITS if scored is None or exhibit.scored == scored)


def sound() -> tuple[Callable[..., Any], ...]:
    """Kernels that a test must let through: three unlike ways to the right answer."""
    return paged_decode, split_decode, gathered_decode


def get(name: str) -> Exhibit:
    """The exhibit of that name; raises `KeyError` with the names that exist."""
    for exhibit in EXHIBITS:
        if exhibit.name == name:
            return exhibit
    raise KeyError(f"no exhibit {name!r}; there are {', '.join(exhibit.name for exhibit in EXHIBITS)}")


def killed(test: Test, function: Callable[..., Any]) -> bool:
    """Whether the test raises for this function."""
    try:
        test(function)
    except KeyboardInterrupt:
        raise
    except BaseException:  # what `pytest.fail` and `pytest.raises` raise is no Exception
        return True
    return False


def smallest_failing(kernel: Callable[..., Any]) -> Batch | None:
    """The smallest batch found on which a decode kernel goes wrong; None when it passes the careful test."""

    def failing(candidates: Sequence[tuple[Any, ...]]) -> tuple[tuple[Any, ...], Batch] | None:
        batches = [Batch(**description) for (description,) in candidates]
        return next((((b.description,), b) for b in batches if killed(b.check, kernel)), None)

    for batch in CAREFUL:
        if killed(batch.check, kernel):
            found = shrink(
                (batch.description,), lambda given: "lengths" in given and Batch(**given).possible, failing
            )
            return found[1] if found else batch
    return None
