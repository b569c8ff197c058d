"""Ranks from the command line.

python -m pagedlab.parallel --ranks 3 --steps 200                  processes of this machine
torchrun --nproc-per-node 2 -m pagedlab.parallel --steps 200       one of torchrun's ranks, anywhere
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from dataclasses import fields
from typing import TYPE_CHECKING

from pagedlab.arguments import Parser
from pagedlab.cli import give_up_stdout
from pagedlab_kernels.inside.child import end_with_parent

if TYPE_CHECKING:  # numpy and torch are imported where Ctrl-C is answered
    from pagedlab.parallel.plan import Fault, Plan

_PROG = "python -m pagedlab.parallel"
_NOT_FLAGS = ("fault", "detect", "verify", "show_tables")


def plan_of(arguments: list[str]) -> Plan:
    """The plan that a command line asks for; `--plan` takes all of it as JSON."""
    from pagedlab.parallel.plan import DTYPES, FAULTS, METHODS, TRANSPORTS, Plan

    choices = {"method": METHODS, "dtype": DTYPES, "transport": TRANSPORTS}
    meaning = dict(re.findall(r"^ {4}(\w+) {2,}(\S.*)$", Plan.__doc__ or "", re.MULTILINE))
    parser = Parser(
        prog=_PROG,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for option in fields(Plan):
        if option.name not in _NOT_FLAGS:
            kind = str if option.default is None else type(option.default)
            preset = "" if option.default is None else f" (default {option.default})"
            parser.add_argument(
                f"--{option.name.replace('_', '-')}",
                type=kind,
                choices=choices.get(option.name),
                default=option.default,
                metavar=None if kind is str else "N",
                help=meaning.get(option.name, "") + preset,
            )
    parser.add_argument("--no-detect", action="store_true", help="let wrong tables go unnoticed")
    parser.add_argument(
        "--fault", metavar="KIND:RANK:STEP", help=f"break one rank; KIND is one of {', '.join(FAULTS)}"
    )
    parser.add_argument("--plan", help="all of this as JSON, in place of the other options")
    started = os.environ.get("WORLD_SIZE") if "RANK" in os.environ else None
    try:
        if started is not None:
            parser.set_defaults(ranks=int(started))
        args = vars(parser.parse_args(arguments))
        text, fault, no_detect = args.pop("plan"), args.pop("fault"), args.pop("no_detect")
        if text is not None:
            plan = Plan.from_json(text)
        else:
            plan = Plan(**args, detect=not no_detect, fault=_fault(fault) if fault else None)
        if started is not None and plan.ranks != int(started):
            raise ValueError(f"ranks is {plan.ranks}, but {started} were started")
        return plan
    except (ValueError, TypeError) as error:  # a plan as JSON may hold anything
        parser.error(str(error))


def _fault(text: str) -> Fault:
    from pagedlab.parallel.plan import Fault

    kind, rank, step = (text.split(":") + ["", ""])[:3]
    if not (rank.isdigit() and step.isdigit()):
        raise ValueError(f"a fault is KIND:RANK:STEP, got {text!r}")
    return Fault(kind, int(rank), int(step))


def main(arguments: list[str]) -> int:
    """Be a rank where the environment names one, else start the ranks and say how the run went."""
    if os.environ.get("PAGEDLAB_LAUNCHED") == "1":  # before anything heavy: a launcher may die at any time
        end_with_parent()
    try:
        plan = plan_of(arguments)
        if "RANK" not in os.environ:
            return _launch(plan)
        from pagedlab.parallel.worker import run_rank

        return run_rank(plan)
    except KeyboardInterrupt:
        print(f"{_PROG}: stopped, and every rank with it", file=sys.stderr)
        return 130
    except OSError as error:  # no more processes or open files, or an output that takes no more
        if error.errno in (errno.ENOSPC, errno.EPIPE):
            give_up_stdout()
        print(f"{_PROG}: {error}", file=sys.stderr)
        return 2


def _launch(plan: Plan) -> int:
    from pagedlab.parallel.launch import run

    outcome = run(plan)
    ending = outcome.ending
    assert ending is not None
    if not ending.complete:
        where = f"rank {ending.culprit}, step {ending.last_step}"
        print(f"{where}: {ending.why} (all ranks ended in {ending.took_s:.1f} s)", flush=True)
        return 1
    print(
        f"{plan.steps} steps on {plan.ranks} ranks by {plan.method}: the same tables after "
        f"{outcome.steps_in_step}, largest difference to one process {outcome.largest_error:.1e}",
        flush=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
