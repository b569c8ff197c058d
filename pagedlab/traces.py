"""Reading requests from files: the CSV and the JSON lines in which traces are published.

    CSV     the first line names the columns, others than these are ignored

            prompt   ContextTokens,    num_prefill_tokens,  input_length,   prompt
            output   GeneratedTokens,  num_decode_tokens,   output_length,  output
            arrival  TIMESTAMP (date and time), timestamp_ms; may be absent

    JSONL   one object a line: `input_length`, `output_length`, and if known

            timestamp   a number of milliseconds (Mooncake), or a string of seconds (RAGPulse)
            hash_ids    a list (Mooncake): one number for each 512 tokens of the prompt, equal where
                        the prompt up to there is equal. An object (RAGPulse: ids by component, no
                        fixed number of tokens each) is not a prefix and is left out

Only lengths, times and opaque numbers are taken; a file's text is never anything but text.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

MAX_TOKENS = 10_000_000
"""The longest prompt or output that is believed; a longer one is an error in the file."""
MAX_REQUESTS = 5_000_000
TOKENS_PER_HASH = 512
"""Tokens of a prompt that one of Mooncake's hash ids stands for."""

_COLUMNS = {
    "prompt": ("ContextTokens", "num_prefill_tokens", "input_length", "prompt"),
    "output": ("GeneratedTokens", "num_decode_tokens", "output_length", "output"),
    "arrival": ("TIMESTAMP", "timestamp_ms"),
}
_SHOW_PROGRESS_FROM_BYTES = 4_000_000
_LATEST_MS = 9e12  # the year 2255; nanoseconds since 1970 still fit 64 bits
_HASHES = 1 << 30  # as many as there are made-up token ids for them


class WorkloadError(ValueError):
    """A file of requests cannot be used; the message names file, line and rule."""


@dataclass(frozen=True, eq=False)
class PrefixHashes:
    """Which prompts begin alike: for each request, one number for every 512 tokens of its prompt.

    Equal numbers mean that the prompts are equal up to there. Kept as two int64 arrays, like a sparse
    matrix: request i has `ids[starts[i] : starts[i + 1]]`.

    >>> hashes = PrefixHashes.of([(0, 1), (0,)])
    >>> hashes[0], hashes[1], len(hashes)
    ((0, 1), (0,), 2)
    """

    ids: np.ndarray
    starts: np.ndarray
    tokens_per_hash: int = TOKENS_PER_HASH

    @classmethod
    def of(cls, rows: Iterable[tuple[int, ...]]) -> PrefixHashes:
        """From one tuple a request."""
        rows = list(rows)
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        return cls(np.fromiter(chain.from_iterable(rows), np.int64, count=int(starts[-1])), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, request: int) -> tuple[int, ...]:
        return tuple(self.ids[self.starts[request] : self.starts[request + 1]].tolist())


@dataclass(frozen=True, eq=False)
class Table:
    """What a file says of its requests, in order of arrival; arrays as in `workloads.Workload`."""

    prompt: np.ndarray
    output: np.ndarray
    arrival_ns: np.ndarray | None
    prefix_hashes: PrefixHashes | None = None


def read_file(path: Path, *, progress: bool) -> Table:
    """The requests of a file: JSON lines where its name says so (.jsonl), else CSV."""
    size = path.stat().st_size
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        lines: Iterable[str] = file
        if progress and size >= _SHOW_PROGRESS_FROM_BYTES:
            lines = _with_progress(file, size, path.name)
        return read_json_lines(lines, path.name) if path.suffix == ".jsonl" else read_csv(lines, path.name)


def read_text(text: str, name: str) -> Table:
    """The requests of a text: JSON lines when it opens with a brace, else CSV."""
    lines = io.StringIO(text, newline="")
    return read_json_lines(lines, name) if text.lstrip("\ufeff \n").startswith("{") else read_csv(lines, name)


def _with_progress(file: Iterable[str], size: int, name: str) -> Iterator[str]:
    from tqdm import tqdm

    with tqdm(total=size, desc=f"reading {name}", unit="B", unit_scale=True, leave=False) as bar:
        for line in file:
            bar.update(len(line))
            yield line


