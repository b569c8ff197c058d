"""Event logs as JSON lines, and back.

    {"format": "pagedlab_events/1", "num_blocks": 8, "block_size": 4}     the first line; null: not known
    {"event": "Allocate", "seq_id": "A", "tokens": 6, "blocks": [0, 1]}   the fields of `pagedlab.changes`
    {"event": "end_step"}                                                 closes a step

Blocks that follow one another, as a contiguous piece has them, are `{"start": 0, "stop": 64}`. Reading takes
time and memory by the length of the file, whatever numbers are in it; whether the events can follow one
another is known when they are replayed.
"""

from __future__ import annotations

import json
from os import PathLike, fspath
from pathlib import Path
from typing import Any, get_args

from pagedlab import changes
from pagedlab._format import clip
from pagedlab.events import EventLog

FORMAT = "pagedlab_events/1"
_EVENTS = {kind.__name__: kind for kind in get_args(changes.Event)}
_MOST_TOKENS, _MOST_BLOCKS = 1 << 40, 1 << 24  # a short line must not stand for more than can be replayed


def write(log: EventLog, path: str | PathLike[str]) -> None:
    """See `EventLog.to_jsonl`: nothing is written unless everything can be."""
    lines: list[dict[str, Any]] = [
        {"format": FORMAT, "num_blocks": log.num_blocks, "block_size": log.block_size}
    ]
    _begin(lines[0])  # what could not be read again is not written
    ends = list(log.step_ends) if log.stepped else []
    for start, end in zip([0, *ends], [*ends, len(log)], strict=True):
        lines += [_record(event) for event in log[start:end]]
        lines.append({"event": "end_step"})
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines[:-1])
    Path(path).write_text(text, encoding="ascii")


def read(path: str | PathLike[str]) -> EventLog:
    """See `EventLog.from_jsonl`."""
    log = None
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                record = json.loads(line)
                if log is None:
                    log = _begin(record)
                elif record == {"event": "end_step"}:
                    log.end_step()
                else:
                    log.append(_event(record, log.num_blocks or _MOST_BLOCKS))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{fspath(path)}, line {number}: {error}") from None
    if log is None:
        raise ValueError(f"{fspath(path)}: empty, an event log begins with a line of format {FORMAT!r}")
    return log


def _record(event: changes.Event) -> dict[str, Any]:
    record: dict[str, Any] = {"event": type(event).__name__}
    for (field, form), value in zip(_fields(type(event)).items(), event, strict=True):
        record[field] = _plain(value)
        if not _fits(form, record[field], _MOST_BLOCKS):
            raise TypeError(
                f"a file keeps sequence ids that are text or integers, and blocks below {_MOST_BLOCKS:,}; "
                f"not the {field} {clip(value)}"
            )
    return record


def _begin(record: Any) -> EventLog:
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(f"an event log begins with a line of format {FORMAT!r}, got {clip(record)}")
    sizes = [record.get(name) for name in ("num_blocks", "block_size")]
    if not all(size is None or _is_within(size, 1, _MOST_BLOCKS) for size in sizes):
        raise ValueError(
            f"num_blocks and block_size must be null or 1 to {_MOST_BLOCKS:,}, got {clip(record)}"
        )
    return EventLog(*sizes)


def _event(record: Any, num_blocks: int) -> changes.Event:
    name = record.get("event") if isinstance(record, dict) else None
    kind = _EVENTS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"not an event: {clip(record)}; events are {', '.join(_EVENTS)} and end_step")
    if record.keys() - {"event"} != set(kind._fields):
        raise ValueError(f"{name} has the fields {', '.join(kind._fields) or 'none'}, got {clip(record)}")
    for field, form in _fields(kind).items():
        if not _fits(form, record[field], num_blocks):
            raise ValueError(f"{name}: {field} cannot be {clip(record[field])}")
    return kind(**{field: _frozen(record[field]) for field in kind._fields})


def _fields(kind: type[changes.Event]) -> dict[str, str]:
    """The fields of an event and the names of their types."""
    forms = kind.__annotations__.items()
    return {field: form if isinstance(form, str) else form.__forward_arg__ for field, form in forms}


def _fits(form: str, value: Any, num_blocks: int) -> bool:
    """Whether a JSON value can be a field of that type in a pool of so many blocks."""
    match form:
        case "SeqId":
            return type(value) in (str, int)
        case "str":
            return value in ("recompute", "swap")
        case "int":
            return _is_within(value, 0, _MOST_TOKENS)
        case "Block":
            return _is_within(value, 0, num_blocks - 1)
        case "Blocks" if isinstance(value, dict):
            ends = [value.get("start"), value.get("stop")]
            return len(value) == 2 and all(_is_within(end, 0, num_blocks) for end in ends)
        case "Blocks":
            return isinstance(value, list) and all(_is_within(block, -1, num_blocks - 1) for block in value)
        case "Copies":  # one side of each is on the host, whose size nobody tells
            return isinstance(value, list) and all(
                isinstance(pair, list)
                and len(pair) == 2
                and all(_fits("Block", b, _MOST_BLOCKS) for b in pair)
                for pair in value
            )
        case _:
            return isinstance(value, list) and all(_fits("SeqId", item, num_blocks) for item in value)


def _is_within(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _plain(value: Any) -> Any:
    if isinstance(value, range):
        return {"start": value.start, "stop": value.stop}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return range(value["start"], value["stop"])
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
