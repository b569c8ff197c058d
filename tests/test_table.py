"""Tables in the forms that kernels read."""

from __future__ import annotations

import numpy as np
import pytest

from pagedlab import csr_table, padded_table


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


@pytest.mark.parametrize(
    "tables, lengths, block_size, words",
    [
        ([(1,)], [17], 16, "sequence 0: 17 tokens take 2 blocks of 16, its table has 1"),
        ([(1, 2)], [16], 16, "sequence 0: 16 tokens take 1 blocks of 16, its table has 2"),
        ([(1,)], [1, 2], 16, "1 tables, but 2 sequence lengths"),
        ([(1,)], [1], 0, "block_size must be at least 1, got 0"),
    ],
)
def test_a_table_that_does_not_fit_its_length_is_refused(tables, lengths, block_size, words):
    with pytest.raises(ValueError, match=words):
        csr_table(tables, lengths, block_size)
