"""What runs on this machine, what does not, why, and what to do about it.

Each finding is printed as soon as it is known: the cheap ones first, then those that import torch or compile
a kernel. The doctor is called when something is missing, so whatever is absent or broken is a finding, never
a crash. A kernel counts as working when it has answered a small question as the reference does.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagedlab import __version__, _env, _format, lab, machine

if TYPE_CHECKING:
    from pagedlab_kernels import Backend

HELP = "what runs on this machine, what does not, and what to do about it"
OK, LIMITED, MISSING = "ok", "limited", "missing"
LESSON_MEMORY = 2**30  # bytes: the JupyterLab server and the kernel of one lesson
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Check:
    """One finding: OK; LIMITED, lessons run but show less; MISSING, they do not. `remedy` says what to do, or
    ""."""

    topic: str
    status: str
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"\n{'':28}-> {self.remedy}" if self.remedy else ""
        return f"  {self.status:<8}{self.topic:<18}{self.found}{remedy}"


def examine() -> Iterator[Check]:
    """Yield the findings one by one, the dearest last."""
    for look in (_python, _cpu, _memory, _lessons, _folders, _jupyterlab, _widgets, _gpu):
        yield _guarded(look)
    torch = _guarded(_torch)
    yield torch
    if torch.status != MISSING:
        yield from _kernels()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The doctor takes no arguments of its own."""


def command(args: argparse.Namespace) -> int:
    checks = []
    if not args.json:
        print(f"pagedlab {__version__} on {machine.cpu_device()}", flush=True)
    for check in examine():
        checks.append(check)
        if not args.json:
            print(check, flush=True)
    missing = [check.topic for check in checks if check.status == MISSING]
    if args.json:
        record = {
            "ok": not missing,
            "checks": [asdict(check) for check in checks],
            "machine": machine.describe().to_dict(),
        }
        print(json.dumps(record, indent=2))
    else:
        print(f"Missing: {', '.join(missing)}." if missing else "Everything that the lessons need is here.")
    return 1 if missing else 0


# -- What can be seen without importing anything heavy.


def _python() -> Check:
    return Check("python", OK, f"{platform.python_version()}, {sys.executable}")


def _cpu() -> Check:
    caches = machine.caches()
    levels = ", ".join(f"{level} {_format.size(size)}" for level, size in caches.items())
    usable = machine.usable_cores()
    threads = f"{usable} threads usable" if usable > 1 else "1 thread usable"
    return Check("cpu", OK, f"{threads}; caches: {levels or 'not told by this system'}")


def _memory() -> Check:
    size = machine.memory()
    if size is None:
        return Check("memory", OK, "this system does not say how much there is")
    if size >= LESSON_MEMORY:
        return Check("memory", OK, _format.size(size))
    remedy = "close other notebooks before you open a lesson, or give the container 1 GiB"
    found = f"{_format.size(size)}; one lesson and its server take up to 1 GiB"
    return Check("memory", LIMITED, found, remedy)


def _lessons() -> Check:
    try:
        folder = lab.shipped_lessons()
    except lab.LabError as error:
        return Check("lessons", MISSING, str(error))
    return Check("lessons", OK, f"{len(list(folder.glob('*.ipynb')))} in {folder}")


def _folders() -> Check:
    """A lesson writes into the working folder, Jupyter into the home, numba beside its kernels or into the
    home."""
    here, home = Path.cwd(), machine.home()
    if not machine.can_write(here):
        remedy = "change to a folder of your own, or name one: pagedlab lab FOLDER"
        return Check("folders", LIMITED, f"cannot write to the current folder, {here}", remedy)
    if home is None or not machine.can_write(home):
        remedy = "set HOME to your own folder, or JUPYTER_CONFIG_DIR, JUPYTER_DATA_DIR and NUMBA_CACHE_DIR"
        found = f"cannot write to the home folder, {home or 'which is unknown'}"
        return Check("folders", LIMITED, found, remedy)
    return Check("folders", OK, f"can write to {here} and {home}")


def _jupyterlab() -> Check:
    return _installed("jupyterlab", ("jupyterlab", "ipykernel"), "pip install jupyterlab")


def _widgets() -> Check:
    packages = ("ipywidgets", "anywidget", "plotly")
    check = _installed("widgets", packages, f"pip install {' '.join(packages)}")
    if check.status != OK:
        return check
    folders = [Path(folder) for folder in _extension_folders()]
    for extension in ("anywidget", "@jupyter-widgets/jupyterlab-manager"):
        if not any((folder / extension / "package.json").is_file() for folder in folders):
            remedy = "pip install --force-reinstall anywidget jupyterlab_widgets, beside JupyterLab"
            return Check("widgets", MISSING, f"JupyterLab does not find its extension {extension}", remedy)
    return check


