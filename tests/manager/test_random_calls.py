"""A long life of random calls, each compared with the twin.

`python tests/manager/test_random_calls.py 1000000` lives longer.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
from twin import Twin

from pagedlab import ByPriority, LeastRecentlyFreed

SEQUENCES = "ABCDE"


def live(calls: int, seed: int, calls_each: int = 500) -> None:
    """Random calls to one manager after another, of random options."""
    rng = random.Random(seed)
    for start in range(0, calls, calls_each):
        twin = Twin(
            rng.choice([6, 12, 20]),
            rng.choice([1, 2, 4]),
            prefix_caching=rng.random() < 0.6,
            window=rng.choice([None, None, 1, 4, 7]),
            watermark=rng.choice([0, 0.2]),
            num_host_blocks=rng.choice([0, 3, 8]),
            eviction=rng.choice([None, None, ByPriority(), LeastRecentlyFreed()]),
        )
        for _ in range(min(calls_each, calls - start)):
            verb, *arguments = _call(rng)
            getattr(twin, verb)(*arguments)
            twin.check()


def _call(rng: random.Random) -> tuple[Any, ...]:
    seq, ids = rng.choice(SEQUENCES), [rng.randint(0, 1) for _ in range(rng.randint(0, 14))]
    lookahead = rng.choice([0, 0, 0, rng.randint(1, 5)])
    some = rng.sample(SEQUENCES, rng.randint(1, 3))
    return rng.choices(
        [
            ("allocate", seq, ids, rng.choice([None, None, "salt"]), lookahead),
            ("append", seq, ids[:1], 0),
            ("append", seq, ids, lookahead),
            ("fork", seq, rng.choice(SEQUENCES)),
            ("free", seq, rng.random() < 0.3),
            ("swap_out", some, rng.random() < 0.5),
            ("swap_in", some),
            ("reset",),
        ],
        weights=[20, 30, 10, 10, 12, 8, 8, 2],
    )[0]


@pytest.mark.slow
def test_200_000_random_calls():
    live(200_000, seed=20240601)


if __name__ == "__main__":
    live(int(sys.argv[1]), seed=1)
    print(f"{int(sys.argv[1]):,} random calls, every one as the twin says")
