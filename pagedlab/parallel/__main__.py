"""Ranks from the command line.

python -m pagedlab.parallel --ranks 3 --steps 200                  processes of this machine
torchrun --nproc-per-node 2 -m pagedlab.parallel --steps 200       one of torchrun's ranks, anywhere
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields

from pagedlab.parallel.plan import DTYPES, FAULTS, METHODS, TRANSPORTS, Fault, Plan
from pagedlab_kernels.inside.child import end_with_parent

_CHOICES = {"method": METHODS, "dtype": DTYPES, "transport": TRANSPORTS}
_NOT_FLAGS = ("fault", "detect", "verify", "show_tables")


def plan_of(arguments: list[str]) -> Plan:
    """The plan that a command line asks for; `--plan` takes all of it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m pagedlab.parallel", description=__doc__)
    parser.add_argument("--plan", help="a whole plan, as JSON")
    for option in fields(Plan):
        if option.name not in _NOT_FLAGS:
            kind = str if option.default is None else type(option.default)
            flag = f"--{option.name.replace('_', '-')}"
            parser.add_argument(flag, type=kind, choices=_CHOICES.get(option.name), default=option.default)
    parser.add_argument("--no-detect", action="store_true", help="let wrong tables go unnoticed")
    parser.add_argument("--fault", metavar="KIND:RANK:STEP", help=f"KIND is one of {', '.join(FAULTS)}")
    args = vars(parser.parse_args(arguments))
    text, fault, no_detect = args.pop("plan"), args.pop("fault"), args.pop("no_detect")
    try:
        if text is not None:
            return Plan.from_json(text)
        args["ranks"] = int(os.environ.get("WORLD_SIZE", args["ranks"]))
        return Plan(**args, detect=not no_detect, fault=_fault(fault) if fault else None)
    except (ValueError, TypeError) as error:  # a plan as JSON may hold anything
        parser.error(str(error))


def _fault(text: str) -> Fault:
    kind, rank, step = (text.split(":") + ["", ""])[:3]
    if not (rank.isdigit() and step.isdigit()):
        raise ValueError(f"a fault is KIND:RANK:STEP, got {text!r}")
    return Fault(kind, int(rank), int(step))


def main(arguments: list[str]) -> int:
    """Be a rank where the environment names one, else start the ranks and say how the run went."""
    if os.environ.get("PAGEDLAB_LAUNCHED") == "1":  # before anything heavy: a launcher may die at any time
        end_with_parent()
    plan = plan_of(arguments)
    if "RANK" in os.environ:
        from pagedlab.parallel.worker import run_rank

        return run_rank(plan)
    from pagedlab.parallel.launch import run

    try:
        outcome = run(plan)
    except KeyboardInterrupt:
        print("python -m pagedlab.parallel: stopped, and every rank with it", file=sys.stderr)
        return 130
    ending = outcome.ending
    assert ending is not None
    if not ending.complete:
        where = f"rank {ending.culprit}, step {ending.last_step}"
        print(f"{where}: {ending.why} (all ranks ended in {ending.took_s:.1f} s)")
        return 1
    print(
        f"{plan.steps} steps on {plan.ranks} ranks by {plan.method}: the same tables after "
        f"{outcome.steps_in_step}, largest difference to one process {outcome.largest_error:.1e}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
