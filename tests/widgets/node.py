"""Where node is: that of the environment, or one on the path."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def find_node() -> str:
    """A node with a test runner. Without one the test is skipped, and in CI it fails."""
    in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    give_up = pytest.fail if in_ci else pytest.skip
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which("node", path=places)
    if found is None:
        give_up("no node on the path")
    version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout.strip()
    if int(version.lstrip("v").partition(".")[0] or 0) < 18:
        give_up(f"node {version} has no test runner; 18 has")
    return found
