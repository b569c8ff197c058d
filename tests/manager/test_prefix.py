"""What the prefix cache promises: what is found, what is not, and the reason given."""

from __future__ import annotations

import numpy as np
import pytest

from pagedlab import Admission, BlockManager, ByPriority, CacheInUse, End, LeastRecentlyFreed
from pagedlab.events import Allocate, Append, Cache, CacheHit, Evict, Free, ResetCache
from pagedlab.prefix import Evicted


def cached(num_blocks: int = 8, **options: object) -> BlockManager:
    return BlockManager(num_blocks, 4, prefix_caching=True, **options)  # type: ignore[arg-type]


def test_a_hit_shares_the_blocks_of_a_running_sequence():
    m = cached()
    m.allocate("A", range(10))
    allocation = m.allocate("B", range(12))
    assert allocation == ((3,), 8) and m.table("B") == (0, 1, 3)
    assert m.ref_count(0) == 2 and m.is_cached(1) and not m.is_cached(2) and m.is_cached(3)


def test_generated_tokens_extend_the_prefix_one_by_one_or_many_at_once():
    for chunks in ([[token] for token in range(6, 16)], [range(6, 16)], [range(6, 9), range(9, 16)]):
        m = cached()
        m.allocate("A", range(6))
        for chunk in chunks:
            m.append("A", list(chunk))
        m.free("A")
        assert m.match(range(17)).num_cached_tokens == 16


def test_a_forks_own_tokens_are_its_own_prefix():
    m = cached()
    m.allocate("A", range(6))
    m.fork("A", "B")
    m.append("A", [1, 1])
    m.append("B", [2, 2])
    assert m.match([0, 1, 2, 3, 4, 5, 1, 1, 9]).blocks == (0, m.table("A")[1])
    assert m.match([0, 1, 2, 3, 4, 5, 2, 2, 9]).blocks == (0, m.table("B")[1])


def test_of_equal_blocks_a_hit_takes_the_earliest_that_is_still_there():
    m = cached(6)
    m.allocate("A", range(4))
    m.allocate("B", range(4))  # its only block is recomputed: a second one with the same key
    m.allocate("C", range(4))
    m.free("B")
    m.free("C")
    assert m.match(range(5)).blocks == (0,)
    m.free("A")
    m.allocate("D", [9] * 16)  # 3, 4, 5 and then block 1, the first that was let go
    assert m.match(range(5)).blocks == (0,)
    m.allocate("E", [8] * 8)  # evicts 2 and 0
    assert m.match(range(5)).end is End.EVICTED


def test_a_block_handed_out_for_the_content_that_it_had_becomes_the_latest_of_it():
    m = cached(2)
    m.allocate("A", range(4))
    m.allocate("B", range(4))
    m.free("A")
    m.allocate("C", range(4))  # evicts block 0, which gets the very same key again
    assert m.table("C") == (0,) and m.match(range(5)).blocks == (1,)


@pytest.mark.parametrize(
    "tokens, salt, hit, end",
    [
        ([], None, 0, End.SHORT),
        (range(3), None, 0, End.SHORT),
        ([7] * 9, None, 0, End.NOTHING_ALIKE),
        ([*range(4), *[7] * 9], None, 4, End.DIFFERENT),
        (range(8), None, 4, End.RECOMPUTED),
        (range(10), None, 8, End.SHORT),
        (range(9), None, 8, End.SHORT),
        (range(9), "s", 0, End.OTHER_SALT),
        (range(9), "", 0, End.OTHER_SALT),
        ([50, 51, 52, 53, 54], "t", 4, End.SHORT),
        ([50, 51, 52, 53, 54], None, 0, End.OTHER_SALT),
        ([60, 61, 62, 63, 64], None, 0, End.EVICTED),
    ],
)
def test_match_says_why_a_hit_ends_and_touches_nothing(tokens, salt, hit, end):
    m = cached(8)
    m.allocate("gone", [60, 61, 62, 63, 64])
    m.free("gone")
    m.allocate("fills the pool", [1] * 31)
    m.free("fills the pool")
    m.allocate("A", range(8))
    m.allocate("S", [50, 51, 52, 53], salt="t")
    state = (m.num_free_blocks, len(m.events), m._pool.next(m.num_free_blocks))
    match = m.match(tokens, salt=salt)
    assert (match.num_cached_tokens, match.end) == (hit, end) and len(match.blocks) == hit // 4
    assert state == (m.num_free_blocks, len(m.events), m._pool.next(m.num_free_blocks))
    if end is End.EVICTED:
        assert match.evicted is not None and match.evicted.seq_id == "fills the pool"
        event = m.events[match.evicted.event]
        assert isinstance(event, Evict) and event.seq_id == "fills the pool"
        assert "evicted when 'fills the pool' took its place" in str(match)


