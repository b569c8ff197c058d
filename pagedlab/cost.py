"""What attention over given block tables costs here, beside its contiguous twin.

`AttentionCost` keeps a pool of K and V in memory and runs one decode step over whatever block tables it
is shown: the tables of a picture, of a run, of a learner. The twin reads the same values from contiguous
rows with the same kernel, so the two differ in the table and in nothing else; before anything is timed,
their answers are compared.

Both lie head-major ([kv_heads, tokens, head_dim] in a sequence, HND in a block), where a head's tokens
are neighbours. Where memory lies makes a difference of its own, so the noise floor is taken between two
copies of the twin's rows. The size of the pool decides the heads, so that K and V take 32 MiB each from
16,384 slots on. A smaller pool takes less and may fit into a cache: what it costs to read from there says
little about reading from memory, so a `Cost` carries the bytes that were read.

torch is imported when a pool is made, so that who only shows a `Cost` does without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pagedlab import _format, timing
from pagedlab.decoding import device, kernel_for
from pagedlab.events import SeqId
from pagedlab.table import padded_table
from pagedlab_kernels import contiguous_attention, paged_attention

if TYPE_CHECKING:
    import torch

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
    """One decode step over some tables: `comparison` has the cases "contiguous" and "paged, blocks of ...".

    `backend` is the kernel that ran, `bytes_read` what each side has to read, `difference` the largest one
    between the two answers, `tokens` and `sequences` what the tables hold.
    """

    comparison: timing.Comparison
    backend: str
    heads: Heads
    tokens: int
    sequences: int
    block_size: int
    bytes_read: int
    difference: float

    @property
    def paged(self) -> timing.Timing:
        """The timing of the paged side."""
        return self.comparison.timings[1]


class AttentionCost:
    """Times `paged_attention` over block tables of one pool of `num_slots` slots.

    Raises `MemoryError` or `RuntimeError` from torch when the pool does not fit into memory.

    >>> cost = AttentionCost(num_slots=64, heads=Heads(1, 16))
    >>> result = cost.measure({"A": [3, 0], "B": [1]}, {"A": 20, "B": 5}, block_size=16, repeats=3)
    >>> result.tokens, result.difference < 1e-5
    (25, True)
    """

    def __init__(self, num_slots: int, heads: Heads | None = None, seed: int = 0) -> None:
        import torch

        self.num_slots = num_slots
        self.heads = heads or heads_for(num_slots)
        self.device = device()
        self.backend = kernel_for(self.device)
        # Both sides' memory comes from torch: another allocator may back one with huge pages only.
        generator = torch.Generator().manual_seed(seed)
        size = num_slots * self.heads.kv_heads * self.heads.head_dim
        self._key, self._value = (torch.randn(size, generator=generator).to(self.device) for _ in "KV")

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
        import torch

        sequences = [seq for seq in tables if num_tokens[seq] > 0]
        if not sequences:
            raise ValueError("no sequence stores a token at this moment")
        table = torch.from_numpy(padded_table([tables[seq] for seq in sequences])).to(self.device)
        lengths = torch.tensor([num_tokens[seq] for seq in sequences], dtype=torch.int32, device=self.device)
        query = self._query(len(sequences))
        key, value = (self._paged(pool, block_size) for pool in (self._key, self._value))

        def paged(check: bool) -> torch.Tensor:
            answer = paged_attention(query, key, value, table, lengths, backend=self.backend, check=check)
            return cast(torch.Tensor, answer)

        def contiguous(rows: Sequence[torch.Tensor], check: bool) -> torch.Tensor:
            answer = contiguous_attention(query, *rows, lengths, backend=self.backend, check=check)  # type: ignore[call-arg,arg-type]
            return cast(torch.Tensor, answer)

        answer = paged(check=True)  # first: it names a block outside the pool, where a gather would not
        copies: list[list[torch.Tensor]] = [[], []]
        for rows in copies:
            for pool in (key, value):
                if should_stop():
                    raise Outdated("stopped while the twin's rows were gathered")
                rows.append(_gather(pool, table, lengths))
        twin, second_twin = copies
        difference = (answer - contiguous(twin, check=True)).abs().max().item()
        if not difference < 1e-4:
            raise ValueError(f"paged and contiguous attention disagree by {difference:.2g}")
        tokens = int(lengths.sum())
        read = 2 * tokens * self.heads.bytes_per_token
        comparison = timing.compare(
            [
                timing.Case("contiguous", lambda: contiguous(twin, check=False), "head-major", read),
                timing.Case(f"paged, blocks of {block_size}", lambda: paged(check=False), "HND", read),
            ],
            again=lambda: contiguous(second_twin, check=False),
            what=f"one decode step, one layer, {self.heads}; kernel: {self.backend}",
            repeats=repeats,
            warmup=1,
            clock=timing.CudaClock() if self.device == "cuda" else None,
            should_stop=should_stop,
            progress=progress,
        )
        if not comparison.rounds:
            raise Outdated("stopped before the first round was timed")
        return Cost(
            comparison, self.backend, self.heads, tokens, len(sequences), block_size, read, difference
        )

    def _paged(self, pool: torch.Tensor, block_size: int) -> torch.Tensor:
        """The pool in such blocks: HND in memory, viewed as `[blocks, block_size, kv_heads, head_dim]`."""
        blocks = self.num_slots // block_size
        kv_heads, head_dim = self.heads.kv_heads, self.heads.head_dim
        used = pool[: blocks * block_size * kv_heads * head_dim]
        return used.view(blocks, kv_heads, block_size, head_dim).transpose(1, 2)

    def _query(self, sequences: int) -> torch.Tensor:
        import torch

        generator = torch.Generator().manual_seed(1)
        shape = (sequences, QUERY_GROUP * self.heads.kv_heads, self.heads.head_dim)
        return torch.randn(shape, generator=generator).to(self.device)


def _gather(pool: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Each sequence's tokens in one row, head-major, viewed as `[seqs, max_len, kv_heads, head_dim]`."""
    import torch

    _, block_size, kv_heads, head_dim = pool.shape
    size = 4 * len(lengths) * kv_heads * int(lengths.max()) * head_dim
    if size > MOST_BYTES_OF_ROWS:
        raise ValueError(
            f"the twin's rows, all as long as the longest, would take {_format.size(size)} a side; "
            f"at most {_format.size(MOST_BYTES_OF_ROWS)} are allowed"
        )
    rows = torch.empty(len(lengths), kv_heads, int(lengths.max()), head_dim, device=pool.device)
    for row, blocks, length in zip(rows, table.long(), lengths.tolist(), strict=True):
        held = pool[blocks[: -(-length // block_size)]]  # [blocks, block_size, kv_heads, head_dim]
        row[:, :length] = held.flatten(0, 1)[:length].transpose(0, 1)
    return rows.transpose(1, 2)
