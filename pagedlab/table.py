"""Block tables in the two forms that kernels read.

    tables of A, B, C          padded: one row each       CSR: no padding
    A  7 2 5                   [[7, 2, 5],                indptr         [0, 3, 4, 6]
    B  3                        [3, 0, 0],                indices        [7, 2, 5, 3, 0, 4]
    C  0 4                      [0, 4, 0]]                last_page_len  tokens in each last block

The padded form is as wide as the longest sequence; its padding is 0 and is never followed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagedlab_kernels import CSRTable
from pagedlab_kernels.ids import check_range, integers


def padded_table(tables: Sequence[Sequence[int]]) -> np.ndarray:
    """Tables as one int32 array `[num_seqs, max_blocks]`, short rows padded with 0.

    Raises `TypeError` for an id that is no integer, `IndexError` for one that an int32 cannot hold.

    >>> padded_table([(7, 2, 5), (3,), (0, 4)])
    array([[7, 2, 5],
           [3, 0, 0],
           [0, 4, 0]], dtype=int32)
    """
    rows = _rows(tables)
    padded = np.zeros((len(rows), max(map(len, rows), default=0)), dtype=np.int32)
    for entries, row in zip(padded, rows, strict=True):
        entries[: len(row)] = row
    return padded


def csr_table(tables: Sequence[Sequence[int]], seq_lens: Sequence[int], block_size: int) -> CSRTable:
    """Tables as FlashInfer reads them: three int32 arrays, without padding.

    Each row is cut to the blocks that its length takes: blocks held ahead have no tokens yet.
    `last_page_len` is the number of tokens in each sequence's last block, 1 to `block_size`, and 0
    only for an empty sequence. Raises `ValueError` when a table has too few blocks for its length, and for
    ids as `padded_table` does.
    Source: FlashInfer's page table layout.

    >>> csr_table([(7, 2), (3,)], [17, 16], block_size=16).last_page_len
    array([ 1, 16], dtype=int32)
    """
    if len(tables) != len(seq_lens):
        raise ValueError(f"{len(tables)} tables, but {len(seq_lens)} sequence lengths")
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}")
    lengths = integers(seq_lens, "seq_lens").astype(np.int32)
    rows = []
    for number, (row, length) in enumerate(zip(_rows(tables), lengths.tolist(), strict=True)):
        needed = -(-length // block_size)
        if length < 0:
            raise ValueError(f"sequence {number}: a length must not be negative, got {length}")
        if len(row) < needed:
            raise ValueError(
                f"sequence {number}: {length} tokens take {needed} blocks of {block_size}, its table has "
                f"{len(row)}"
            )
        rows.append(row[:needed])
    last = np.where(lengths > 0, (lengths - 1) % block_size + 1, 0)
    return CSRTable(
        indptr=np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32),
        indices=np.concatenate([np.empty(0, np.int32), *rows]),
        last_page_len=last.astype(np.int32),
    )


def _rows(tables: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Each table as an int32 array."""
    rows = [integers(table, f"table {number}") for number, table in enumerate(tables)]
    for number, row in enumerate(rows):
        check_range(row, f"table {number}: block", -(2**31), 2**31)
    return [row.astype(np.int32) for row in rows]
