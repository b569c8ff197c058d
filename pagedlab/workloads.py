"""Requests to serve: how long their prompts and outputs are, and when they arrive.

Three origins, never mixed up on a screen (`Workload.origin`):

    recorded   read from a file of real requests (`load`)
    assumed    made here from the published quantiles of a real trace, or from a formula (`named`)
    altered    either of them with its spread of lengths changed (`Workload.with_spread`)

Only lengths and arrival times are read from a file, and a file's text is never anything but text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pagedlab import published

MAX_TOKENS = 10_000_000
"""The longest prompt or output that is believed; a longer one is an error in the file."""
MAX_REQUESTS = 5_000_000

_COLUMNS = {
    "prompt": ("ContextTokens", "num_prefill_tokens", "input_length"),
    "output": ("GeneratedTokens", "num_decode_tokens", "output_length"),
    "arrival": ("TIMESTAMP", "timestamp_ms"),
}
_SHOW_PROGRESS_FROM_BYTES = 4_000_000
_LATEST_MS = 9e12  # the year 2255; nanoseconds since 1970 still fit 64 bits


class WorkloadError(ValueError):
    """A file of requests cannot be used; the message names file, line and rule."""


@dataclass(frozen=True, eq=False)
class Workload:
    """Requests in order of arrival.

    `prompt` and `output` are int64 arrays of tokens, at least 1 each. `arrival_ns` are nanoseconds
    since the first arrival, or None when nothing is known: then all are there from the start.
    """

    name: str
    origin: str
    source: str
    prompt: np.ndarray
    output: np.ndarray
    arrival_ns: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.prompt)

    def __repr__(self) -> str:
        return f"Workload({self.name!r}, {len(self):,} requests, {self.origin}: {self.source})"

    @property
    def stored(self) -> np.ndarray:
        """Tokens in each request's cache at its end: the last token produced is never stored."""
        return self.prompt + self.output - 1

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
            origin="altered",
            prompt=scaled(self.prompt),
            output=scaled(self.output),
        )


# ---- from a file ----------------------------------------------------------------------------


def load(path: str | Path, *, progress: bool = True) -> Workload:
    """Read a CSV of requests: Azure's columns, ShareGPT's as Vidur keeps them, or Mooncake's.

    The first line names the columns; of each pair one is needed:

        prompt   ContextTokens,    num_prefill_tokens,  input_length
        output   GeneratedTokens,  num_decode_tokens,   output_length
        arrival  TIMESTAMP (date and time), timestamp_ms; may be absent

    Other columns are ignored. A long file shows a progress bar on standard error. Raises
    `WorkloadError` with file and line for a row that is not a request, `OSError` for a file that
    cannot be read.
    """
    path = Path(path)
    size = path.stat().st_size
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        lines: Iterable[str] = file
        if progress and size >= _SHOW_PROGRESS_FROM_BYTES:
            lines = _with_progress(file, size, path.name)
        return _read(lines, path.name)


def parse(text: str, name: str = "pasted") -> Workload:
    """Read the same CSV from text.

    >>> parse("num_prefill_tokens,num_decode_tokens\\n74,918\\n290,905\\n").prompt
    array([ 74, 290])
    """
    return _read(io.StringIO(text, newline=""), name)


def _with_progress(file: Iterable[str], size: int, name: str) -> Iterator[str]:
    from tqdm import tqdm

    with tqdm(total=size, desc=f"reading {name}", unit="B", unit_scale=True, leave=False) as bar:
        for line in file:
            bar.update(len(line))
            yield line


