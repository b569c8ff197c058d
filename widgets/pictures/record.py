"""The README's moving picture, made again from an exported lesson: needs Playwright, a Chromium and Pillow.

pagedlab export 01 -o lesson.html
python widgets/pictures/record.py lesson.html widgets/pictures/explorer.gif
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from pagedlab.browser import CHROMIUM_ARGUMENTS, find_chromium

STEPS = range(0, 400, 8)
WIDTH, FRAME_MS, COLOURS = 900, 160, 128


def record(lesson: Path) -> list[Image.Image]:
    """The explorer's three maps at each of `STEPS` of their common timeline."""
    frames = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_ARGUMENTS)
        page = browser.new_page(viewport={"width": 1240, "height": 900}, reduced_motion="reduce")
        page.goto(lesson.resolve().as_uri())
        page.locator("html[data-ready]").wait_for()
        maps = page.locator(".pl-block-map").first
        for step in STEPS:
            maps.locator(".pl-scrub").fill(str(step))
            maps.locator(".pl-scrub").blur()
            page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
            frame = Image.open(io.BytesIO(maps.screenshot())).convert("RGB")
            frames.append(
                frame.resize((WIDTH, WIDTH * frame.height // frame.width), Image.Resampling.LANCZOS)
            )
        browser.close()
    return [_on_white(frame, max(frame.height for frame in frames)) for frame in frames]


def _on_white(frame: Image.Image, height: int) -> Image.Image:
    sheet = Image.new("RGB", (WIDTH, height), "white")
    sheet.paste(frame)
    return sheet


def main(lesson: str, out: str) -> None:
    frames = record(Path(lesson))
    some = frames[::10]
    strip = Image.new("RGB", (WIDTH * len(some), some[0].height))
    for place, frame in enumerate(some):
        strip.paste(frame, (WIDTH * place, 0))
    palette = strip.quantize(COLOURS)
    first, *others = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    first.save(out, save_all=True, append_images=others, duration=FRAME_MS, loop=0, optimize=True)
    print(f"{out}: {len(frames)} frames, {Path(out).stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
