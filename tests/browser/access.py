"""What axe-core says of a part of a page."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

AXE = Path(sys.prefix, "node", "node_modules", "axe-core", "axe.min.js")
_RUN = """async selector => {
  const { violations } = await axe.run({ include: [selector] }, { resultTypes: ['violations'] });
  return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').flatMap(
    ({ id, help, nodes }) => nodes.map(({ html }) => `${id}: ${help}: ${html.slice(0, 300)}`));
}"""


def violations(page: Page, selector: str) -> list[str]:
    """The serious and critical ones in what the selector finds: rule, what it asks, and where.

    Where axe is not installed the test is skipped, and in CI it fails; `make test` installs it.
    """
    if not AXE.exists():
        in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
        (pytest.fail if in_ci else pytest.skip)(f"no axe-core at {AXE}: make test installs it")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[str] = page.evaluate(_RUN, selector)
    return found
