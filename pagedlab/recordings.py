"""Measurements kept in a file, with all that makes them mean something on another machine.

What was measured there is *recorded* here: on a screen its numbers bear that word and the device they are of.
A recording keeps whole comparisons with every sample, so that whatever reads a live one reads a recorded one,
a verdict's `judge` included.

    {"format": ..., "kind": "measured" or "dry run", "date", "commit", "kernels", "machine": {...},
     "tests": what the tests said or null, "notes": [...], "comparisons": [a Comparison as plain data, ...]}
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from pagedlab import _whole, machine
from pagedlab.comparison import Comparison

FORMAT = "pagedlab recording 1"
MEASURED, DRY_RUN = "measured", "dry run"


class RecordingError(ValueError):
    """A file is no recording; the message names the file and what is wrong with it."""


@dataclass(frozen=True)
class Recording:
    """What a machine measured at one time.

    `commit` is that of the source ("" when it was no checkout), `kernels` a hash of the kernels' own. `tests`
    is what the tests of that device said, None when they were not run; `notes` say what was left out and why.
    """

    kind: str
    date: str
    commit: str
    kernels: str
    machine: dict[str, Any]
    comparisons: tuple[Comparison, ...]
    tests: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def device(self) -> str:
        """The line of the device that was timed."""
        return self.comparisons[0].device if self.comparisons else str(self.machine.get("device", ""))

    def rows(self) -> list[dict[str, Any]]:
        """One row a case, as plain data under the word that a recorded number bears."""
        return [
            {
                "what": comparison.what,
                "case": timing.name,
                "layout": timing.layout,
                **{f"{name}_s": value for name, value in asdict(timing.spread).items()},
                "bytes_per_second": timing.bytes_per_second,
                "share_of_limit": comparison.share_of_limit(timing.name),
                "ratio": comparison.ratio(timing.name).median,
                "word": "recorded" if self.kind == MEASURED else self.kind,
                "device": comparison.device,
                "date": self.date,
            }
            for comparison in self.comparisons
            if comparison.rounds
            for timing in comparison.timings
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        comparisons = [comparison.to_dict() for comparison in self.comparisons]
        return {"format": FORMAT, **vars(self), "notes": list(self.notes), "comparisons": comparisons}

    def save(self, path: str | Path) -> None:
        """Write it as JSON, whole or not at all."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        _whole.write(Path(path), text.encode())

    def __str__(self) -> str:
        if self.kind == DRY_RUN:
            return f"dry run {self.date}: its times mean nothing"
        lines = [f"recorded {self.date} on {self.device}, commit {self.commit[:12] or 'unknown'}"]
        if self.tests:
            lines.append(f"tests there: {self.tests['summary']}")
        return "\n\n".join(["\n".join([*lines, *self.notes]), *map(str, self.comparisons)])


def record(
    comparisons: Iterable[Comparison],
    *,
    kind: str = MEASURED,
    tests: dict[str, Any] | None = None,
    notes: Iterable[str] = (),
) -> Recording:
    """A recording of what this machine has just measured."""
    return Recording(
        kind,
        datetime.now(UTC).isoformat(timespec="seconds"),
        _commit(),
        _kernels(),
        machine.describe().to_dict(),
        tuple(comparisons),
        tests,
        tuple(notes),
    )


def load(path: str | Path) -> Recording:
    """Read a recording. Raises OSError when there is no such file, RecordingError when it is none.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "here.json")
    >>> record([]).save(file)
    >>> load(file).kind
    'measured'
    """
    return _parse(Path(path).read_text(encoding="utf-8"), str(path))


def shipped() -> tuple[Recording, ...]:
    """The recordings that came with the package, the newest first."""
    folder = files("pagedlab") / "data" / "recorded" / "bench"
    if not folder.is_dir():
        return ()
    found = [_parse(file.read_text(encoding="utf-8"), file.name) for file in folder.iterdir()]
    return tuple(sorted(found, key=lambda recording: recording.date, reverse=True))


def _parse(text: str, name: str) -> Recording:
    try:
        plain = json.loads(text)
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        del plain["format"]
        if plain["kind"] not in (MEASURED, DRY_RUN):
            raise ValueError(f"kind must be {MEASURED!r} or {DRY_RUN!r}, got {plain['kind']!r}")
        datetime.fromisoformat(plain["date"])
        plain["comparisons"] = tuple(map(Comparison.from_dict, plain["comparisons"]))
        plain["notes"] = tuple(plain["notes"])
        return Recording(**plain)
    except KeyError as error:
        raise RecordingError(f"{name} is no recording: {error} is missing") from None
    except (ValueError, TypeError) as error:
        raise RecordingError(f"{name} is no recording: {error}") from None


def _commit() -> str:
    """The commit of the source that runs, "+" behind it when files were changed since."""
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _kernels() -> str:
    """A hash of the kernels' source: times of one kernel say nothing of another."""
    import pagedlab_kernels

    sources = sorted(Path(pagedlab_kernels.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()
