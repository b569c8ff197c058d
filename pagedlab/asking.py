"""What a block manager can be asked, and the state that it answers from. No question changes anything."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pagedlab.changes import Append, SeqId
from pagedlab.errors import SwappedSequence, UnknownSequence
from pagedlab.events import EventLog
from pagedlab.eviction import Eviction, LeastRecentlyFreed
from pagedlab.inputs import Tokens, at_least, below_one, count_of, ids_of
from pagedlab.pool import BlockPool
from pagedlab.prefix import End, Match, first_parent, keys_of
from pagedlab.usage import Usage, usage_of


class Admission(Enum):
    """Whether a sequence can be allocated: now, when others have finished, or never in this pool."""

    OK, LATER, NEVER = "ok", "later", "never"


class Allocation(NamedTuple):
    """What `allocate` handed out, and how many tokens were cached: their K and V are there already."""

    new_blocks: tuple[int, ...]
    num_cached_tokens: int


class Growth(NamedTuple):
    """What `append` handed out, and the block copies `(source, target)` to make before writing."""

    new_blocks: tuple[int, ...]
    copies: tuple[tuple[int, int], ...]


@dataclass(slots=True, eq=False)
class Held:
    """What one sequence holds."""

    blocks: list[int]  # its table, on the host while it is `away`; the first `gone` entries are out of date
    num_tokens: int
    ids: array[int] | None  # of the tokens in the part-filled block; None without a prefix cache
    parent: bytes  # the key of the last full block, to which the next one's is chained
    priority: int
    one_more: Append  # the event of a token whose slot is there: one object, however often it happens
    gone: int = 0  # blocks that the window has left behind
    room: int = 0  # up to so many tokens, an append needs no block, key, copy or release
    away: bool = False  # swapped out


class Prompt(NamedTuple):
    """The tokens of a new sequence, and what of it is cached."""

    num_tokens: int
    ids: array[int] | None  # those after the last full block
    keys: list[bytes]  # of the full blocks
    found: list[int]  # the cached blocks that begin its table, -1 for those left of the window
    hits: list[int]  # the others of these
    needed: int  # blocks that it will have in its table
    taken: int  # free ones that this takes


def released_blocks(computed: int, window: int | None, block_size: int) -> int:
    """How many leading blocks no later token looks at, once `computed` tokens are computed.

    The next token looks at itself and `window - 1` before it, as in vLLM; at all of them without a window.

    >>> [released_blocks(computed, window=4, block_size=2) for computed in (4, 5, 6, 7)]
    [0, 1, 1, 2]
    """
    return max(0, computed - window + 1) // block_size if window else 0


class Asking:
    """The questions of `BlockManager`, whose docstring says what the arguments mean."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        prefix_caching: bool = False,
        window: int | None = None,
        watermark: float = 0.0,
        num_host_blocks: int = 0,
        eviction: Eviction | None = None,
        record: bool = True,
    ) -> None:
        self.num_blocks = at_least(1, num_blocks, "num_blocks")
        self.block_size = at_least(1, block_size, "block_size")
        self.window = None if window is None else at_least(1, window, "window")
        self.prefix_caching, self._record = bool(prefix_caching), bool(record)
        policy = LeastRecentlyFreed() if eviction is None else eviction
        if isinstance(policy, type) or not isinstance(policy, Eviction):
            raise TypeError(f"eviction must be an object with the methods of Eviction, got {policy!r}")
        if any(True for _ in policy):
            raise ValueError(f"eviction: {policy!r} holds the blocks of another manager already")
        self._kept_free = int(below_one(watermark, "watermark") * self.num_blocks)
        self._pool = BlockPool(self.num_blocks, policy)
        # A host block keeps the key of what was moved there, for the way back; no prompt asks for it.
        self._host = BlockPool(at_least(0, num_host_blocks, "num_host_blocks"))
        self._held: dict[SeqId, Held] = {}
        self.events = EventLog(self.num_blocks, self.block_size)

    def can_allocate(self, tokens: Tokens, *, salt: str | None = None, lookahead: int = 0) -> Admission:
        """Whether `allocate` would succeed now, once others have finished, or never."""
        prompt = self._look_up(tokens, first_parent(salt), lookahead)
        if prompt.taken <= self._pool.num_free - self._kept_free:
            return Admission.OK
        return Admission.NEVER if prompt.needed > self.num_blocks - self._kept_free else Admission.LATER

    def match(self, tokens: Tokens, *, salt: str | None = None) -> Match:
        """The cached prefix of `tokens`, and why it ends where it ends. Touches nothing.

        >>> from pagedlab import BlockManager
        >>> m = BlockManager(8, 4, prefix_caching=True)
        >>> _ = m.allocate("A", [1, 2, 3, 4, 5, 6, 7, 8])
        >>> print(m.match([1, 2, 3, 4, 5, 5, 5, 5, 5]))
        4 tokens are cached: nothing in the cache goes on like this
        """
        if not self.prefix_caching:
            raise ValueError("match: this manager was made without prefix_caching=True")
        ids, index, size = ids_of(tokens), self._pool.index, self.block_size
        prompt, evicted = self._look_up(ids, first_parent(salt)), None
        best, keys = len(prompt.found), prompt.keys
        # Salts may be many, so each is asked for one block more and a token to run; a window can skip blocks.
        more = ids if self.window else ids[: (best + 1) * size + 1]
        if best == len(keys):
            end = End.SHORT
        elif best * size == len(ids) - size and keys[best] in index.blocks:
            end = End.RECOMPUTED
        elif evicted := index.eviction_of(keys[best]):
            end = End.EVICTED
        elif any(len(self._look_up(more, parent).found) > best for parent in index.parents):
            end = End.OTHER_SALT
        else:
            end = End.DIFFERENT if best else End.NOTHING_ALIKE
        return Match(best * size, tuple(prompt.hits), end, evicted)

    def table(self, seq_id: SeqId) -> tuple[int, ...]:
        """The physical block of each logical block, in token order; -1 for those left of the window."""
        held = self._get(seq_id, away=False)
        return (-1,) * held.gone + tuple(held.blocks[held.gone :])

    def num_tokens(self, seq_id: SeqId) -> int:
        """Tokens stored for the sequence."""
        return self._get(seq_id).num_tokens

    def slots(self, seq_id: SeqId, start: int = 0, stop: int | None = None) -> list[int]:
        """The slot `block * block_size + offset` of tokens `start` to `stop`, in token order.

        It is -1 where the window has left the block behind. Raises `IndexError` past the tokens stored.
        """
        held, size = self._get(seq_id, away=False), self.block_size
        stop = held.num_tokens if stop is None else stop
        if not 0 <= start <= stop <= held.num_tokens:
            raise IndexError(f"tokens {start} to {stop} of {seq_id!r}: it has stored {held.num_tokens}")
        here = min(max(start, held.gone * size), stop)
        return [-1] * (here - start) + [held.blocks[i // size] * size + i % size for i in range(here, stop)]

    def ref_count(self, block: int) -> int:
        """How many sequences hold `block`; 0 means that it is free."""
        if not 0 <= block < self.num_blocks:
            raise IndexError(f"block {block} is not one of the {self.num_blocks} blocks of this pool")
        return self._pool.ref_counts[block]

    def is_cached(self, block: int) -> bool:
        """Whether `block` has a key, by which a prompt can find it; it may be held or free."""
        self.ref_count(block)  # raises for a block that is none of this pool
        return self._pool.keys[block] is not None

    @property
    def num_free_blocks(self) -> int:
        """Blocks that can be handed out, those that nobody holds but that are still cached included."""
        return self._pool.num_free

    @property
    def num_free_host_blocks(self) -> int:
        """Host blocks to which sequences can be swapped out."""
        return self._host.num_free

    @property
    def sequences(self) -> tuple[SeqId, ...]:
        """The sequences here, in order of arrival, those swapped out included."""
        return tuple(self._held)

    def usage(self) -> Usage:
        """Slots held, tokens stored and the difference, each physical block counted once."""
        here = ((held.blocks, held.num_tokens) for held in self._held.values() if not held.away)
        return usage_of(here, self._pool.ref_counts, self.block_size)

    def _get(self, seq_id: SeqId, away: bool | None = None) -> Held:
        """What the sequence holds; it must be on the host (`away`), not on the host, or (None) anywhere."""
        held = self._held.get(seq_id)
        if held is None:
            raise UnknownSequence(seq_id, len(self._held))
        if away is not None and away != held.away:
            where = f"is swapped out to {len(held.blocks) - held.gone} host block(s); swap it in first"
            raise SwappedSequence(f"sequence {seq_id!r} {where if held.away else 'is not swapped out'}")
        return held

    def _blocks_for(self, tokens: int, lookahead: int = 0) -> int:
        ahead = at_least(0, lookahead, "lookahead") if lookahead else 0
        return -(-(tokens + ahead) // self.block_size)

    def _look_up(self, tokens: Tokens, parent: bytes, lookahead: int = 0) -> Prompt:
        """What is cached of a prompt, but for its last token: one at least is left to run."""
        if not self.prefix_caching:
            needed = self._blocks_for(count := count_of(tokens), lookahead)
            return Prompt(count, None, [], [], [], needed, needed)
        ids, size, window, pool = ids_of(tokens), self.block_size, self.window, self._pool
        keys, rest = keys_of(parent, ids, size)
        usable = keys[: max(0, len(ids) - 1) // size]
        found = pool.index.longest_hit(usable, lambda blocks: released_blocks(blocks * size, window, size))
        hits = [block for block in found if block >= 0]
        needed = self._blocks_for(len(ids), lookahead)
        revived = len([block for block in hits if not pool.ref_counts[block]])
        return Prompt(len(ids), rest, keys, found, hits, needed, needed - len(found) + revived)

    def _room(self, blocks: list[int], gone: int) -> int:
        """Tokens up to which an append to these needs no block and leaves none behind."""
        room = len(blocks) * self.block_size
        return room if self.window is None else min(room, (gone + 1) * self.block_size + self.window - 1)