def test_of_many_salts_one_that_knows_more_of_a_prompt_is_found():
    m = cached(64)
    for number in range(20):
        m.allocate(number, [number] * 5, salt=f"tenant {number}")
    m.allocate("short", [7] * 4)
    assert m.match([7] * 9, salt="new").end is End.OTHER_SALT
    assert m.match([7] * 9).end is End.DIFFERENT  # no other salt has more than its four tokens
    m.append(7, [7] * 3)
    assert m.match([7] * 9).end is End.OTHER_SALT


def test_without_a_log_an_eviction_is_still_known():
    m = cached(1, record=False)
    m.allocate("A", range(4))
    m.free("A")
    m.allocate("B", range(50, 53))
    assert m.match(range(5)).evicted == Evicted("B", None)


def test_hits_are_not_the_victims_of_the_same_call():
    m = cached(3)
    m.allocate("A", range(4))
    m.allocate("B", range(100, 108))
    m.free("A")  # block 0 is the first to go
    m.free("B")
    allocation = m.allocate("C", range(9))
    assert allocation.num_cached_tokens == 4 and m.table("C") == (0, 2, 1)


def test_a_prompt_is_admitted_when_what_it_does_not_find_fits():
    m = cached(4)
    m.allocate("A", range(13))
    assert m.can_allocate(range(14)) is Admission.LATER
    m.free("A")
    assert m.can_allocate(range(16)) is Admission.OK and m.can_allocate(range(17)) is Admission.NEVER
    m = cached(4)
    m.allocate("A", range(12))
    assert m.can_allocate(range(13)) is Admission.OK  # shares three blocks, takes one
    assert m.can_allocate(range(100, 113)) is Admission.LATER


def test_the_cache_is_reset_only_when_no_cached_block_is_held():
    m = cached(8, num_host_blocks=2)
    m.allocate("A", range(8))
    with pytest.raises(CacheInUse, match="2 cached block"):
        m.reset_cache()
    m.swap_out("A")
    with pytest.raises(CacheInUse, match="2 cached block"):
        m.reset_cache()
    m.free("A")
    order = m._pool.next(8)
    m.reset_cache()
    assert m.match(range(9)).end is End.NOTHING_ALIKE and m._pool.next(8) == order
    assert not any(m.is_cached(block) for block in range(8)) and m.events[-1] == ResetCache()
    m.allocate("B", range(32))
    assert m.table("B") == tuple(order)


def test_keys_come_back_from_the_host():
    m = cached(4, num_host_blocks=4)
    m.allocate("A", range(9))
    m.swap_out("A")
    m.allocate("B", [7] * 13)
    assert m.match(range(9)).end is End.EVICTED
    m.free("B")
    m.swap_in("A")
    assert m.match(range(9)).blocks == m.table("A")[:2]
    m.append("A", [9, 10, 11])
    assert m.match(range(13)).num_cached_tokens == 12


def test_within_a_window_a_hit_needs_only_what_the_window_sees():
    m = BlockManager(8, 2, prefix_caching=True, window=4)
    m.allocate("A", range(9))
    m.append("A", [9])  # leaves blocks 0, 1 and 2 behind
    assert m.table("A") == (-1, -1, -1, 3, 4)
    m.allocate("B", [50, 51] * 4)  # takes what was never used, then evicts
    assert m.match(range(9)).blocks == (0, 1)  # block 2 is gone: after 8 tokens the next one would look at it
    assert m.match(range(11)).blocks == (3, 4) and m.match(range(11)).num_cached_tokens == 10
    m.free("B")
    assert m.allocate("C", range(11)).num_cached_tokens == 10
    assert m.table("C")[:5] == (-1, -1, -1, 3, 4) and m.ref_count(3) == 2


