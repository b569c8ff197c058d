"""Reading the log of an engine's blocks into an event log, and holding it to what the engine said.

The engine's tables are in the log once a step. While the lines are turned into events, a `PoolState`
replays them, and at each step its tables, token counts, reference counts and free blocks must be the
engine's. So a recording that loads is a recording that replays. Hits, evictions and preemptions are events,
too: what is cached though nobody holds it, and who lost it to whom, is seen in an engine's own log.

Block ids become one smaller: vLLM never hands out its block 0, and our pools have no such block.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pagedlab.events import (
    Allocate,
    Append,
    Cache,
    CacheHit,
    Event,
    EventLog,
    Evict,
    Free,
    PoolState,
    Preempt,
    ResetCache,
)
from pagedlab.inputs import at_least

Line = dict[str, Any]
_SHIPPED = "vllm-0.32.0.jsonl.gz"
_NO_BLOCK_MOVES = frozenset({"arrived", "refused", "finished", "kv_event"})


class EngineRunError(ValueError):
    """A log cannot be replayed; the message names file, line and rule."""


@dataclass(frozen=True, eq=False)
class EngineRun:
    """A recorded run of a real engine: its pool's events, one closed step for each of its steps.

    >>> run = shipped()
    >>> run.engine, run.block_size, run.events.num_steps > 100
    ('vLLM 0.32.0', 32, True)
    """

    events: EventLog
    num_blocks: int
    """Blocks that the engine hands out."""
    block_size: int
    engine: str
    """Engine and version, to be shown beside anything drawn from it."""
    source: str
    lines: Counter[str]
    """How many lines of each kind the log has."""

    word = "recorded"

    def __repr__(self) -> str:
        return f"EngineRun({self.engine}, {self.num_blocks} blocks of {self.block_size}, {self.events!r})"


def load(path: str | Path) -> EngineRun:
    """Read a log that `pagedlab.recorders.vllm` wrote, gzipped when its name ends in .gz.

    Raises `EngineRunError` with file and line for a line that is no such event or does not agree with
    what came before it, `OSError` for a file that cannot be read.
    """
    path = Path(path)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:
        try:
            return _read(file, path.name)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise EngineRunError(f"{path.name} is no whole gzip file: {error}") from None


def shipped() -> EngineRun:
    """The run that comes with the package: vLLM's CPU build, a small model with random weights, requests
    that share prompts, and a pool small enough for evictions and preemptions."""
    packed = (files("pagedlab") / "data" / "recorded" / _SHIPPED).read_bytes()
    return _read(io.StringIO(gzip.decompress(packed).decode("utf-8")), _SHIPPED)


def _read(lines: Iterable[str], name: str) -> EngineRun:
    replay: _Replay | None = None
    kinds: Counter[str] = Counter()
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = _object(text)
            if replay is None:
                replay = _Replay(line)
            else:
                replay.take(line)
        except KeyError as error:
            raise EngineRunError(f"{name}, line {number}: the field {error} is missing") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise EngineRunError(f"{name}, line {number}: {error}") from None
        kinds[line["event"]] += 1
    if replay is None:
        raise EngineRunError(f"{name} is empty: a line that describes the pool comes first")
    replay.finish()
    return EngineRun(
        replay.log,
        replay.num_blocks,
        replay.block_size,
        replay.engine,
        f"{kinds.total():,} lines of {name}",
        kinds,
    )


def _object(text: str) -> Line:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(line, dict) or not isinstance(line.get("event"), str):
        raise ValueError(f"an object with an event is needed, got {text.strip()[:60]!r}")
    return line


class _Replay:
    """The one place where the engine's lines become events of ours."""

    def __init__(self, pool: Line) -> None:
        if pool["event"] != "pool":
            raise ValueError(f"a line that describes the pool comes first, got {pool['event']!r}")
        if pool["null_block"] != 0:
            raise ValueError(f"the block never handed out must be block 0, got {pool['null_block']!r}")
        self.num_blocks = at_least(2, pool["num_blocks"], "num_blocks") - 1
        self.block_size = at_least(1, pool["block_size"], "block_size")
        self.engine = f"{pool.get('engine', 'vLLM')} {pool.get('version', 'of unknown version')}"
        self.log = EventLog(self.num_blocks, self.block_size)
        self._state = PoolState(self.block_size)
        self._shared: list[int] = []  # blocks touched, evicted and taken since the last line of slots
        self._evicted: list[int] = []
        self._taken: list[int] = []
        self._lost: dict[str, int] = {}  # tokens of those preempted whose blocks are about to be freed

    def take(self, line: Line) -> None:
        """One line, in the order of the log."""
        match line["event"]:
            case "touched":
                self._touch(self._blocks(line["blocks"]), self._blocks(line["from_free"]))
            case "evicted":
                self._evicted += self._blocks(line["blocks"])
            case "allocated":
                self._taken += self._blocks(line["blocks"])
            case "slots":
                self._store(line["req"], line)
            case "cached":
                self._log(Cache(line["req"], tuple(self._blocks(line["blocks"]))))
            case "cache_reset":
                if line["ok"]:
                    self._log(ResetCache())
            case "preempted":
                self._lost[line["req"]] = at_least(0, line["lost"], "lost")
            case "freed":
                self._free(line["req"], self._blocks(line["blocks"]), self._blocks(line["to_pool"]))
            case "step":
                self._check(line)
                self.log.end_step()
            case kind if kind in _NO_BLOCK_MOVES:
                pass
            case kind:
                raise ValueError(f"unknown event {kind!r}")

    def finish(self) -> None:
        """Close the last step, if anything came after it."""
        if len(self.log) > sum(map(len, self.log.steps())) or not self.log.num_steps:
            self.log.end_step()

    def _touch(self, blocks: list[int], from_free: list[int]) -> None:
        unheld = [block for block in blocks if not self._state.holders.get(block)]
        if sorted(unheld) != sorted(from_free):
            raise ValueError(f"of the blocks touched nobody held {unheld}, the engine says {from_free}")
        self._shared += blocks

    def _store(self, req: str, line: Line) -> None:
        tokens = sum(at_least(0, line[part], part) for part in ("have", "hit", "new"))
        shared, evicted, taken = self._shared, self._evicted, self._taken
        self._shared, self._evicted, self._taken = [], [], []
        stored = tokens - self._state.num_tokens.get(req, 0)
        if req in self._state.tables and (shared or stored < 0):
            raise ValueError(f"{req!r} runs: it can neither share blocks {shared} nor store {stored} tokens")
        if shared:
            self._log(CacheHit(req, line["hit"], tuple(shared)))
        if evicted:
            self._log(Evict(req, tuple(evicted)))
        if req in self._state.tables:
            self._log(Append(req, stored, tuple(taken)))
        else:
            self._log(Allocate(req, tokens, (*shared, *taken)))
        self._lost.pop(req, None)

    def _free(self, req: str, blocks: list[int], to_pool: list[int]) -> None:
        table = self._state.tables.get(req)
        if table is None or blocks != table[::-1]:
            raise ValueError(f"{req!r} frees blocks {blocks}, its table is {table}")
        released = [block for block in table if self._state.holders[block] == [req]]
        if sorted(released) != sorted(to_pool):
            raise ValueError(f"nobody else holds {released}, the engine gave back {to_pool}")
        if req in self._lost:
            self._log(Preempt(req, "recompute", self._lost.pop(req), tuple(released), ()))
        else:
            self._log(Free(req, tuple(released)))

    def _check(self, step: Line) -> None:
        """Hold our state to the engine's tables at the end of a step."""
        state = self._state
        for req, blocks in step["tables"].items():
            table = self._blocks(blocks)
            if state.tables.get(req) != table:
                raise ValueError(f"the table of {req!r} is {table}, replayed it is {state.tables.get(req)}")
            tokens = step["computed"][req] + step["scheduled"][req]
            if state.num_tokens[req] != tokens:
                raise ValueError(f"{req!r} stores {tokens} tokens, replayed {state.num_tokens[req]}")
        held = sum(1 for holders in state.holders.values() if holders)
        if self.num_blocks - held != step["free"]:
            raise ValueError(f"{step['free']} blocks are free, replayed {self.num_blocks - held}")

    def _log(self, event: Event) -> None:
        self.log.append(event)
        self._state.apply(event)

    def _blocks(self, ids: Any) -> list[int]:
        if not isinstance(ids, list) or not all(type(id) is int and 1 <= id <= self.num_blocks for id in ids):
            raise ValueError(f"block ids must be a list of 1 to {self.num_blocks}, got {str(ids)[:60]}")
        return [id - 1 for id in ids]
