"""The allocator with forks: sequences share blocks until one of them writes."""

from __future__ import annotations

from pagedlab.exercises.solutions.allocator import Allocator


class CopyOnWrite(Allocator):
    """
    >>> blocks = CopyOnWrite(num_blocks=4, block_size=2)
    >>> blocks.allocate("a", 3)
    [3, 2]
    >>> blocks.fork("a", "b")
    >>> blocks.append("b"), blocks.append("a"), blocks.table("b")
    ([(2, 1)], [], [3, 1])
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        super().__init__(num_blocks, block_size)
        self.holders: dict[int, int] = {}

    def fork(self, parent: str, child: str) -> None:
        self.tables[child] = list(self.tables[parent])
        self.lengths[child] = self.lengths[parent]
        for block in self.tables[child]:
            self.holders[block] += 1

    def append(self, seq: str) -> list[tuple[int, int]]:  # type: ignore[override]
        table, copies = self.tables[seq], []
        if self.must_copy(seq):
            new = self.take(1)[0]
            copies = [(table[-1], new)]
            self.give_back([table[-1]])
            table[-1] = new
        elif self.lengths[seq] % self.block_size == 0:
            table += self.take(1)
        self.lengths[seq] += 1
        return copies

    def must_copy(self, seq: str) -> bool:
        """Whether the next token goes into a block that somebody else holds too."""
        return self.lengths[seq] % self.block_size != 0 and self.holders[self.tables[seq][-1]] > 1

    def take(self, count: int) -> list[int]:
        blocks = super().take(count)
        self.holders |= dict.fromkeys(blocks, 1)
        return blocks

    def give_back(self, blocks: list[int]) -> None:
        for block in blocks:
            self.holders[block] -= 1
        super().give_back([block for block in blocks if self.holders[block] == 0])


solution = CopyOnWrite
