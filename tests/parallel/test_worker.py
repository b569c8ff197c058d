"""The answers that ranks are compared with: one process's, held against attention that knows no table."""

from __future__ import annotations

from itertools import islice

import pytest

pytest.importorskip("torch.distributed")

import torch

from pagedlab import parallel
from pagedlab.parallel import Plan, Shard
from pagedlab.parallel.transport import LostRank, with_others
from pagedlab.parallel.worker import ShardRunner, TokenBank

CPU = torch.device("cpu")


@pytest.mark.parametrize("seed", [0, 1])
def test_one_process_answers_as_attention_over_each_sequences_own_tokens_does(seed, monkeypatch):
    """Forks, copies, frees and preemptions included: what a sequence has is followed by its name alone."""
    plan = Plan(seed=seed)
    bank = TokenBank(plan, CPU)
    alone = ShardRunner(plan, plan.num_blocks, Shard(range(plan.kv_heads), range(plan.q_heads), 1), bank, CPU)
    schedule, parents, tokens = plan.schedule(plan.num_blocks), {}, {}
    fork = schedule.manager.fork

    def remember(parent, child):
        parents[child] = parent
        return fork(parent, child)

    monkeypatch.setattr(schedule.manager, "fork", remember)
    for step in islice(schedule, 300):
        answers = alone.run(step)
        for (name, row), answer in zip(step.rows.items(), answers, strict=True):
            before = tokens[name] if name in tokens else tokens.get(parents.get(name), torch.empty(0))
            added = bank.places(name, row.start, row.stop)
            tokens[name] = torch.cat([before[: row.start].long(), added])
            assert len(tokens[name]) == row.stop
            torch.testing.assert_close(answer, attention(bank, tokens[name]), atol=2e-6, rtol=0)
    assert min(schedule.counts.values()) > 9, schedule.counts


def attention(bank, places):
    """Of the last token to all: `[q_heads, head_dim]`, by the textbook."""
    query = bank.query[places[-1]].double()
    group = len(query) // bank.key.shape[1]
    keys, values = (part[places].double().repeat_interleave(group, 1) for part in (bank.key, bank.value))
    weights = torch.softmax(torch.einsum("hd,thd->ht", query, keys) * query.shape[1] ** -0.5, 1)
    return torch.einsum("ht,thd->hd", weights, values).float()


def test_every_name_of_the_package_is_found():
    assert all(getattr(parallel, name) is not None for name in parallel.__all__)
    with pytest.raises(AttributeError, match="no attribute 'pigeon'"):
        parallel.pigeon  # noqa: B018


def test_only_what_needs_the_others_can_lose_one():
    with pytest.raises(LostRank, match="closed by peer"), with_others():
        raise RuntimeError("connection closed by peer")
    with pytest.raises(ValueError, match="mine"), with_others():
        raise ValueError("mine")
