"""What was read from a file of requests: the table, what was left out of it, and the rows as they come.

Rows are taken one by one, 8 bytes a number, so that a file of millions costs tens of megabytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from pagedlab.arguments import UsageError

MAX_TOKENS = 10_000_000
"""The longest prompt or output that is believed; a longer one is an error in the file."""
MAX_REQUESTS, MAX_HASHES = 5_000_000, 28_000_000
"""What is read of a file, so that any takes less than 1 GB: the prefix hashes of a million long prompts."""
TOKENS_PER_HASH = 512
"""Tokens of a prompt that one of Mooncake's hash ids stands for."""
MOST_SKIPPED = 0.1
"""Share of rows that may be left out before a file is not believed at all."""
_MOST_REASONS = 8


class WorkloadError(UsageError):
    """A file of requests cannot be used; the message names file, line and rule."""


@dataclass(frozen=True, eq=False)
class PrefixHashes:
    """Which prompts begin alike: for each request, one number for every 512 tokens of its prompt.

    Equal numbers mean that the prompts are equal up to there. Kept as two int64 arrays, like a sparse
    matrix: request i has `ids[starts[i] : starts[i + 1]]`.

    >>> hashes = PrefixHashes.of([(0, 1), (0,)])
    >>> hashes[0], hashes[1], len(hashes)
    ((0, 1), (0,), 2)
    """

    ids: np.ndarray
    starts: np.ndarray
    tokens_per_hash: int = TOKENS_PER_HASH

    @classmethod
    def of(cls, rows: Iterable[tuple[int, ...]]) -> PrefixHashes:
        """From one tuple a request."""
        rows = list(rows)
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        return cls(np.fromiter(chain.from_iterable(rows), np.int64, count=int(starts[-1])), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, request: int) -> tuple[int, ...]:
        return tuple(self.ids[self.starts[request] : self.starts[request + 1]].tolist())

    def reordered(self, order: np.ndarray) -> PrefixHashes:
        """The same with request `order[i]` at place i."""
        counts = np.diff(self.starts)[order].astype(np.intp)
        starts = np.concatenate([[0], np.cumsum(counts)])
        at = np.repeat(self.starts[order] - starts[:-1], counts) + np.arange(starts[-1])
        return PrefixHashes(self.ids[at], starts, self.tokens_per_hash)


@dataclass(frozen=True)
class Skipped:
    """Rows that were left out of a table: how many for each rule, with the first of them.

    `notes` say what else was not read, such as what follows `MAX_REQUESTS` requests.
    """

    reasons: tuple[tuple[str, int], ...]
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows left out, all rules together."""
        return sum(count for _, count in self.reasons)

    def __str__(self) -> str:
        parts = [f"{count:,} row(s) left out, first {reason}" for reason, count in self.reasons]
        return "; ".join([*parts, *self.notes])


@dataclass(frozen=True, eq=False)
class Table:
    """What a file says of its requests, in order of arrival; arrays as in `workloads.Workload`."""

    prompt: np.ndarray
    output: np.ndarray
    arrival_ns: np.ndarray | None
    prefix_hashes: PrefixHashes | None = None
    skipped: Skipped | None = None


class Taken:
    """The rows taken so far, and those left out."""

    def __init__(self, name: str, tolerant: bool) -> None:
        self.name, self.tolerant = name, tolerant
        self.prompt, self.output, self.arrival = array("q"), array("q"), array("q")
        self.ids, self.starts = array("q"), array("q", [0])
        self.notes: list[str] = []
        self._left_out: dict[str, tuple[str, int]] = {}

    def room(self) -> bool:
        """Whether one more request may be taken; raises `WorkloadError` unless tolerant."""
        count = len(self.prompt)
        if count < MAX_REQUESTS and len(self.ids) < MAX_HASHES:
            return True
        if not self.tolerant:
            raise WorkloadError(f"{self.name}: more than {count:,} requests, and no more are read")
        self.notes.append(f"the file goes on after {count:,} requests; the rest was not read")
        return False

    def leave_out(self, where: str, error: Exception, rows: int = 1) -> None:
        """A row is no request, or several that cannot be told apart."""
        if not self.tolerant:
            raise WorkloadError(f"{self.name}, {where}: {error}") from None
        rule = str(error).partition(", got ")[0].rpartition("' ")[2]
        if rule not in self._left_out and len(self._left_out) >= _MOST_REASONS:
            rule = next(reversed(self._left_out))
        first, count = self._left_out.get(rule, (f"{where}: {error}", 0))
        self._left_out[rule] = first, count + rows

    def table(self, nothing: str) -> Table:
        """All of them in order of arrival; those that arrive together keep their order."""
        if 1 < len(self.starts) <= len(self.prompt):
            self.notes.append(f"hash_ids left out: from request {len(self.starts):,} on some have none")
        skipped = Skipped(tuple(self._left_out.values()), tuple(self.notes))
        total = len(self.prompt) + skipped.rows
        if skipped.rows > MOST_SKIPPED * total:
            raise WorkloadError(
                f"{self.name}: {skipped.rows:,} of {total:,} rows are no requests, more than "
                f"{MOST_SKIPPED:.0%}; {skipped}"
            )
        if not self.prompt:
            raise WorkloadError(f"{self.name} holds no request{nothing}")
        prompt, output, arrival, ids, starts = (
            np.frombuffer(column, dtype=np.int64) if column else np.empty(0, np.int64)
            for column in (self.prompt, self.output, self.arrival, self.ids, self.starts)
        )
        hashes = PrefixHashes(ids, starts) if len(starts) > len(prompt) else None
        left_out = skipped if skipped.reasons or skipped.notes else None
        if not len(arrival):
            return Table(prompt, output, None, hashes, left_out)
        if (np.diff(arrival) < 0).any():
            order = np.argsort(arrival, kind="stable")
            prompt, output, arrival = prompt[order], output[order], arrival[order]
            hashes = hashes.reordered(order) if hashes else None
        return Table(prompt, output, arrival - arrival[0], hashes, left_out)
