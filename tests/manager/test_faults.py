"""All or nothing: whatever fails inside a call, and wherever, the manager is as it was before."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from pagedlab import BlockManager, ByPriority, LeastRecentlyFreed

try:  # CPython's own tests use this to make the n-th allocation of memory fail
    from _testcapi import remove_mem_hooks, set_nomemory
except ImportError:
    set_nomemory = None

SIZE = 4


def _busy(**options: Any) -> BlockManager:
    """A pool in which every kind of free block, sharing and swapping is there."""
    m = BlockManager(16, SIZE, num_host_blocks=12, **options)
    tokens: Any = range if m.prefix_caching else int
    m.allocate("old", tokens(11))
    m.allocate("older", tokens(9))
    m.allocate("A", tokens(6))
    m.allocate("B", [7] * 19, lookahead=3)
    m.fork("A", "C")
    m.free("old")
    m.free("older")
    m.allocate("away", [5] * 9)
    m.swap_out("away")
    return m


def _state(m: BlockManager) -> Any:
    pool, host = m._pool, m._host
    same = [[b] if isinstance(b, int) else list(b) for b in pool.index.blocks.values()]
    return (
        m.sequences,
        {
            seq: (tuple(h.blocks), h.num_tokens, h.ids and h.ids.tolist(), h.parent, h.gone, h.away)
            for seq, h in m._held.items()
        },
        (
            list(pool.ref_counts),
            list(pool.keys),
            pool.next(pool.num_free),
            pool.num_free,
            list(pool.eviction),
        ),
        (list(host.ref_counts), host.next(host.num_free), host.num_free),
        (list(pool.index.blocks), same),
        list(m.events),
    )


def ids(m: BlockManager, *tokens: int) -> Any:
    return list(tokens) if m.prefix_caching else len(tokens)


CALLS: dict[str, Callable[[BlockManager], object]] = {
    "allocate": lambda m: m.allocate("new", ids(m, *range(5), 1, 1, 1, 1)),
    "allocate what evicts": lambda m: m.allocate("new", ids(m, *range(100, 130))),
    "allocate what it evicts": lambda m: m.allocate("new", ids(m, *range(8), *[3] * 20)),
    "append one": lambda m: m.append("A", ids(m, 3)),
    "append and fill": lambda m: m.append("B", ids(m, 3)),
    "append and grow": lambda m: m.append("B", ids(m, *range(9))),
    "append and copy": lambda m: m.append("C", ids(m, *range(21))),
    "fork": lambda m: m.fork("B", "new"),
    "free": lambda m: m.free("B"),
    "preempt": lambda m: m.preempt("B"),
    "preempt by swap": lambda m: m.preempt("A", how="swap"),
    "swap out": lambda m: m.swap_out("A", "C", "B"),
    "swap in": lambda m: m.swap_in("away"),
    "free what is away": lambda m: m.free("away"),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "unrecorded": {"record": False},
    "window": {"window": 5},
    "cached": {"prefix_caching": True},
    "cached, unrecorded": {"prefix_caching": True, "record": False},
    "cached, window": {"prefix_caching": True, "window": 5},
}


# CPython 3.12.1 and 3.13.0 crash on their own when the allocation behind a generator expression fails.
survives = pytest.mark.skipif(
    set_nomemory is None or sys.version_info >= (3, 12),
    reason="this Python does not survive an allocation that fails, or has no module to make one fail",
)


def _fail_at_each_allocation(make: Callable[[], BlockManager], call: Callable[[BlockManager], object]) -> Any:
    """The state before the call and after it, once it has been seen to change nothing where it fails."""
    call(make())  # once, so that what Python prepares at a first call is there
    for n in range(1, 2000):
        m = make()
        before = _state(m)
        failed = False
        set_nomemory(n, n + 1)
        try:
            call(m)
        except MemoryError:
            failed = True
        finally:
            remove_mem_hooks()
        if not failed:
            return before, _state(m)
        assert _state(m) == before, f"allocation {n} failed"
    raise AssertionError("the call never came through")


@survives
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("call", CALLS)
def test_whichever_allocation_of_memory_fails_nothing_has_changed(call, options):
    before, after = _fail_at_each_allocation(lambda: _busy(**OPTIONS[options]), CALLS[call])
    assert after != before


@survives
def test_whichever_allocation_fails_while_the_cache_is_reset_nothing_has_changed():
    def idle() -> BlockManager:
        m = _busy(prefix_caching=True)
        for seq in m.sequences:
            m.free(seq)
        return m

    before, after = _fail_at_each_allocation(idle, BlockManager.reset_cache)
    assert any(before[2][1]) and not any(after[2][1])


class Tripping:
    """Wraps a policy, and raises at its n-th call, before or after doing what it was asked to."""

    def __init__(self, n: int, after: bool) -> None:
        self.policy, self.left, self.after = LeastRecentlyFreed(), -1, after
        self.n = n

    def _trip(self, verb: Callable[..., None], *arguments: Any) -> None:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise RuntimeError("tripped")
        verb(*arguments)
        if self.left == 0:
            raise RuntimeError("tripped")

    def add(self, blocks: Any, priority: int) -> None:
        self._trip(self.policy.add, blocks, priority)

    def remove(self, blocks: Any) -> None:
        self._trip(self.policy.remove, blocks)

    def __iter__(self) -> Any:
        return iter(self.policy)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_a_policy_that_raises_changes_nothing_but_perhaps_its_own_order(call, after):
    for n in (1, 2, 3):
        policy = Tripping(n, after)
        m = _busy(prefix_caching=True, eviction=policy)
        before = _state(m)
        policy.left = n
        try:
            CALLS[call](m)
        except RuntimeError:
            now = _state(m)
            assert now[:2] == before[:2] and now[3:] == before[3:]
            assert now[2][:2] == before[2][:2] and now[2][3] == before[2][3]
            assert sorted(now[2][4]) == sorted(before[2][4])


@pytest.mark.parametrize("policy", [LeastRecentlyFreed, ByPriority])
def test_a_failing_pool_is_left_as_it_was(policy, monkeypatch):
    for call in CALLS.values():
        m = _busy(prefix_caching=True, eviction=policy())
        before = _state(m)
        for pool in (m._pool, m._host):
            for verb in ("take", "name", "release"):
                monkeypatch.setattr(pool, verb, _raise)
        with pytest.raises((MemoryError, AssertionError)):
            call(m)
            raise AssertionError  # one token that only joins its block, or a fork, asks nothing of the pool
        if len(m.events) == len(before[-1]):
            assert _state(m) == before


def _raise(*_: Any, **__: Any) -> None:
    raise MemoryError
