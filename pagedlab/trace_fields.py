"""What the fields of a request are called in published traces, and what they may hold."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable
from typing import Any

from pagedlab import trace_times
from pagedlab._format import clip
from pagedlab.trace_table import MAX_TOKENS, TOKENS_PER_HASH

PROMPT = (
    *("ContextTokens", "num_prefill_tokens", "input_length", "prompt_tokens", "input_tokens", "prompt_len"),
    *("Request tokens", "prompt"),
)
OUTPUT = (
    *("GeneratedTokens", "num_decode_tokens", "output_length", "completion_tokens", "output_tokens"),
    *("output_len", "Response tokens", "output"),
)
ARRIVAL = {
    **{"TIMESTAMP": "date", "Timestamp": "seconds", "arrival_s": "seconds"},
    **dict.fromkeys(("timestamp_ms", "arrival_ms"), "milliseconds"),
}
NAMES = (PROMPT, OUTPUT, tuple(ARRIVAL))
_HASHES = 1 << 30  # as many as there are made-up token ids for them
_LIKE_A_TIME = re.compile("time|arriv", re.IGNORECASE)


def found(names: Iterable[str], there: Container[str]) -> str:
    """The first of the names that is there, or ""."""
    return next((name for name in names if name in there), "")


def unread_times(names: Iterable[str]) -> list[str]:
    """A note where something may be a time, in a unit that nobody told: that is not read."""
    unread = [clip(name) for name in names if _LIKE_A_TIME.search(name)]
    known = f"a time is called one of {', '.join(ARRIVAL)}"
    return [f"{', '.join(unread)} not read: {known}"] if unread else []


def length(text: str) -> int:
    """A length in tokens, written as a whole number. Raises ValueError for anything else."""
    try:
        tokens = float(text)
    except ValueError:
        tokens = math.nan
    if not tokens.is_integer():  # also NaN and infinities
        raise ValueError(f"a length must be a whole number of tokens, got {clip(text)}")
    if not 1 <= tokens <= MAX_TOKENS:
        raise ValueError(f"a length must be 1 to {MAX_TOKENS:,} tokens, got {clip(text)}")
    return int(tokens)


def whole(value: Any) -> int:
    """A length that JSON has as a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a length must be a whole number of tokens, got {clip(value)}")
    return length(str(value))


def arrival(row: dict[str, Any]) -> int | None:
    """Nanoseconds, None for a row without a time."""
    if row.get("timestamp") is not None:
        return trace_times.of_json(row["timestamp"])
    name = next((name for name in ARRIVAL if row.get(name) is not None), None)
    return None if name is None else int(trace_times.of_column([str(row[name])], ARRIVAL[name])[0])


def hashes(ids: list[Any], prompt: int) -> list[int]:
    """The prefix hashes of a prompt of so many tokens: one for each `TOKENS_PER_HASH` begun."""
    if not all(type(id) is int and 0 <= id < _HASHES for id in ids):
        raise ValueError(f"hash_ids must be whole numbers from 0 to 2**30 - 1, got {clip(ids)}")
    if len(ids) != -(-prompt // TOKENS_PER_HASH):
        raise ValueError(
            f"a prompt of {prompt:,} tokens has {-(-prompt // TOKENS_PER_HASH)} hash ids, one for each "
            f"{TOKENS_PER_HASH} tokens; got {len(ids)}"
        )
    return ids
