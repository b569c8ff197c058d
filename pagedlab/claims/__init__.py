"""What the chapter claims, put to the test.

Each claim is a small module with one experiment. Its verdict says whether the claim holds here, under
which conditions, on which device, beside what others published.

    >>> from pagedlab import claims
    >>> [claim.id for claim in claims.all()]
    ['small-blocks-waste-less']
    >>> claims.get("small-blocks-waste-less").run(quick=True).outcome
    <Outcome.HOLDS_WHEN: 'holds when'>
"""

from __future__ import annotations

import builtins

from pagedlab.claims import small_blocks_waste_less
from pagedlab.claims.verdict import Claim, Measurement, Outcome, Verdict

__all__ = ["Claim", "Measurement", "Outcome", "Verdict", "all", "get"]

_CLAIMS = (small_blocks_waste_less.CLAIM,)


def all() -> builtins.list[Claim]:  # noqa: A001  (the contract's name)
    """Every claim, in the order of the chapter."""
    return list(_CLAIMS)


def get(id: str) -> Claim:
    """The claim of that id; raises `KeyError` with the ids that exist."""
    for claim in _CLAIMS:
        if claim.id == id:
            return claim
    raise KeyError(f"no claim {id!r}; there are {', '.join(claim.id for claim in _CLAIMS)}")
