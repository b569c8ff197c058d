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


def padded_table(tables: Sequence[Sequence[int]]) -> np.ndarray:
    """Tables as one int32 array `[num_seqs, max_blocks]`, short rows padded with 0.

    >>> padded_table([(7, 2, 5), (3,), (0, 4)])
    array([[7, 2, 5],
           [3, 0, 0],
           [0, 4, 0]], dtype=int32)
    """
    width = max((len(table) for table in tables), default=0)
    padded = np.zeros((len(tables), width), dtype=np.int32)
    for row, table in zip(padded, tables, strict=True):
        row[: len(table)] = table
    return padded


def csr_table(tables: Sequence[Sequence[int]], seq_lens: Sequence[int], block_size: int) -> CSRTable:
    """Tables as FlashInfer reads them: three int32 arrays, without padding.

    `last_page_len` is the number of tokens in each sequence's last block, 1 to `block_size`, and 0
    only for an empty sequence. Raises `ValueError` when a table has fewer or more blocks than its
    length takes. Source: FlashInfer's page table layout.

    >>> csr_table([(7, 2), (3,)], [17, 16], block_size=16).last_page_len
    array([ 1, 16], dtype=int32)
    """
    if len(tables) != len(seq_lens):
        raise ValueError(f"{len(tables)} tables, but {len(seq_lens)} sequence lengths")
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}")
    for number, (table, length) in enumerate(zip(tables, seq_lens, strict=True)):
        if len(table) != -(-length // block_size):
            raise ValueError(
                f"sequence {number}: {length} tokens take {-(-length // block_size)} blocks of "
                f"{block_size}, its table has {len(table)}"
            )
    counts = [len(table) for table in tables]
    lengths = np.asarray(seq_lens, dtype=np.int32)
    last = np.where(lengths > 0, (lengths - 1) % block_size + 1, 0)
    return CSRTable(
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        indices=np.asarray([block for table in tables for block in table], dtype=np.int32),
        last_page_len=last.astype(np.int32),
    )
