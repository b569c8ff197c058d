"""The cache lines of a vLLM start-up log, and what they come to, term by term.

Only numbers are taken. The forms were read in logs of vLLM 0.32 (CPU) and in public issues (GPU); a line in
another form is not guessed at: what is missing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pagedlab import _format
from pagedlab.advice.report import CANNOT_TELL, Finding
from pagedlab.advice.setting import AdviceError, Setting

MAX_LINES = 200_000
_MAX_LINE, _MAX_DIGITS, _MAX_TOKENS = 1 << 16, 15, 1 << 28
_GIB = 2**30
_LARGEST_BLOCK = 1024
_FORMS = {
    "version": r"LLM engine \(v(\d+(?:\.\d+)*)",
    "tokens": r"KV cache size: ([\d,]+) tokens",
    "per_request": r"Maximum concurrency for ([\d,]+) tokens per request",
    "concurrency": r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x",
    "kv_gib": r"(?:Available KV cache memory: |(?:Auto|Explicitly) set \()([\d.]+)",
    "requested_gib": r"with ([\d.]+) GiB requested memory",
    "other_gib": r"([\d.]+) GiB memory was consumed by non-kv",
    "weights_gib": r"(?:Model loading|Loading model weights) took ([\d.]+) Gi?B",
    "graphs_gib": r"Graph capturing finished in .* took ([\d.]+) GiB",
    "blocks": r"# (?:GPU|CPU) blocks: ([\d,]+)",
    "block_size": r"'block_size': (\d+)",
    "ranks": r"tensor_parallel_size=(\d+)",
}


@dataclass(frozen=True)
class EngineLog:
    """What a log said; GiB as printed (rounded there), None where no line said it. `name` is the file's."""

    name: str
    version: float | str | None = None
    tokens: int | None = None
    per_request: int | None = None
    concurrency: float | None = None
    kv_gib: float | None = None
    requested_gib: float | None = None
    other_gib: float | None = None
    weights_gib: float | None = None
    graphs_gib: float | None = None
    blocks: int | None = None
    block_size: int | None = None
    ranks: int | None = None

    @property
    def bytes_per_token(self) -> float | None:
        """Bytes of K and V over tokens, as far as the rounding lets it be known."""
        return self.kv_gib * _GIB / self.tokens if self.kv_gib and self.tokens else None

    @property
    def rounding(self) -> float:
        """How far off `bytes_per_token` may be, as a share: two decimals of a GiB were printed."""
        return 0.005 / self.kv_gib if self.kv_gib else 1.0

    def fits(self, setting: Setting) -> bool:
        """Whether its tokens are of this model and dtype, as far as can be told."""
        if self.tokens is None:
            return False
        mine = setting.rank.kv_bytes(1, setting.choice.dtype)
        return self.bytes_per_token is None or abs(self.bytes_per_token / mine - 1) < 0.02 + self.rounding


def read(path: str | Path) -> EngineLog:
    """Read a start-up log; raises `AdviceError` without a cache line, `OSError` when it cannot be read."""
    path = Path(path)
    with path.open(encoding="utf-8", errors="replace") as file:
        return parse(iter(lambda: file.readline(_MAX_LINE), ""), path.name)


def parse(lines: Iterable[str], name: str = "log") -> EngineLog:
    """The same from lines. Of several workers, the one with the least memory counts; else the last line.

    >>> parse(["GPU KV cache size: 178,880 tokens"]).tokens
    178880
    """
    found: dict[str, float | str] = {}
    for number, line in enumerate(lines):
        if number >= MAX_LINES:
            break
        for field, form in _FORMS.items():
            if (match := re.search(form, line)) and len(match[1]) <= _MAX_DIGITS:
                value = _value(field, match[1])
                found[field] = min(value, found.get(field, value)) if field == "kv_gib" else value
    if "tokens" not in found and "blocks" in found and "block_size" in found:
        found["tokens"] = int(found["blocks"]) * int(found["block_size"])
    if not found.get("tokens"):
        raise AdviceError(
            f"{name}: no line tells a cache of vLLM's (such as 'GPU KV cache size: ... tokens')"
        )
    if found["tokens"] > _MAX_TOKENS:  # type: ignore[operator]
        raise AdviceError(f"{name}: a cache of {found['tokens']:,} tokens is none, at most {_MAX_TOKENS:,}")
    return replace(EngineLog(name), **found)  # type: ignore[arg-type]


