"""A real engine's log becomes events of ours that replay to its own tables, and a bad log is one error."""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from importlib.resources import files
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from pagedlab import recorders
from pagedlab.events import Allocate, Cache, CacheHit, Evict, PoolState, Preempt, ResetCache
from pagedlab.recorders import EngineRunError
from pagedlab.recorders import vllm as recorder

SHIPPED = files("pagedlab") / "data" / "recorded" / "vllm-0.32.0.jsonl.gz"
SHARED_RUN = Path(__file__).parent / "cases" / "engine_runs" / "vllm_events.jsonl"


def _lines() -> list[dict]:
    return [json.loads(line) for line in gzip.decompress(SHIPPED.read_bytes()).splitlines()]


def test_the_shipped_run_replays_to_the_engines_tables_counts_and_free_blocks_at_every_step():
    run, steps = recorders.shipped(), [line for line in _lines() if line["event"] == "step"]
    state = PoolState(run.block_size)
    for events, engine in zip(run.events.steps(), [*steps, None], strict=True):
        for event in events:
            state.apply(event)
        if engine is None:
            break
        ours = {req: [block + 1 for block in state.tables[req]] for req in engine["tables"]}
        assert ours == engine["tables"]
        holders = Counter(block for table in state.tables.values() for block in table)
        assert {block: len(who) for block, who in state.holders.items() if who} == holders
        assert run.num_blocks - len(holders) == engine["free"]
        for req, scheduled in engine["scheduled"].items():
            assert state.num_tokens[req] == engine["computed"][req] + scheduled
    assert not state.tables, "every request has left"


def test_the_shipped_run_shows_what_a_pool_under_pressure_does_and_says_what_it_is():
    run = recorders.shipped()
    assert (run.word, run.engine, run.num_blocks) == ("recorded", "vLLM 0.32.0", 23)
    kinds = Counter(type(event) for event in run.events)
    assert kinds[CacheHit] == run.lines["touched"] > 0 and kinds[Preempt] == run.lines["preempted"] > 0
    assert kinds[Evict] > 0 and kinds[Cache] == run.lines["cached"] and kinds[ResetCache] == 1
    assert any(len(holders) > 1 for holders in _most_shared(run)), "blocks are shared"
    assert len(SHIPPED.read_bytes()) < 400_000


def _most_shared(run):
    state = PoolState(run.block_size)
    for event in run.events:
        state.apply(event)
        yield from list(state.holders.values())


def test_a_log_loads_from_a_file_plain_or_gzipped(tmp_path):
    packed, plain = tmp_path / "run.jsonl.gz", tmp_path / "run.jsonl"
    packed.write_bytes(SHIPPED.read_bytes())
    plain.write_bytes(gzip.decompress(SHIPPED.read_bytes()))
    assert list(recorders.load(packed).events) == list(recorders.load(plain).events)
    packed.write_bytes(SHIPPED.read_bytes()[:1000])
    with pytest.raises(EngineRunError, match="run.jsonl.gz is no whole gzip file"):
        recorders.load(packed)
    with pytest.raises(FileNotFoundError):
        recorders.load(tmp_path / "none.jsonl")


@pytest.mark.skipif(not SHARED_RUN.is_file(), reason="the cases hold no such log")
def test_another_recorded_run_loads_too():
    run = recorders.load(SHARED_RUN)
    assert (run.num_blocks, run.block_size, run.lines["step"]) == (23, 32, 347)


# ---- logs that are none ---------------------------------------------------------------------------

POOL = dict(step=-1, event="pool", num_blocks=5, block_size=4, null_block=0, prefix_caching=True)
START = [
    POOL,
    dict(step=0, event="allocated", req="A", blocks=[1, 2]),
    dict(step=0, event="slots", req="A", status="WAITING", have=0, hit=0, new=6, total=6, free=2),
]
STEP = dict(step=0, event="step", scheduled={"A": 6}, computed={"A": 0}, tables={"A": [1, 2]}, free=2)
CACHED = dict(step=0, event="cached", req="A", blocks=[1])
FREED = dict(step=1, event="freed", req="A", blocks=[2, 1], to_pool=[2, 1])
EVICTED = dict(step=1, event="evicted", req="B", blocks=[1])
TAKEN = [
    dict(step=1, event="allocated", req="B", blocks=[3, 1]),
    dict(step=1, event="slots", req="B", status="WAITING", have=0, hit=0, new=7, total=7, free=2),
]


def _load(tmp_path, lines):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return recorders.load(path)


def test_a_short_log_becomes_three_events_in_two_steps(tmp_path):
    run = _load(tmp_path, [*START, STEP, FREED])
    assert [type(event).__name__ for event in run.events] == ["Allocate", "Free"]
    assert run.events[0].blocks == (0, 1) and run.events.num_steps == 2
    assert run.engine == "vLLM of unknown version"