def _read(lines: Iterable[str], name: str) -> Workload:
    rows = csv.reader(lines)
    try:
        header = [column.strip().lstrip("\ufeff") for column in next(rows)]
    except StopIteration:
        raise WorkloadError(f"{name} is empty: a header line and at least one request are needed") from None
    except csv.Error as error:
        raise WorkloadError(f"{name}, line 1: {error}") from None
    where = {what: _find_column(header, names) for what, names in _COLUMNS.items()}
    for what in ("prompt", "output"):
        if where[what] is None:
            raise WorkloadError(
                f"{name}, line 1: no column of {what} lengths; one of {', '.join(_COLUMNS[what])} is "
                f"needed, found {', '.join(map(repr, header))[:200]}"
            )
    prompt, output, arrival = _columns(rows, name, where["prompt"], where["output"], where["arrival"])  # type: ignore[arg-type]
    arrival_ns = None
    if where["arrival"] is not None:
        arrival_ns = _arrivals(arrival, name, is_date=header[where["arrival"]] == "TIMESTAMP")
        order = np.argsort(arrival_ns, kind="stable")
        prompt, output, arrival_ns = prompt[order], output[order], arrival_ns[order] - arrival_ns[order[0]]
    return Workload(name, "recorded", f"{len(prompt):,} rows of {name}", prompt, output, arrival_ns)


def _find_column(header: list[str], names: tuple[str, ...]) -> int | None:
    return next((header.index(name) for name in names if name in header), None)


def _columns(
    rows: Any, name: str, prompt_at: int, output_at: int, arrival_at: int | None
) -> tuple[np.ndarray, np.ndarray, list[tuple[int, str]]]:
    """The columns wanted, checked row by row; arrivals as `(line, text)`."""
    prompts: list[int] = []
    outputs: list[int] = []
    arrivals: list[tuple[int, str]] = []
    row: list[str] = []
    try:
        for row in rows:
            if not row:
                continue
            prompts.append(_length(row[prompt_at]))
            outputs.append(_length(row[output_at]))
            if arrival_at is not None:
                arrivals.append((rows.line_num, row[arrival_at]))
            if len(prompts) > MAX_REQUESTS:
                raise ValueError(f"more than {MAX_REQUESTS:,} requests")
    except IndexError:
        raise WorkloadError(
            f"{name}, line {rows.line_num}: {len(row)} column(s) only: {_clip(row)}"
        ) from None
    except (ValueError, csv.Error) as error:
        raise WorkloadError(f"{name}, line {rows.line_num}: {error}") from None
    if not prompts:
        raise WorkloadError(f"{name} holds no request, only a header")
    return np.array(prompts, dtype=np.int64), np.array(outputs, dtype=np.int64), arrivals


def _length(text: str) -> int:
    try:
        length = int(text)
    except ValueError:
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"a length must be a whole number of tokens, got {_clip(text)}") from None
        if not number.is_integer():  # also NaN and infinities
            raise ValueError(f"a length must be a whole number of tokens, got {_clip(text)}") from None
        length = int(number)
    if not 1 <= length <= MAX_TOKENS:
        raise ValueError(f"a length must be 1 to {MAX_TOKENS:,} tokens, got {_clip(text)}")
    return length


def _arrivals(texts: list[tuple[int, str]], name: str, *, is_date: bool) -> np.ndarray:
    """Nanoseconds, from dates with up to nine decimals or from milliseconds."""

    def convert(values: list[str]) -> np.ndarray:
        if is_date:
            times = np.array(values, dtype="datetime64[ns]")
            if np.isnat(times).any():
                raise ValueError("not a time")
            return times.astype(np.int64)
        milliseconds = np.array(values, dtype=np.float64)
        if not (np.abs(milliseconds) < _LATEST_MS).all():  # also NaN
            raise ValueError("not a number of milliseconds")
        return np.rint(milliseconds * 1e6).astype(np.int64)

    try:
        return convert([text for _, text in texts])
    except (ValueError, OverflowError):
        for line, text in texts:
            try:
                convert([text])
            except (ValueError, OverflowError):
                kind = "a date and time" if is_date else "a number of milliseconds"
                raise WorkloadError(f"{name}, line {line}: {_clip(text)} is not {kind}") from None
        raise


def _clip(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# ---- from published quantiles and from formulas ---------------------------------------------


def named(name: str, requests: int | None = None, seed: int = 0) -> Workload:
    """A workload that comes with the package, the same for the same seed.

    `azure-code`, `azure-conversation`, `sharegpt`, `arxiv` and `mooncake-conversation` are drawn from
    the published quantiles of those traces: prompts and outputs independently, log-linear between
    quantiles, no request longer than the trace's longest. So they have the traces' lengths, but not
    their order or their correlation.
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
