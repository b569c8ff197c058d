"""What the chapter claims, put to the test.

Each claim is a small module with one experiment. Its verdict says whether the claim holds here, under
which conditions, on which device, beside what others published.

    >>> from pagedlab import claims
    >>> [claim.id for claim in claims.all()][:3]
    ['indirection', 'access-pattern', 'short-sequences']
    >>> claims.get("small-blocks-waste-less").run(quick=True).outcome
    <Outcome.HOLDS_WHEN: 'holds when'>
"""

from __future__ import annotations

import builtins
import json
from functools import cache
from importlib.resources import files

from pagedlab.claims import (
    access_pattern,
    capacity_not_bandwidth,
    coordination_costs,
    default_16,
    fewer_bytes,
    gains_exceed_overhead,
    indirection,
    kernel_is_hard,
    large_blocks,
    long_context_bound,
    no_clever_allocation,
    one_gpu_is_simplest,
    ranks_agree,
    short_blocks,
    short_sequences,
    small_blocks_cost,
    small_blocks_waste_less,
    use_a_framework,
    workload_fit,
)
from pagedlab.claims.verdict import Chart, Claim, Line, Measurement, Outcome, Verdict

__all__ = ["Chart", "Claim", "Line", "Measurement", "Outcome", "Verdict", "all", "get", "recordings"]

_CLAIMS = tuple(
    module.CLAIM for module in (
        indirection, access_pattern, short_sequences, gains_exceed_overhead, short_blocks,
        small_blocks_waste_less, small_blocks_cost, large_blocks, default_16, workload_fit, kernel_is_hard,
        use_a_framework, capacity_not_bandwidth, long_context_bound, no_clever_allocation, fewer_bytes,
        ranks_agree, coordination_costs, one_gpu_is_simplest,
    )
)  # fmt: skip


def all() -> builtins.list[Claim]:  # noqa: A001  (the contract's name)
    """Every claim, in the order of the chapter."""
    return list(_CLAIMS)


@cache
def recordings(id: str) -> tuple[Verdict, ...]:
    """Verdicts on that claim from other machines, as they were kept: what was measured there is recorded.

    Each file of `data/recorded/claims` is what `pagedlab claims --json` printed there, without its records.
    """
    folder = files("pagedlab") / "data" / "recorded" / "claims"
    if not folder.is_dir():
        return ()
    kept = [json.loads(file.read_text(encoding="utf-8")) for file in folder.iterdir()]
    rows = [row for run in kept for row in run["verdicts"] if row["claim"] == id]
    return tuple(Verdict.from_dict(row).recorded() for row in rows)


def get(id: str) -> Claim:
    """The claim of that id; raises `KeyError` with the ids that exist."""
    for claim in _CLAIMS:
        if claim.id == id:
            return claim
    raise KeyError(f"no claim {id!r}; there are {', '.join(claim.id for claim in _CLAIMS)}")