def test_what_is_found_cached_evicted_and_preempted_is_an_event_and_so_in_the_state(tmp_path):
    hit = [
        dict(step=2, event="touched", req="C", blocks=[1], from_free=[1]),
        dict(step=2, event="allocated", req="C", blocks=[4]),
        dict(step=2, event="slots", req="C", status="WAITING", have=0, hit=4, new=2, total=6, free=2),
    ]
    preempted = dict(step=1, event="preempted", req="A", lost=6)
    run = _load(tmp_path, [*START, CACHED, preempted, FREED, *hit])
    assert list(run.events)[1:] == [
        Cache("A", (0,)),
        Preempt("A", "recompute", 6, (0, 1), ()),
        CacheHit("C", 4, (0,)),
        Allocate("C", 6, (0, 3)),
    ]
    state = PoolState(4)
    for event in run.events[:3]:
        state.apply(event)
    assert state.cached == {0} and not state.holders, "cached, though nobody holds it"
    evicting = _load(tmp_path, [*START, CACHED, FREED, EVICTED, *TAKEN])
    assert list(evicting.events)[3:] == [Evict("B", (0,)), Allocate("B", 7, (2, 0))]


@pytest.mark.parametrize(
    "lines, words",
    [
        ([], "is empty"),
        (["{"], "line 1: not JSON"),
        (["[]"], "line 1: an object with an event is needed"),
        ([START[1]], "line 1: a line that describes the pool comes first, got 'allocated'"),
        ([POOL | dict(null_block=7)], "line 1: the block never handed out must be block 0, got 7"),
        (
            [POOL | dict(num_blocks="many")],
            "line 1: num_blocks must be an integer, got 'many'",
        ),
        ([{"event": "pool"}], "line 1: the field 'null_block' is missing"),
        ([POOL, dict(event="melted")], "line 2: unknown event 'melted'"),
        ([POOL, START[1] | dict(blocks=[5])], r"line 2: block ids must be a list of 1 to 4, got \[5\]"),
        ([POOL, START[1] | dict(blocks=3)], "line 2: block ids must be a list of 1 to 4, got 3"),
        (
            [*START, STEP | dict(tables={"A": [1, 3]})],
            r"line 4: the table of 'A' is \[0, 2\], replayed .* \[0, 1\]",
        ),
        ([*START, STEP | dict(free=1)], "line 4: 1 blocks are free, replayed 2"),
        ([*START, STEP | dict(computed={"A": 5})], "line 4: 'A' stores 11 tokens, replayed 6"),
        ([*START, STEP | dict(computed={})], "line 4: the field 'A' is missing"),
        ([*START, STEP | dict(tables=[1])], "line 4: "),
        ([*START, FREED | dict(req="B")], "line 4: 'B' frees blocks .* its table is None"),
        (
            [*START, FREED | dict(to_pool=[1])],
            r"line 4: nobody else holds \[0, 1\], the engine gave back \[0\]",
        ),
        (
            [*START, START[1] | dict(req="B"), START[2] | dict(req="B")],
            r"line 5: Allocate\(seq_id='B', .* does not follow: block 0 is held by \['A'\]",
        ),
        ([*START, START[2] | dict(new=-1)], "line 4: new must be at least 0, got -1"),
        ([*START, START[2] | dict(new=2)], "line 4: 'A' runs: it can neither share blocks .* nor store -4"),
        (
            [*START, dict(event="touched", req="B", blocks=[1], from_free=[1])],
            r"line 4: of the blocks touched nobody held \[\], the engine says \[0\]",
        ),
        ([*START, dict(event="cached", req="A", blocks=[2])], "line 4: Cache.* block 1 is not full"),
        ([*START, dict(event="cached", req="A")], "line 4: the field 'blocks' is missing"),
        (
            [*START, dict(event="cache_reset", ok=True), CACHED, dict(event="cache_reset", ok=True)],
            "line 6: ResetCache.* block 0 is held by",
        ),
        ([*START, CACHED, FREED, EVICTED | dict(blocks=[2]), *TAKEN], "line 8: Evict.* there is no 1 here"),
        ([*START, CACHED, FREED, *TAKEN], "line 7: Allocate.* block 0 has a key, and nothing evicted it"),
    ],
)
def test_a_line_that_is_wrong_is_one_error_with_file_and_line(tmp_path, lines, words):
    with pytest.raises(EngineRunError, match="^log.jsonl.*" + words):
        _load(tmp_path, lines)


# ---- the recorder, on an engine of a few lines ------------------------------------------------------


class _Block(SimpleNamespace):
    pass


class _Pool:
    """Four blocks and the null block, with the names of vLLM's pool."""

    num_gpu_blocks, enable_caching = 5, True

    def __init__(self):
        self.null_block = _Block(block_id=0, block_hash=None, ref_cnt=1)
        self.free = [_Block(block_id=i, block_hash=None, ref_cnt=0) for i in range(1, 5)]

    def get_new_blocks(self, count):
        taken, self.free = self.free[:count], self.free[count:]
        for block in taken:
            block.ref_cnt, block.block_hash = 1, None
        return taken

    def touch(self, blocks):
        for block in blocks:
            block.ref_cnt += 1
            if block in self.free:
                self.free.remove(block)

    def free_blocks(self, blocks):
        for block in blocks:
            block.ref_cnt -= 1
            self.free += [block] * (block.ref_cnt == 0)

    def get_num_free_blocks(self):
        return len(self.free)


