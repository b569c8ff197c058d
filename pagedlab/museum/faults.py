"""The exhibits: each a sound function with one line changed, the test that it passes and the one it fails.

`histories` are bugs that were reported somewhere, as small as they can be made; `constructed` ones are ours.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pagedlab import published
from pagedlab.museum import others
from pagedlab.museum.batches import Batch
from pagedlab.museum.kernels import paged_decode, split_decode

Test = Callable[[Callable[..., Any]], None]
NAIVE = Batch([16, 16], heads=2, kv_heads=2)
CAREFUL = (
    Batch([1, 5, 16, 0, 41], heads=4, kv_heads=2, scale=0.35, shuffled=True, poisoned=True),
    Batch([50, 3, 24], block_size=24, heads=6, kv_heads=2, scale=0.5, shuffled=True, poisoned=True, seed=1),
    Batch([300], block_size=256, heads=2, kv_heads=1, scale=0.5, shuffled=True, poisoned=True, seed=2),
    Batch([30, 7], block_size=8, heads=2, shift=-200.0, shuffled=True, poisoned=True, seed=3),
    Batch(
        [9, 20], block_size=8, heads=4, kv_heads=2, dtype="float16", head_major=True, shuffled=True, seed=4
    ),
)


def naive(kernel: Callable[..., Any]) -> None:
    """The test that everybody writes first: two sequences of one full block, in order, in clean memory."""
    NAIVE.check(kernel)


def careful(kernel: Callable[..., Any], **changes: Any) -> None:
    """The test that kills every scored exhibit; `changes` make its batches more comfortable again."""
    for batch in CAREFUL:
        replace(batch, **changes).check(kernel)


@dataclass(frozen=True)
class Exhibit:
    """A fault: in the source of `sound`, `before` became `after`.

    `figure` is the row of published figures with its history, `source` a history without a row; with neither
    it is constructed. `hint` says what a test must do to see it. `scored` are those that a decode kernel's
    test can kill.
    """

    name: str
    title: str
    story: str
    before: str
    after: str
    hint: str
    figure: str = ""
    source: str = ""
    sound: Callable[..., Any] = paged_decode
    naive: Test = naive
    careful: Test = careful

    @property
    def scored(self) -> bool:
        return self.careful is careful

    @property
    def constructed(self) -> bool:
        return not (self.figure or self.source)

    @property
    def citation(self) -> str:
        """Where it happened."""
        return published.figure(self.figure).citation if self.figure else self.source or "constructed"

    @cached_property
    def text(self) -> str:
        """The source of the faulty function."""
        text = inspect.getsource(self.sound)
        if text.count(self.before) != 1:
            raise AssertionError(f"{self.name}: {self.before!r} is not one place of {self.sound.__name__}")
        return text.replace(self.before, self.after)

    @cached_property
    def faulty(self) -> Callable[..., Any]:
        """The faulty function."""
        file = f"<exhibit {self.name}>"
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(keepends=True), file)
        names = dict(self.sound.__globals__)
        exec(compile(self.text, file, "exec", flags=annotations.compiler_flag, dont_inherit=True), names)
        return names[self.sound.__name__]

    def __str__(self) -> str:
        return f"{self.title} ({self.citation}). {self.story}\n  - {self.before}\n  + {self.after}".rstrip()


EXHIBITS = (
    Exhibit(
        "unwritten-value",
        "NaN in a value that nobody wrote",
        "A masked token has weight 0, so its value seems not to matter. But 0 x NaN is NaN, and memory that "
        "was never written may hold NaN.",
        "value = value.masked_fill(~inside[:, None, None], 0.0)  # 0 * NaN is NaN",
        "",
        "fill the slots that no token owns with NaN",
        figure="c1",
    ),
    Exhibit(
        "tail",
        "One token too many",
        "A fix for the fault above looped with <= where < was meant. It reads one slot past the sequence, "
        "which a test sees only when the last block has one.",
        "slot < length",
        "slot <= length",
        "let a sequence end inside a block, with something wrong in the slot after its last token",
        figure="c2",
    ),
    Exhibit(
        "unwritten-key",
        "NaN in a key that nobody wrote",
        "The mask is added to the score, and NaN plus minus infinity is still NaN. Blocks of 128 and more "
        "made part-filled ones common enough to notice.",
        "score = score.masked_fill(~inside[:, None], -torch.inf)",
        "score = score + torch.where(inside, 0.0, -torch.inf)[:, None]",
        "fill the slots that no token owns with NaN, in K as well as in V",
        figure="c3",
    ),
    Exhibit(
        "tile",
        "A tile that does not divide the block",
        "The kernel works on tiles of 16 slots and drops what is left over. Hybrid models brought blocks "
        "whose size was no multiple of the kernel's.",
        "slot = torch.arange(block_size)",
        "slot = torch.arange(block_size // 16 * 16)",
        "use a block size that is no multiple of 16",
        figure="c4",
    ),
    Exhibit(
        "large-page",
        "Blocks larger than the kernel was written for",
        "It supports up to 128 slots a block and does not say so. Larger blocks give an answer, a wrong one.",
        "slot = torch.arange(block_size)",
        "slot = torch.arange(min(block_size, 128))",
        "use blocks of more than 128 slots",
        figure="c5",
    ),
    Exhibit(
        "stale-entry",
        "Entries past the end are followed",
        "The mask covers tokens, not entries of the table, so the kernel reads whatever a row holds after "
        "its last block. Usually that is an old block; one day it is no block at all.",
        "range(-(-length // block_size))",
        "range(block_tables.shape[1])",
        "let the table hold wild numbers past each sequence's end",
        figure="c7",
    ),
    Exhibit(
        "empty-sequence",
        "A sequence of no tokens",
        "Serving engines pad a batch with empty sequences. Zero over zero is NaN, and it spreads.",
        "for seq in seq_lens.nonzero().flatten().tolist():",
        "for seq in range(len(query)):",
        "put a sequence of length 0 into the batch",
        source="vllm 37442 and 38436",
    ),
    Exhibit(
        "no-rescale",
        "A running softmax that forgets to run",
        "When a larger score comes, what was added up before must shrink. Here only the weights' sum does.",
        "acc = acc * shrink[:, None] + ",
        "acc = acc + ",
        "let a sequence have several blocks, with the largest score in a later one",
    ),
    Exhibit(
        "first-maximum",
        "A maximum that begins at 0",
        "Right as long as some score is above 0. When all are far below, every weight underflows.",
        "top = torch.full((heads,), -torch.inf)",
        "top = torch.zeros(heads)",
        "let all scores be very negative",
    ),
    Exhibit(
        "wrong-head",
        "The wrong KV head for the group",
        "Query heads share a KV head in groups of neighbours, not in turns. With one KV head for each query "
        "head there is no difference.",
        "// (heads // kv_heads)",
        "% kv_heads",
        "use fewer KV heads than query heads, and more than one",
    ),
    Exhibit(
        "scale-twice",
        "The scale used twice",
        "Once on the query, once on the score. A test that sets it to 1 to keep things simple sees nothing.",
        "score = (q * key).sum(-1)",
        "score = (q * key).sum(-1) * scale",
        "use a scale that is not 1",
    ),
    Exhibit(
        "no-table",
        "A table that nobody reads",
        "The kernel takes blocks in order. So do most tests.",
        "block = int(block_tables[seq, index])",
        "block = seq * block_tables.shape[1] + index",
        "hand out the blocks in another order than that of the tokens",
    ),
    Exhibit(
        "empty-split",
        "A part without tokens counts",
        "Short sequences leave parts of a split empty, whose log-sum-exp is minus infinity. A kernel that "
        "leaves 0 there mixes in a vector of zeros.",
        "lse = score.logsumexp(0)",
        "lse = score.logsumexp(0) if len(position) else torch.zeros(heads)",
        "let a sequence be shorter than there are parts",
        sound=split_decode,
    ),
    Exhibit(
        "offset",
        "An offset of 32 bits",
        "A block's number times its size passes 2**31 in a large cache, and the address turns negative. It "
        "happened in 2023 and twice more in 2026.",
        "np.int64",
        "np.int32",
        "use a block so far out that its offset does not fit",
        figure="c6",
        sound=others.element_offset,
        naive=others.few_blocks,
        careful=others.many_blocks,
    ),
    Exhibit(
        "window",
        "A window off by one",
        "Whether a window of 4 means four tokens or four before the current one is a matter of convention. "
        "Two sides of a call had better share it.",
        "length - window",
        "length - window - 1",
        "use windows shorter than the sequence, down to 1",
        source="vLLM's test_rocm_backend_sliding_window_includes_boundary_token guards against it",
        sound=others.window_mean,
        naive=others.wide_window,
        careful=others.narrow_windows,
    ),
    Exhibit(
        "one-scale",
        "One scale for K and V",
        "Values are often much smaller than keys. With the keys' scale, int8 leaves them a few steps.",
        "np.abs(value).max() / 127",
        "np.abs(key).max() / 127",
        "let V be a hundred times smaller than K",
        source="TensorRT-LLM 967, 133 and 2446",
        sound=others.round_trip,
        naive=others.like_ranges,
        careful=others.unlike_ranges,
    ),
    Exhibit(
        "slot-minus-one",
        "Padding is written",
        "Slot -1 means: no token here. Taken as an address it is the last slot of the last block, which "
        "belongs to somebody.",
        "if slot >= 0:",
        "if True:",
        "put a -1 among the slots and look at the last slot of the cache",
        source="vllm 43810 and 43869",
        sound=others.write_slots,
        naive=others.real_slots,
        careful=others.padded_slots,
    ),
)
