"""How long a server's step takes on this machine: a small decoder, timed, and the line through its times.

Each of its layers does the three things that a step's time is made of: it reads weights, it computes every
token of the batch, and it reads what each sequence has stored, through block tables, with the kernel that
`pagedlab_kernels` chooses here. Weights and cache are random numbers: their values change no time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagedlab import timing
from pagedlab.cost import QUERY_GROUP, Heads
from pagedlab.decoding import IN_ORDER, Decode, device
from pagedlab.steptime import StepTime, fit

BATCHES = ((1, 512), (1, 8_192), (8, 512), (8, 2_048), (64, 128), (64, 512))
"""Sequences, and tokens that each has stored: what is timed."""
BLOCK_SIZE = 16


@dataclass(frozen=True)
class Decoder:
    """`layers` layers of such heads; each has `12 * hidden ** 2` weights, as a transformer's layer has."""

    layers: int = 4
    heads: Heads = Heads(2, 64)

    @property
    def hidden(self) -> int:
        """Numbers of one token between two layers."""
        return QUERY_GROUP * self.heads.kv_heads * self.heads.head_dim

    def __str__(self) -> str:
        return f"a decoder of {self.layers} layers, {self.hidden} wide: {self.heads}"


def measure(
    decoder: Decoder = Decoder(),
    *,
    repeats: int = 9,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], object] | None = None,
) -> StepTime:
    """The step time of a decoder, from `repeats` interleaved rounds here; its word is "measured".

    Raises `ValueError` when it was stopped before every batch was timed, or when times are too alike.

    >>> measured = measure(Decoder(1, Heads(1, 16)), repeats=3)
    >>> measured.word, measured.base > 0
    ('measured', True)
    """
    cases = [timing.Case(f"{seqs} x {tokens}", _step(decoder, seqs, tokens)) for seqs, tokens in BATCHES]
    comparison = timing.compare(
        cases,
        what=f"one step of {decoder}",
        repeats=repeats,
        clock=timing.CudaClock() if device() == "cuda" else None,
        should_stop=should_stop,
        progress=progress,
    )
    if not comparison.rounds:
        raise ValueError("stopped before every batch was timed once")
    medians = [timed.median for timed in comparison.timings]
    measured = [(seqs, seqs * tokens, s) for (seqs, tokens), s in zip(BATCHES, medians, strict=True)]
    return fit(measured, f"{decoder}; timed on {comparison.device}")


def _step(decoder: Decoder, seqs: int, tokens: int) -> Callable[[], object]:
    """One step of `seqs` sequences that have `tokens` tokens each."""
    import torch

    from pagedlab_kernels import paged_attention

    hidden, sizes = decoder.hidden, decoder.heads.sizes(seqs, tokens)
    layers = [Decode(sizes, seed) for seed in range(decoder.layers)]
    first, kernel, lengths = layers[0], layers[0].kernel, layers[0].lengths
    table = first.table(BLOCK_SIZE, IN_ORDER)
    caches = [[layer.blocks(buffer, BLOCK_SIZE) for buffer in (layer.key, layer.value)] for layer in layers]
    generator = torch.Generator(first.device).manual_seed(0)
    into, out = (
        torch.randn(len(layers), *shape, generator=generator, device=first.device)
        for shape in ((hidden, 6 * hidden), (6 * hidden, hidden))
    )

    def step() -> object:
        query = first.query
        for layer, (key, value) in enumerate(caches):
            x = paged_attention(query, key, value, table, lengths, backend=kernel, check=False).flatten(1)
            query = torch.nn.functional.normalize((x @ into[layer]) @ out[layer]).view_as(query)
        return query

    step()
    return step