def read_csv(lines: Iterable[str], name: str) -> Table:
    """The requests of a CSV; raises `WorkloadError` with file and line."""
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
    return _in_order(prompt, output, arrival_ns, None)


def read_json_lines(lines: Iterable[str], name: str) -> Table:
    """The requests of JSON lines; raises `WorkloadError` with file and line."""
    prompts: list[int] = []
    outputs: list[int] = []
    arrivals: list[int] = []
    hashes: list[tuple[int, ...] | None] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            prompt, output, arrival, ids = _request(line)
            if arrivals and (arrival is None) or prompts and not arrivals and arrival is not None:
                raise ValueError("some requests have a timestamp and some have none")
            if len(prompts) >= MAX_REQUESTS:
                raise ValueError(f"more than {MAX_REQUESTS:,} requests")
        except ValueError as error:
            raise WorkloadError(f"{name}, line {number}: {error}") from None
        prompts.append(prompt)
        outputs.append(output)
        hashes.append(ids)
        if arrival is not None:
            arrivals.append(arrival)
    if not prompts:
        raise WorkloadError(f"{name} holds no request")
    known = [ids for ids in hashes if ids is not None]
    return _in_order(
        np.array(prompts, dtype=np.int64),
        np.array(outputs, dtype=np.int64),
        np.array(arrivals, dtype=np.int64) if arrivals else None,
        known if len(known) == len(prompts) else None,
    )


def _request(line: str) -> tuple[int, int, int | None, tuple[int, ...] | None]:
    """Prompt, output, arrival in nanoseconds and prefix hashes of one JSON line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(row, dict) or not {"input_length", "output_length"} <= row.keys():
        raise ValueError(f"an object with input_length and output_length is needed, got {_clip(row)}")
    prompt, output = (_whole(row[what]) for what in ("input_length", "output_length"))
    arrival = None if row.get("timestamp") is None else _nanoseconds(row["timestamp"])
    ids = row.get("hash_ids")
    return prompt, output, arrival, _hashes(ids, prompt) if isinstance(ids, list) else None


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a length must be a whole number of tokens, got {_clip(value)}")
    return _length(str(value))


def _nanoseconds(timestamp: Any) -> int:
    """Mooncake writes numbers of milliseconds, RAGPulse strings of seconds."""
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float | str):
        raise ValueError(f"{_clip(timestamp)} is not a time")
    unit, kind = (1_000, "seconds") if isinstance(timestamp, str) else (1, "milliseconds")
    try:
        milliseconds = float(timestamp) * unit
    except (ValueError, OverflowError):
        raise ValueError(f"{_clip(timestamp)} is not a number of {kind}") from None
    if not abs(milliseconds) < _LATEST_MS:  # also NaN
        raise ValueError(f"{_clip(timestamp)} is not a number of {kind}")
    return round(milliseconds * 1e6)


def _hashes(ids: list[Any], prompt: int) -> tuple[int, ...]:
    if not all(type(id) is int and 0 <= id < _HASHES for id in ids):
        raise ValueError(f"hash_ids must be whole numbers from 0 to 2**30 - 1, got {_clip(ids)}")
    if len(ids) != -(-prompt // TOKENS_PER_HASH):
        raise ValueError(
            f"a prompt of {prompt:,} tokens has {-(-prompt // TOKENS_PER_HASH)} hash ids, one for each "
            f"{TOKENS_PER_HASH} tokens; got {len(ids)}"
        )
    return tuple(ids)


def _in_order(
    prompt: np.ndarray,
    output: np.ndarray,
    arrival_ns: np.ndarray | None,
    hashes: list[tuple[int, ...]] | None,
) -> Table:
    """By arrival, where that is known; those that arrive together keep their order."""
    if arrival_ns is not None:
        order = np.argsort(arrival_ns, kind="stable")
        prompt, output, arrival_ns = prompt[order], output[order], arrival_ns[order] - arrival_ns[order[0]]
        hashes = [hashes[row] for row in order.tolist()] if hashes else None
    return Table(prompt, output, arrival_ns, PrefixHashes.of(hashes) if hashes else None)


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
