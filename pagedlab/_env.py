"""The environment that must be settled before torch, triton or numba is imported.

Triton chooses between compiling and interpreting when `@triton.jit` runs, and jits its own standard functions
while it is imported: `TRITON_INTERPRET` comes too late after that. So `import pagedlab` calls `prepare()`
first of all, and whether a GPU can be used is answered from files alone: no import, no subprocess, under a
millisecond.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path


def gpu_usable() -> bool:
    """Whether a GPU is visible to this process and the installed torch was built for one."""
    return gpu_visible() and torch_built_for_gpu()


def gpu_visible() -> bool:
    """Whether the system shows a GPU of NVIDIA's or AMD's to this process."""
    for hide in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        if os.environ.get(hide, "0").strip() in ("", "-1"):
            return False
    if sys.platform == "win32":
        return (Path(os.environ.get("SYSTEMROOT", r"C:\Windows")) / "System32" / "nvcuda.dll").exists()
    devices = Path("/dev")
    return (devices / "kfd").exists() or (devices / "dxg").exists() or any(devices.glob("nvidia[0-9]*"))


def torch_built_for_gpu() -> bool:
    """Whether the installed torch carries a GPU library; False where there is no torch at all."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return False
    folders = (spec.submodule_search_locations or []) if spec else []
    names = ("libtorch_cuda.so", "libtorch_hip.so", "torch_cuda.dll")
    return any((Path(folder) / "lib" / name).exists() for folder in folders for name in names)


def prepare() -> None:
    """Ask Triton for its interpreter where no GPU can be used, and keep thread pools from nesting.

    What the user has set stays. Once triton is imported its choice is made, and the variable is left alone:
    setting it then would make child processes and this one disagree.
    """
    if "triton" not in sys.modules and not gpu_usable():
        os.environ.setdefault("TRITON_INTERPRET", "1")
    # numba's OpenMP layer beside torch's once made torch 4 to 16 times slower: each started a pool inside the
    # other.
    os.environ.setdefault("OMP_MAX_ACTIVE_LEVELS", "1")
