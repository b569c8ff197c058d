"""Several ranks, one block table: tensor parallelism with real processes on torch.distributed.

    shards      which heads a rank holds
    tables      what a step tells the ranks, whole or as a difference
    schedules   who decides the steps
    plan        what a run is to do, and the fault in it
    transport   how a message gets from rank 0 to all
    in_step     three ways to keep the tables the same
    worker      what one rank does
    launch      ranks as processes of this machine
    cost        what a step's message takes, in bytes and host time

`run(Plan(...))` runs the ranks here; `torchrun -m pagedlab.parallel` runs the same ranks anywhere. Names are
looked up when first needed, so that `python -m` answers Ctrl-C and `--help` before it has numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagedlab.parallel.cost import MessageCost, RunCost, message_cost, run_cost
    from pagedlab.parallel.launch import Ending, Ranks, RanksRun, run
    from pagedlab.parallel.plan import FAULTS, METHODS, Fault, Plan
    from pagedlab.parallel.shards import Shard, shard
    from pagedlab.parallel.tables import (
        BadMessage,
        Row,
        Step,
        decode_difference,
        decode_full,
        digest,
        encode_difference,
        encode_full,
    )

__all__ = [
    "FAULTS", "METHODS", "BadMessage", "Ending", "Fault", "MessageCost", "Plan", "Ranks", "RanksRun", "Row",
    "RunCost", "Shard", "Step", "decode_difference", "decode_full", "digest", "encode_difference",
    "encode_full", "message_cost", "run", "run_cost", "shard",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for home in ("shards", "tables", "plan", "launch", "cost") if name in __all__ else ():
        module = import_module(f"{__name__}.{home}")
        if hasattr(module, name):
            value = globals()[name] = getattr(module, name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
