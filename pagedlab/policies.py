"""The policies that a served run can follow, by name.

    paged                    blocks of `block_size` slots, taken as tokens come
    virtual                  contiguous addresses, backed by granules of memory as tokens come (vAttention)
    exact                    one contiguous piece of what the request will store: an oracle, first fit
    prompt+power-of-two      one piece: the prompt, and the next power of two above its output (Orca's)
    power-of-two             one piece, the next power of two above all that it will store (buddy)
    reserve                  one piece, as long as the longest request of the workload

The four contiguous ones know the length of the output in advance, which no server does; so they are
shown at their best. `pagedlab.waste` has their waste in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

from pagedlab.contiguous import Placement
from pagedlab.extents import Buddy, FirstFit, NoHoles, power_of_two_from
from pagedlab.inputs import at_least, below_one, one_of
from pagedlab.manager import BlockManager
from pagedlab.memory import ContiguousMemory, Memory, PagedMemory, Piece
from pagedlab.models import ModelShape, element_bytes
from pagedlab.workloads import Workload

POLICIES = ("paged", "virtual", "exact", "prompt+power-of-two", "power-of-two", "reserve")
GROWING = ("paged", "virtual")
"""Policies that take memory as tokens come, and can run out of it half way."""

GRANULE_BYTES = 2 * 2**20
"""What one call of the GPU's driver maps (vAttention, section 3; huge pages of CUDA's virtual memory)."""
GRANULE_TOKENS = 1_024
"""Tokens in such a granule for one layer's K of Llama-3.1-8B in bf16 (8 heads of 128, 2 bytes each)."""


@dataclass(frozen=True)
class Rules:
    """How a server decides, and what its memory is like; the defaults are the plainest ones.

    max_seqs        requests that may run at once; None: as many as memory holds
    token_budget    tokens computed in one step; a longer prompt is cut into chunks. None: no chunks.
                    Every running request needs one, so no more than this may run
    watermark       share (0 to 1) of the blocks kept free at admission, rounded down to whole blocks
    prefix_caching  "paged" only: blocks of equal content are shared; the workload needs prefix hashes
    granule         "virtual" only: tokens in a granule (see `granule_tokens`)
    reserved        "reserve" only: slots a request; None: what the longest one stores
    holes           contiguous policies: False moves pieces together at no cost, so that only the number
                    of free slots counts. Such memory has no addresses and cannot be recorded

    Raises `ValueError` for a rule that cannot be followed, `TypeError` for a count that is no integer.
    """

    max_seqs: int | None = None
    token_budget: int | None = None
    watermark: float = 0.0
    prefix_caching: bool = False
    granule: int = GRANULE_TOKENS
    reserved: int | None = None
    holes: bool = True

    def __post_init__(self) -> None:
        for name in ("max_seqs", "token_budget", "granule", "reserved"):
            value = getattr(self, name)
            if value is not None:
                at_least(1, value, name)
        below_one(self.watermark, "watermark")


def granule_tokens(
    shape: ModelShape, dtype: str = "bf16", *, granule_bytes: int = GRANULE_BYTES, layers: int = 1
) -> int:
    """Tokens whose K (V apart) of `layers` layers fill one granule of `granule_bytes` bytes.

    With one layer, vAttention's way, every layer maps its own granules. Raises `ValueError` for a
    shape whose layers differ in what they keep of a token, since their granules would too.

    >>> from pagedlab.models import preset
    >>> granule_tokens(preset("llama-3.1-8b")), granule_tokens(preset("llama-3.1-8b"), "fp8", layers=32)
    (1024, 64)
    """
    if layers < 1 or granule_bytes < 1:
        raise ValueError(f"layers and granule_bytes must be at least 1, got {layers} and {granule_bytes}")
    widths = {group.latent or group.kv_heads * group.head_dim for group in shape.layer_groups}
    if len(widths) > 1:
        raise ValueError(
            f"the layers of {shape.name} keep {' or '.join(map(str, sorted(widths)))} numbers of a token: "
            f"their granules differ; give one group of layers"
        )
    tokens = int(granule_bytes / (widths.pop() * element_bytes(dtype) * layers))
    if not tokens:
        raise ValueError(f"a granule of {granule_bytes} bytes does not hold one token of {layers} layer(s)")
    return tokens


def memory_for(
    workload: Workload,
    policy: str,
    num_slots: int,
    block_size: int = 16,
    rules: Rules | None = None,
    *,
    record: bool = True,
) -> Memory:
    """The memory of one of `POLICIES`, empty, of `num_slots` slots (blocks and granules: whole ones).

    Raises `ValueError` for another policy, or for a pool or a block without room, `TypeError` for a count
    that is no integer.
    """
    rules = rules or Rules()
    at_least(1, num_slots, "num_slots")
    if policy in GROWING:
        name, size = ("block_size", block_size) if policy == "paged" else ("granule", rules.granule)
        at_least(1, size, name)
        if size > num_slots:
            raise ValueError(f"{name} must be 1 to num_slots ({num_slots}), got {size}")
        return _growing(workload, num_slots // size, size, rules, record)
    one_of(POLICIES, policy, "policy")
    if record and not rules.holes:
        raise ValueError("memory without holes has no addresses to record: pass record=False")
    placement, piece = _PIECES[policy] if policy in _PIECES else _reserve(workload, rules)
    return ContiguousMemory(num_slots, piece, placement if rules.holes else NoHoles, record)


def _growing(workload: Workload, blocks: int, block_size: int, rules: Rules, record: bool) -> Memory:
    token_ids = None
    if rules.prefix_caching:
        if workload.prefix_hashes is None:
            raise ValueError(
                f"prefix_caching: nothing is known of the prompts of {workload.name}, only lengths"
            )
        token_ids = workload.token_ids
    kept_free = int(rules.watermark * blocks)
    manager = BlockManager(blocks, block_size, prefix_caching=rules.prefix_caching, record=record)
    return PagedMemory(manager, kept_free, token_ids)


def _reserve(workload: Workload, rules: Rules) -> tuple[type[Placement], Piece]:
    longest = int(workload.stored.max(initial=1))
    slots = rules.reserved or longest
    if slots < longest:
        raise ValueError(f"{slots} slots a request are too few: the longest stores {longest}")
    return FirstFit, lambda prompt, output: slots


_PIECES: dict[str, tuple[type[Placement], Piece]] = {
    "exact": (FirstFit, lambda prompt, output: prompt + output - 1),
    "prompt+power-of-two": (FirstFit, lambda prompt, output: prompt + power_of_two_from(output)),
    "power-of-two": (Buddy, lambda prompt, output: power_of_two_from(prompt + output - 1)),
}
