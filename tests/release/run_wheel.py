"""An installed wheel, used as a stranger would: `make release-test` runs this in a new environment.

The doctor finds nothing missing, JupyterLab opens the copied lesson in a Chromium, every cell runs, the
timeline moves. It must be started where pagedlab can only come from the wheel.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

import pagedlab
from pagedlab.browser import CHROMIUM_ARGUMENTS, LabPage, find_chromium, serve

CLONE = Path(__file__).resolve().parents[2]
LESSON = "01-where-did-the-memory-go.ipynb"


def command(*words: str) -> str:
    start = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "pagedlab", *words], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"pagedlab {' '.join(words)}: {ran.stdout}{ran.stderr}"
    print(f"pagedlab {' '.join(words)}: {time.monotonic() - start:.1f} s", flush=True)
    return ran.stdout


def main() -> None:
    package = Path(pagedlab.__file__).parent
    assert package.parent != CLONE, f"pagedlab comes from the clone: {package}"
    print(command("doctor"))
    with (
        tempfile.TemporaryDirectory(prefix="pagedlab-release-") as folder,
        contextlib.chdir(folder),
        sync_playwright() as playwright,
    ):
        command("lab", "lessons", "--copy-only")
        start = time.monotonic()
        with serve(Path("lessons").resolve()) as server:
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_ARGUMENTS)
            lesson = LabPage.open(browser.new_page(), server, LESSON)
            print(f"server, page and kernel: {time.monotonic() - start:.1f} s", flush=True)
            lesson.run_all(timeout=300)
            lesson.page.locator(".pl-scrub").first.fill("100")
            expect(lesson.page.get_by_text("step 100 / 399").first).to_be_visible()
            print(f"every cell run and the timeline moved: {time.monotonic() - start:.1f} s", flush=True)
            browser.close()


if __name__ == "__main__":
    main()
