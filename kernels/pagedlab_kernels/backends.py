"""Who can serve a call on this machine, who cannot and why; and the one place that chooses.

A backend is a module with two functions: `refusal(call)` says why it cannot serve a call, or None, and
`attend(call)` serves it. Whether it runs here at all is found out in this file, once per process.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .call import AttentionCall

_MODULES = {"triton": "triton_launch", "cpu": "cpu", "reference": "reference"}
_FASTEST_FIRST = {"cuda": ("triton", "reference"), "cpu": ("cpu", "reference")}  # by the tensors' device


@dataclass(frozen=True)
class Backend:
    """What one backend can do on this machine."""

    name: str
    available: bool
    runs_on: str  # whose tensors it takes: "cpu", "cuda" or "any device"
    how: str  # compiled, interpreted, or plain torch
    reason: str | None = None  # why it is not available
    remedy: str | None = None  # what to do about that
    for_speed: bool = True  # False: its answers are right, its times mean nothing


def backends() -> tuple[Backend, ...]:
    """What each backend can do on this machine, the fastest first; one that cannot run says why.

    >>> [backend.name for backend in backends()]
    ['triton', 'cpu', 'reference']
    >>> backends()[-1].available
    True
    """
    return tuple(probe() for probe in _PROBES.values())


def choose(name: str, call: AttentionCall) -> ModuleType:
    """Return the module of the named backend, or for "auto" of the fastest that can serve the call.

    Raises ValueError for an unknown name, and with the reason when the named backend cannot serve the call.
    """
    if name not in ("auto", *_MODULES):
        raise ValueError(f"backend must be one of auto, {', '.join(_MODULES)}, got {name!r}")
    wanted: tuple[str, ...] = (name,)
    if name == "auto":
        wanted = _FASTEST_FIRST.get(call.query.device.type, ("reference",))
    refusals = []
    for each in wanted:
        backend = _PROBES[each]()
        if not backend.available:
            refusals.append(f"{each} cannot run here: {backend.reason}. Remedy: {backend.remedy}")
        elif backend.for_speed or name != "auto":
            module = importlib.import_module(f".{_MODULES[each]}", __package__)
            refusal = module.refusal(call)
            if refusal is None:
                return module
            refusals.append(f"{each} cannot serve this call: {refusal}")
    raise ValueError(f"backend={name!r}: {'; '.join(refusals)}")


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep Python's garbage collector from running: beside torch it is slow, and would run often.

    Importing numba and loading a compiled kernel make some 100,000 objects that all stay. Looking again and
    again for any that do not takes nearly half the time of a process's first call.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def _triton() -> Backend:
    try:
        import torch

        from . import triton_launch
    except Exception as error:  # a build that does not fit this machine may fail in any way
        return Backend("triton", False, "cuda", "compiled for a GPU", *_missing("triton", error))
    interpreted = triton_launch.interpreted()
    if interpreted:
        how = "interpreted: for correctness, its times mean nothing"
        return Backend("triton", True, "any device", how, for_speed=False)
    reason = remedy = None
    if interpreted is None:
        reason = "TRITON_INTERPRET was changed after triton was imported"
        remedy = "restart Python and set it before the first import of torch or triton"
    elif not torch.cuda.is_available():
        reason = "torch sees no GPU and Triton's interpreter is off"
        remedy = "set TRITON_INTERPRET=1 before the first import of torch or triton, to interpret it instead"
    return Backend("triton", reason is None, "cuda", "compiled for this GPU", reason, remedy)


@cache
def _cpu() -> Backend:
    try:
        with collector_paused():
            from . import cpu  # noqa: F401
    except Exception as error:
        return Backend("cpu", False, "cpu", "compiled for this CPU by numba", *_missing("numba", error))
    return Backend("cpu", True, "cpu", "compiled for this CPU by numba")


@cache
def _reference() -> Backend:
    try:
        import torch  # noqa: F401
    except Exception as error:
        return Backend("reference", False, "any device", "plain torch", *_missing("torch", error))
    return Backend("reference", True, "any device", "plain torch, the oracle of the others")


def _missing(package: str, error: Exception) -> tuple[str, str]:
    """Reason and remedy for a package that does not import, or one that it needs."""
    package = getattr(error, "name", None) or package
    remedy = f"pip install {package}"
    if package == "triton":
        remedy += " (there are builds for Linux only; the other backends do without)"
    return f"{package} does not import ({error})", remedy


_PROBES = {"triton": _triton, "cpu": _cpu, "reference": _reference}  # the fastest first
