"""A block allocator: tables of blocks for sequences, out of one pool."""

from __future__ import annotations


class Allocator:
    """
    >>> blocks = Allocator(num_blocks=4, block_size=2)
    >>> len(blocks.allocate("a", 3)), len(blocks.table("a"))
    (2, 2)
    >>> blocks.append("a"); blocks.append("a"); len(blocks.table("a"))
    3
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self.free_blocks = list(range(num_blocks))
        self.tables: dict[str, list[int]] = {}
        self.lengths: dict[str, int] = {}

    def allocate(self, seq: str, tokens: int) -> list[int]:
        if seq in self.tables:
            raise ValueError(f"{seq!r} is here already")
        self.tables[seq] = self.take(self.blocks_for(tokens))
        self.lengths[seq] = tokens
        return list(self.tables[seq])

    def append(self, seq: str) -> None:
        if self.lengths[seq] % self.block_size == 0:  # its last block is full
            self.tables[seq] += self.take(1)
        self.lengths[seq] += 1

    def free(self, seq: str) -> None:
        self.give_back(self.tables.pop(seq))
        del self.lengths[seq]

    def table(self, seq: str) -> list[int]:
        return list(self.tables[seq])

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def take(self, count: int) -> list[int]:
        if count > len(self.free_blocks):
            raise MemoryError(f"{count} blocks are needed, {len(self.free_blocks)} are free")
        return [self.free_blocks.pop(self.pick()) for _ in range(count)]

    def pick(self) -> int:
        """Where in the free list the next block is taken: any place is right."""
        return -1

    def give_back(self, blocks: list[int]) -> None:
        self.free_blocks += blocks


solution = Allocator
