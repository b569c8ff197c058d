"""The doctor on machines where something is missing, simulated in a fresh process that refuses to import
it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pagedlab import doctor, lab
from pagedlab_kernels import Backend

REFUSING = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
from pagedlab import cli
sys.exit(cli.main(["doctor", "--json"]))
"""


@pytest.fixture
def examined(run_python) -> Callable[..., dict[str, dict[str, str]]]:
    def examine(*refused: str, **environment: str) -> dict[str, dict[str, str]]:
        ran = run_python("-c", REFUSING.format(refused=refused), **environment)
        assert ran.stderr == ""
        checks = {check["topic"]: check for check in json.loads(ran.stdout)["checks"]}
        missing = any(check["status"] == doctor.MISSING for check in checks.values())
        assert ran.returncode == (1 if missing else 0)
        return checks

    return examine


def test_without_torch_everything_else_is_still_examined(examined) -> None:
    checks = examined("torch")
    assert checks["torch"]["status"] == doctor.MISSING
    assert checks["torch"]["found"] == "torch is not installed"
    assert checks["torch"]["remedy"] == "pip install torch"
    assert {"python", "cpu", "memory", "lessons", "folders", "gpu"} <= set(checks)


def test_without_triton_lessons_lose_one_backend(examined) -> None:
    checks = examined("triton")
    assert checks["triton kernel"]["status"] == doctor.LIMITED
    assert "triton" in checks["triton kernel"]["found"] and checks["triton kernel"]["remedy"]
    assert checks["reference kernel"]["status"] == doctor.OK


def test_without_numba_nothing_can_be_measured_on_a_cpu(examined) -> None:
    checks = examined("numba", CUDA_VISIBLE_DEVICES="")
    assert checks["cpu kernel"]["status"] == doctor.MISSING
    assert checks["cpu kernel"]["remedy"] == "pip install numba"
    assert checks["reference kernel"]["status"] == doctor.OK


def test_without_anything_but_the_library_it_still_answers(examined) -> None:
    checks = examined("torch", "triton", "numba", "jupyterlab", "ipywidgets", "anywidget", "plotly")
    assert checks["jupyterlab"]["found"] == "jupyterlab is not installed"
    assert checks["widgets"]["remedy"].startswith("pip install ")


def test_here_and_now_every_kernel_answers_as_the_reference_does(examined) -> None:
    for module in ("torch", "triton", "numba"):
        pytest.importorskip(module)
    checks = examined()
    for name in ("triton", "cpu", "reference"):
        assert "answers as the reference does" in checks[f"{name} kernel"]["found"]


@pytest.mark.parametrize(
    ("name", "for_speed", "timed"),
    [("cpu", True, True), ("triton", False, False), ("reference", True, False)],
)
def test_only_a_compiled_kernel_for_speed_is_timed(
    monkeypatch: pytest.MonkeyPatch, name: str, for_speed: bool, timed: bool
) -> None:
    monkeypatch.setattr(doctor, "_error_on_a_small_case", lambda backend: 0.0)
    backend = Backend(name, True, "cpu", "in some way", for_speed=for_speed)
    check = doctor._kernel(backend, measures=True)
    assert check.status == (doctor.OK if for_speed else doctor.LIMITED)
    assert check.found.startswith("in some way; answers as the reference does")
    assert ("measured: " in check.found) == timed == ("compiling" in check.found)


def test_where_triton_has_no_packages_the_other_backends_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.sys, "platform", "darwin")
    check = doctor._kernel(Backend("triton", False, "cuda", "compiled", "not installed"), measures=True)
    assert check.status == doctor.LIMITED
    assert check.remedy == (
        "nothing to do: Triton has no packages for this system; the other backends answer"
    )


def test_an_unwritable_home_and_an_unknown_one(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "not there"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "not there"))
    check = doctor._folders()
    assert check.status == doctor.LIMITED
    assert "cannot write to the home folder" in check.found and "HOME" in check.remedy


def test_lessons_that_did_not_come_along(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise lab.LabError("no lessons came with this pagedlab")

    monkeypatch.setattr(lab, "shipped_lessons", none)
    assert doctor._lessons().status == doctor.MISSING


def test_little_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.machine, "memory", lambda: 2**29)
    assert doctor._memory().status == doctor.LIMITED
    monkeypatch.setattr(doctor.machine, "memory", lambda: None)
    assert doctor._memory().status == doctor.OK


def test_a_look_that_breaks_is_a_finding() -> None:
    def _broken() -> doctor.Check:
        raise OSError("libtorch.so: wrong\nELF class")

    check = doctor._guarded(_broken)
    assert (check.topic, check.status) == ("broken", doctor.MISSING)
    assert check.found == "does not work: OSError: libtorch.so: wrong ELF class"


def test_a_line_says_what_to_do() -> None:
    check = doctor.Check("gpu", doctor.LIMITED, "none visible", "use another machine")
    first, second = str(check).splitlines()
    assert first.split() == ["limited", "gpu", "none", "visible"]
    assert second.strip() == "-> use another machine"