def _value(field: str, text: str) -> float | str:
    if field == "version":
        return text
    digits = text.replace(",", "")
    if field.endswith("_gib") or field == "concurrency":
        return float(digits.rstrip(".") or 0)
    return int(digits)


def explain(log: EngineLog, setting: Setting) -> Iterator[Finding]:
    """Its memory, tokens and concurrency, term by term."""
    source = f"{log.name}, vLLM {log.version or 'of unknown version'}"
    yield _memory(log, source)
    yield _tokens(log, setting, source)
    yield _concurrency(log, setting, source)


def _memory(log: EngineLog, source: str) -> Finding:
    if log.kv_gib is None:
        missing = f"{source}: no line of memory for K and V"
        return Finding("log: memory", f"{CANNOT_TELL} where the memory went", CANNOT_TELL, missing)
    text = f"{log.kv_gib:.2f} GiB for K and V"
    if log.requested_gib is not None and log.other_gib is not None:
        text += f" = {log.requested_gib:.2f} GiB requested - {log.other_gib:.2f} GiB other uses"
    for part, name in ((log.weights_gib, "weights"), (log.graphs_gib, "captured graphs")):
        if part is not None:
            text += f"; {name} {part:.2f} GiB"
    return Finding("log: memory", text, "recorded", source, {"kv_gib": log.kv_gib})


def _tokens(log: EngineLog, setting: Setting, source: str) -> Finding:
    assert log.tokens is not None
    size, origin = log.block_size, "set by its arguments"
    if size is None:
        size, origin = log.tokens & -log.tokens, "at most: the largest power of two that divides the tokens"
    text = f"{log.tokens:,} tokens"
    if size <= _LARGEST_BLOCK:
        text += f" = {log.tokens // size:,} blocks of {size} ({origin})"
    else:
        text += f" ({CANNOT_TELL} the block size: no argument sets it)"
    mine = setting.rank.kv_bytes(1, setting.choice.dtype)
    if log.bytes_per_token is None:
        text += f"; {CANNOT_TELL} the bytes of one: no line of memory for K and V"
    else:
        text += (
            f"; {log.bytes_per_token:,.0f} bytes each (within {_format.percent(log.rounding)}: the log "
            f"rounds), {setting.rank.name} in {setting.choice.dtype} has {mine:,}"
        )
        if not log.fits(setting):
            text += ". They differ: not that model, dtype or rank, so the advice does not use this log"
    values = {"tokens": log.tokens, "block_size": size, "bytes_per_token": log.bytes_per_token}
    return Finding("log: tokens", text, "recorded", source, values)


def _concurrency(log: EngineLog, setting: Setting, source: str) -> Finding:
    assert log.tokens is not None
    if log.per_request is None:
        missing = f"{source}: no line of maximum concurrency"
        return Finding("log: concurrency", f"{CANNOT_TELL} the longest request", CANNOT_TELL, missing)
    size = log.block_size or 1
    whole = -(-log.per_request // size) * size
    ratio = log.tokens / whole
    rounded = "" if whole == log.per_request else f" ({log.per_request:,} in whole blocks)"
    text = f"{log.tokens:,} tokens / {whole:,} of one request{rounded} = {ratio:.2f}"
    if log.concurrency is not None:
        same = abs(ratio - log.concurrency) < 0.006 + 0.001 * ratio
        text += f"; the log says {log.concurrency:.2f}" + (
            "" if same else ": more than the tokens alone tell, as with layers that keep a window"
        )
    return Finding("log: concurrency", text, "recorded", source, {"ratio": ratio, "log": log.concurrency})
