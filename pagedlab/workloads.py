"""Requests to serve: how long their prompts and outputs are, and when they arrive.

Two origins, never mixed up on a screen (`Workload.origin`):

    recorded   read from a file of real requests (`load`)
    assumed    made here from the published quantiles of a real trace, or from a formula (`named`), or
               changed by the reader (`Workload.with_spread`)

What a file may look like is told in `pagedlab.traces`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pagedlab import published, traces
from pagedlab.trace_table import MAX_REQUESTS, MAX_TOKENS, PrefixHashes, Skipped, Table, WorkloadError

__all__ = [
    "MAX_REQUESTS", "MAX_TOKENS", "PrefixHashes", "Skipped", "Workload", "WorkloadError", "load", "named",
    "names", "parse",
]  # fmt: skip

# Made-up token ids have 31 bits: 30 spread by an odd factor, which maps no two numbers to one, and one that
# tells tokens with a prefix hash from those of one request alone.
_ID_MASK = (1 << 30) - 1
_SPREAD = 0x1E3779B1
_OWN = 1 << 30


@dataclass(frozen=True, eq=False)
class Workload:
    """Requests in order of arrival.

    `prompt` and `output` are int64 arrays of tokens, at least 1 each. `arrival_ns` are nanoseconds
    since the first arrival, or None when nothing is known: then all are there from the start.
    `prefix_hashes` tells which prompts begin alike, or None when nobody knows. `skipped` is what of a file
    was not read, None for nothing.
    """

    name: str
    origin: str
    source: str
    prompt: np.ndarray
    output: np.ndarray
    arrival_ns: np.ndarray | None = None
    prefix_hashes: PrefixHashes | None = None
    skipped: Skipped | None = None

    def __len__(self) -> int:
        return len(self.prompt)

    def __repr__(self) -> str:
        return f"Workload({self.name!r}, {len(self):,} requests, {self.origin}: {self.source})"

    @property
    def stored(self) -> np.ndarray:
        """Tokens in each request's cache at its end: the last token produced is never stored."""
        return self.prompt + self.output - 1

    def first(self, requests: int) -> Workload:
        """The first `requests` requests, all of them when there are no more."""
        if requests < 1:
            raise ValueError(f"at least 1 request is needed, got {requests}")
        if requests >= len(self):
            return self
        hashes = self.prefix_hashes
        if hashes is not None:
            hashes = replace(
                hashes, ids=hashes.ids[: hashes.starts[requests]], starts=hashes.starts[: requests + 1]
            )
        return replace(
            self,
            source=f"the first {requests:,} of {self.source}",
            prompt=self.prompt[:requests],
            output=self.output[:requests],
            arrival_ns=None if self.arrival_ns is None else self.arrival_ns[:requests],
            prefix_hashes=hashes,
        )

    def only(self, chosen: np.ndarray) -> Workload:
        """The requests at which a boolean array is True, in their order."""
        at = np.flatnonzero(chosen)
        return replace(
            self,
            source=f"{len(at):,} of {self.source}",
            prompt=self.prompt[at],
            output=self.output[at],
            arrival_ns=None if self.arrival_ns is None else self.arrival_ns[at],
            prefix_hashes=None if self.prefix_hashes is None else self.prefix_hashes.reordered(at),
        )

    def token_ids(self, request: int, start: int = 0, stop: int | None = None) -> list[int]:
        """Made-up ids (31 bits) of tokens `start` to `stop` of a request's prompt and output together.

        Two requests have the same id at the same place exactly where their prefix hashes are the same;
        every other token is the request's own. `stop` is the end of the prompt by default. The ids stand
        in for text that no trace publishes: a manager that caches prefixes can be driven with them.
        Raises `IndexError` beyond the request's tokens.
        """
        prompt, output = int(self.prompt[request]), int(self.output[request])
        stop = prompt if stop is None else stop
        if not 0 <= start <= stop <= prompt + output:
            raise IndexError(f"tokens {start} to {stop} of request {request}: it has {prompt} and {output}")
        shared = min(stop, prompt) if self.prefix_hashes is not None else 0
        own = request * _SPREAD
        ids = [_OWN | (own + place & _ID_MASK) for place in range(max(start, shared), stop)]
        if start < shared and self.prefix_hashes is not None:
            places = np.arange(start, shared)
            size, first = self.prefix_hashes.tokens_per_hash, self.prefix_hashes.starts[request]
            hashes = self.prefix_hashes.ids[first + places // size]
            ids = ((hashes * _SPREAD + places % size) & _ID_MASK).tolist() + ids
        return ids

    def with_spread(self, factor: float) -> Workload:
        """The same requests with the spread of their lengths scaled, their medians kept.

        0 makes all alike, 1 changes nothing, 2 doubles every distance from the median, measured in
        the logarithm of the length.
        """
        if not 0 <= factor <= 4:
            raise ValueError(f"the spread factor must be 0 to 4, got {factor}")
        if factor == 1:
            return self

        def scaled(lengths: np.ndarray) -> np.ndarray:
            logs = np.log(lengths)
            middle = np.median(logs)
            return np.rint(np.exp(middle + factor * (logs - middle))).clip(1, MAX_TOKENS).astype(np.int64)

        return replace(
            self,
            name=f"{self.name}, spread x {factor:g}",
            origin="assumed",
            source=f"{self.source}, spread of lengths x {factor:g}",
            prompt=scaled(self.prompt),
            output=scaled(self.output),
            prefix_hashes=None,
        )


# ---- from a file ----------------------------------------------------------------------------


def load(path: str | Path, *, progress: bool = True, tolerant: bool = False) -> Workload:
    """Read a file of requests: Azure's CSV, ShareGPT's lengths, Mooncake's JSON lines, two plain columns.

    `pagedlab.traces` lists the columns and keys. A long file shows a progress bar on standard error.
    Raises `WorkloadError` with file and line for a row that is not a request, or, with `tolerant`, leaves
    such rows out and counts them in `Workload.skipped`, as long as nine of ten are requests; `OSError` for a
    file that cannot be read.
    """
    path = Path(path)
    return _recorded(traces.read_file(path, progress=progress, tolerant=tolerant), path.name)


def parse(text: str | bytes, name: str = "pasted", *, tolerant: bool = False) -> Workload:
    """Read the same from text, or from the bytes of a file.

    >>> parse("num_prefill_tokens,num_decode_tokens\\n74,918\\n290,905\\n").prompt
    array([ 74, 290])
    >>> parse('{"input_length": 600, "output_length": 5, "hash_ids": [7, 8]}').prefix_hashes[0]
    (7, 8)
    >>> parse("74,918\\n290,zero\\n" + "1,1\\n" * 9, tolerant=True).skipped.rows
    1
    """
    return _recorded(traces.read_text(text, name, tolerant=tolerant), name)


def _recorded(table: Table, name: str) -> Workload:
    source = f"{len(table.prompt):,} rows of {name}"
    columns = table.prompt, table.output, table.arrival_ns, table.prefix_hashes, table.skipped
    return Workload(name, "recorded", source, *columns)


# ---- from published quantiles and from formulas ---------------------------------------------


def named(name: str, requests: int | None = None, seed: int = 0) -> Workload:
    """A workload that comes with the package, the same for the same seed.

    Those of `published.traces()` are drawn from the published quantiles of those traces: prompts and
    outputs independently, log-linear between quantiles, no request longer than the trace's longest. So
    they have the traces' lengths, but not their order or their correlation.
    `uniform`, `lognormal` and `bimodal` are formulas. Raises `KeyError` for another name.

    >>> int(np.median(named("azure-conversation").prompt) / 100)      # published median: 1020
    10
    """
    if name not in names():
        raise KeyError(f"no workload {name!r}; there are {', '.join(names())}")
    if requests is not None and not 1 <= requests <= MAX_REQUESTS:
        raise ValueError(f"requests must be 1 to {MAX_REQUESTS:,}, got {requests}")
    rng = np.random.default_rng([seed, *name.encode()])
    if name in _FORMULAS:
        source, prompts, outputs = _FORMULAS[name]
        count = requests or 10_000
        return Workload(name, "assumed", source, prompts(rng, count), outputs(rng, count))
    lengths = published.lengths(name)
    count = requests or lengths.rows
    prompt = _from_quantiles(rng, count, lengths.prompt)
    output = _from_quantiles(rng, count, lengths.output)
    output = np.minimum(output, lengths.longest - prompt).clip(1)
    source = f"drawn from the published quantiles of {lengths.trace}"
    return Workload(f"{name} (from quantiles)", "assumed", source, prompt, output)


def names() -> tuple[str, ...]:
    """The workloads that come with the package."""
    return (*published.traces(), *_FORMULAS)


def _from_quantiles(rng: np.random.Generator, count: int, quantiles: dict[float, int]) -> np.ndarray:
    """Draw by inverting the distribution function, a line in log(length) between quantiles.

    Draws below the lowest quantile published (1 %) take its value.
    """
    at = np.array(list(quantiles))
    logs = np.log(list(quantiles.values()))
    return np.rint(np.exp(np.interp(rng.random(count), at, logs))).astype(np.int64)


def _uniform(low: int, high: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda rng, count: rng.integers(low, high, size=count, endpoint=True)


def _lognormal(median: float, sigma: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda rng, count: (
        np.rint(rng.lognormal(np.log(median), sigma, count)).clip(1, 32_768).astype(np.int64)
    )


def _bimodal(short: int, long: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        middle = np.where(rng.random(count) < 0.5, short, long)
        return np.rint(middle * rng.uniform(0.8, 1.2, count)).astype(np.int64)

    return draw


_FORMULAS = {
    "uniform": ("prompts 50 to 100 tokens, outputs 20 to 60", _uniform(50, 100), _uniform(20, 60)),
    "lognormal": ("medians 500 and 200 tokens, sigma 1", _lognormal(500, 1.0), _lognormal(200, 1.0)),
    "bimodal": ("half short (60), half long (4,000)", _bimodal(60, 4_000), _bimodal(40, 400)),
}
