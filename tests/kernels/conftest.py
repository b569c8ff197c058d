"""Fixtures of the kernel tests: which backends run here, and the skips of what needs a GPU."""

from __future__ import annotations

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="torch sees no GPU"))


@pytest.fixture
def interpreter() -> None:
    """Skips a test of Triton's interpreter where Triton compiles, or is missing."""
    from pagedlab_kernels import backends

    triton = next(backend for backend in backends() if backend.name == "triton")
    if triton.for_speed:
        pytest.skip(f"not interpreted: {triton.reason or triton.how}")


@pytest.fixture(params=["reference", "cpu", "triton"])
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend that takes tensors on the CPU here."""
    if request.param == "triton":
        request.getfixturevalue("interpreter")
    return request.param
