"""Claim: for long sequences and big models, reading K and V is the bottleneck.

A decode step reads all weights once and every cached token once. Where the cache has more bytes than the
weights, K and V bound the step; how fast the GPU is cancels out. What counts is all cached tokens together,
so one long sequence is as good as many short ones. The trap is "big models": heads do not grow with the
weights, so that a bigger model takes more tokens to get there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pagedlab import models
from pagedlab.claims import reading
from pagedlab.claims.verdict import ARITHMETIC, Chart, Claim, Line, Measurement, Outcome, Verdict, figures

ID = "long-context-bound"
MODELS = ("llama-3.1-8b", "llama-2-7b", "llama-3.1-70b", "qwen3-32b")
CONTEXTS = (2_048, 8_192, 32_768, 131_072)
USEFUL = 131_072
"""A long context: what these models are sold with."""


@dataclass(frozen=True)
class Model:
    """Bytes of a model's weights, and of K and V of one token."""

    name: str
    weight_bytes: int
    token_bytes: int

    @property
    def turns_at(self) -> float:
        """Cached tokens in total from which on a step reads more K and V than weights."""
        return self.weight_bytes / self.token_bytes


def run(quick: bool) -> Verdict:
    """Divide."""
    shapes = map(models.preset, MODELS)
    rows = [Model(shape.name, models.weights_of(shape)[0], shape.kv_bytes(1, "bf16")) for shape in shapes]
    return judge(rows, {MODELS[0]: reading.fit_beside(MODELS[0])})


def judge(rows: list[Model], fit: Mapping[str, int]) -> Verdict:
    """The verdict on models, and on the tokens that fit beside one of them on a GPU."""
    alone = [row.name for row in rows if row.turns_at <= USEFUL]
    outgrown = [
        name for name, tokens in fit.items() if tokens < next(r for r in rows if r.name == name).turns_at
    ]
    if len(alone) == len(rows) and not outgrown:
        outcome, conditions = (
            Outcome.HOLDS,
            [f"one sequence of {USEFUL:,} tokens is enough for each of these models"],
        )
    elif len(outgrown) == len(fit):
        outcome, conditions = Outcome.FAILS_HERE, ["so many tokens do not fit beside the weights"]
    else:
        outcome = Outcome.HOLDS_WHEN
        turns = ", ".join(f"{row.name} {row.turns_at:,.0f}" for row in rows)
        conditions = [
            f"cached tokens of all sequences together pass a number that depends on the model alone: {turns}",
            f"one sequence of {USEFUL:,} tokens is enough for {', '.join(alone) or 'none'}, others need more",
        ]
    small, big = (pick(rows, key=lambda row: row.weight_bytes) for pick in (min, max))
    if big.turns_at > small.turns_at:
        conditions.append(f"a bigger model takes more tokens, not fewer: {big.name} beside {small.name}")
    measured = [
        Measurement(
            f"{row.name}: cached tokens at which K and V outweigh the weights",
            round(row.turns_at),
            "",
            "computed",
        )
        for row in rows
    ]
    measured += [
        Measurement(f"{name}: tokens that fit beside the weights on an H100", tokens, "", "computed")
        for name, tokens in fit.items()
    ]
    lines = tuple(
        Line(row.name, tuple((float(n), 100 * n / (n + row.turns_at)) for n in CONTEXTS), "computed")
        for row in rows
    )
    chart = Chart("What a step reads", "cached tokens in total", "% of bytes that are K and V", lines)
    return Verdict(
        ID, outcome, tuple(conditions), tuple(measured), figures("d9", "d1", "d2"), ARITHMETIC, chart
    )


CLAIM = Claim(ID, "for long sequences and big models, reading K and V is the bottleneck", run)
