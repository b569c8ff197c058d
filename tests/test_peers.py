"""Frameworks' kernels over our cache: the same answers, and a reason where one cannot run."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from pagedlab import PagedKVCache, peers
from pagedlab.decoding import Decode, Sizes
from pagedlab.museum import Batch
from pagedlab.museum.faults import CAREFUL, NAIVE

CLEAN = [NAIVE, *(replace(batch, poisoned=False) for batch in CAREFUL)]


def present(name: str) -> peers.Peer:
    peer = peers.get(name)
    if peer.missing:
        pytest.skip(f"{name}: {peer.missing}")
    return peer


@pytest.mark.parametrize("batch", CLEAN, ids=str)
def test_flex_attention_gives_our_answers_over_our_cache_and_table(batch):
    batch.check(peers.get("flex"))


def test_flex_attention_reads_a_cache_as_flex_attention_keeps_it():
    cache = PagedKVCache(6, 16, 2, 8)
    cache.key.normal_()
    cache.value.normal_()
    layout = cache.as_layout("flex-attention")
    table = layout.table([(4, 1), (2,)], [20, 7])
    query, lengths = torch.randn(2, 4, 8), table["kv_len"]
    found = peers.get("flex")(query, cache.key, cache.value, table["page_table"], lengths)
    for seq, (blocks, length) in enumerate([((4, 1), 20), ((2,), 7)]):
        key, value = (rows.repeat_interleave(2, 1) for rows in cache.read(blocks, length))
        score = torch.einsum("hd,thd->ht", query[seq], key) * 8**-0.5
        torch.testing.assert_close(found[seq], torch.einsum("ht,thd->hd", score.softmax(-1), value))


@pytest.mark.slow  # torch.compile takes half a minute
def test_compiled_flex_attention_gives_the_same_answer():
    batch = Batch([5, 40, 33], heads=4, kv_heads=2, head_dim=16, scale=0.25, shuffled=True)
    batch.check(present("flex compiled"))


@pytest.mark.gpu
def test_compiled_flex_attention_gives_the_same_answer_on_a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    decode = Decode(Sizes(seqs=3, tokens=300, kv_heads=2, q_heads=8, dtype="bfloat16"))
    assert decode.peer(present("flex compiled"), 16).name == "flex compiled 16"  # made only if it is right


def test_vllm_gives_the_same_answer_in_its_own_layout():
    batch = Batch([5, 40, 64], block_size=32, heads=4, kv_heads=2, head_dim=32, scale=0.25, shuffled=True)
    batch.check(present("vllm"))


def test_vllm_writes_where_its_layout_says():
    present("vllm")
    cache = PagedKVCache(5, 32, 2, 64)
    key, value = torch.randn(2, 70, 2, 64)
    slots = [block * 32 + offset for block in (4, 1, 3) for offset in range(32)][:70]
    theirs = cache.as_layout("vllm-cpu").tensors["kv_cache"]
    pools = theirs.view(5, 2, 64, 64).chunk(2, dim=2)
    where = torch.tensor(slots)
    torch.ops._C.cpu_attn_reshape_and_cache(key, value, *pools, where, "vec", 1.0, 1.0, "auto")
    cache.write(key, value, slots)
    ours = cache.as_layout("vllm-cpu")
    for token, slot in enumerate(slots):
        for which, rows in (("key", key), ("value", value)):
            _, number = ours.address(which, slot // 32, slot % 32, head=1, element=7)
            assert theirs.flatten()[number] == ours.tensors["kv_cache"].flatten()[number] == rows[token, 1, 7]


def test_a_peer_is_a_case_beside_ours_only_when_its_answer_is_right():
    decode = Decode(Sizes(seqs=2, tokens=40, kv_heads=2, q_heads=4, head_dim=16))
    case = decode.peer(peers.get("flex"), 16)
    assert case.name == "flex 16" and case.bytes_moved == decode.paged(16).bytes_moved
    wrong = replace(peers.get("flex"), name="wrong", prepare=lambda query, *rest: lambda: query)
    with pytest.raises(ArithmeticError, match="wrong 16 is off by"):
        decode.peer(wrong, 16)


def test_a_missing_peer_says_what_it_lacks(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    compiled = peers.get("flex compiled")
    assert "needs a C++ compiler" in compiled.missing
    with pytest.raises(ValueError, match="flex compiled cannot run here: torch.compile needs"):
        compiled(*NAIVE.arguments)
    with pytest.raises(KeyError, match="no peer 'flux'; there are flex, flex compiled, vllm"):
        peers.get("flux")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (None, "vLLM is not installed"),
        (SimpleNamespace(origin="/nowhere/vllm/__init__.py"), "has no CPU attention for torch"),
    ],
)
def test_a_vllm_that_will_not_do_is_told_apart_from_none(monkeypatch, spec, says):
    monkeypatch.setattr(peers, "find_spec", lambda name: spec)
    assert says in peers._load_vllm.__wrapped__()


def test_a_size_that_a_framework_refuses_is_refused_before_it_runs():
    never = replace(peers.get("vllm"), missing="", prepare=lambda *batch: pytest.fail("it ran"))
    with pytest.raises(ValueError, match="block_size=16: vLLM on a CPU takes multiples of 32"):
        never(*NAIVE.arguments, scale=1.0)
