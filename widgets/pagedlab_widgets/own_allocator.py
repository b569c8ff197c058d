"""A learner's allocator in the block map: its own tables, call by call."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from pagedlab import BlockManager
from pagedlab.inputs import at_least, one_of

from .trace import Trace, TraceBuilder

Call = tuple[Any, ...]


class Plain:
    """The library's `BlockManager` behind the four calls of the exercise, to compare a picture with."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self._manager = BlockManager(num_blocks, block_size, record=False)

    def allocate(self, seq: str, tokens: int) -> list[int]:
        """The new sequence's blocks."""
        return list(self._manager.allocate(seq, tokens).new_blocks)

    def append(self, seq: str) -> None:
        """Store one more token."""
        self._manager.append(seq)

    def free(self, seq: str) -> None:
        """Give back all blocks."""
        self._manager.free(seq)

    def table(self, seq: str) -> list[int]:
        """The sequence's block table."""
        return list(self._manager.table(seq))


def own_trace(
    allocator: Callable[[int, int], Any], calls: Sequence[Call], num_blocks: int = 12, block_size: int = 4
) -> Trace:
    """Make an allocator, play the calls, and record its tables after each; one frame a call.

    A call is `("allocate", seq, tokens)`, `("append", seq)` or `("free", seq)`; names are text. What an
    allocator gives away twice is drawn as shared. A call that raises is a frame in which nothing changed.
    Raises `ValueError` for a call that is none of these, a table that is no list of whole numbers, or a block
    outside the pool.

    >>> trace = own_trace(Plain, [("allocate", "A", 5), ("append", "A"), ("free", "A")])
    >>> [trace.counts(frame).stored for frame in range(trace.frames)]
    [5, 6, 0]
    """
    mine = allocator(num_blocks, block_size)
    builder = TraceBuilder("your allocator", num_blocks, block_size)
    tokens: dict[str, int] = {}
    for verb, seq, *rest in calls:
        one_of(("allocate", "append", "free"), verb, "a call")
        count = at_least(0, rest[0] if rest else 1, f"tokens of {verb} {seq!r}")
        try:
            getattr(mine, verb)(seq, *rest)
        except Exception:  # whatever it is, the check says more about it
            builder.end_frame()
            continue
        if verb == "free":
            tokens.pop(seq, None)  # an allocator may let pass what the library refuses
        else:
            tokens[seq] = tokens.get(seq, 0) + count
        builder.note(verb, builder.owner(seq), count)
        tables = {name: _blocks(name, mine.table(name)) for name in tokens}
        for block, held in enumerate(_holders(tables, tokens, num_blocks, block_size)):
            owner = builder.owner(held[0][0]) if held else 0
            builder.write(block, owner, max((fill for _, fill in held), default=0), len(held))
        builder.end_frame()
    return builder.build()


def _blocks(name: str, table: Any) -> list[int]:
    try:
        return [operator.index(block) for block in table]
    except TypeError:
        raise ValueError(f"table({name!r}) must be a list of whole numbers, got {table!r}") from None


def _holders(
    tables: dict[str, list[int]], tokens: dict[str, int], num_blocks: int, block_size: int
) -> list[list[tuple[str, int]]]:
    """For each block of the pool: who has it in a table, and how many tokens are in it by that table."""
    holders: list[list[tuple[str, int]]] = [[] for _ in range(num_blocks)]
    for name, table in tables.items():
        for place, block in enumerate(table):
            if not 0 <= block < num_blocks:
                raise ValueError(f"block {block} of {name!r} is outside the pool of {num_blocks}")
            holders[block].append((name, max(0, min(block_size, tokens[name] - place * block_size))))
    return holders
