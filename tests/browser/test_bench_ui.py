"""`pagedlab bench --ui` drives a browser and says what it saw; without one it says what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from pagedlab import bench_ui

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.browser
@pytest.mark.usefixtures("context")  # a browser is there, or the test is skipped
def test_the_map_is_measured_in_a_browser(run_python: RunPython) -> None:
    done = run_python("-m", "pagedlab", "bench", "--ui", "--quick", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["blocks"] == 16_384 and told["events"] >= 100_000
    assert told["trace_bytes"] <= 1_000_000 and told["messages_while_playing"] == 0
    for spread in (told["key_to_paint"], told["first_show"]):
        assert 0 < spread["q1"] <= spread["median"] <= spread["q3"]
    assert 0 < told["blocks_painted"] < told["blocks"] and told["steps_per_second"] > 0


def test_without_a_browser_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_ui, "find_chromium", lambda: None)
    with pytest.raises(bench_ui.NoBrowser, match="install one, or name it in PAGEDLAB_CHROMIUM"):
        bench_ui.run()
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    with pytest.raises(bench_ui.NoBrowser, match="pip install playwright"):
        bench_ui.run()
