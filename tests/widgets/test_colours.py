"""Colours that must be told apart can be, by readers of every kind of colour vision; and text and marks stand
out from what is behind them.

Colour vision is simulated with the matrices of Machado, Oliveira and Fernandes (2009) at full severity, on
linear RGB; distances are Euclidean in CIE Lab, where about 2 is the least that is seen side by side.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from pagedlab_widgets.assets import STATIC

VISION = {
    "full": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0519]],
    "deuteranopia": [[0.3673, 0.8606, -0.2279], [0.2801, 0.6727, 0.0472], [-0.0118, 0.0429, 0.9689]],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
SEEN = 15.0


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG."""
    low, high = sorted(float(np.dot([0.2126, 0.7152, 0.0722], linear(colour))) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def hues() -> list[str]:
    """The colours of sequences."""
    (listed,) = re.findall(r"const HUES = \[(.*?)\]", (STATIC / "colours.js").read_text())
    return re.findall(r"#[0-9A-Fa-f]{6}", listed)


def kinds(sheet: str, rule: str) -> list[str]:
    """The colours that a style sheet gives to kinds, in order."""
    return re.findall(rule, (STATIC / sheet).read_text())


PALETTES = {
    "sequences": hues(),
    "lines": kinds("chart.css", r"\.pl-line-\d \{ --pl-hue: (#[0-9a-f]{6})"),
    "bars": kinds("bar_table.css", r"\.pl-kind-\d \{\s*--pl-hue: (#[0-9a-f]{6})"),
}


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("palette", PALETTES)
def test_no_two_colours_of_a_palette_look_alike(palette: str, vision: str) -> None:
    colours = PALETTES[palette]
    assert len(colours) >= 6
    seen = {colour: lab(np.array(VISION[vision]) @ linear(colour)) for colour in colours}
    for one, other in itertools.combinations(colours, 2):
        assert np.linalg.norm(seen[one] - seen[other]) >= SEEN, (one, other)


@pytest.mark.parametrize(
    ("paper", "ink"), [("#ffffff", "#212121"), ("#111111", "#e0e0e0"), ("#ffffff", "#1c1c1e")]
)
def test_the_rim_of_a_block_stands_out_from_the_page(paper: str, ink: str) -> None:
    (share,) = re.findall(r"const EDGE = ([\d.]+);", (STATIC / "colours.js").read_text())
    for hue in hues():
        rim = [
            round(int(hue[i : i + 2], 16) * (1 - float(share)) + int(ink[i : i + 2], 16) * float(share))
            for i in (1, 3, 5)
        ]
        assert contrast("#" + bytes(rim).hex(), paper) >= 3, hue
