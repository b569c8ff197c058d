"""How claims read a comparison of decode kernels: is one side slower, by enough to matter, or can none tell?

A verdict must come out the same twice. So it hangs on differences of more than `MARGIN` alone, and only on
those whose interval says so: while none can tell, rounds are added, and when time runs out there is no
verdict, and it says what one would take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pagedlab import _format, decoding, gpus, machine, models, sizing, timing
from pagedlab.claims.verdict import Chart, Line, Measurement, Outcome, Verdict, figures
from pagedlab.comparison import COLD, FEWEST_ROUNDS, Comparison
from pagedlab.decoding import Decode, Sizes
from pagedlab.timing import Case
from pagedlab.workloads import Workload

MARGIN = 0.05
"""A difference in time that is not counted: it comes and goes between runs."""


def settle(
    decode: Decode,
    cases: Sequence[Case],
    judge: Callable[[Comparison], Verdict],
    quick: bool,
    *,
    caches: str = COLD,
    what: str = "",
) -> Verdict:
    """Time the cases and judge; while the verdict is that none can tell, add rounds: once at least, and for
    10 s when quick, 100 s when not."""
    rounds = FEWEST_ROUNDS if quick else 3 * FEWEST_ROUNDS
    patience = timing.deadline(10 if quick else 100)
    comparison = decode.compare(cases, caches=caches, rounds=rounds, what=what)
    verdict = judge(comparison)
    seed = 1
    while (
        verdict.outcome is Outcome.NOT_MEASURABLE and not comparison.stopped and (seed < 2 or not patience())
    ):
        comparison += decode.compare(cases, caches=caches, rounds=rounds, seed=seed, what=what)
        verdict, seed = judge(comparison), seed + 1
    return verdict


def batch(quick: bool) -> Decode:
    """The batch that most claims time: K and V of twice the largest cache found (64 MiB at least), eight
    times that when not quick, or what fits into an eighth of the memory."""
    heads, head_dim = (4, 128) if quick else (8, 128)
    dtype = "bfloat16" if decoding.device() == "cuda" else "float32"
    one = Sizes(1, 1, heads, 4 * heads, head_dim, dtype)
    size = min(machine.beyond_caches() * (1 if quick else 8), (machine.memory() or 2**33) // 8)
    seqs = 8 if quick else 16
    tokens = max(1, size // seqs // one.token_bytes // 256) * 256
    return Decode(replace(one, seqs=seqs, tokens=tokens))


def sweep(quick: bool, sizes: Iterable[int], judge: Callable[[Comparison], Verdict]) -> Verdict:
    """Paged at each block size beside its contiguous twin, head-major, blocks shuffled, caches cold."""
    decode = batch(quick)
    return settle(decode, [decode.twin(), *map(decode.paged, sizes), decode.reader()], judge, quick)


def paged_cases(comparison: Comparison) -> dict[int, str]:
    """The cases of a sweep by block size.

    Raises ValueError when there are none.
    """
    names = [timing.name for timing in comparison.timings]
    found = {int(name.removeprefix("paged ")): name for name in names if name.startswith("paged ")}
    if not found:
        raise ValueError(f"no case of a block size among {', '.join(names)}")
    return found


def slower(comparison: Comparison, name: str, to: str | None = None) -> bool | None:
    """Whether a case takes longer than another by more than `MARGIN`; None when none can tell.

    Yes, if all of the ratio's interval lies above that; no, if all of it lies below twice that. Where the
    baseline differs from itself by more, a "yes" must exceed that and a "no" cannot be given.
    """
    if comparison.rounds < FEWEST_ROUNDS:
        return None
    low, high = comparison.interval(name, to)
    if low > 1 + max(MARGIN, comparison.bias):
        return True
    return False if max(high - 1, comparison.bias) < 2 * MARGIN else None


def ratio(comparison: Comparison, name: str, what: str, to: str | None = None) -> Measurement:
    """Time over time as a measurement, in percent of the other."""
    low, high = (100 * end for end in comparison.interval(name, to))
    return Measurement(what, 100 * comparison.ratio(name, to).median, "%", "measured", low, high)


def time_line(comparison: Comparison, cases: Mapping[int, str], name: str = "paged") -> Line:
    """Time over the twin's by block size."""
    points = tuple((float(size), comparison.ratio(case).median) for size, case in sorted(cases.items()))
    return Line(f"{name}, time / contiguous", points, "measured")


def told(
    claim: str,
    outcome: Outcome,
    conditions: Sequence[str],
    measured: Sequence[Measurement],
    rows: Sequence[str],
    records: Sequence[Comparison],
    chart: Chart | None = None,
) -> Verdict:
    """A verdict that rests on comparisons; `rows` are published ones by id."""
    device = records[0].device
    return Verdict(
        claim, outcome, tuple(conditions), tuple(measured), figures(*rows), device, chart, tuple(records)
    )


def unreadable(claim: str, comparison: Comparison, rows: Sequence[str]) -> Verdict:
    """No verdict, and what it would take."""
    noise = _format.percent(comparison.noise_floor)
    need = (
        f"nothing can be told at a noise floor of {noise} over {comparison.rounds} rounds: "
        "stop other work on this machine and run it again"
    )
    return told(claim, Outcome.NOT_MEASURABLE, [need], [], rows, [comparison])


def fit_beside(model: str) -> int:
    """Tokens that fit beside a model's weights in bf16 in 90 % of an H100; raises ValueError when none do."""
    shape = models.preset(model)
    gpu, (weights, *_) = gpus.named("h100-sxm"), models.weights_of(shape)
    return sizing.capacity(gpu.capacity_bytes, weights, 0, 0.9, shape).tokens


def assumed(name: str, lengths: Sequence[int]) -> Workload:
    """Requests of such lengths, one each."""
    return Workload(name, "assumed", "each once", np.array(lengths), np.ones(len(lengths), np.int64))


def sizes_text(sizes: Iterable[int]) -> str:
    """Block sizes in words.

    >>> sizes_text([1, 2, 4]), sizes_text([16])
    ('1, 2 and 4', '16')
    """
    *first, last = map(str, sizes)
    return f"{', '.join(first)} and {last}" if first else last
