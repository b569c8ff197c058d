"""Recorded traces stand in where Triton is missing, and belong to the kernels as they are."""

from __future__ import annotations

import pytest
import torch

import pagedlab_kernels
from pagedlab import kernel_cases
from pagedlab.kernel_cases import CASES, RECORDED, REMEDY, STEPPED, KernelCase, recorded, trace


def test_recordings_are_those_of_the_kernels_as_they_are() -> None:
    kept = kernel_cases._read()
    assert kept["kernels"] == pagedlab_kernels.kernel_hash(), f"the kernels changed: run {REMEDY}"
    assert kept["traces"].keys() == CASES.keys()
    assert RECORDED.stat().st_size < 300_000


@pytest.mark.slow
@pytest.mark.usefixtures("triton")
@pytest.mark.parametrize("name", ["paged, 3 splits", "block 4, HND"])
def test_a_recording_is_what_the_kernels_do(name: str) -> None:
    values = kernel_cases.VALUES if "splits" in name else ()
    assert trace(CASES[name], values=values).answers == recorded(name).answers, f"run {REMEDY}"


def test_without_triton_a_known_case_is_answered_by_its_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cases, "live", lambda: False)
    found = trace(STEPPED)
    assert found.recorded is not None and found.recorded.startswith("recorded with triton ")
    assert any(step.values for step in found.steps)
    assert trace(STEPPED, table=STEPPED.table).recorded == found.recorded
    for case, options in ((KernelCase(length=9), {}), (STEPPED, {"table": [0]}), (STEPPED, {"source": "x"})):
        with pytest.raises(ModuleNotFoundError, match="only CASES, unchanged"):
            trace(case, **options)


def test_a_recording_of_other_kernels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagedlab_kernels, "kernel_hash", lambda: "another")
    with pytest.raises(ValueError, match="python -m pagedlab.kernel_cases"):
        recorded("paged")


@pytest.mark.parametrize("name", CASES)
def test_every_case_gives_the_answer_of_its_twin(name: str) -> None:
    """The cases of a family hold the same numbers, wherever they lie."""
    case = CASES[name]
    answers = []
    for each in (case, KernelCase(**{**vars(case), "block_size": None, "layout": "NHD", "num_splits": 1})):
        kernel, arguments, options = each.call()
        call = getattr(pagedlab_kernels, kernel)
        answers.append(call(*arguments, backend="reference", **options | {"check": True}))
    torch.testing.assert_close(*answers)
