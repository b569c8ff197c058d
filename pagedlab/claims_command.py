"""Run the chapter's claims on this machine and print their verdicts, as text, JSON or one HTML page.

What a verdict rests on is in the JSON and on the page. A long run keeps each verdict in a file of rows
(`--resume FILE`): started again with the same file, it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagedlab._format import near
from pagedlab.arguments import UsageError, writable

if TYPE_CHECKING:
    from pagedlab.claims import Verdict

HELP = "put the chapter's claims to the test on this machine"
WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    speed = parser.add_mutually_exclusive_group()
    speed.add_argument("--quick", action="store_true", help="seconds a claim (the default)")
    speed.add_argument("--full", action="store_true", help="minutes a claim: larger batches, more sizes")
    text = "these claims and no others"
    parser.add_argument("--only", nargs="+", action="extend", default=[], metavar="ID", help=text)
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write one page with charts")
    text = "keep each verdict in FILE (JSON lines) and take from it those that are there"
    parser.add_argument("--resume", type=Path, metavar="FILE", help=text)


def command(args: argparse.Namespace) -> int:
    from pagedlab import sweeps
    from pagedlab.claims import Verdict, page

    chosen = _chosen(args.only)
    writable("--html", args.html)
    writable("--resume", args.resume)
    try:
        record = run(chosen, quick=not args.full, path=args.resume, progress=sys.stderr.isatty())
    except sweeps.SweepError as error:
        print(f"{args.prog}: {error}", file=sys.stderr)
        return 1 if error.__cause__ else 2
    verdicts = [Verdict.from_dict(row) for row in record["verdicts"]]
    note = page.summary(verdicts, record["machine"]["device"], record["seconds"])
    if args.html:
        args.html.write_text(page.page(verdicts, note), encoding="utf-8")
    if args.json:
        print(json.dumps(record, indent=2, allow_nan=False))
    else:
        print(text(verdicts, note))
        if args.html:
            print(f"page: {args.html}")
    return 0


def run(
    chosen: Sequence[str], *, quick: bool, path: Path | None = None, progress: bool = False
) -> dict[str, Any]:
    """Put these claims to the test: their verdicts as plain data, with when, where and how long."""
    from pagedlab import machine, sweeps
    from pagedlab.claims import Verdict

    start = time.monotonic()
    points = [{"claim": claim, "quick": quick} for claim in chosen]
    rows = sweeps.run(measure, points, path=path, progress=progress, check=Verdict.from_dict)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "seconds": time.monotonic() - start,
        "machine": machine.describe().to_dict(),
        "verdicts": rows,
    }


def measure(claim: str, quick: bool) -> dict[str, Any]:
    """The verdict on one claim as plain data."""
    from pagedlab import claims

    return claims.get(claim).run(quick=quick).to_dict()


def text(verdicts: Sequence[Verdict], note: str) -> str:
    """The table of verdicts and a closing note."""
    from pagedlab import claims

    wide = max(len(verdict.claim) for verdict in verdicts)
    lines = []
    for verdict in verdicts:
        head = f"{verdict.claim:{wide}}  {verdict.outcome.value:19}  "
        first, *others = verdict.conditions
        if verdict.outcome is claims.Outcome.NOT_MEASURABLE:
            kept = claims.recordings(verdict.claim)
            others += [f"recorded on {old.device}: {old.outcome.value}: {old.conditions[0]}" for old in kept]
        indent = " " * len(head)
        lines += textwrap.wrap(first, WIDTH, initial_indent=head, subsequent_indent=indent)
        for other in others:
            lines += textwrap.wrap(
                other, WIDTH, initial_indent=indent + "- ", subsequent_indent=indent + "  "
            )
    return "\n".join([*lines, "", *textwrap.wrap(note, WIDTH)])


def _chosen(only: Sequence[str]) -> list[str]:
    from pagedlab import claims

    ids = [claim.id for claim in claims.all()]
    for id in only:
        if id not in ids:
            raise UsageError(f"--only {id}: no such claim; {near(id, ids)}")
    return [id for id in ids if not only or id in only]
