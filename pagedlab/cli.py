"""The `pagedlab` command: one table of subcommands, each in the module that does its work.

A command module has a line of `HELP`, `add_arguments(parser)` and `command(args) -> exit code`, and imports
nothing heavy at its top, so `pagedlab --help` answers at once; `main` imports it, where Ctrl-C is heard.
Exit codes: 0 done, 1 something does not work here, 2 the arguments or a file were wrong, 130 stopped with
Ctrl-C.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from pagedlab import __version__
from pagedlab.arguments import Parser, UsageError
from pagedlab.lab import LabError

COMMANDS = {
    **{"doctor": "doctor", "lab": "lab", "bench": "bench", "claims": "claims_command", "advise": "advise"},
    **{"export": "export", "compile": "compile_command", "site": "site", "grade": "grade"},
}
"""Each command's module."""
# What a user can cause. Anything else is a mistake in the program and keeps its traceback.
EXPECTED = (UsageError, LabError, OSError)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = Parser(prog="pagedlab", description="PagedAttention as a chapter you can run.")
    top.add_argument("--version", action="version", version=f"pagedlab {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, home in COMMANDS.items():
        module = import_module(f"pagedlab.{home}")
        sub = commands.add_parser(
            name, help=module.HELP, description=(module.__doc__ or "").partition("\n\n")[0]
        )
        module.add_arguments(sub)
        sub.add_argument("--json", action="store_true", help="print the result as JSON and nothing else")
        sub.set_defaults(run=module.command, prog=sub.prog)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    >>> main(["bench", "--threads", "none"])
    Traceback (most recent call last):
    SystemExit: 2
    """
    _open_what_is_closed()
    prog = "pagedlab"
    try:
        args = parser().parse_args(argv)
        prog = args.prog
        code = int(args.run(args))
        print(end="", flush=True)  # here, where what goes wrong with it can be told
        return code
    except KeyboardInterrupt:
        print(f"{prog}: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader went away (`| head`)
        give_up_stdout()
        return 0
    except EXPECTED as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            give_up_stdout()
        print(f"{prog}: {error}", file=sys.stderr)
        return 2


def _open_what_is_closed() -> None:
    """Whoever starts us without an output (`2>&-`) gets none; and a file's name may be no text at all."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  (as long as we live)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def give_up_stdout() -> None:
    """What cannot be written any more goes nowhere: Python would complain once more when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
