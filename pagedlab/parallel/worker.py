"""What one rank does: its shard of the cache, the same table as everybody, and one line of JSON a step.

    agree on a pool -> for each step: settle the tables, copy, write, attend, combine, report

Queries, keys and values are drawn from a bank by the sequence's name and the token's place, so every rank
knows them without a message, and rank 0 can answer alone what all ranks answer together.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any
from zlib import crc32

import torch
import torch.distributed as dist

from pagedlab.cache import PagedKVCache
from pagedlab.parallel.in_step import InStep, Messages, OutOfStep, Replicas
from pagedlab.parallel.plan import LOST_A_RANK, OUT_OF_STEP, Plan
from pagedlab.parallel.shards import Shard, shard
from pagedlab.parallel.tables import Row, Step, digest
from pagedlab.parallel.transport import Broadcast, Delivery, LostRank, die, with_others
from pagedlab.sizing import agree_on_blocks
from pagedlab.table import padded_table
from pagedlab_kernels import paged_attention

_BANK = 4_093  # a prime, so that tokens of a sequence meet all of it
_GRACE_S = 1.0
_START = timedelta(seconds=60)
"""For all ranks to be there: on a busy machine, one may import torch much later than another."""


class TokenBank:
    """Query, key and value of every token of every sequence, the same on every rank."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        draw = torch.Generator().manual_seed(plan.seed)
        shapes = (plan.q_heads, plan.kv_heads, plan.kv_heads)
        self.query, self.key, self.value = (
            torch.randn(_BANK, heads, plan.head_dim, generator=draw).to(device, plan.torch_dtype)
            for heads in shapes
        )

    @staticmethod
    def places(name: str, start: int, stop: int) -> torch.Tensor:
        """Where the bank has tokens `start` to `stop` of a sequence."""
        return (crc32(name.encode()) + 7_919 * torch.arange(start, stop)) % _BANK


