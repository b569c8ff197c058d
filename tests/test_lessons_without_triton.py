"""On macOS and Windows there is no Triton: cells that need it live say so, and "run all" goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
import pagedlab_kernels
from pagedlab import kernel_cases

LIVE = ("compile_report(", "kernel_cases.trace(")
CELLS = [
    pytest.param(source, id=f"{path.stem}-{number}")
    for path in sorted((Path(__file__).parents[1] / "lessons").glob("[0-9]*.ipynb"))
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"])
    if cell["cell_type"] == "code" and any(name in (source := "".join(cell["source"])) for name in LIVE)
]


def test_there_are_such_cells() -> None:
    assert len(CELLS) >= 3


@pytest.mark.parametrize("source", CELLS)
def test_a_cell_that_needs_triton_live_goes_on_without(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: object, **options: object) -> None:
        raise ModuleNotFoundError("No module named 'triton'", name="triton")

    monkeypatch.setattr(kernel_cases, "live", lambda: False)
    monkeypatch.setattr(kernel_cases, "trace", missing)
    monkeypatch.setattr(pagedlab_kernels, "compile_report", missing)
    exec(source, {"kernel_cases": kernel_cases})
