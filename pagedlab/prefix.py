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
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

Named: TypeAlias = Mapping[int, bytes]
"""Blocks that are full, and the keys that they get."""
UNNAMED: Named = {}
By: TypeAlias = tuple[Hashable, int | None]
"""Who was handed a block, and the index of the event that says so (None without a log)."""
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
    return blake2b(salt.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES, person=b"salt").digest()


def keys_of(parent: bytes, ids: array[int], block_size: int) -> list[bytes]:
    """The key of each full block of `ids`, the first one chained to `parent`.

    >>> a, b = (keys_of(first_parent(None), array("I", ids), 2) for ids in ([5, 6, 7, 8, 9], [5, 6, 1, 8]))
    >>> len(a), len(b), a[0] == b[0], a[1] == b[1]
    (2, 2, True, False)
    """
    keys, text, width = [], ids.tobytes(), ids.itemsize * block_size
    for stop in range(width, len(text) + 1, width):
        block = _EMPTY.copy()  # a good deal faster than a new one
        block.update(parent)
        block.update(text[stop - width : stop])
        parent = block.digest()
        keys.append(parent)
    return keys


class PrefixIndex:
    """From keys to blocks. Blocks of equal content stand side by side, the earliest first."""

    def __init__(self) -> None:
        self._blocks: dict[bytes | None, int | OrderedDict[int, None]] = {}  # an int while there is only one
        self.parents: set[bytes] = set()  # of first blocks: one for each salt seen
        # Evicted keys in two generations: a young one that is full becomes the old one. A key that came back
        # is still here, but also among the blocks, and these are asked first.
        self._young: dict[bytes | None, By] = {}
        self._old: dict[bytes | None, By] = {}

    def first(self, key: bytes) -> int | None:
        """The earliest block of that key that is still there."""
        there = self._blocks.get(key)
        return next(iter(there)) if isinstance(there, OrderedDict) else there

    def add(self, named: Named) -> None:
        """Each of these blocks is found by its key from now on."""
        for block, key in named.items():
            there = self._blocks.setdefault(key, block)
            if isinstance(there, OrderedDict):
                there[block] = None
            elif there != block:
                self._blocks[key] = OrderedDict.fromkeys((there, block))

    def take_back(self, named: Named, keys: Sequence[bytes | None]) -> None:
        """Undo an `add`, however far it got; `keys` are those that the blocks had before it."""
        for block, key in named.items():
            there = self._blocks.get(key)
            if keys[block] != key and (block in there if isinstance(there, OrderedDict) else there == block):
                self.forget([block], {block: key}, {})

    def forget(self, blocks: Iterable[int], keys: Any, named: Named) -> None:
        """These blocks lose their `keys`; one that `named` gives its own again becomes the latest of it.

        Allocates no memory.
        """
        index = self._blocks
        for block in blocks:
            key, keys[block] = keys[block], None
            if key is None:  # since a reset
                continue
            there = index[key]
            if named.get(block) == key:
                if isinstance(there, OrderedDict):
                    there.move_to_end(block)
            elif isinstance(there, OrderedDict):
                del there[block]
                if not there:
                    del index[key]
            else:
                del index[key]

    def remember(self, keys: Iterable[bytes | None], by: By) -> None:
        """These keys are about to be evicted."""
        if len(self._young) >= REMEMBERED:
            self._young, self._old = {}, self._young
        self._young.update(dict.fromkeys(keys, by))

    def eviction_of(self, key: bytes) -> Evicted | None:
        """When a key that is not in the index was evicted, None if it never was (or long ago)."""
        by = self._young.get(key) or self._old.get(key)
        return by and Evicted(*by)

    def longest_hit(self, keys: list[bytes], released: Callable[[int], int]) -> tuple[int, list[int]]:
        """How many leading blocks need not be computed, and those of them that are still looked at.

        `released(n)` is how many of n computed blocks no later token looks at: 0 without a window. A hit of n
        blocks needs all the others of these n.
        """
        found: list[int | None] = []
        best = start = 0  # all from block `start` on have been found
        for key in keys:
            found.append(self.first(key))
            if found[-1] is None:
                start = len(found)
                if not released(len(keys)):
                    break  # every longer hit needs this block
            elif start <= released(len(found)):
                best = len(found)
        return best, found[released(best) : best]  # type: ignore[return-value]

    def why_it_ends(self, keys: list[bytes], best: int, limit: int, others: Iterable[int]) -> End:
        """Why a hit has `best` blocks, of a prompt with these full blocks, of which `limit` may be used.

        `others` are the hits that the same tokens have under the salts that were ever seen.
        """
        if best == len(keys):
            return End.SHORT
        if best == limit and self.first(keys[best]) is not None:
            return End.RECOMPUTED
        if self.eviction_of(keys[best]) is not None:
            return End.EVICTED
        if any(other > best for other in others):
            return End.OTHER_SALT
        return End.DIFFERENT if best else End.NOTHING_ALIKE
