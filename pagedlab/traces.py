"""Reading requests from files: the CSV and the JSON in which traces of lengths are published.

    CSV     the first line names the columns (others than these are ignored), or there are two columns of
            whole numbers and no names: prompts and outputs. Commas, tabs or semicolons between them

            prompt   ContextTokens (Azure), num_prefill_tokens (ShareGPT), input_length (Mooncake),
                     prompt_tokens, input_tokens, prompt_len, "Request tokens" (BurstGPT), prompt
            output   GeneratedTokens, num_decode_tokens, output_length, completion_tokens, output_tokens,
                     output_len, "Response tokens", output
            arrival  TIMESTAMP (date and time, with a zone or without, which means UTC), Timestamp (seconds),
                     arrival_s, timestamp_ms, arrival_ms; may be absent

    JSON    one object, or one pair of numbers, a line; or one list of them. An object has the columns'
            names as keys, and if known

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
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from pagedlab import trace_fields as fields
from pagedlab import trace_times
from pagedlab._bar import bar
from pagedlab._format import clip
from pagedlab.trace_table import Table, Taken, WorkloadError

MAX_LINE = 1 << 20
"""Characters in the longest line, or item of a JSON list, that is looked at."""

_SHOW_PROGRESS_FROM_BYTES = 4_000_000
_CHUNK = 1 << 16
_BETWEEN_ITEMS = re.compile(r"[\s,]*")


def read_file(path: Path, *, progress: bool, tolerant: bool = False) -> Table:
    """The requests of a file: JSON where its name (.json, .jsonl) or its first sign says so, else CSV.

    A row that is no request raises `WorkloadError`; with `tolerant` it is left out and counted, as long as
    most rows are requests.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        is_json = path.suffix.lower() in (".json", ".jsonl")
        shown = size if progress and size >= _SHOW_PROGRESS_FROM_BYTES else 0
        return _read(file, path.name, is_json, tolerant, shown)


def read_text(text: str | bytes, name: str, *, tolerant: bool = False) -> Table:
    """The same from text, or from the bytes of a file."""
    content = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    file = io.BufferedReader(io.BytesIO(content))
    return _read(file, name, False, tolerant, 0)


def _read(raw: io.BufferedReader[Any], name: str, is_json: bool, tolerant: bool, show_bytes: int) -> Table:
    start = raw.peek(_CHUNK).decode("utf-8-sig", "replace").lstrip()  # a pipe cannot be read twice
    file = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="")
    taken = Taken(name, tolerant)
    if start[:1] == "[" and start[1:].lstrip()[:1] in ("[", "{"):
        pieces = iter(lambda: file.read(_CHUNK), "")
        _take_json(taken, _items(_shown(pieces, name, show_bytes)), "item")
        return taken.table("")
    lines = _shown(_lines(file, name), name, show_bytes)
    if is_json or start[:1] in ("{", "["):
        _take_json(taken, _values(lines), "line")
        return taken.table("")
    _take_csv(taken, lines)
    return taken.table(", only a header")


def _lines(file: TextIO, name: str) -> Iterator[str]:
    """Lines; one that never ends is refused before it fills the memory."""
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE:
            raise WorkloadError(f"{name}, line {number}: longer than {MAX_LINE:,} characters")
        yield line


def _shown(pieces: Iterable[str], name: str, size: int) -> Iterator[str]:
    with bar(size > 0, size, desc=f"reading {name}", unit="B", unit_scale=True) as more:
        for piece in pieces:
            more(len(piece))
            yield piece


# ---- CSV ------------------------------------------------------------------------------------------


_Waiting: TypeAlias = tuple[int, int, int, str]
"""A row's line, prompt and output, and its time as it is written."""


@dataclass(frozen=True)
class _Columns:
    prompt: int
    output: int
    arrival: int | None = None
    kind: str = ""


def _take_csv(taken: Taken, lines: Iterator[str]) -> None:
    first = next(lines, "")
    if not first:
        raise WorkloadError(f"{taken.name} is empty: a header line and at least one request are needed")
    delimiter = next((sign for sign in ",\t;" if sign in first), ",")
    rows = csv.reader(chain([first], lines), delimiter=delimiter)
    try:
        _take_rows(taken, _numbered(rows))
    except csv.Error as error:
        raise WorkloadError(f"{taken.name}, line {rows.line_num}: {error}") from None


def _numbered(rows: Any) -> Iterator[tuple[int, int, list[str]]]:
    """Each row with its line and how many it spans: a quote that nobody closes spans many."""
    last = 0
    for row in rows:
        yield last + 1, rows.line_num - last, row
        last = rows.line_num


def _take_rows(taken: Taken, rows: Iterator[tuple[int, int, list[str]]]) -> None:
    top = next(rows)
    header = [column.strip() for column in top[2]]
    columns = _columns(header, taken.name)
    if columns and columns.arrival is None:
        taken.notes += fields.unread_times(header)
    if columns is None:
        columns, rows = _Columns(0, 1), chain([top], rows)
    waiting: list[_Waiting] = []
    for number, spanned, row in rows:
        if not row:
            continue
        try:
            time = "" if columns.arrival is None else row[columns.arrival]
            lengths = fields.length(row[columns.prompt]), fields.length(row[columns.output])
            waiting.append((number, *lengths, time))
        except IndexError:
            short = ValueError(f"{len(row)} column(s) only: {clip(row)}")
            taken.leave_out(f"line {number}", short, spanned)
        except ValueError as error:
            taken.leave_out(f"line {number}", error, spanned)
        if len(waiting) == _CHUNK and not _take_chunk(taken, waiting, columns.kind):
            return
    _take_chunk(taken, waiting, columns.kind)


