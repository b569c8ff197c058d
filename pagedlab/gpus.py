"""GPUs by what bounds a decode step: how much memory they have, and how fast they read it.

The figures are those of specifications, as they were found; none was measured by this project. Where a
maker's own sheet could not be read, the source says what was read instead. All in decimal units.
"""

from __future__ import annotations

from dataclasses import dataclass

from pagedlab._format import near


@dataclass(frozen=True)
class Gpu:
    """Memory (bytes) and its bandwidth (bytes a second) as published.

    `label` is "R" where the figures stand in the source as they are here, "C" where the bandwidth was
    computed from what stands there.
    """

    name: str
    title: str
    capacity_bytes: int
    bandwidth_bytes_s: float
    source: str
    label: str

    @property
    def word(self) -> str:
        """Where the bandwidth comes from, in the word that is printed beside it."""
        return {"R": "published", "C": "computed"}[self.label]


DRIVERS = (
    "drivers report some 7 % more than is sold: 81,559 MiB of an H100 (vLLM issue 55169), 24,564 MiB of an "
    "RTX 4090 (7553)"
)
_VENDOR = "a cloud vendor's comparison page; the maker's own sheet was not read"
_DRIVER = "what the driver reports: MLPerf system file; pytorch/ao 4002"
_CLOCK = "bus width and clock of a specification page, multiplied"
_GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("a100-80gb", "A100 SXM, 80 GB", 80 * 10**9, 2.039e12, _VENDOR, "R"),
        Gpu("h100-sxm", "H100 SXM", 80 * 10**9, 3.35e12, _VENDOR, "R"),
        Gpu("h200-sxm", "H200 SXM", 141 * 10**9, 4.8e12, f"{_VENDOR}; capacity also in an MLPerf file", "R"),
        Gpu("b200", "B200", 178_350_000_000, 7.672e12, _DRIVER, "C"),
        Gpu("rtx-4090", "RTX 4090", 24 * 10**9, 1.008e12, _CLOCK, "C"),
    )
}


def names() -> tuple[str, ...]:
    """The GPUs whose figures come with the package."""
    return tuple(_GPUS)


def named(name: str) -> Gpu:
    """A GPU by name, in capitals or not; raises `KeyError` with the nearest names for one that is not here.

    >>> named("H100-SXM").bandwidth_bytes_s
    3350000000000.0
    >>> named("h100")
    Traceback (most recent call last):
    ...
    KeyError: "no GPU 'h100' here; near: h100-sxm, h200-sxm, b200"
    """
    try:
        return _GPUS[name.lower()]
    except KeyError:
        raise KeyError(f"no GPU {name!r} here; {near(name, _GPUS)}") from None
