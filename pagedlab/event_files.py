"""Event logs as JSON lines, and back.

    {"format": "pagedlab_events/1", "num_blocks": 8, "block_size": 4}     the first line; null: not known
    {"event": "Allocate", "seq_id": "A", "tokens": 6, "blocks": [0, 1]}   the fields of `pagedlab.changes`
    {"event": "end_step"}                                                 closes a step

Blocks that follow one another, as a contiguous piece has them, are `{"start": 0, "stop": 64}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from typing import Any, get_args

from pagedlab import changes
from pagedlab.events import EventLog

FORMAT = "pagedlab_events/1"
_EVENTS = {kind.__name__: kind for kind in get_args(changes.Event)}
_LARGEST = 1 << 40  # of any count or block: a file must not make a reader allocate without end


def write(log: EventLog, path: str | PathLike[str]) -> None:
    """See `EventLog.to_jsonl`: nothing is written unless everything can be."""
    lines = [_line({"format": FORMAT, "num_blocks": log.num_blocks, "block_size": log.block_size})]
    ends = list(log.step_ends) if log.stepped else []
    start = 0
    for end in [*ends, len(log)]:
        lines += [_line(_record(event)) for event in log[start:end]]
        lines.append(_line({"event": "end_step"}))
        start = end
    Path(path).write_text("".join(lines[:-1]), encoding="ascii")


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
                    log.append(_event(record, log.num_blocks))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{fspath(path)}, line {number}: {error}") from None
    if log is None:
        raise ValueError(f"{fspath(path)}: empty, an event log begins with a line of format {FORMAT!r}")
    return log


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


def _record(event: changes.Event) -> dict[str, Any]:
    record: dict[str, Any] = {"event": type(event).__name__}
    for (field, form), value in zip(_fields(type(event)).items(), event, strict=True):
        record[field] = _plain(value)
        if not _FORMS[form](record[field]):
            raise TypeError(f"a file keeps sequence ids that are text or integers, not the {field} {value!r}")
    return record


def _fields(kind: type[changes.Event]) -> dict[str, str]:
    """The fields of an event and their types, by name."""
    return {
        field: form if isinstance(form, str) else form.__forward_arg__
        for field, form in kind.__annotations__.items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, range):
        return {"start": value.start, "stop": value.stop}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _begin(record: Any) -> EventLog:
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(f"an event log begins with a line of format {FORMAT!r}, got {_short(record)}")
    sizes = [record.get(name) for name in ("num_blocks", "block_size")]
    if not all(size is None or _is_count(size, 1) for size in sizes):
        raise ValueError(f"num_blocks and block_size must be positive integers or null, got {_short(record)}")
    return EventLog(*sizes)


def _event(record: Any, num_blocks: int | None) -> changes.Event:
    name = record.get("event") if isinstance(record, dict) else None
    kind = _EVENTS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"not an event: {_short(record)}; events are {', '.join(_EVENTS)} and end_step")
    if record.keys() - {"event"} != set(kind._fields):
        raise ValueError(f"{name} has the fields {', '.join(kind._fields) or 'none'}, got {_short(record)}")
    values = {}
    for field, form in _fields(kind).items():
        fits = _FORMS[form](record[field])
        if fits and form == "Blocks" and num_blocks is not None:
            fits = max(_frozen(record[field]), default=-1) < num_blocks
        if not fits:
            raise ValueError(f"{name}: {field} cannot be {_short(record[field])}")
        values[field] = _frozen(record[field])
    return kind(**values)


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return range(value["start"], value["stop"])
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _is_count(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value <= _LARGEST


def _is_blocks(value: Any) -> bool:
    if isinstance(value, dict):
        return value.keys() == {"start", "stop"} and all(map(_is_count, value.values()))
    return isinstance(value, list) and all(_is_count(block, -1) for block in value)


def _is_id(value: Any) -> bool:
    return type(value) in (str, int)


def _is_copies(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(map(_is_count, pair)) for pair in value
    )


_FORMS: dict[str, Callable[[Any], bool]] = {
    "SeqId": _is_id,
    "SeqIds": lambda value: isinstance(value, list) and all(map(_is_id, value)),
    "int": _is_count,
    "str": lambda value: value in ("recompute", "swap"),
    "Blocks": _is_blocks,
    "Copies": _is_copies,
}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
