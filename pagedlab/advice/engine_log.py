"""The cache lines of a vLLM start-up log, and what they come to, term by term.

Numbers and a few names are taken. The forms were read in logs of vLLM 0.32 (CPU) and in public issues (GPU);
a line in another form is not guessed at: what is missing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pagedlab import _format
from pagedlab.advice.report import CANNOT_TELL, Finding, Told
from pagedlab.advice.setting import AdviceError, name_of
from pagedlab.models import LayerGroup, ModelShape, element_bytes, preset, presets

MAX_LINES = 200_000
_MAX_LINE, _MAX_DIGITS, _MAX_TOKENS = 1 << 16, 15, 1 << 28
_GIB = 2**30
_TEXTS = ("version", "model", "dtype", "kv_dtype", "gpu")
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_DTYPES |= dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2"), "fp8")
_LEAST = ("kv_gib", "tokens", "blocks", "concurrency")
"""What each worker has a line of its own for: all use the smallest."""
_LARGEST_BLOCK = 1024
_FORMS = {  # what a pattern's one group that matched says; several are of several versions
    "version": r"LLM engine \(v(\d+(?:\.\d+)*)",
    "model": r"with config: model='([^']{1,200})'",
    "dtype": r"\bdtype=torch\.(\w{1,20})",
    "kv_dtype": r"kv_cache_dtype=(\w{1,20})",
    "gpu": r"device_name=(\w[\w-]{1,60})",
    "tokens": r"KV cache size: ([\d,]+) tokens",
    "per_request": r"Maximum concurrency for ([\d,]+) tokens per request",
    "concurrency": r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x",
    "kv_gib": r"(?:Available KV cache memory: |(?:Auto|Explicitly) set \(|for KV Cache is )([\d.]+)",
    "total_gib": r"Free memory on device[^(]*\([\d.]+/([\d.]+) GiB|total_gpu_memory \(([\d.]+)GiB",
    "requested_gib": (
        r"with ([\d.]+) GiB requested memory|Desired GPU memory utilization is \([\d.]+, ([\d.]+) GiB|"
        r"gpu_memory_utilization \([\d.]+\) = ([\d.]+)GiB"
    ),
    "weights_gib": (
        r"(?:Model loading|Loading model weights) took ([\d.]+) Gi?B|([\d.]+) GiB for weight\b|"
        r"model weights take ([\d.]+)GiB"
    ),
    "consumed_gib": r"([\d.]+) GiB for consumed memory",
    "activation_gib": r"([\d.]+) GiB for peak activation|activation peak memory takes ([\d.]+)GiB",
    "other_gib": (
        r"([\d.]+) GiB memory was consumed by non-kv|([\d.]+) GiB for non-torch|"
        r"non_torch_memory takes ([\d.]+)GiB"
    ),
    "graphs_gib": r"Graph capturing finished in .* took ([\d.]+) GiB",
    "blocks": r"# (?:GPU|CPU|cuda|rocm) blocks: ([\d,]+)",
    "block_size": r"'block_size': (\d+)",
    "ranks": r"tensor_parallel_size=(\d+)",
}


@dataclass(frozen=True)
class EngineLog:
    """What a log said; GiB as printed (rounded there), None where no line said it. `name` is the file's.

    `consumed_gib` are weights and what is not torch's together, as newer versions print them.
    """

    name: str
    version: str | None = None
    model: str | None = None
    dtype: str | None = None
    kv_dtype: str | None = None
    gpu: str | None = None
    tokens: int | None = None
    per_request: int | None = None
    concurrency: float | None = None
    kv_gib: float | None = None
    total_gib: float | None = None
    requested_gib: float | None = None
    weights_gib: float | None = None
    consumed_gib: float | None = None
    activation_gib: float | None = None
    other_gib: float | None = None
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

    def fits(self, rank: ModelShape, dtype: str) -> bool:
        """Whether its tokens are those of such a rank and dtype, as far as can be told."""
        if self.tokens is None:
            return False
        mine = rank.kv_bytes(1, dtype)
        return self.bytes_per_token is None or abs(self.bytes_per_token / mine - 1) < 0.02 + self.rounding


def read(path: str | Path) -> EngineLog:
    """Read a start-up log; raises `AdviceError` without a cache line, `OSError` when it cannot be read."""
    path = Path(path)
    with path.open(encoding="utf-8", errors="replace") as file:
        return parse(iter(lambda: file.readline(_MAX_LINE), ""), path.name)


def parse(lines: Iterable[str], name: str = "log") -> EngineLog:
    """The same from lines. Of several starts the last counts, of its workers the one with the least memory.

    >>> parse(["GPU KV cache size: 178,880 tokens"]).tokens
    178880
    """
    found: dict[str, float | str] = {}
    for number, line in enumerate(lines):
        if number >= MAX_LINES:
            break
        for field, form in _FORMS.items():
            if (match := re.search(form, line)) and (said := match[match.lastindex or 0]):
                if field not in _TEXTS and len(said) > _MAX_DIGITS:
                    continue
                value = _value(field, said)
                if field == "version":  # another start in the same file
                    found = {name: kept for name, kept in found.items() if name not in _LEAST}
                found[field] = min(value, found.get(field, value)) if field in _LEAST else value
    if "tokens" not in found and (blocks := int(found.get("blocks", 0))):  # versions that printed no tokens
        if "concurrency" in found:
            tokens = float(found["concurrency"]) * int(found["per_request"])
            found.setdefault("block_size", round(tokens / blocks))
        found["tokens"] = blocks * int(found.get("block_size", 0))
    if not found.get("tokens"):
        raise AdviceError(
            f"{name}: no line tells a cache of vLLM's (such as 'GPU KV cache size: ... tokens')"
        )
    if found["tokens"] > _MAX_TOKENS:  # type: ignore[operator]
        raise AdviceError(f"{name}: a cache of {found['tokens']:,} tokens is none, at most {_MAX_TOKENS:,}")
    return replace(EngineLog(name), **found)  # type: ignore[arg-type]


def _value(field: str, text: str) -> float | str:
    if field in _TEXTS:
        return text
    digits = text.replace(",", "")
    if field.endswith("_gib") or field == "concurrency":
        return float(digits.rstrip(".") or 0)
    return int(digits)


def alone(
    log: EngineLog, *, model: str | None = None, tp: int | None = None, dtype: str | None = None
) -> Told:
    """A log explained by itself; model, ranks and dtype of K and V are the log's unless they are given.

    Raises `AdviceError` when nothing tells the model or the dtype, or when they cannot be.

    >>> lines = ["with config: model='org/Llama-3.1-8B', dtype=torch.bfloat16", "KV cache size: 4,096 tokens"]
    >>> alone(parse(lines)).subject
    'log: llama-3.1-8b in bf16, as vLLM of unknown version started it'
    """
    shape = preset(name_of("model", model, presets()) if model is not None else _model_of(log))
    ranks = tp if tp is not None else log.ranks or 1
    kept = dtype or _dtype_of(log)
    try:
        rank = shape.on_rank(ranks)
        element_bytes(kept)
    except ValueError as error:
        raise AdviceError(str(error)) from None
    said = f"model {_format.clip(log.model)}" if log.model else "no model in the log"
    said += f", counted as {shape.name}; {_format.count(ranks, 'rank')}, K and V in {kept}"
    if log.gpu or log.total_gib:
        said += f"; on {log.gpu or 'a GPU'}" + (f" of {log.total_gib:.2f} GiB" if log.total_gib else "")
    word = "recorded" if (model, tp, dtype) == (None, None, None) else "assumed"
    title = f"{log.name}: {shape.name} in {kept}, as vLLM {log.version or 'of unknown version'} started it"
    served = Finding("log: served", said, word, "the log's line of its configuration, and what was given")
    return Told(title, (served, *explain(log, rank, kept)))


def _model_of(log: EngineLog) -> str:
    """The longest name of a model known here that begins the last part of what the log calls its model."""
    said = (log.model or "").rpartition("/")[2].lower().removeprefix("meta-")
    known = [name for name in presets() if said == name or said.startswith(f"{name}-")]
    if known:
        return max(known, key=len)
    told = f"its model {_format.clip(log.model)} is not known here" if said else "no line tells its model"
    raise AdviceError(f"{log.name}: {told}: give --model; {_format.near(said, presets())}")


def _dtype_of(log: EngineLog) -> str:
    said = log.dtype if log.kv_dtype in (None, "auto") else log.kv_dtype
    if said not in _DTYPES:
        told = f"K and V in {said} are not known here" if said else "no line tells the dtype of K and V"
        raise AdviceError(f"{log.name}: {told}: give --kv-dtype")
    return _DTYPES[said]


def explain(log: EngineLog, rank: ModelShape, dtype: str) -> Iterator[Finding]:
    """Its memory, tokens and concurrency, term by term, beside what such a rank keeps of a token."""
    source = f"{log.name}, vLLM {log.version or 'of unknown version'}"
    yield _memory(log, source)
    yield _tokens(log, rank, dtype, source)
    yield _concurrency(log, source)


def _memory(log: EngineLog, source: str) -> Finding:
    if log.kv_gib is None:
        missing = f"{source}: no line of memory for K and V"
        return Finding("log: memory", f"{CANNOT_TELL} where the memory went", CANNOT_TELL, missing)
    weights = (log.weights_gib, "weights"), (log.other_gib, "other uses")
    if log.consumed_gib is not None:
        weights = ((log.consumed_gib, "weights and other uses"),)  # type: ignore[assignment]
    terms = [(gib, name) for gib, name in (*weights, (log.activation_gib, "activations")) if gib is not None]
    text = f"{log.kv_gib:.2f} GiB for K and V"
    rest = (log.requested_gib or 0.0) - sum(gib for gib, _ in terms)
    if terms and abs(rest - log.kv_gib) < 0.02:
        text += f" = {log.requested_gib:.2f} GiB requested"
        text += f" of {log.total_gib:.2f}" if log.total_gib else ""
        text += "".join(f" - {gib:.2f} GiB {name}" for gib, name in terms)
    else:  # not one sum, as where another worker has less than the last one in the log
        text += "".join(f"; {name} {gib:.2f} GiB" for gib, name in terms)
    if log.graphs_gib is not None:
        text += f"; captured graphs {log.graphs_gib:.2f} GiB"
    return Finding("log: memory", text, "recorded", source, {"kv_gib": log.kv_gib})


def _tokens(log: EngineLog, rank: ModelShape, dtype: str, source: str) -> Finding:
    assert log.tokens is not None
    size, origin = log.block_size, "set by its arguments"
    if size is None:
        size, origin = log.tokens & -log.tokens, "at most: the largest power of two that divides the tokens"
    text = f"{log.tokens:,} tokens"
    if size <= _LARGEST_BLOCK:
        text += f" = {log.tokens // size:,} blocks of {size} ({origin})"
    else:
        text += f" ({CANNOT_TELL} the block size: no argument sets it)"
    if log.bytes_per_token is None:
        text += f"; {CANNOT_TELL} the bytes of one: no line of memory for K and V"
    else:
        text += (
            f"; {log.kv_gib:.2f} GiB are {log.bytes_per_token:,.0f} bytes each (within "
            f"{_format.significant(100 * log.rounding, 1)} %: the log rounds)"
        )
    layers = " + ".join(map(_layers, rank.layer_groups))
    mine = rank.kv_bytes(1, dtype)
    text += f". {rank.name} in {dtype} has {mine:,} = {layers} x {element_bytes(dtype):g} bytes"
    if not log.fits(rank, dtype):
        text += ". They differ: not that model, dtype or rank, so no advice would use this log"
    values = {"tokens": log.tokens, "block_size": size, "bytes_per_token": log.bytes_per_token}
    return Finding("log: tokens", text, "recorded", source, values)


def _layers(group: LayerGroup) -> str:
    heads = f"2 x {group.kv_heads} KV heads x {group.head_dim}"
    return f"{group.layers} layers x {f'a latent vector of {group.latent}' if group.latent else heads}"


def _concurrency(log: EngineLog, source: str) -> Finding:
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