def _gpu() -> Check:
    if not _env.gpu_visible():
        found = "none visible: kernels run on the CPU, Triton's are interpreted"
        return Check("gpu", LIMITED, found, "nothing to do; to time Triton kernels, use a machine with a GPU")
    if not _env.torch_built_for_gpu():
        remedy = "install a build of torch for your GPU"
        return Check("gpu", LIMITED, "there is one, but torch was built for the CPU only", remedy)
    usable = [f"{gpu.name}, {_format.size(gpu.memory)}, sm_{gpu.capability}" for gpu in machine.gpus()]
    if not usable:
        return Check("gpu", LIMITED, "there is one, but torch cannot use it", "update the driver: nvidia-smi")
    return Check("gpu", OK, "; ".join(usable))


# -- What must be imported or run to know.


def _torch() -> Check:
    import torch

    return Check("torch", OK, f"{torch.__version__}, {torch.get_num_threads()} threads")


def _kernels() -> Iterator[Check]:
    try:
        from pagedlab_kernels import backends

        found = backends()
    except Exception as error:
        yield Check("kernels", MISSING, _one_line(error), "pip install --force-reinstall pagedlab")
        return
    measures = any(each.available and each.for_speed for each in found if each.name != "reference")
    for backend in found:
        yield _kernel(backend, measures)


def _kernel(backend: Backend, measures: bool) -> Check:
    topic = f"{backend.name} kernel"
    if not backend.available:
        remedy = backend.remedy or ""
        if backend.name == "triton" and sys.platform != "linux":
            remedy = "nothing to do: Triton has no packages for this system; the other backends answer"
        return Check(topic, LIMITED if measures else MISSING, backend.reason or "", remedy)
    start = time.perf_counter()
    try:
        error = _error_on_a_small_case(backend)
    except Exception as failure:
        return Check(topic, MISSING, f"{backend.how}, but fails: {_one_line(failure)}", "see above")
    took = _format.seconds(time.perf_counter() - start)
    if not error <= TOLERANCE:
        found = f"{backend.how}, but its answer is off by {error:.1e}"
        return Check(topic, MISSING, found, "compare versions with constraints.txt")
    found = f"{backend.how}; answers as the reference does"
    if not backend.for_speed:
        return Check(topic, LIMITED, found)
    if backend.name != "reference":  # an oracle's time would be read as what attention costs
        found += f"; measured: {took} for a first call and its check, compiling included"
    return Check(topic, OK, found)


def _error_on_a_small_case(backend: Backend) -> float:
    """The largest difference from the reference: 2 sequences, 2 query heads on 1 KV head, blocks of 4,
    shuffled."""
    import torch

    from pagedlab_kernels import paged_attention

    source = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(shape, generator=source) for shape in ((2, 2, 16), (6, 4, 1, 16), (6, 4, 1, 16))
    )
    table = torch.tensor([[4, 1, 5], [2, 0, 3]], dtype=torch.int32)
    lengths = torch.tensor([9, 12], dtype=torch.int32)
    device = "cuda" if backend.runs_on == "cuda" else "cpu"
    arguments = [tensor.to(device) for tensor in (query, key, value, table, lengths)]
    answers: list[Any] = [paged_attention(*arguments, backend=name) for name in (backend.name, "reference")]
    return float((answers[0] - answers[1]).abs().max())


# -- Shared by the looks above.


def _guarded(look: Callable[[], Check]) -> Check:
    topic = look.__name__.strip("_")
    try:
        return look()
    except ModuleNotFoundError as error:
        return Check(topic, MISSING, f"{error.name} is not installed", f"pip install {error.name}")
    except Exception as error:
        remedy = f"pip install --force-reinstall {topic}"
        return Check(topic, MISSING, f"does not work: {_one_line(error)}", remedy)


def _installed(topic: str, packages: tuple[str, ...], remedy: str) -> Check:
    versions = {}
    for package in packages:
        if importlib.util.find_spec(package) is None:
            return Check(topic, MISSING, f"{package} is not installed", remedy)
        versions[package] = importlib.metadata.version(package)
    return Check(topic, OK, ", ".join(f"{package} {version}" for package, version in versions.items()))


def _extension_folders() -> list[str]:
    from jupyter_core.paths import jupyter_path

    return jupyter_path("labextensions")


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
