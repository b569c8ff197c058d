"""The three recipes of CONTRIBUTING.md, followed: each block of code is put where the recipe says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pagedlab import claims, exercises
from pagedlab.claims import Outcome

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch):
    """The code under a heading, as the module of that name."""

    def follow(heading: str, name: str) -> ModuleType:
        section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        (code,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(code, f"CONTRIBUTING.md, {heading}", "exec"), module.__dict__)
        return module

    return follow


def test_add_a_claim(recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    module = recipe("Add a claim", "pagedlab.claims.blocks_of_one")
    monkeypatch.setattr(claims, "_CLAIMS", (*claims._CLAIMS, module.CLAIM))
    verdict = claims.get("blocks-of-one").run(quick=True)
    assert verdict.outcome is Outcome.HOLDS and "wasted in blocks of 1: 0 slots (computed)" in str(verdict)
    assert module.judge([17], 16).outcome is Outcome.FAILS_HERE


@pytest.mark.parametrize("mistake", [None, 0, 1])
def test_add_an_exercise(recipe, monkeypatch: pytest.MonkeyPatch, mistake: int | None) -> None:
    pytest.importorskip("cloudpickle")
    module = recipe("Add an exercise", "pagedlab.exercises.blocks_held")
    monkeypatch.setattr(exercises, "_NAMES", (*exercises.names(), "blocks-held"))
    known = module.EXERCISE.misconceptions
    tried = module.solution if mistake is None else known[mistake].solution
    report = exercises.check("blocks-held", tried, seed=1, progress=None)
    assert report.passed == (mistake is None)
    assert mistake is None or known[mistake].hint in str(report)


def test_add_a_kernel(recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from pagedlab_kernels import Backend, contiguous_attention, paged_attention

    choosing = sys.modules["pagedlab_kernels.backends"]
    recipe("Add a kernel", "pagedlab_kernels.in_torch")
    monkeypatch.setitem(choosing._MODULES, "in-torch", "in_torch")
    runs = Backend("in-torch", True, "cpu", "plain torch")
    monkeypatch.setitem(choosing._PROBES, "in-torch", lambda: runs)

    draw = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(*size, generator=draw) for size in [(3, 4, 8), (7, 4, 2, 8), (7, 4, 2, 8)]
    )
    table = torch.tensor([[5, 1, 6], [0, 3, 99], [99, 99, 99]], dtype=torch.int32)
    lengths = torch.tensor([9, 8, 0], dtype=torch.int32)
    for attend, cache in (
        (paged_attention, (key, value, table, lengths)),
        (contiguous_attention, (key[:3].repeat(1, 3, 1, 1), value[:3].repeat(1, 3, 1, 1), lengths)),
    ):
        found = attend(query, *cache, backend="in-torch", return_lse=True)
        expected = attend(query, *cache, backend="reference", return_lse=True)
        for mine, exact in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, exact)
    with pytest.raises(ValueError, match="no window"):
        paged_attention(query, key, value, table, lengths, window=2, backend="in-torch")
