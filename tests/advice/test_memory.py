"""Advice on a million requests stays within 1 GB: the peak of its own process, as the system counts it."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

ROWS = 1_000_000
MOST_KIB = 10**9 // 1024
ADVISE = """
import sys
from pagedlab import cli
code = cli.main(["advise", sys.argv[1], "--gpu", "h100"])
print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")])
sys.exit(code)
"""


def rows(kind: str) -> str:
    """Short requests as CSV; long ones as JSON, where each has a prefix hash for every 512 tokens."""
    rng, longest = np.random.default_rng(0), {"csv": 2_000, "jsonl": 16_000}[kind]
    prompts, outputs = (rng.integers(low, high, ROWS).tolist() for low, high in ((200, longest), (20, 400)))
    pairs = zip(prompts, outputs, strict=True)
    if kind == "csv":
        return "".join(f"{prompt},{output}\n" for prompt, output in pairs)
    return "".join(
        f'{{"timestamp": {20 * at}, "input_length": {prompt}, "output_length": {output}, "hash_ids": '
        f"{[at % 1_000, *range(32 * at + 1_000, 32 * at + 999 + -(-prompt // 512))]}}}\n"
        for at, (prompt, output) in enumerate(pairs)
    )


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only /proc tells the peak of a process")
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_million_rows_within_a_gigabyte(kind, tmp_path, run_python):
    path = tmp_path / f"trace.{kind}"
    path.write_text(rows(kind))
    start = time.perf_counter()
    ran = run_python("-c", ADVISE, str(path))
    seconds = time.perf_counter() - start
    assert ran.returncode == 0, ran.stderr
    told, _, peak = ran.stdout.rstrip().rpartition("\n")
    print(f"{kind}: {seconds:.0f} s, {int(peak) / 1024:,.0f} MiB")
    assert f"{ROWS:,} requests" in told
    assert int(peak) < MOST_KIB, f"{int(peak) / 1024:,.0f} MiB at its peak"
