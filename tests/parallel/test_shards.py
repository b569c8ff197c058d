"""Who holds which heads."""

from __future__ import annotations

import pytest

from pagedlab.parallel import shard


@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_every_query_head_is_on_one_rank_with_the_kv_head_it_reads(ranks, kv_heads):
    q_heads = 8
    parts = [shard(rank, ranks, q_heads, kv_heads) for rank in range(ranks)]
    assert [head for part in parts for head in part.q_heads] == list(range(q_heads))
    group = q_heads // kv_heads
    for part in parts:
        assert {head // group for head in part.q_heads} == set(part.kv_heads)
        assert len(part.q_heads) % len(part.kv_heads) == 0
        assert part.copies == sum(part.kv_heads == other.kv_heads for other in parts)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((2, 2, 8, 8), "rank must be from 0 to 1, got 2"),
        ((0, 2, 8, 3), "multiple of kv_heads, got 8 and 3"),
        ((0, 9, 8, 1), "only 8 query heads"),
        ((0, 1, 0, 0), "multiple of kv_heads"),
    ],
)
def test_heads_that_cannot_be_shared_out_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        shard(*arguments)
