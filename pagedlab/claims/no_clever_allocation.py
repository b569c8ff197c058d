"""Claim: no allocation, however clever, can reduce the bytes that a step reads.

A batch whose sequences begin alike is run three ways: each with blocks of its own; with tables that point
to one copy of the prefix, read once for each sequence; and with the prefix read once for all, its result
merged with each sequence's own by log-sum-exp (a cascade). All three answers are compared. Bytes are
counted; whether the time follows is measured. The trap: what sharing blocks saves, a cache may already give.

Sources of the cascade: Juravsky et al., Hydragen, 2024; FlashInfer (Ye et al., MLSys 2025).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pagedlab import _format, decoding
from pagedlab.claims import reading
from pagedlab.claims.reading import ratio, slower
from pagedlab.claims.verdict import Claim, Measurement, Outcome, Verdict
from pagedlab.comparison import Comparison
from pagedlab.timing import Case
from pagedlab_kernels import paged_attention

if TYPE_CHECKING:
    from torch import Tensor

ID = "no-clever-allocation"
ROWS = ("d10", "d12", "b21")
BLOCK = 16
PRIVATE, SHARED, ONCE = "private blocks", "shared blocks", "prefix once"


def run(quick: bool) -> Verdict:
    """Count and time the three ways, and compare their answers."""
    prefix = 1024 if quick else 4096
    batch = Batch(seqs=16, prefix=prefix, own=128)
    ways = {PRIVATE: batch.private, SHARED: batch.shared, ONCE: batch.once}
    answers = [way() for way in ways.values()]
    difference = max(float((answer - answers[0]).abs().max()) for answer in answers)
    cases = [Case(name, way, "HND", batch.bytes[name]) for name, way in ways.items()]
    what = f"one decode step: 16 sequences, {prefix:,} tokens in common and 128 each"
    return reading.settle(batch.decode, cases, lambda c: judge(c, batch.bytes, difference), quick, what=what)


def judge(comparison: Comparison, moved: dict[str, int], difference: float) -> Verdict:
    """The verdict on bytes to read by way, the largest difference between answers, and their times."""
    saved = moved[PRIVATE] / moved[ONCE]
    follows = [name for name in (SHARED, ONCE) if slower(comparison, PRIVATE, name)]
    if not difference < 1e-3:
        raise ArithmeticError(f"the three ways disagree by {difference:.1g}")
    if saved <= 1:
        outcome, conditions = Outcome.HOLDS, ["there is nothing to share here"]
    else:
        outcome = Outcome.HOLDS_WHEN
        conditions = [
            "no two sequences begin alike: blocks that they share can be read once for all, "
            f"here {_format.significant(saved)} times fewer bytes, the same answers (within {difference:.0e})"
        ]
        conditions.append(f"the time follows here for: {', '.join(follows) or 'none of the ways'}")
    measured = [
        Measurement(f"K and V to read a step, {name}", size / 2**20, "MiB", "computed")
        for name, size in moved.items()
    ]
    measured += [ratio(comparison, name, f"time, {name}, of {PRIVATE}") for name in (SHARED, ONCE)]
    return reading.told(ID, outcome, conditions, measured, ROWS, [comparison])


class Batch:
    """`seqs` sequences of `prefix` tokens in common and `own` tokens each, in one pool, and a step over them.

    `prefix` is a multiple of `BLOCK`.
    """

    def __init__(self, seqs: int, prefix: int, own: int) -> None:
        import torch

        self.decode = decode = decoding.Decode(decoding.Sizes(seqs, prefix + own))
        self._prefix, head = prefix, prefix // BLOCK
        self._key, self._value = (decode.blocks(buffer, BLOCK) for buffer in (decode.key, decode.value))
        self._private = table = decode.table(BLOCK)
        common = self._common = table[:1, :head].contiguous()
        for pool in (self._key, self._value):  # every copy of the prefix holds the same values
            pool[table[1:, :head].long()] = pool[common[0].long()]
        self._own = table[:, head:].contiguous()
        self._shared = torch.cat([common.expand(seqs, -1), self._own], 1)
        token = decode.sizes.token_bytes
        each = seqs * (prefix + own) * token
        # A shared block that stays in a cache comes from memory once, but nobody can count on that.
        self.bytes = {PRIVATE: each, SHARED: each, ONCE: (prefix + seqs * own) * token}

    def private(self) -> Tensor:
        """Each sequence reads blocks of its own."""
        return self._attend(self.decode.query, self._private, self.decode.lengths)[0]

    def shared(self) -> Tensor:
        """Each sequence reads the one copy of the prefix."""
        return self._attend(self.decode.query, self._shared, self.decode.lengths)[0]

    def once(self) -> Tensor:
        """The prefix is read once: the queries of all sequences are one large query group."""
        import torch

        from pagedlab_kernels.reference import merge

        query, lengths = self.decode.query, self.decode.lengths
        (seqs, _, dim), heads = query.shape, self.decode.sizes.kv_heads
        together = query.view(seqs, heads, -1, dim).transpose(0, 1).reshape(1, -1, dim)
        out, lse = self._attend(together, self._common, lengths.new_full((1,), self._prefix))
        # [1, kv_heads * seqs * group, ...] becomes [seqs, q_heads, ...]
        out = out.view(heads, seqs, -1, dim).transpose(0, 1).reshape(query.shape)
        lse = lse.view(heads, seqs, -1).transpose(0, 1).reshape(query.shape[:2])
        own_out, own_lse = self._attend(query, self._own, lengths - self._prefix)
        return merge(torch.stack([out, own_out]), torch.stack([lse, own_lse]))[0]

    def _attend(self, query: Tensor, table: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        found: Any = paged_attention(
            query, self._key, self._value, table, lengths,
            backend=self.decode.kernel, check=False, return_lse=True,
        )  # fmt: skip
        return cast("tuple[Tensor, Tensor]", found)


CLAIM = Claim(ID, "no allocation, however clever, reduces the bytes that a step reads", run)
