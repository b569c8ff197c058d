from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pagedlab import _env, machine


def test_a_description_is_plain_data_and_names_the_device() -> None:
    described = machine.describe()
    plain = json.loads(json.dumps(described.to_dict()))
    assert plain["device"] == described.device == machine.cpu_device()
    assert plain["python"].startswith("3.")
    assert 1 <= described.usable_cores <= described.logical_cores
    assert described.cpu in described.device
    assert described.versions["numpy"]


def test_nothing_that_is_absent_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system with no /proc, no /sys, no home, no affinity, no sysconf and no core count."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError("not here")

    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.setattr(os, "sysconf", refuse, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", refuse, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    described = machine.describe()
    assert (described.usable_cores, described.memory, described.caches) == (1, None, {})
    assert not described.home_writable
    assert described.cpu


def test_a_container_s_quota_bounds_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    quota = {"/sys/fs/cgroup/cpu.max": "150000 100000"}
    monkeypatch.setattr(machine, "_first_line", lambda path: quota.get(str(path), ""))
    assert machine.usable_cores() == 2
    quota["/sys/fs/cgroup/cpu.max"] = "max 100000"
    assert machine.usable_cores() == 8


def test_a_gpu_that_is_not_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpus", lambda: ())
    with pytest.raises(IndexError, match="gpu 0: torch can use 0 GPUs here"):
        machine.gpu_device()


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_a_hidden_gpu_is_no_gpu(monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert not _env.gpu_visible()


PREPARED = """
import os, sys, types
package = types.ModuleType("pagedlab")   # an empty one, so that nothing is prepared before the scene is set
package.__path__ = [{folder!r}]
sys.modules["pagedlab"] = package
from pagedlab import _env
{scene}
_env.prepare()
print(os.environ.get("TRITON_INTERPRET"))
"""


@pytest.mark.parametrize(
    ("scene", "environment", "chosen"),
    [
        ("_env.gpu_usable = lambda: False", {}, "1"),
        ("_env.gpu_usable = lambda: True", {}, "None"),
        ("_env.gpu_usable = lambda: False", {"TRITON_INTERPRET": "0"}, "0"),
        ("_env.gpu_usable = lambda: False; sys.modules['triton'] = package", {}, "None"),
    ],
    ids=["no GPU", "a GPU", "the user has chosen", "triton is there already"],
)
def test_triton_is_interpreted_only_where_no_gpu_can_be_used(run_python, scene, environment, chosen) -> None:
    code = PREPARED.format(folder=str(Path(_env.__file__).parent), scene=scene)
    assert run_python("-c", code, **environment).stdout.strip() == chosen


def test_importing_the_library_prepares(run_python) -> None:
    code = "import os, pagedlab; print(os.environ.get('TRITON_INTERPRET'))"
    assert run_python("-c", code, CUDA_VISIBLE_DEVICES="").stdout.strip() == "1"