class _Manager:
    def __init__(self):
        self.block_pool, self.tables = _Pool(), {}

    def allocate_slots(self, request, new, hit=0, hit_blocks=()):
        table = self.tables.setdefault(request.request_id, [])
        missing = -(-(request.num_computed_tokens + hit + new) // 4) - len(table) - len(hit_blocks)
        if missing > len(self.block_pool.free):
            return None
        if hit_blocks:
            self.block_pool.touch(hit_blocks)
        table += [*hit_blocks, *self.block_pool.get_new_blocks(max(0, missing))]
        for block in table[: (request.num_computed_tokens + hit + new) // 4]:
            block.block_hash = block.block_hash or b"key"
        return table

    def free(self, request):
        self.block_pool.free_blocks(self.tables.pop(request.request_id)[::-1])

    def get_blocks(self, req):
        return SimpleNamespace(blocks=(self.tables[req],))

    def get_block_ids(self, req):
        return ([block.block_id for block in self.tables[req]],)

    def take_events(self):
        return [SimpleNamespace(block_hashes=[b"\x01", 2], token_ids=[1, 2])]


class _Scheduler:
    """vLLM's scheduler, as far as the recorder knows it: it schedules what the test tells it."""

    block_size = 4

    def __init__(self, groups=1):
        self.kv_cache_manager, self.waiting = _Manager(), []
        self.kv_cache_config = SimpleNamespace(kv_cache_groups=[None] * groups)

    def add_request(self, request):
        self.waiting.append(request)

    def schedule(self, *plan):
        scheduled = {}
        computed = {}
        for request, new, *hit in plan:
            if self.kv_cache_manager.allocate_slots(request, new, *hit) is not None:
                scheduled[request.request_id] = new
                computed[request.request_id] = request.num_computed_tokens + (hit[0] if hit else 0)
                request.num_computed_tokens = computed[request.request_id] + new
                request.status = SimpleNamespace(name="RUNNING")
        self.kv_cache_manager.take_events()
        return SimpleNamespace(
            total_num_scheduled_tokens=sum(scheduled.values()),
            num_scheduled_tokens=scheduled,
            preempted_req_ids=None,
            scheduled_new_reqs=[],
            scheduled_cached_reqs=SimpleNamespace(
                req_ids=list(computed), num_computed_tokens=list(computed.values())
            ),
        )

    def _preempt_request(self, request):
        self.kv_cache_manager.free(request)

    def _free_request(self, request):
        self.kv_cache_manager.free(request)

    def reset_prefix_cache(self):
        return True


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """The recording scheduler over the engine above, which stands in for vLLM; and its log."""
    module = ModuleType("vllm.v1.core.sched.scheduler")
    module.Scheduler = _Scheduler
    for name in ("vllm", "vllm.v1", "vllm.v1.core", "vllm.v1.core.sched"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    log = tmp_path / "blocks.jsonl"
    monkeypatch.setenv(recorder.LOG_VARIABLE, str(log))
    yield recorder.RecordingScheduler, log
    vars(recorder).pop("RecordingScheduler", None)


def _request(name: str) -> SimpleNamespace:
    return SimpleNamespace(
        request_id=f"{name}-0123abcd",
        num_prompt_tokens=6,
        num_tokens=6,
        num_computed_tokens=0,
        status=SimpleNamespace(name="WAITING"),
    )


def test_the_recorder_writes_what_moves_and_its_log_replays(engine):
    scheduler_class, log = engine
    scheduler = scheduler_class()
    one, two, three = map(_request, ("one", "two", "three"))
    scheduler.add_request(one)
    scheduler.schedule((one, 6))
    shared = scheduler.kv_cache_manager.tables[one.request_id][:1]
    scheduler.schedule((one, 1), (two, 6, 4, shared))
    scheduler.schedule((three, 9))
    scheduler._preempt_request(two)
    scheduler._free_request(one)
    scheduler.schedule((three, 9))
    scheduler._free_request(three)
    assert scheduler.reset_prefix_cache()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    kinds = Counter(line["event"] for line in lines)
    assert kinds == recorders.load(log).lines
    assert {"touched", "refused", "preempted", "evicted", "cache_reset", "kv_event"} <= kinds.keys()
    assert {line.get("req") for line in lines} == {None, "one", "two", "three"}
    assert (touched := next(line for line in lines if line["event"] == "touched"))["blocks"] == [1]
    assert touched["from_free"] == []


def test_the_recorder_says_what_it_needs(engine, monkeypatch):
    scheduler_class, _ = engine
    with pytest.raises(ValueError, match="one group of layers .* this model has 2"):
        scheduler_class(groups=2)
    monkeypatch.delenv(recorder.LOG_VARIABLE)
    with pytest.raises(ValueError, match="set PAGEDLAB_VLLM_LOG to the file"):
        scheduler_class()


def test_only_the_scheduler_itself_asks_for_vllm():
    assert "vllm" not in sys.modules
    with pytest.raises(AttributeError, match="has no attribute 'Scheduler'"):
        _ = recorder.Scheduler
