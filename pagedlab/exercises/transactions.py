"""The exercise `transactions`: distinct sectors that one load instruction touches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from pagedlab.exercises.report import Arguments, Check, Convert, Exercise, Misconception
from pagedlab.exercises.solutions.transactions import solution


def _drive(f: Any, convert: Convert, byte_addresses: list[int], bytes_per_lane: int, sector: int) -> Any:
    named = {} if sector == 32 else {"sector": sector}
    return f(convert(byte_addresses), bytes_per_lane, **named)


def _row(rng: random.Random, lanes: int, step: int, size: int, sector: int = 32, shift: int = 0) -> Arguments:
    first = 128 * rng.randint(1, 99) + shift
    return [first + step * lane for lane in range(lanes)], size, sector


def _scattered(rng: random.Random) -> Arguments:
    blocks = rng.sample(range(400), 8)
    return [256 * block + 8 * lane for block in blocks for lane in range(4)], 8, 32


def _valid(byte_addresses: Sequence[int], bytes_per_lane: int, sector: int) -> bool:
    return min(bytes_per_lane, sector) > 0


def _picture(byte_addresses: Sequence[int], bytes_per_lane: int, sector: int) -> str:
    """Memory from the first sector on, a character a byte: # read, . not, | between sectors."""
    if not byte_addresses or max(byte_addresses) + bytes_per_lane - min(byte_addresses) > 4 * sector:
        return ""
    start = min(byte_addresses) // sector * sector
    read = {address + byte for address in byte_addresses for byte in range(bytes_per_lane)}
    stop = -(-(max(read) + 1) // sector) * sector
    cells = "".join("#" if byte in read else "." for byte in range(start, stop))
    return f"{start} |" + "|".join(cells[at : at + sector] for at in range(0, len(cells), sector)) + "|"


def _starts(a: Sequence[int], n: int, sector: int = 32) -> int:
    return len({address // sector for address in a})


def _one_further(a: Sequence[int], n: int, sector: int = 32) -> int:
    return len({s for address in a for s in range(address // sector, (address + n) // sector + 1)})


def _span(a: Sequence[int], n: int, sector: int = 32) -> int:
    return (max(a) + n - 1) // sector - min(a) // sector + 1 if len(a) else 0


EXERCISE = Exercise(
    name="transactions",
    hints=(
        "Which bytes does one lane read, and in which sectors do the first and the last of them lie?",
        "Collect the sectors of all lanes in a set: two lanes in one sector cost one transaction.",
        "For each address, add every sector from address // sector to (address + bytes_per_lane - 1) // "
        "sector to the set; return how many it holds.",
    ),
    checks=(
        Check("32 lanes side by side, 4 bytes each", lambda rng: _row(rng, 32, 4, 4)),
        Check("lanes far apart", lambda rng: _row(rng, rng.randint(5, 32), rng.choice((96, 512)), 2)),
        Check("all lanes read one address", lambda rng: _row(rng, rng.randint(2, 32), 0, 4)),
        Check("lanes of 16 bytes that do not start at a sector", lambda rng: _row(rng, 8, 16, 16, shift=24)),
        Check("lanes wider than a sector", lambda rng: _row(rng, 3, 400, 96, shift=rng.randint(1, 31))),
        Check("short runs in scattered blocks", _scattered),
        Check("sectors of another size", lambda rng: _row(rng, 16, 16, 8, sector=128)),
        Check("no lane at all", lambda rng: ([], 4, 32)),
    ),
    reference=solution,
    misconceptions=(
        Misconception(
            "lanes that read the same sector share its transaction: count distinct sectors, not lanes",
            lambda a, n, sector=32: len(a),
        ),
        Misconception(
            "that is the least it could take, bytes over sector; scattered bytes touch more sectors",
            lambda a, n, sector=32: -(-len(a) * n // sector),
        ),
        Misconception("a lane may begin in one sector and end in the next: both are touched", _starts),
        Misconception(
            "two lanes in one sector cost one transaction: you added up each lane's sectors",
            lambda a, n, sector=32: sum(_span([address], n, sector) for address in a),
        ),
        Misconception("a lane's last byte is at address + bytes_per_lane - 1", _one_further),
        Misconception("sectors between two lanes that nobody reads are not fetched", _span),
        Misconception(
            "use the sector that is asked for; 32 bytes is only what it is by default",
            lambda a, n, sector=32: solution(a, n),
        ),
        Misconception(
            "a sector begins at a multiple of its size, not at the first address",
            lambda a, n, sector=32: solution([address - min(a) for address in a], n, sector=sector),
        ),
        Misconception(
            "count sectors of 32 bytes, not cache lines of 128",
            lambda a, n, sector=32: solution(a, n, sector=4 * sector),
        ),
        Misconception(
            "sectors are asked for, not bytes", lambda a, n, sector=32: sector * solution(a, n, sector=sector)
        ),
    ),
    drive=_drive,
    valid=_valid,
    picture=_picture,
)