def _columns(header: list[str], name: str) -> _Columns | None:
    """Where the columns are; None when there are two of them, and numbers instead of names."""
    prompt, output, arrival = (fields.found(names, header) for names in fields.NAMES)
    if prompt and output:
        at = header.index(arrival) if arrival else None
        return _Columns(header.index(prompt), header.index(output), at, fields.ARRIVAL.get(arrival, ""))
    if len(header) == 2 and all(_is_number(cell) for cell in header):
        return None
    what, names = ("output", fields.OUTPUT) if prompt else ("prompt", fields.PROMPT)
    raise WorkloadError(
        f"{name}, line 1: no column of {what} lengths; one of {', '.join(names)} is needed (or two columns "
        f"of numbers without names), found {', '.join(map(repr, header))[:200]}"
    )


def _take_chunk(taken: Taken, waiting: list[_Waiting], kind: str) -> bool:
    """Take the rows that wait, their times converted together; False when there is no more room."""
    for (_, prompt, output, _), time in zip(waiting, _times(taken, waiting, kind), strict=True):
        if time is None:
            continue
        if not taken.room():
            return False
        taken.prompt.append(prompt)
        taken.output.append(output)
        if kind:
            taken.arrival.append(time)
    waiting.clear()
    return True


def _times(taken: Taken, waiting: list[_Waiting], kind: str) -> list[int | None]:
    """Nanoseconds of each row, 0 without a `kind`; None, and left out, where there is no such time."""
    if not kind or not waiting:
        return [0] * len(waiting)
    try:
        together: list[int | None] = trace_times.of_column([time for *_, time in waiting], kind).tolist()
        return together
    except ValueError:
        one_by_one: list[int | None] = []
        for number, *_, time in waiting:
            try:
                one_by_one += trace_times.of_column([time], kind).tolist()
            except ValueError as error:
                taken.leave_out(f"line {number}", error)
                one_by_one.append(None)
        return one_by_one


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---- JSON -----------------------------------------------------------------------------------------


def _values(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """One value a line, with the line's number; an error in place of what is no JSON."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                yield number, ValueError(f"not JSON: {error}")


def _items(pieces: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """The items of one list, with their numbers, read piece by piece."""
    decoder, text, number = json.JSONDecoder(), "", 1
    pieces = iter(pieces)
    for piece in chain([next(pieces).partition("[")[2]], pieces):
        text, at = text + piece, 0
        while True:
            between = _BETWEEN_ITEMS.match(text, at)
            at = between.end() if between else at
            if text[at : at + 1] in ("", "]"):
                break
            try:
                item, at = decoder.raw_decode(text, at)
            except ValueError as error:
                if len(text) - at > MAX_LINE:
                    yield number, ValueError(f"not JSON: {error}")
                    return
                break  # the rest comes with the next piece
            except RecursionError as error:
                yield number, ValueError(f"not JSON: {error}")
                return
            yield number, item
            number += 1
        text = text[at:]
    if text.strip() != "]":
        yield number, ValueError(f"not JSON, or cut off: {clip(text)}")


def _take_json(taken: Taken, values: Iterable[tuple[int, Any]], unit: str) -> None:
    for number, value in values:
        try:
            prompt, output, arrival, ids = _request(value)
            if taken.prompt and bool(taken.arrival) != (arrival is not None):
                raise ValueError("some requests have a timestamp and some have none")
        except ValueError as error:
            taken.leave_out(f"{unit} {number}", error)
            continue
        if not taken.room():
            return
        if not taken.prompt and arrival is None and isinstance(value, dict):
            taken.notes += fields.unread_times(name for name, given in value.items() if given is not None)
        taken.prompt.append(prompt)
        taken.output.append(output)
        if arrival is not None:
            taken.arrival.append(arrival)
        if ids is not None and len(taken.starts) == len(taken.prompt):  # as long as every request has them
            taken.ids.extend(ids)
            taken.starts.append(len(taken.ids))


def _request(row: Any) -> tuple[int, int, int | None, list[int] | None]:
    """Prompt, output, arrival in nanoseconds and prefix hashes of one JSON value."""
    if isinstance(row, ValueError):
        raise row
    if isinstance(row, list) and len(row) == 2:
        return fields.whole(row[0]), fields.whole(row[1]), None, None
    named = row if isinstance(row, dict) else {}
    prompt_name, output_name = fields.found(fields.PROMPT, named), fields.found(fields.OUTPUT, named)
    if not (prompt_name and output_name):
        if "conversations" in named:
            raise ValueError("holds conversations, not lengths: count their tokens first")
        raise ValueError(f"an object with input_length and output_length is needed, got {clip(row)}")
    prompt, output, ids = fields.whole(row[prompt_name]), fields.whole(row[output_name]), row.get("hash_ids")
    return prompt, output, fields.arrival(row), fields.hashes(ids, prompt) if isinstance(ids, list) else None
