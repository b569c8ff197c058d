"""What a run of several ranks is to do: one frozen `Plan`, the same on every rank, and the fault in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from pagedlab import workloads
from pagedlab.inputs import one_of
from pagedlab.parallel.schedules import RandomSchedule, ServingSchedule
from pagedlab.parallel.shards import shard
from pagedlab.parallel.tables import Step

if TYPE_CHECKING:
    import torch

METHODS = ("full", "differences", "replicas")
FAULTS_OF_DELIVERY = ("drop", "duplicate", "reorder", "corrupt", "delay")
FAULTS = (*FAULTS_OF_DELIVERY, "kill", "small-pool", "diverge")
DTYPES = ("float32", "float16", "bfloat16")
TRANSPORTS = ("gloo", "nccl")
SAID_WHY = OUT_OF_STEP, LOST_A_RANK = 3, 4
"""Exit codes of a rank that says why it ends: it found its tables wrong; another rank is gone."""
_MOST_NUMBERS = 1 << 28  # K of one rank that holds all heads: a GiB in float32
_DAY_S = 86_400


@dataclass(frozen=True)
class Fault:
    """One fault, planted at `rank` when it comes to `step`.

    drop        the message never arrives
    duplicate   it arrives, and once more in place of the next one
    reorder     it arrives behind the next one
    corrupt     one bit of it is wrong
    delay       it arrives `seconds` late
    kill        the rank dies without a word
    small-pool  the rank has half of the blocks, and does not say so when the ranks agree on a pool
    diverge     replicas only: the rank decides this step differently

    Raises `ValueError` for a kind that does not exist.
    """

    kind: str
    rank: int
    step: int
    seconds: float = 2.0

    def __post_init__(self) -> None:
        one_of(FAULTS, self.kind, "fault")
        _seconds("seconds", self.seconds, 0)


@dataclass(frozen=True)
class Plan:
    """A run of `ranks` processes over `steps` steps. The command line takes its help from this table.

    ranks           processes, one shard each
    steps           steps to run
    method          how tables are kept in step
    workload        one of `workloads.names()`, as azure-conversation, or a file; else a random schedule
    seed            of the random schedule, and of all queries, keys and values
    num_blocks      blocks that each rank has room for; the ranks agree on the smallest
    block_size      tokens of a block
    max_seqs        sequences that run at once, at most
    q_heads         query heads of the model, a multiple of its KV heads
    kv_heads        KV heads of the model; with fewer than ranks, some are held several times
    head_dim        numbers in a head
    dtype           of queries, keys and values
    backend         of the kernels: auto, reference, triton or cpu
    transport       what torch.distributed sends by; nccl needs a GPU for each rank
    compare_every   steps between two comparisons of digests (replicas)
    detect          False: wrong tables go unnoticed, to see what comes of them
    verify          rank 0 also computes every answer alone, and reports the largest difference
    show_tables     records hold every sequence's table and length
    fault           what is to go wrong, or None
    late_after_s    seconds by which an update may be late; one that is later ends the run
    patience_s      seconds that a rank waits for another; all end within twice that once one has

    Raises `ValueError` for what cannot be run.
    """

    ranks: int = 2
    steps: int = 100
    method: str = "differences"
    workload: str | None = None
    seed: int = 0
    num_blocks: int = 64
    block_size: int = 4
    max_seqs: int = 8
    q_heads: int = 8
    kv_heads: int = 4
    head_dim: int = 32
    dtype: str = "float32"
    backend: str = "auto"
    transport: str = "gloo"
    compare_every: int = 8
    detect: bool = True
    verify: bool = True
    show_tables: bool = False
    fault: Fault | None = None
    late_after_s: float = 1.0
    patience_s: float = 10.0

    def __post_init__(self) -> None:
        sizes = ("num_blocks", "block_size", "max_seqs", "q_heads", "kv_heads", "head_dim")
        for name in ("ranks", "steps", "compare_every", *sizes):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        if type(self.seed) is not int or not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed must be a whole number from 0 to 2**63 - 1, got {self.seed!r}")
        heads = (
            f"q_heads ({self.q_heads:,}) of head_dim ({self.head_dim:,}): more than {_MOST_NUMBERS:,} numbers"
        )
        if self.num_blocks * self.block_size * self.head_dim * self.q_heads > _MOST_NUMBERS:
            blocks = f"num_blocks ({self.num_blocks:,}) of block_size ({self.block_size:,})"
            raise ValueError(f"{blocks} tokens of {heads}")
        if self.max_seqs * self.head_dim * self.q_heads > _MOST_NUMBERS:
            raise ValueError(f"max_seqs ({self.max_seqs:,}) answers of {heads}")
        if self.num_blocks * self.block_size < 2:
            raise ValueError("num_blocks of block_size tokens must hold 2 tokens, these hold 1")
        _seconds("late_after_s", self.late_after_s, 0)
        _seconds("patience_s", self.patience_s, 0.1)
        one_of(METHODS, self.method, "method")
        one_of(DTYPES, self.dtype, "dtype")
        one_of(TRANSPORTS, self.transport, "transport")
        for rank in range(self.ranks):
            shard(rank, self.ranks, self.q_heads, self.kv_heads)
        if self.fault is not None:
            if not isinstance(self.fault, Fault):
                raise ValueError(f"fault must be a Fault or None, got {self.fault!r}")
            self._check_fault(self.fault)

    def _check_fault(self, fault: Fault) -> None:
        messages = self.method != "replicas"
        if not 0 <= fault.rank < self.ranks or not 0 <= fault.step < self.steps:
            where = f"rank {fault.rank}, step {fault.step}"
            raise ValueError(f"fault at {where}: there are {self.ranks} ranks and {self.steps} steps")
        if fault.kind in FAULTS_OF_DELIVERY and (fault.rank == 0 or not messages):
            why = "rank 0 sends them, replicas have none"
            raise ValueError(f"{fault.kind!r} needs a rank that gets messages: {why}")
        if fault.kind == "diverge" and (messages or fault.rank == 0):
            raise ValueError("'diverge' needs a replica other than rank 0, by whom the others are judged")

    @property
    def torch_dtype(self) -> torch.dtype:
        import torch

        return getattr(torch, self.dtype)

    def schedule(self, pool: int) -> Iterator[Step]:
        """A scheduler of this run's steps, in a pool of `pool` blocks."""
        if self.workload is None:
            return RandomSchedule(self.seed, pool, self.block_size, self.max_seqs)
        named = self.workload in workloads.names()
        workload = workloads.named(self.workload) if named else workloads.load(self.workload, progress=False)
        return ServingSchedule(workload, self.block_size, self.max_seqs, pool * self.block_size)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Raises `ValueError` for text that is no plan."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ValueError(f"not a plan: {error}") from None
        known = {field.name for field in fields(cls)}
        fault: Any = data.pop("fault", None) if isinstance(data, dict) else None
        if not isinstance(data, dict) or set(data) - known or not isinstance(fault, dict | None):
            raise ValueError(f"not a plan: {text[:80]!r}")
        return cls(**data, fault=Fault(**fault) if fault else None)


def _seconds(name: str, seconds: float, least: float) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not least <= seconds <= _DAY_S:
        raise ValueError(f"{name} must be a number of seconds from {least:g} to {_DAY_S:,}, got {seconds!r}")
