"""Takes from this process what somebody else's code does not need; `gaps` says what it cannot take here.

The runner limits time, memory and answers. Here go the environment, many processes and large files; and where
Linux has Landlock, a sandbox that anybody may enter, the kernel refuses to write outside one folder, to open
TCP connections and to signal other processes. Reading files is left as it was.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import struct
import sys
from pathlib import Path

_KEPT = ("PATH", "LANG", "LC_ALL", "CUDA_VISIBLE_DEVICES", "TRITON_INTERPRET", "OMP_MAX_ACTIVE_LEVELS")
_PROCESSES = 64
"""Beyond those that the user has."""
_FILE_BYTES = 64 << 20
# Linux's own numbers, the same on every machine.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _NO_NEW_PRIVILEGES = 444, 445, 446, 38
_CAPABILITIES = 0x20080522
_WRITE, _MOVE, _TRUNCATE, _TCP, _OTHERS = 1 << 1, 1 << 13, 1 << 14, 3, 3
_CHANGE = _WRITE | sum(1 << bit for bit in range(4, 13))  # and remove and make files and folders of any kind


@functools.cache
def enter(folder: str, seconds: float) -> None:
    """Confine this process, for good, to `folder`; after `seconds` of computing, or a few more, it ends."""
    os.chdir(folder)
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    os.environ.clear()
    with contextlib.suppress(OSError):  # Linux goes on showing the block that a process began with
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = map(int, fields[47:49])
        ctypes.memset(start, 0, end - start)
    os.environ.update(kept, HOME=folder, TMPDIR=folder)
    with contextlib.suppress(ImportError):
        import resource as limit

        limits = {limit.RLIMIT_FSIZE: _FILE_BYTES, limit.RLIMIT_CPU: int(seconds) + 5}
        if tasks := _tasks():
            limits[limit.RLIMIT_NPROC] = tasks + _PROCESSES
        for which, most in limits.items():
            with contextlib.suppress(ValueError):  # it is lower already
                limit.setrlimit(which, (most, most))
    if _landlock():
        _lock(folder)


def gaps() -> list[str]:
    """What a confined process could do on this machine and not on others, in words."""
    found = ["start any number of processes, as this is root"] if os.geteuid() == 0 else []
    found += ["change your files: no Landlock here"] if _landlock() < 1 else []
    return found + (["end your processes: no Landlock of Linux 6.12 here"] if _landlock() < 6 else [])


def _tasks() -> int:
    """Processes and threads of this user; 0 where there is no telling."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if process.stat().st_uid == os.geteuid():
                count += len(os.listdir(process / "task"))
    return count


def _landlock() -> int:
    """The version of Landlock that this kernel has; 0 for none."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, 1))


def _lock(folder: str) -> None:
    libc, version = ctypes.CDLL(None, use_errno=True), _landlock()
    change = _CHANGE | (_MOVE if version > 1 else 0) | (_TRUNCATE if version > 2 else 0)
    handled = struct.pack("QQQ", change, _TCP if version > 3 else 0, _OTHERS if version > 5 else 0)
    rules = libc.syscall(_CREATE_RULESET, handled, len(handled), 0)
    refused = 0
    for path, allowed in ((folder, change), (os.devnull, change & (_WRITE | _TRUNCATE))):
        at = os.open(path, os.O_PATH)
        refused |= libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", allowed, at), 0)
    refused |= libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) | libc.syscall(_RESTRICT_SELF, rules, 0)
    libc.capset(struct.pack("Ii", _CAPABILITIES, 0), bytes(24))  # of root's powers, none
    if refused:
        raise OSError(ctypes.get_errno(), "Landlock is here and refuses")
