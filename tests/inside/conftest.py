"""Tracing and compiling need Triton: without it these tests have nothing to look into."""

from __future__ import annotations

import pytest


@pytest.fixture
def triton() -> None:
    pytest.importorskip("triton")
