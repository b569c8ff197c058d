"""Tables in the forms that kernels read."""

from __future__ import annotations

import numpy as np
import pytest

from pagedlab import BlockManager, csr_table, padded_table


def test_a_padded_table_is_as_wide_as_its_longest_row():
    table = padded_table([(7, 2, 5), (), (0, 4)])
    assert table.dtype == np.int32 and table.tolist() == [[7, 2, 5], [0, 0, 0], [0, 4, 0]]


def test_no_sequences_make_an_empty_table():
    assert padded_table([]).shape == (0, 0)
    assert csr_table([], [], 16).indptr.tolist() == [0]


def test_a_csr_table_holds_no_padding():
    csr = csr_table([(7, 2, 5), (), (0, 4)], [33, 0, 32], 16)
    assert csr.indptr.tolist() == [0, 3, 3, 5] and csr.indices.tolist() == [7, 2, 5, 0, 4]
    assert csr.last_page_len.tolist() == [1, 0, 16]
    assert {array.dtype for array in (csr.indptr, csr.indices, csr.last_page_len)} == {np.dtype("int32")}


def test_blocks_held_ahead_are_not_in_a_csr_table():
    manager = BlockManager(16, 4)
    manager.allocate("A", 5, lookahead=8)
    manager.allocate("B", 4, lookahead=1)
    tables, lengths = [manager.table(seq) for seq in "AB"], [manager.num_tokens(seq) for seq in "AB"]
    assert [len(table) for table in tables] == [4, 2]
    csr = csr_table(tables, lengths, 4)
    assert csr.indptr.tolist() == [0, 2, 3] and csr.last_page_len.tolist() == [1, 4]
    assert csr.indices.tolist() == [*tables[0][:2], tables[1][0]]


@pytest.mark.parametrize(
    "tables, lengths, block_size, words",
    [
        ([(1,)], [17], 16, "sequence 0: 17 tokens take 2 blocks of 16, its table has 1"),
        ([()], [1], 16, "sequence 0: 1 tokens take 1 blocks of 16, its table has 0"),
        ([(1,)], [-1], 16, "sequence 0: a length must not be negative, got -1"),
        ([(1,)], [1, 2], 16, "1 tables, but 2 sequence lengths"),
        ([(1,)], [1], 0, "block_size must be at least 1, got 0"),
    ],
)
def test_a_table_too_short_for_its_length_is_refused(tables, lengths, block_size, words):
    with pytest.raises(ValueError, match=words):
        csr_table(tables, lengths, block_size)


@pytest.mark.parametrize(
    "table, error, words",
    [
        ([1.5], TypeError, "table 1 must be a flat sequence of integers"),
        ([[1]], ValueError, "table 1 must be a flat sequence of integers"),
        ([2**31], IndexError, "table 1: block 2147483648 is outside"),
    ],
)
def test_ids_are_never_rounded_or_cut_off(table, error, words):
    with pytest.raises(error, match=words):
        padded_table([(0,), table])
    with pytest.raises(error, match=words):
        csr_table([(0,), table], [1, 1], 1)


def test_lengths_are_integers():
    with pytest.raises(TypeError, match="seq_lens must be a flat sequence of integers"):
        csr_table([(0,)], [1.5], 1)
