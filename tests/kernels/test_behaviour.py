"""What every backend must do, case by case. The ids in brackets are those of tests/cases/kernels.json."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from batches import NOT_A_BLOCK, assert_close, batch, by_hand

from pagedlab_kernels import (
    CSRTable,
    contiguous_attention,
    copy_blocks,
    paged_attention,
    paged_prefill,
    write_kv,
)

OPTIONS = [
    {"scale": 0.25},
    {"window": 1},
    {"window": 7},
    {"window": 10**6},
    {"softcap": 0.5},
    {"softcap": 30.0},
    {"window": 20, "softcap": 2.0, "scale": 0.3},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_mean_what_they_say(backend, options):
    case = batch([0, 1, 6, 7, 8, 100], block_size=5)
    exact = tuple(map(torch.from_numpy, by_hand(case, **options)))
    assert_close(case.paged(backend=backend, return_lse=True, **options), exact, torch.float32)
    assert_close(case.contiguous(backend=backend, return_lse=True, **options), exact, torch.float32)


@pytest.mark.parametrize("num_splits", [1, 2, 3, 7, 16])
def test_splits_do_not_change_the_answer(backend, num_splits):
    if backend == "cpu":
        pytest.skip("shares out whole sequences")
    case = batch([0, 1, 5, 80, 333], block_size=16)  # mostly fewer tokens than splits, or fewer tiles
    found = case.paged(backend=backend, num_splits=num_splits, return_lse=True, window=300)
    assert_close(found, case.exact(window=300), torch.float32)


def test_unused_slots_of_a_block_may_hold_nan(backend):
    """[k-01] Blocks of 4, 13 tokens: three slots are left over."""
    case = batch([13], block_size=4)
    assert case.key_cache.isnan().any()
    clean = replace(case, key_cache=case.key_cache.nan_to_num(), value_cache=case.value_cache.nan_to_num())
    assert torch.equal(case.paged(backend=backend), clean.paged(backend=backend))


def test_blocks_that_no_sequence_names_may_hold_nan(backend):
    """[k-02]"""
    case = batch([32, 16], block_size=16)
    named = set(case.block_tables[case.block_tables.ge(0) & case.block_tables.lt(10**6)].tolist())
    assert len(case.key_cache) > len(named)
    assert case.paged(backend=backend).isfinite().all()


def test_nan_inside_a_sequence_shows(backend):
    case = batch([20, 20], block_size=16)
    case.key_cache[case.block_tables[0, 1], 2] = torch.nan
    out = case.paged(backend=backend)
    assert out[0].isnan().all()
    assert out[1].isfinite().all()


def test_empty_sequence_gives_zeros_and_leaves_the_others_alone(backend):
    """[k-05]"""
    out, lse = batch([9, 0, 40]).paged(backend=backend, return_lse=True)
    assert (out[1] == 0).all() and (lse[1] == -torch.inf).all()
    full = batch([9, 0, 40])
    kept = replace(
        full, query=full.query[[0, 2]], block_tables=full.block_tables[[0, 2]], seq_lens=full.seq_lens[[0, 2]]
    )
    assert torch.equal(out[[0, 2]], kept.paged(backend=backend))


def test_batch_without_sequences_gives_an_empty_answer(backend):
    out, lse = batch([]).paged(backend=backend, return_lse=True)
    assert out.shape == (0, 4, 32) and lse.shape == (0, 4)
    assert batch([]).contiguous(backend=backend).shape == (0, 4, 32)


def test_batch_of_empty_sequences_needs_no_block(backend):
    case = batch([0, 0])
    empty = replace(case, key_cache=case.key_cache[:0], value_cache=case.value_cache[:0])
    assert (empty.paged(backend=backend) == 0).all()
    assert (case.contiguous(backend=backend) == 0).all()


@pytest.mark.parametrize(("window", "expected"), [(None, 4.5), (1, 8.0), (4, 6.5)])
def test_window_counts_the_current_token(backend, window, expected):
    """[k-08] Values 1 to 8 and equal scores: the mean of the last values."""
    value = torch.arange(1.0, 9.0).view(2, 4, 1, 1)
    table, lengths = torch.tensor([[0, 1]], dtype=torch.int32), torch.tensor([8], dtype=torch.int32)
    query, key = torch.zeros(1, 1, 1), torch.zeros_like(value)
    out = paged_attention(query, key, value, table, lengths, window=window, backend=backend)
    assert out.item() == pytest.approx(expected)


def test_order_of_blocks_does_not_change_a_bit(backend):
    """[k-11]"""
    case = batch([0, 7, 70, 200], block_size=16)
    moved_to = torch.randperm(len(case.key_cache))
    moved = replace(case, block_tables=case.block_tables.clone())
    named = case.block_tables.ge(0) & case.block_tables.lt(len(moved_to))
    moved.block_tables[named] = moved_to[case.block_tables[named].long()].int()
    back = moved_to.argsort()
    moved = replace(moved, key_cache=case.key_cache[back], value_cache=case.value_cache[back])
    for here, there in zip(
        case.paged(backend=backend, return_lse=True),
        moved.paged(backend=backend, return_lse=True),
        strict=True,
    ):
        assert torch.equal(here, there)


def test_block_size_does_not_change_the_answer(backend):
    """[k-12, k-18] The same tokens in blocks of 1, 16 and 256: no block is too large for a kernel."""
    case = batch([300, 17], block_size=16)
    answers = []
    for size in (1, 16, 256):
        cut = batch([300, 17], block_size=size)
        for rows, cache in ((case.keys, cut.key_cache), (case.values, cut.value_cache)):
            for seq, length in enumerate(case.seq_lens.tolist()):
                positions = torch.arange(length)
                cache[cut.block_tables[seq, positions // size].long(), positions % size] = rows[seq, :length]
        answers.append(replace(cut, query=case.query).paged(backend=backend))
    torch.testing.assert_close(answers[1], answers[0])
    torch.testing.assert_close(answers[2], answers[0])


def test_entries_past_the_end_are_never_followed(backend):
    """[k-14] And two more columns of them than any sequence needs."""
    case = batch([5, 40])
    wider = replace(case, block_tables=torch.cat([case.block_tables, NOT_A_BLOCK.repeat(2, 1)], dim=1))
    assert torch.equal(wider.paged(backend=backend), case.paged(backend=backend))


def test_entries_left_of_the_window_are_never_followed(backend):
    case = batch([100, 40, 8], block_size=4)
    released = replace(case, block_tables=case.block_tables.clone())
    for row, length in zip(released.block_tables, case.seq_lens.tolist(), strict=True):
        row[: max(0, length - 10) // 4] = -1
    assert torch.equal(released.paged(backend=backend, window=10), case.paged(backend=backend, window=10))


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("block_size", [1, 16])
def test_csr_table_gives_what_the_padded_table_gives(backend, layout, block_size):
    case = batch([0, 33, 0, 1, 48], block_size=block_size, layout=layout)
    csr = case.csr()
    as_tensors = CSRTable(*map(torch.from_numpy, vars(csr).values()))
    for table in (csr, as_tensors):
        assert torch.equal(
            replace(case, block_tables=table).paged(backend=backend), case.paged(backend=backend)
        )


def test_cache_may_be_any_view_with_dense_heads(backend):
    """K and V fused in one tensor, heads outermost, and a cache that starts somewhere inside a larger one."""
    case = batch([5, 40], layout="NHD")
    expected = case.paged(backend=backend)
    fused = torch.cat([case.key_cache, case.value_cache], dim=3)
    inside = torch.full((9, 20, 2, 32), torch.nan)[1 : 1 + len(case.key_cache), 2:18]
    heads_first = case.value_cache.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3)
    inside.copy_(case.key_cache)
    for key, value in ((fused[..., :32], fused[..., 32:]), (inside, heads_first)):
        assert torch.equal(replace(case, key_cache=key, value_cache=value).paged(backend=backend), expected)


def test_query_and_lengths_may_be_any_view(backend):
    case = batch([5, 40])
    query = case.query.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    lengths = torch.stack([case.seq_lens, -case.seq_lens], dim=1)[:, 0]
    table = torch.cat([case.block_tables, case.block_tables], dim=1)[:, : case.block_tables.shape[1]]
    viewed = replace(case, query=query, seq_lens=lengths, block_tables=table)
    assert_close(viewed.paged(backend=backend, return_lse=True), case.exact(), torch.float32)


@pytest.mark.parametrize("heads", [(1, 1), (3, 1), (6, 1), (20, 1), (64, 1), (14, 2)], ids=str)
def test_query_groups_of_any_size(backend, heads):
    case = batch([30], heads=heads, head_dim=16)
    assert_close(case.paged(backend=backend, return_lse=True), case.exact(), torch.float32)


@pytest.mark.parametrize("factor", [1e-3, 30.0, 1e3, 1e5, 1e9])
def test_scores_of_any_magnitude(backend, factor):
    """Scores far apart leave one token standing: its value, and neither NaN nor a vanished sum."""
    case = batch([3, 700], block_size=16)
    case = replace(case, query=case.query * factor)
    out, lse = case.paged(backend=backend, return_lse=True)
    exact_out, exact_lse = case.exact()
    torch.testing.assert_close(lse.double(), exact_lse, atol=1e-5, rtol=1e-5)
    # Rounding moves a score by its magnitude times 1e-7, and its weight by as much.
    torch.testing.assert_close(out.double(), exact_out, atol=min(2e-6 * max(1.0, factor), 1e-3), rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_every_16_bit_number_arrives(backend, dtype):
    """One token per number, so that the output is the number itself: subnormal, infinite and NaN included."""
    numbers = torch.arange(-(2**15), 2**15, 17, dtype=torch.int32).to(torch.int16).view(dtype)
    numbers = torch.cat([numbers, torch.tensor([0.0, torch.inf, -torch.inf, torch.nan], dtype=dtype)])
    if backend == "triton":
        numbers = numbers[:: len(numbers) // 12]  # one program each, and this is the interpreter
    values = numbers.view(-1, 1, 1, 1)
    query, ones = torch.ones(len(values), 1, 1, dtype=dtype), torch.ones(len(values), dtype=torch.int32)
    out = contiguous_attention(query, torch.zeros_like(values), values, ones, backend=backend)
    torch.testing.assert_close(out.view(-1), numbers, atol=0, rtol=0, equal_nan=True)


def test_auto_picks_the_fastest_that_can_serve():
    case = batch([20])
    assert torch.equal(case.paged(), case.paged(backend="cpu"))
    wide = replace(
        case,
        query=case.query.double(),
        key_cache=case.key_cache.double(),
        value_cache=case.value_cache.double(),
    )
    assert torch.equal(wide.paged(), wide.paged(backend="reference"))
    assert torch.equal(case.paged(num_splits=2), case.paged(num_splits=2, backend="reference"))


def test_csr_table_is_frozen_and_knows_its_size():
    table = CSRTable(np.array([0, 1, 1], np.int32), np.array([4], np.int32), np.array([3, 0], np.int32))
    assert table.num_seqs == 2
    with pytest.raises(AttributeError):
        table.indptr = None


def test_offsets_beyond_32_bits(backend):
    """A cache of more than 2^31 elements, of which only the pages that are touched exist."""
    try:
        cache = torch.empty(2**25 + 2, 1, 1, 64, dtype=torch.float16)
    except RuntimeError as error:
        pytest.skip(f"no address space for a large cache: {error}")
    # An offset cut to 32 bits would lead out of the cache, or to its beginning.
    three = torch.full((1, 1, 64), 3.0, dtype=torch.float16)
    write_kv(three, three, cache, cache, [2**25])
    copy_blocks([cache], [(2**25, 2**25 + 1)])
    table, length = torch.tensor([[2**25 + 1]], dtype=torch.int32), torch.tensor([1], dtype=torch.int32)
    assert (paged_attention(three / 3, cache, cache, table, length, backend=backend) == 3).all()
    if backend != "cpu":
        starts = torch.tensor([0, 1], dtype=torch.int32)
        out = paged_prefill(three / 3, cache, cache, table, length, starts, backend=backend)
        assert (out == 3).all()


def test_one_latent_head_serves_all_queries_and_only_the_reference():
    """Decode as multi-head latent attention has it: 576 numbers of one head, and V is the first 512 of K."""
    case = batch([0, 1, 33, 70], heads=(16, 1), head_dim=576)
    case = replace(case, value_cache=case.key_cache[..., :512], values=case.keys[..., :512])
    found = case.paged(backend="reference", return_lse=True, scale=0.04)
    assert found[0].shape == (4, 16, 512)
    assert_close(found, tuple(map(torch.from_numpy, by_hand(case, scale=0.04))), torch.float32)
    assert torch.equal(case.paged(scale=0.04), found[0])  # auto went on to the reference
    with pytest.raises(ValueError, match="cpu cannot serve this call: .* the heads have 576 and 512 numbers"):
        case.paged(backend="cpu")


@pytest.mark.usefixtures("interpreter")
def test_triton_refuses_heads_that_are_unlike():
    case = batch([33], head_dim=64, value_dim=32)
    with pytest.raises(
        ValueError, match="triton cannot serve this call: .* the heads have 64 and 32 numbers"
    ):
        case.paged(backend="triton")


def test_defaults_of_torch_do_not_matter(backend):
    case = batch([5, 40])
    expected = case.paged(backend=backend)
    torch.set_default_dtype(torch.float64)
    try:
        found = case.paged(backend=backend)
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == torch.float32 and torch.equal(found, expected)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("size", [1.0, 1e4, 1e8])
def test_equal_scores_of_any_size_give_the_mean(backend: str, size: float) -> None:
    values = torch.arange(8.0).view(1, 8, 1, 1)
    length = torch.tensor([8], dtype=torch.int32)
    query, keys = torch.full((1, 1, 1), size), torch.ones(1, 8, 1, 1)
    answer = contiguous_attention(query, keys, values, length, scale=1.0, backend=backend)
    torch.testing.assert_close(answer, torch.full((1, 1, 1), 3.5))
