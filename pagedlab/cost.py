"""What attention over given block tables costs here, beside its contiguous twin.

`AttentionCost` keeps a pool of K and V in memory and runs one decode step over whatever block tables it
is shown: the tables of a picture, of a run, of a learner. The twin reads the same values from contiguous
rows with the same kernel, so the two differ in the table and in nothing else; before anything is timed,
their answers are compared with each other too.

Both lie head-major (HND). Where memory lies makes a difference of its own, so the noise floor is taken
between two copies of the twin's rows. The size of the pool decides the heads, so that K and V take 32 MiB
each from 16,384 slots on. A smaller pool takes less and may fit into a cache: what it costs to read from
there says little about reading from memory, so a `Cost` carries the bytes that were read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagedlab import _format
from pagedlab.comparison import AS_LEFT, Comparison
from pagedlab.decoding import HND, Decode, Sizes
from pagedlab.events import SeqId
from pagedlab.table import padded_table

if TYPE_CHECKING:
    from torch import Tensor

BYTES_A_SIDE = 32 * 2**20
MOST_BYTES_OF_ROWS = 768 * 2**20
QUERY_GROUP = 4
"""Query heads to a KV head, as in Llama 3."""


@dataclass(frozen=True)
class Heads:
    """The shape of one layer: fp32, `QUERY_GROUP` query heads to each KV head."""

    kv_heads: int
    head_dim: int

    @property
    def bytes_per_token(self) -> int:
        """Bytes of K, or of V, that one token takes."""
        return 4 * self.kv_heads * self.head_dim

    def sizes(self, seqs: int, tokens: int) -> Sizes:
        """A batch of such heads."""
        return Sizes(seqs, tokens, self.kv_heads, QUERY_GROUP * self.kv_heads, self.head_dim)

    def __str__(self) -> str:
        return f"{QUERY_GROUP * self.kv_heads} query and {self.kv_heads} KV heads of {self.head_dim}, fp32"


def heads_for(num_slots: int) -> Heads:
    """The most heads of a common shape whose K fits into `BYTES_A_SIDE` for `num_slots` tokens.

    >>> heads_for(16_384)
    Heads(kv_heads=4, head_dim=128)
    >>> heads_for(1_000_000)
    Heads(kv_heads=1, head_dim=64)
    """
    for heads in (Heads(8, 128), Heads(4, 128), Heads(2, 128), Heads(1, 128)):
        if heads.bytes_per_token * num_slots <= BYTES_A_SIDE:
            return heads
    return Heads(1, 64)


class Outdated(RuntimeError):
    """The measurement was asked to stop before it had timed anything."""


@dataclass(frozen=True)
class Cost:
    """One decode step over some tables: `comparison` has the cases "contiguous" and "paged 16", or the like.

    `difference` is the largest one between the two answers, `tokens` and `sequences` what the tables hold.
    """

    comparison: Comparison
    tokens: int
    sequences: int
    block_size: int
    difference: float

    @property
    def bytes_read(self) -> int:
        """What each side has to read."""
        return self.comparison.timings[0].bytes_moved or 0


class AttentionCost:
    """Times `paged_attention` over block tables of one pool of `num_slots` slots.

    Raises `MemoryError` or `RuntimeError` from torch when the pool does not fit into memory.

    >>> cost = AttentionCost(num_slots=64, heads=Heads(1, 16))
    >>> result = cost.measure({"A": [3, 0], "B": [1]}, {"A": 20, "B": 5}, block_size=16, repeats=3)
    >>> result.tokens, result.difference < 1e-5
    (25, True)
    """

    def __init__(self, num_slots: int, heads: Heads | None = None) -> None:
        import torch

        self.heads = heads or heads_for(num_slots)
        sizes = self.heads.sizes(1, num_slots)
        self.pool = Decode(sizes, threads=torch.get_num_threads(), slots=num_slots)

    def measure(
        self,
        tables: Mapping[SeqId, Sequence[int]],
        num_tokens: Mapping[SeqId, int],
        block_size: int,
        *,
        repeats: int = 15,
        should_stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int], object] | None = None,
    ) -> Cost:
        """Run one decode step over the tables, `repeats` times on both sides, interleaved.

        `should_stop` is asked between the steps of getting ready, then before each sample;
        `progress(done, repeats)` is called after each round. Raises `IndexError` for a block outside the
        pool, `ValueError` when there is nothing to read, when the twin's rows would not fit or when the two
        sides disagree, and `Outdated` when stopped before the first sample.
        """
        sequences = [seq for seq in tables if num_tokens[seq] > 0]
        if not sequences:
            raise ValueError("no sequence stores a token at this moment")
        lengths = [num_tokens[seq] for seq in sequences]
        step = _Shown(self.pool, [tables[seq] for seq in sequences], lengths, block_size)
        # First: it names a block outside the pool, where a gather would not.
        cases: list[Any] = [step.paged(block_size, "as shown")]
        for _ in range(2):
            if should_stop():
                raise Outdated("stopped while the twin's rows were gathered")
            cases.append(step.twin())
        paged, twin, second_twin = cases
        difference = (paged.call() - twin.call()).abs().max().item()
        if not difference < 1e-4:
            raise ValueError(f"paged and contiguous attention disagree by {difference:.2g}")
        comparison = step.compare(
            [twin, paged],
            again=second_twin.call,
            caches=AS_LEFT,
            rounds=repeats,
            what=f"one decode step, one layer, {self.heads}",
            should_stop=should_stop,
            progress=progress,
        )
        if not comparison.rounds:
            raise Outdated("stopped before the first round was timed")
        return Cost(comparison, sum(lengths), len(lengths), block_size, difference)


class _Shown(Decode):
    """A decode step over tables from elsewhere, in the memory of a pool; each sequence as long as it is."""

    def __init__(
        self, pool: Decode, tables: Sequence[Sequence[int]], lengths: Sequence[int], block_size: int
    ) -> None:
        import torch

        vars(self).update(vars(pool))
        self.errors, self.parts = {}, [slice(len(tables))]
        self.block_size, self.shown = block_size, torch.from_numpy(padded_table(tables)).to(self.device)
        self.lengths = torch.tensor(lengths, dtype=torch.int32, device=self.device)
        self.query = self._normal(len(tables), self.sizes.q_heads, self.sizes.head_dim)

    def table(self, block_size: int, order: str = "") -> Tensor:
        return self.shown

    def rows(self, layout: str = HND) -> list[Tensor]:
        """K and V with each sequence's tokens in one row as long as the longest, head-major in memory."""
        longest, size = int(self.lengths.max()), self.block_size
        needed = len(self.lengths) * longest * self.sizes.token_bytes // 2
        if needed > MOST_BYTES_OF_ROWS:
            raise ValueError(
                f"the twin's rows, all as long as the longest, would take {_format.size(needed)} a side; "
                f"at most {_format.size(MOST_BYTES_OF_ROWS)} are allowed"
            )
        found = []
        for buffer in (self.key, self.value):
            pool = self.blocks(buffer, size)  # [blocks, block_size, kv_heads, head_dim]
            rows = buffer.new_empty(len(self.lengths), pool.shape[2], longest, pool.shape[3])
            for row, blocks, length in zip(rows, self.shown.long(), self.lengths.tolist(), strict=True):
                held = pool[blocks[: -(-length // size)]]
                row[:, :length] = held.flatten(0, 1)[:length].transpose(0, 1)
            found.append(rows.transpose(1, 2))
        return found
