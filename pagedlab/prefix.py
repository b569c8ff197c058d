"""The keys by which a prompt finds blocks that are filled already, and why it finds no more.

    tokens   0 1 2 3 | 4 5 6 7 | 8 9       a full block's key is a hash of its parent's key and its token ids,
    keys        k0  -->  k1                so equal keys mean equal tokens from the very start of the sequence

The first block's parent is made from the salt: sequences of different salts never share. Keys are 128 bits
of BLAKE2b, computed once, when a block fills; as nobody can construct two prefixes of one key, tokens need
not be kept to compare them. The scheme is vLLM's; its hashes differ.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

Named: TypeAlias = Mapping[int, bytes]  # blocks that are full, and the keys that they get
By: TypeAlias = tuple[Hashable, int | None]  # what `Evicted` says
KEY_BYTES = 16
_EMPTY = blake2b(digest_size=KEY_BYTES)
REMEMBERED = 1 << 16  # evicted keys and salts that can still be told apart from ones never seen


class End(Enum):
    """Why a hit ends where it ends."""

    SHORT = "what follows is shorter than one block"
    NOTHING_ALIKE = "nothing in the cache starts like this"
    DIFFERENT = "nothing in the cache goes on like this"
    EVICTED = "the next block was evicted"
    OTHER_SALT = "more is in the cache under another salt"
    RECOMPUTED = "the last block is always recomputed, so that there is a token to run"


class Evicted(NamedTuple):
    """When a block lost its key: it was handed to `seq_id`, as event `event` says (None without a log)."""

    seq_id: Hashable
    event: int | None


class Match(NamedTuple):
    """The cached prefix of a prompt: so many tokens, in these blocks, and why it ends there."""

    num_cached_tokens: int
    blocks: tuple[int, ...]
    end: End
    evicted: Evicted | None = None

    def __str__(self) -> str:
        when = f" when {self.evicted.seq_id!r} took its place" if self.evicted else ""
        return f"{self.num_cached_tokens} tokens are cached: {self.end.value}{when}"


def first_parent(salt: str | None) -> bytes:
    """The parent key of a first block. No salt and the empty salt are two different ones."""
    if salt is None:
        return bytes(KEY_BYTES)
    if not isinstance(salt, str):
        raise TypeError(f"salt must be text or None, got {salt!r}")
    return blake2b(salt.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES, person=b"salt").digest()


def keys_of(parent: bytes, ids: array[int], block_size: int) -> tuple[list[bytes], array[int]]:
    """The key of each full block of `ids`, the first one chained to `parent`; and the ids after them.

    >>> keys, rest = keys_of(first_parent(None), array("I", [5, 6, 7, 8, 9]), block_size=2)
    >>> others, _ = keys_of(first_parent(None), array("I", [5, 6, 1, 8]), block_size=2)
    >>> keys[0] == others[0], keys[1] == others[1], rest
    (True, False, array('I', [9]))
    """
    if len(ids) < block_size:
        return [], ids
    keys, text, width = [], ids.tobytes(), ids.itemsize * block_size
    for stop in range(width, len(text) + 1, width):
        block = _EMPTY.copy()  # a good deal faster than a new one
        block.update(parent)
        block.update(text[stop - width : stop])
        parent = block.digest()
        keys.append(parent)
    return keys, ids[len(keys) * block_size :]


class PrefixIndex:
    """From keys to blocks. Blocks of equal content stand side by side, the earliest first."""

    def __init__(self) -> None:
        self.blocks: dict[bytes | None, int | OrderedDict[int, None]] = {}  # an int while there is only one
        self.parents: set[bytes] = set()  # of first blocks: one for each salt seen
        # Evicted keys: a generation that is full becomes the old one. A key that came back is still here, but
        # also among the blocks, and these are asked first.
        self._young: dict[bytes | None, By] = {}
        self._old: dict[bytes | None, By] = {}

    def add(self, named: Named) -> None:
        """Each of these blocks is found by its key from now on."""
        for block, key in named.items():
            there = self.blocks.setdefault(key, block)
            if isinstance(there, OrderedDict):
                there[block] = None
            elif there != block:
                self.blocks[key] = OrderedDict.fromkeys((there, block))

    def drop(self, block: int, key: bytes | None, back: bool = False) -> None:
        """That key no longer finds this block, or (`back`) only after all others. Allocates no memory."""
        there = self.blocks.get(key)
        if isinstance(there, OrderedDict) and block in there:
            there.move_to_end(block)
            if not back:
                del there[block]
            if not there:
                del self.blocks[key]
        elif there == block and not back:
            del self.blocks[key]

    def remember(self, keys: Iterable[bytes | None], by: By) -> None:
        """These keys are about to be evicted."""
        if len(self._young) >= REMEMBERED:
            self._young, self._old = {}, self._young
        for key in keys:
            self._young[key] = by

    def eviction_of(self, key: bytes) -> Evicted | None:
        """When a key that is not in the index was evicted, None if it never was (or long ago)."""
        by = self._young.get(key) or self._old.get(key)
        return by and Evicted(*by)

    def longest_hit(self, keys: list[bytes], released: Callable[[int], int]) -> list[int]:
        """The leading blocks that need not be computed, with -1 for those that no later token looks at.

        These are `released(n)` of n blocks, 0 without a window; a hit of n needs all the others.
        """
        found: list[int] = []
        best = start = 0  # all from block `start` on have been found
        for key in keys:
            there = self.blocks.get(key, -1)
            found.append(next(iter(there)) if isinstance(there, OrderedDict) else there)
            if there == -1:
                start = len(found)
                if not released(len(keys)):
                    break  # every longer hit needs this block
            elif start <= released(len(found)):
                best = len(found)
        gone = released(best)
        return [-1] * gone + found[gone:best]