class ShardRunner:
    """Runs steps on some heads of the model: on a rank's, or on all of them."""

    def __init__(
        self, plan: Plan, num_blocks: int, heads: Shard, bank: TokenBank, device: torch.device
    ) -> None:
        self._plan, self._heads, self._bank = plan, heads, bank
        self.num_blocks = num_blocks
        self._cache = PagedKVCache(
            num_blocks,
            plan.block_size,
            len(heads.kv_heads),
            plan.head_dim,
            dtype=plan.torch_dtype,
            device=device,
        )

    def run(self, step: Step) -> torch.Tensor:
        """Attention of the step's last tokens: `[seqs, q_heads of this shard, head_dim]`."""
        if not step.rows:  # a served workload has a step in which its last requests leave
            return torch.empty(0, len(self._heads.q_heads), self._plan.head_dim)
        self._check(step)
        kv, q = (slice(part.start, part.stop) for part in (self._heads.kv_heads, self._heads.q_heads))
        self._cache.copy(step.copies)
        slots, places = [], []
        for name, row in step.rows.items():
            size = self._plan.block_size
            slots += [row.table[at // size] * size + at % size for at in range(row.start, row.stop)]
            places.append(self._bank.places(name, row.start, row.stop))
        where = torch.cat(places)
        self._cache.write(self._bank.key[where, kv], self._bank.value[where, kv], slots)
        last = torch.stack([place[-1] for place in places])
        tables = torch.from_numpy(padded_table([row.table for row in step.rows.values()]))
        lengths = torch.tensor([row.stop for row in step.rows.values()], dtype=torch.int32)
        device = self._cache.key.device
        return paged_attention(
            self._bank.query[last, q].contiguous(),
            self._cache.key,
            self._cache.value,
            tables.to(device),
            lengths.to(device),
            backend=self._plan.backend,
        )

    def _check(self, step: Step) -> None:
        """Tables come from elsewhere: nothing is written, and no kernel runs, on one that cannot be."""
        for name, row in step.rows.items():
            held = len(row.table) * self._plan.block_size
            if not 0 <= row.start < row.stop <= held:
                raise OutOfStep(f"sequence {name}: tokens {row.start} to {row.stop} in {held} slots")
            if not 0 <= min(row.table) <= max(row.table) < self.num_blocks:
                where = f"sequence {name}: block {max(row.table)} is in its table"
                raise OutOfStep(f"{where}, this rank has {self.num_blocks}")


class Word:
    """Where each rank leaves word of how far it came, so that the others can tell who is missing and why.

    It lies in the store of the launcher (ours or torchrun's), which outlives any rank.
    """

    def __init__(self, store: Any, rank: int, ranks: int) -> None:
        self._store, self._rank, self._ranks = dist.PrefixStore("pagedlab", store), rank, ranks  # type: ignore[attr-defined]
        self.step = 0

    def meet(self) -> None:
        """Wait until every rank is there."""
        self._store.set(f"here/{self._rank}", "")
        self._store.wait([f"here/{rank}" for rank in range(self._ranks)], _START)

    def begins(self, step: int) -> None:
        self.step = step
        self._store.set(f"step/{self._rank}", str(step))

    def accuse(self, error: OutOfStep) -> dict[str, Any]:
        """What this rank found wrong: the end of the run, for all."""
        culprit = self._rank if error.culprit is None else error.culprit
        found = {"culprit": culprit, "last_step": self.step, "why": str(error)}
        self._store.set("fault", json.dumps(found))
        return found

    def who_is_missing(self) -> dict[str, Any]:
        """The fault that a rank reported, or else the ranks that give no sign within the grace."""
        self._store.set(f"alive/{self._rank}", "")
        deadline = time.monotonic() + _GRACE_S
        silent = set(range(self._ranks))
        while silent and time.monotonic() < deadline:
            if self._store.check(["fault"]):
                return json.loads(self._store.get("fault"))
            silent -= {rank for rank in silent if self._store.check([f"alive/{rank}"])}
            time.sleep(0.02)
        if not silent:
            why = "it lost touch with the other ranks, and none of them is dead"
            return {"culprit": self._rank, "last_step": self.step, "why": why}
        rank = min(silent)
        known = self._store.check([f"step/{rank}"])
        last = int(self._store.get(f"step/{rank}")) if known else 0
        return {"culprit": rank, "last_step": last, "why": "it is gone, or stands still, without a word"}


def run_rank(plan: Plan) -> int:
    """Be the rank that the environment says (as torchrun sets it), and return the exit code."""
    torch.set_num_threads(1)
    device = torch.device("cpu")
    if plan.transport == "nccl":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if device.index >= (gpus := torch.cuda.device_count()):
            raise ValueError(f"transport nccl needs a GPU for each rank, this machine has {gpus}")
        torch.cuda.set_device(device)
    store, rank, ranks = next(iter(dist.rendezvous("env://")))  # type: ignore[attr-defined]
    word = Word(store, rank, ranks)
    patience = timedelta(seconds=plan.patience_s)
    try:
        with with_others():
            word.meet()
            dist.init_process_group(
                plan.transport, store=store, rank=rank, world_size=ranks, timeout=patience
            )
        for record in _steps(plan, rank, word, device):
            _say(record)
    except OutOfStep as error:
        _say({"rank": rank, "fault": "out of step", **word.accuse(error)})
        return OUT_OF_STEP
    except LostRank:
        _leave()
        _say({"rank": rank, "fault": "lost a rank", "at_step": word.step, **word.who_is_missing()})
        return LOST_A_RANK
    finally:
        _leave()
    return 0


def _steps(plan: Plan, rank: int, word: Word, device: torch.device) -> Iterator[dict[str, Any]]:
    fault, ranks = plan.fault, plan.ranks
    mine = fault if fault is not None and fault.rank == rank else None
    heads = shard(rank, ranks, plan.q_heads, plan.kv_heads)
    pool = _agreed_pool(plan.num_blocks, ranks, device)
    owned = pool // 2 if mine is not None and mine.kind == "small-pool" else pool
    bank = TokenBank(plan, device)
    runner = ShardRunner(plan, owned, heads, bank, device)
    alone = Shard(range(plan.kv_heads), range(plan.q_heads), 1)
    whole = ShardRunner(plan, pool, alone, bank, device) if rank == 0 and plan.verify else None
    in_step = _method(plan, rank, device)
    decides = rank == 0 or plan.method == "replicas"
    schedule = plan.schedule(pool) if decides else None
    combine = _Combine(plan, ranks, device)
    held = [heads.kv_heads.start, heads.kv_heads.stop]
    yield {"rank": rank, "kv_heads": held, "copies": heads.copies, "pool": pool}
    for number in range(plan.steps):
        word.begins(number)
        if mine is not None and mine.kind == "kill" and number == mine.step:
            die()
        step = None if schedule is None else next(schedule, None)
        if schedule is not None and step is None:
            raise ValueError(f"the workload ended before step {number}")
        if mine is not None and mine.kind == "diverge" and number == mine.step and step is not None:
            step = _differently(step)
        step = in_step.settle(number, step)
        started = time.perf_counter()
        output = runner.run(step)
        attended = time.perf_counter()
        outputs = combine(output)
        record = {
            "rank": rank,
            "step": number,
            "seqs": len(step.rows),
            "digest": digest(step).hex(),
            **asdict(in_step.cost),
            "attention_s": attended - started,
            "combine_s": time.perf_counter() - attended,
        }
        if whole is not None and step.rows:
            expected = whole.run(step)
            record["error"] = float((outputs[: len(expected)] - expected).abs().max())
        if plan.show_tables:
            record["tables"] = {name: row.table for name, row in step.rows.items()}
            record["tokens"] = {name: row.stop for name, row in step.rows.items()}
        yield record


@with_others()
def _agreed_pool(num_blocks: int, ranks: int, device: torch.device) -> int:
    counts = [torch.empty(1, dtype=torch.int64, device=device) for _ in range(ranks)]
    dist.all_gather(counts, torch.tensor([num_blocks], device=device))
    return agree_on_blocks([int(count) for count in counts])


def _method(plan: Plan, rank: int, device: torch.device) -> InStep:
    alone = plan.ranks == 1  # nobody to tell, nobody to compare with
    if alone or plan.method == "replicas":
        return Replicas(device, plan.detect and not alone, plan.compare_every)
    delivery = Delivery(rank, plan.fault)
    return Messages(plan.method, Broadcast(device), delivery, plan.detect, plan.late_after_s)


def _differently(step: Step) -> Step:
    """The step with the last block of its first sequence mistaken for block 0, or for block 1."""
    name, row = next(iter(step.rows.items()))
    wrong = Row((*row.table[:-1], 1 if row.table[-1] == 0 else 0), row.start, row.stop)
    return Step({**step.rows, name: wrong}, step.copies)


class _Combine:
    """Puts the ranks' query heads together: `[max_seqs, q_heads, head_dim]` on every rank."""

    def __init__(self, plan: Plan, ranks: int, device: torch.device) -> None:
        self._parts = [shard(rank, ranks, plan.q_heads, plan.kv_heads).q_heads for rank in range(ranks)]
        most = max(map(len, self._parts))
        shape = (plan.max_seqs, most, plan.head_dim)
        self._mine = torch.zeros(shape, dtype=plan.torch_dtype, device=device)
        self._all = [torch.empty_like(self._mine) for _ in self._parts]

    @with_others()
    def __call__(self, output: torch.Tensor) -> torch.Tensor:
        self._mine.zero_()
        self._mine[: len(output), : output.shape[1]] = output
        dist.all_gather(self._all, self._mine)
        return torch.cat([out[:, : len(q)] for out, q in zip(self._all, self._parts, strict=True)], dim=1)


def _leave() -> None:
    """Close the connections, so that every other rank knows at once; they may be broken already."""
    with contextlib.suppress(Exception):
        dist.destroy_process_group()


def _say(record: dict[str, Any]) -> None:
    # One write: torchrun's ranks share an output, and a line end of its own could come behind another's line.
    print(json.dumps(record) + "\n", end="", flush=True)