@pytest.mark.parametrize(
    "tokens, error, words",
    [
        (5, TypeError, "prefix caching needs token ids, a sequence of integers, not 5"),
        (0, TypeError, "not 0"),
        (np.int64(3), TypeError, r"needs token ids, .* not (np.int64\(3\)|3)"),
        (1.5, TypeError, "not 1.5"),
        ("abc", TypeError, "not 'abc'"),
        ({1, 2}, TypeError, "a sequence of integers"),
        ([1, "x"], TypeError, "a sequence of integers"),
        (["x"], TypeError, "a sequence of integers"),
        ([1.0], TypeError, "a sequence of integers"),
        (np.zeros((2, 2), dtype=int), TypeError, "a sequence of integers"),
        ([-1], ValueError, "token ids must be from 0"),
        ([2**32], ValueError, "token ids must be from 0"),
        (True, TypeError, "not True"),
    ],
)
def test_what_is_not_token_ids_is_refused_and_changes_nothing(tokens, error, words):
    m = cached()
    m.allocate("A", range(5))
    for call in (
        lambda: m.append("A", tokens),
        lambda: m.allocate("B", tokens),
        lambda: m.match(tokens),
        lambda: m.can_allocate(tokens),
    ):
        with pytest.raises(error, match=words):
            call()
    assert m.num_tokens("A") == 5 and m.sequences == ("A",) and len(m.events) == 2
    m.append("A", [5, 6, 7])
    assert m.match(range(9)).num_cached_tokens == 8


def test_arrays_ranges_and_lists_of_ids_are_the_same():
    m = cached()
    m.allocate("A", np.arange(9))
    for tokens in (range(9), list(range(9)), tuple(range(9)), np.arange(9, dtype=np.int32)):
        assert m.match(tokens).num_cached_tokens == 8


def test_what_the_cache_does_is_in_the_log():
    m = cached(3)
    m.allocate("A", range(7))
    m.append("A", [7])
    m.free("A")
    m.allocate("B", [*range(4), 9, 9, 9, 9, 9])
    assert list(m.events) == [
        Allocate("A", 7, (0, 1)),
        Cache("A", (0,)),
        Append("A", 1, ()),
        Cache("A", (1,)),
        Free("A", (0, 1)),
        CacheHit("B", 4, (0,)),
        Evict("B", (1,)),
        Allocate("B", 9, (0, 2, 1)),
        Cache("B", (2,)),
    ]


def test_priorities_decide_who_is_evicted():
    m = cached(4, eviction=ByPriority())
    m.allocate("system prompt", [1] * 4, priority=100)
    m.allocate("A", [2] * 4)
    m.allocate("scratch", [3] * 4, priority=0)
    m.allocate("B", [4] * 4)
    for seq in ("system prompt", "A", "scratch", "B"):
        m.free(seq)
    m.allocate("new", [5] * 12)
    assert m.match([1] * 5).num_cached_tokens == 4
    assert [m.match([token] * 5).end for token in (2, 3, 4)] == [End.EVICTED] * 3


class MostRecentlyFreed(LeastRecentlyFreed):
    """A learner's policy, in one line."""

    def __iter__(self):
        return reversed(self._queue)


def test_a_policy_of_ones_own_is_a_few_lines():
    m = cached(4, eviction=MostRecentlyFreed())
    for seq in range(4):
        m.allocate(seq, [seq] * 4)
    for seq in range(4):
        m.free(seq)
    m.allocate("new", [9] * 4)
    assert m.table("new") == (3,)


@pytest.mark.parametrize("offer", [[], [0], [1, 1], [1, 0], [1, -1]])
def test_a_policy_that_offers_what_it_must_not_changes_nothing(offer):
    class Broken(LeastRecentlyFreed):
        def __iter__(self):
            return iter(offer if m.num_free_blocks < 8 else [])

    m = cached(3, eviction=LeastRecentlyFreed())
    m.allocate("held", [9] * 4)
    m.allocate("A", range(8))
    m.free("A")
    m._pool.eviction = Broken()
    with pytest.raises(RuntimeError, match="must offer 2 free blocks"):
        m.allocate("B", [5] * 8)
    assert m.sequences == ("held",) and m.num_free_blocks == 2


def test_a_policy_that_forgets_to_forget_gives_no_block_to_two():
    class Forgetful(LeastRecentlyFreed):
        def remove(self, blocks):
            pass

    m = cached(4, eviction=Forgetful())
    m.allocate("A", range(4))
    m.allocate("B", [9] * 12)
    m.free("A")
    m.free("B")
    m.allocate("C", [5] * 2)  # takes block 0 and gives it back without a key, but it is offered still
    m.free("C")
    with pytest.raises(RuntimeError, match=r"must offer 1 free blocks, got \[0\]"):
        m.allocate("D", [7] * 8)
    assert m.sequences == () and m.num_free_blocks == 4
