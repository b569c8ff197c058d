"""What this machine is: the conditions under which a number was measured.

A time means nothing without the machine it was taken on, so every record of a measurement carries
`Machine.device` or `gpu_device()`, one line each. `describe()` asks the system, never a network, and leaves
out what it cannot find: the lessons also run in containers that hide half of `/proc`, and on systems that
have none.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pagedlab import __version__, _env

PACKAGES = ("torch", "triton", "numba", "numpy")


@dataclass(frozen=True)
class Gpu:
    """One GPU as torch sees it; memory in bytes, driver and capability as text ("" when unknown)."""

    name: str
    memory: int
    capability: str
    driver: str


@dataclass(frozen=True)
class Machine:
    """A machine in plain data; sizes in bytes, None or "" where the system does not say.

    `logical_cores` are the system's, `usable_cores` those that affinity and the container leave to this
    process. `caches` maps a level ("L1d", "L2", "L3") to the bytes of one such cache. `versions` has None for
    what is absent.
    """

    system: str
    python: str
    cpu: str
    logical_cores: int
    usable_cores: int
    caches: dict[str, int]
    memory: int | None
    gpus: tuple[Gpu, ...]
    versions: dict[str, str | None]
    home_writable: bool

    @property
    def device(self) -> str:
        """One line for records of what ran on the CPU."""
        return _device_line(self.cpu, self.usable_cores, self.logical_cores, self.system)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        return {**asdict(self), "gpus": [asdict(gpu) for gpu in self.gpus], "device": self.device}


def describe() -> Machine:
    """Describe this machine. Never raises for something the system lacks or hides.

    torch is imported only where a GPU is visible, since only torch can say whether it can be used.

    >>> machine = describe()
    >>> 1 <= machine.usable_cores <= machine.logical_cores
    True
    """
    return Machine(
        system=_system(),
        python=platform.python_version(),
        cpu=_cpu_model(),
        logical_cores=os.cpu_count() or 1,
        usable_cores=usable_cores(),
        caches=caches(),
        memory=memory(),
        gpus=gpus(),
        versions=versions(),
        home_writable=(folder := home()) is not None and can_write(folder),
    )


def cpu_device() -> str:
    """The line `describe().device`, without looking at anything else."""
    return _device_line(_cpu_model(), usable_cores(), os.cpu_count() or 1, _system())


def versions() -> dict[str, str | None]:
    """Installed versions of what a measurement depends on, None for what is absent; imports nothing."""
    found: dict[str, str | None] = {"pagedlab": __version__}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except (importlib.metadata.PackageNotFoundError, OSError):
            found[name] = None
    return found


def usable_cores() -> int:
    """Cores that this process may use: the smallest of the system's, the affinity mask and the container's
    quota."""
    cores = os.cpu_count() or 1
    with contextlib.suppress(AttributeError, OSError):
        cores = min(cores, len(os.sched_getaffinity(0)))
    quota = _first_line("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and all(part.isdigit() for part in quota):
        cores = min(cores, max(1, round(int(quota[0]) / int(quota[1]))))
    return max(1, cores)


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that torch can use, or none."""
    if not _env.gpu_usable():
        return ()
    try:
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return tuple(_gpu(torch.cuda.get_device_properties(i)) for i in range(count))
    except Exception:  # a driver that does not fit raises what it likes, and a description must survive it
        return ()


def gpu_device(index: int = 0) -> str:
    """One line for records of what ran on a GPU; raises IndexError when there is no such GPU."""
    found = gpus()
    if not 0 <= index < len(found):
        raise IndexError(f"gpu {index}: torch can use {len(found)} GPUs here")
    gpu = found[index]
    driver = f", driver {gpu.driver}" if gpu.driver else ""
    return f"{gpu.name}, {gpu.memory / 2**30:.0f} GiB{driver}"


def _device_line(cpu: str, usable: int, logical: int, system: str) -> str:
    return f"{cpu}, {usable} of {logical} cores, {system}"


def _system() -> str:
    return f"{platform.system() or sys.platform} {platform.machine()}".strip()


def _gpu(properties: Any) -> Gpu:
    version = _first_line("/proc/driver/nvidia/version").partition("Kernel Module")[2].split()
    return Gpu(
        name=properties.name,
        memory=properties.total_memory,
        capability=f"{properties.major}.{properties.minor}",
        driver=next((word for word in version if word[0].isdigit()), ""),
    )


def _cpu_model() -> str:
    if sys.platform == "darwin" and (name := _sysctl("machdep.cpu.brand_string")):
        return name
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Hardware", "cpu model") and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown CPU"


def caches() -> dict[str, int]:
    """Bytes of one cache of each level that holds data, as far as the system says."""
    if sys.platform == "darwin":
        sizes = {"L1d": "hw.l1dcachesize", "L2": "hw.l2cachesize", "L3": "hw.l3cachesize"}
        return {
            level: int(size)
            for level, key in sizes.items()
            if (size := _sysctl(key)).isdigit() and size != "0"
        }
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index[0-9]*")):
        kind, size = _first_line(folder / "type"), _first_line(folder / "size")
        if kind != "Instruction" and size[-1:] == "K" and size[:-1].isdigit():
            suffix = "d" if kind == "Data" else ""
            found[f"L{_first_line(folder / 'level')}{suffix}"] = int(size[:-1]) * 1024
    return found


def beyond_caches() -> int:
    """Bytes that no cache holds: twice the largest one found, 64 MiB to 1 GiB; a multiple of 1 MiB.

    The largest is the CPU's or the first GPU's. Where the system does not say, 256 MiB are taken.
    """
    largest = max([*caches().values(), *_gpu_caches()], default=0)
    wanted = 2 * largest or 256 * 2**20
    return -(-min(max(wanted, 64 * 2**20), 2**30) // 2**20) * 2**20


def _gpu_caches() -> list[int]:
    if not gpus():
        return []
    import torch

    return [getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)]


def memory() -> int | None:
    """Bytes of memory that this process may use: the system's, or the container's limit when that is less."""
    total = None
    with contextlib.suppress(AttributeError, OSError, ValueError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _first_line("/sys/fs/cgroup/memory.max")
    if limit.isdigit():
        total = min(total, int(limit)) if total else int(limit)
    return total


def home() -> Path | None:
    """The user's home folder; None where it is not known."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def can_write(folder: Path) -> bool:
    """Whether a file can be made there; asked by making one, as permissions do not show a read-only disk."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _first_line(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace").split("\n", 1)[0].strip()
    except OSError:
        return ""


def _sysctl(name: str) -> str:
    try:
        return subprocess.run(
            ["sysctl", "-n", name], capture_output=True, text=True, timeout=5
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
