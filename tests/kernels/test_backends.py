"""What imports bring along, what is said about a backend that cannot run, and what the others then do."""

from __future__ import annotations

import pytest
import torch

from pagedlab_kernels import backends

CASE = """
import torch
from pagedlab_kernels import backends, paged_attention
case = (torch.ones(1, 2, 8), torch.ones(2, 4, 1, 8), torch.ones(2, 4, 1, 8),
        torch.tensor([[1]], dtype=torch.int32), torch.tensor([3], dtype=torch.int32))
found = {backend.name: backend for backend in backends()}
def refused(name):
    try:
        paged_attention(*case, backend=name)
    except ValueError as error:
        return str(error)
"""

# A finder that lets a package be missing, whatever is installed.
HIDE = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])
sys.meta_path.insert(0, Hide())
"""


@pytest.fixture
def says(run_python):
    """Runs code in a fresh process and returns what it prints."""

    def run(code: str, **environment: str) -> str:
        done = run_python("-c", code, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_importing_the_package_imports_nothing_heavy(says):
    code = "from pagedlab_kernels import CSRTable, backends, paged_attention; import sys;"
    code += "print(sorted({'torch', 'triton', 'numba', 'numpy'} & set(sys.modules)))"
    assert says(code).strip() == "[]"


def test_backends_are_listed_fastest_first():
    assert [backend.name for backend in backends()] == ["triton", "cpu", "reference"]
    for backend in backends():
        assert backend.how
        assert backend.available == (backend.reason is None) == (backend.remedy is None)


def test_without_numba_and_triton_the_reference_serves(says):
    code = (
        HIDE.format(hidden={"numba", "llvmlite", "triton"})
        + CASE
        + """
for name in ("triton", "cpu"):
    assert not found[name].available and "does not import" in found[name].reason, found[name]
    assert "pip install" in found[name].remedy and found[name].reason in refused(name)
assert found["reference"].available
assert torch.allclose(paged_attention(*case), torch.ones(1, 2, 8))
print("served")
"""
    )
    assert says(code).strip() == "served"


def test_without_torch_every_backend_says_so(says):
    code = (
        HIDE.format(hidden={"torch"})
        + """
from pagedlab_kernels import CSRTable, backends
for backend in backends():
    assert not backend.available and "torch" in backend.reason, backend
    assert backend.remedy == "pip install torch", backend
print("said")
"""
    )
    assert says(code).strip() == "said"


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton compiles here")
def test_triton_without_gpu_and_interpreter_names_the_remedy(says):
    code = (
        CASE
        + """
print(found["triton"].available, "|", found["triton"].reason, "|", found["triton"].remedy)
assert found["triton"].reason in refused("triton")
assert torch.allclose(paged_attention(*case), torch.ones(1, 2, 8))
"""
    )
    available, reason, remedy = says(code, TRITON_INTERPRET="0").split("|")
    assert available.strip() == "False"
    assert "no GPU" in reason and "TRITON_INTERPRET=1 before the first import" in remedy


def test_triton_says_when_the_variable_changed_too_late(says):
    code = "import os, triton.language; os.environ['TRITON_INTERPRET'] = '1'" + CASE
    code += "print(found['triton'].available, found['triton'].reason, found['triton'].remedy)"
    said = says(code, TRITON_INTERPRET="0")
    assert said.startswith("False TRITON_INTERPRET was changed after triton was imported restart Python")


def test_auto_never_picks_an_interpreter(says):
    code = (
        HIDE.format(hidden={"numba"})
        + CASE
        + """
import sys
assert found["triton"].available and not found["triton"].for_speed
from pagedlab_kernels import triton_launch
triton_launch.attend = None
assert torch.allclose(paged_attention(*case), torch.ones(1, 2, 8))
print("reference")
"""
    )
    assert says(code, TRITON_INTERPRET="1").strip() == "reference"


@pytest.mark.usefixtures("interpreter")
def test_triton_refuses_heads_wider_than_a_tile():
    from batches import batch

    with pytest.raises(
        ValueError, match="triton cannot serve this call: a head of 520 in torch.float32 is wider"
    ):
        batch([3], head_dim=520).paged(backend="triton")


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("name", ["cpu", "triton"])
def test_float64_is_for_the_reference_alone(name):
    from batches import batch

    with pytest.raises(ValueError, match="serves float32, float16.* bfloat16.* not torch.float64"):
        batch([3], dtype=torch.float64).paged(backend=name)
