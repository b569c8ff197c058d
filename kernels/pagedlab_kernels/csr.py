"""The compressed form of a block table: no padding, two index arrays beside the ids.

A padded table is as wide as its longest sequence, so for a batch of unequal lengths it stores mostly padding.
Here the rows stand one after another, and `indptr` says where each begins:

    padded   7 2 .       CSR   indices  7 2 4 0 9 5
             4 . .             indptr   0   2 3     6
             0 9 5

The class holds arrays and asks nothing of them, so that it imports without torch; the kernels check it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class CSRTable:
    """A block table of `n` sequences in compressed sparse row form, as FlashInfer takes it.

    All three arrays are int32, NumPy or torch:

    - `indptr [n + 1]`: sequence `i` owns `indices[indptr[i]:indptr[i + 1]]`;
    - `indices [indptr[n]]`: block ids, in token order;
    - `last_page_len [n]`: tokens in the last block of each sequence, 1 to the block size; 0 for an empty one.

    >>> import numpy as np
    >>> arrays = [0, 2, 3], [7, 2, 4], [5, 16]
    >>> CSRTable(*(np.array(array, np.int32) for array in arrays)).num_seqs
    2
    """

    indptr: Any
    indices: Any
    last_page_len: Any

    @property
    def num_seqs(self) -> int:
        """How many sequences the table holds."""
        return len(self.indptr) - 1
