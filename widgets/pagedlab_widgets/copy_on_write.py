"""The sharing lab: fork and append by clicking, and see who may write where, in three ways of sharing.

    mode, block size, prompt    need the kernel; a new pool with one sequence
    a row for each sequence     Append, Fork, Finish; its blocks; attention over them, held against its tokens
    map                         the blocks of the mode that is chosen, one step for each click
    modes                       the same clicks under every mode: blocks held, bytes copied, the time it took

Every click is carried out under all three modes at once, so that changing the mode changes the view and not
the story. A mode whose pool runs out says so and goes no further; the others do.
"""

from __future__ import annotations

import html
import random
from collections.abc import Callable

import ipywidgets

from pagedlab import _format, machine
from pagedlab.branch_memory import HEADS, REPEATS
from pagedlab.branching import MODES, Branches, Work
from pagedlab.errors import OutOfBlocks
from pagedlab.models import preset

from .bar_table import BarTable, Row, Segment
from .block_map import BlockMap
from .controls import button, choice_list, choice_slider, on_change, row
from .encode import paged_trace
from .names import named

NUM_SLOTS = 128
"""A pool that eager copies fill first."""
MOST_SEQUENCES = 8
RIGHT = 1e-4
"""Largest difference that fp32 explains."""
_NAMES = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_MODEL = preset("llama-3.1-8b")


class _Line:
    """One sequence on the screen: what it is, and what can be done with it."""

    def __init__(self, lab: CopyOnWriteLab, seq: str) -> None:
        self.text = ipywidgets.HTML(layout={"flex": "1 1 300px"})
        self.box = row(
            button(f"Append to {seq}", lambda: lab.append(seq), "112px"),
            button(f"Fork {seq}", lambda: lab.fork(seq), "70px"),
            button(f"Finish {seq}", lambda: lab.finish(seq), "80px"),
            self.text,
        )

    def close(self) -> None:
        """Take it off the screen and out of the kernel."""
        for widget in (*self.box.children, self.box):
            widget.close()


class CopyOnWriteLab(ipywidgets.VBox):
    """Fork samples and beams, append to them, and watch tables, reference counts and copies.

    `mode` is one of `branching.MODES`; `block_size` (1 to 16) and `prompt` (tokens of the first sequence, 1
    to 32) are values of their sliders. `fork`, `append`, `finish`, `append_all`, `sample` and `beam_step` do
    what the buttons do. Raises `ValueError` for a value that a control lacks.

    >>> lab = CopyOnWriteLab(block_size=4, prompt=10)
    >>> lab.fork("A"); lab.append("B")
    >>> lab.branches["copy-on-write"].work.copied, lab.branches["eager copy"].work.copied
    (1, 3)
    >>> lab.branches["append-only"].work.recomputed, max(lab.errors.values()) < 1e-5
    (2, True)
    """

    def __init__(
        self, mode: str = "copy-on-write", *, block_size: int = 4, prompt: int = 10, seed: int = 0
    ) -> None:
        self.mode = choice_list("mode", MODES, mode, "Mode", "How forks share")
        self.block_size = choice_slider(
            "block_size", (1, 2, 4, 8, 16), block_size, "Block size (tokens)", "Block size in tokens"
        )
        self.prompt = choice_slider("prompt", range(1, 33), prompt, "Prompt (tokens)", "Prompt in tokens")
        self.makes_copies = named(
            ipywidgets.Checkbox(value=True, description="make the copies", indent=False), "Make the copies"
        )
        self.message = ipywidgets.HTML()
        self.rows = ipywidgets.VBox()
        self.map = BlockMap(word="recorded", speed=2)
        kinds = {"own": "held by one", "shared": "shared"}
        self.modes = BarTable("The same clicks under every mode", kinds, word="measured")
        self._seed = seed
        self._lines: dict[str, _Line] = {}
        self.start_over()
        on_change(self.start_over, self.block_size, self.prompt, self.makes_copies)
        on_change(self._show, self.mode)
        together = {"Append to all": self.append_all, "Sample 3 more": self.sample}
        together |= {"Beam step": self.beam_step, "Start over": self.start_over}
        settings = row(self.mode, self.block_size, self.prompt, self.makes_copies)
        buttons = row(*(button(text, does) for text, does in together.items()))
        super().__init__([settings, buttons, self.rows, self.message, self.map, self.modes])

    # ---- asking ------------------------------------------------------------------------------

    @property
    def sequences(self) -> tuple[str, ...]:
        """The sequences that are there, oldest first."""
        return tuple(self._lines)

    @property
    def shown(self) -> Branches:
        """The pool of the mode that is chosen."""
        return self.branches[self.mode.value]

    # ---- doing -------------------------------------------------------------------------------

    def start_over(self) -> None:
        """A new pool for each mode, with one sequence."""
        size = self.block_size.value
        self.branches = {mode: Branches(mode, NUM_SLOTS // size, size) for mode in MODES}
        self.stopped: dict[str, str] = {}
        self._random = random.Random(self._seed)
        self._next_id, self._made = 0, 1
        for line in self._lines.values():
            line.close()
        self._lines = {"A": _Line(self, "A")}
        prompt = self._new_ids(self.prompt.value)
        for branches in self.branches.values():
            branches.makes_copies = self.makes_copies.value
            branches.start("A", prompt)
        self._show("A new pool with one sequence, A.", follow="A")

    def fork(self, seq: str) -> None:
        """Let a new sequence go on from where `seq` is; none when there are `MOST_SEQUENCES`."""
        self._show(f"{self._fork(seq)}.", follow=seq)

    def append(self, seq: str) -> None:
        """Store one new token at the end of `seq`."""
        self._show(f"{self._append(seq)}.", follow=seq)

    def append_all(self) -> None:
        """Every sequence stores one token of its own."""
        self._show(f"{'; '.join(map(self._append, self.sequences))}.")

    def sample(self) -> None:
        """Three more samples of the first sequence."""
        first = self.sequences[0]
        self._show(f"{'; '.join([self._fork(first) for _ in range(3)])}.", follow=first)

    def beam_step(self) -> None:
        """The worst beam ends, the best one forks into its place, and each stores a token.

        Which beam is best and which is worst is drawn (seeded): there is no model here to say so.
        """
        told = []
        if len(self.sequences) > 1:
            best, worst = self._random.sample(self.sequences, 2)
            told = [self._finish(worst), self._fork(best)]
        else:
            told = [self._fork(self.sequences[0])]
        self._show(f"{'; '.join([*told, *map(self._append, self.sequences)])}.")

    def finish(self, seq: str) -> None:
        """Let `seq` and its blocks go; the last one stays."""
        self._show(f"{self._finish(seq)}." if len(self.sequences) > 1 else "The last sequence stays.")

    # ---- inside ------------------------------------------------------------------------------

    def _new_ids(self, count: int) -> list[int]:
        self._next_id += count
        return list(range(self._next_id - count, self._next_id))

    def _fork(self, seq: str) -> str:
        if len(self.sequences) >= MOST_SEQUENCES:
            return f"{MOST_SEQUENCES} sequences are as many as this page shows"
        child = _NAMES[self._made % len(_NAMES)] + "'" * (self._made // len(_NAMES))
        work = self._do(f"fork {seq}", lambda branches: branches.fork(seq, child))
        self._made += 1
        self._lines[child] = _Line(self, child)
        return f"{seq} forked to {child}{_told(work)}"

    def _append(self, seq: str) -> str:
        ids = self._new_ids(1)
        work = self._do(f"append to {seq}", lambda branches: branches.append(seq, ids))
        return f"{seq} stored a token{_told(work)}"

    def _finish(self, seq: str) -> str:
        self._do(f"finish {seq}", lambda branches: branches.finish(seq))
        self._lines.pop(seq).close()
        return f"{seq} finished"

    def _do(self, what: str, act: Callable[[Branches], Work | None]) -> Work:
        """Carry a click out under every mode whose pool has not run out; what it cost in the mode shown."""
        cost = Work()
        for mode, branches in self.branches.items():
            if mode in self.stopped:
                continue
            try:
                work = act(branches)
            except OutOfBlocks as error:
                self.stopped[mode] = f"ran out of blocks at “{what}”: {error}"
                continue
            if mode == self.mode.value and work is not None:
                cost = work
        return cost

    # ---- drawing -----------------------------------------------------------------------------

    def _show(self, message: str = "", follow: str | None = None) -> None:
        shown = self.shown
        if problem := self.stopped.get(shown.mode):
            message = f"{shown.mode} {problem}. Start over, or choose another mode."
        self.message.value = html.escape(message)
        self.errors = shown.errors()
        for seq, line in self._lines.items():
            line.text.value = _line_text(shown, seq, self.errors)
        self.rows.children = [line.box for line in self._lines.values()]
        self.map.show(
            paged_trace(shown.manager.events, label=f"{shown.mode}, blocks of {shown.manager.block_size}")
        )
        self.map.frame = self.map.frames - 1
        if follow:
            self.map.follow = follow
        self._show_modes()

    def _show_modes(self) -> None:
        rows = []
        for mode, branches in self.branches.items():
            usage = branches.manager.usage()
            counts = {"own": usage.blocks_in_use - usage.blocks_shared, "shared": usage.blocks_shared}
            segments = tuple(Segment(kind, n, _format.count(n, "block")) for kind, n in counts.items())
            note = self.stopped.get(mode, "") or _told(branches.work).removeprefix(": ") or "nothing copied"
            rows.append(Row(mode, segments, note))
        size = self.shown.block_bytes
        whole = _MODEL.kv_bytes(self.block_size.value, "bf16")
        caption = (
            f"One layer of {HEADS.kv_heads} KV heads of {HEADS.head_dim} numbers, fp32: a block is "
            f"{_format.size(size)}. All layers of {_MODEL.name} in bf16: {_format.size(whole)} (computed). "
            f"Each copy was made {REPEATS} times; the fastest counts."
        )
        self.modes.show(rows, caption=caption, device=machine.cpu_device())


def _told(work: Work) -> str:
    """What it took, in words."""
    took = f"{_format.size(work.bytes)} written in {_format.seconds(work.seconds)} (measured)"
    parts = []
    if work.copied:
        parts.append(f"{_format.count(work.copied, 'block')} copied")
    if work.recomputed:
        parts.append(f"{_format.count(work.recomputed, 'token')} computed again")
    return f": {', '.join(parts)}, {took}" if parts else ""


def _line_text(branches: Branches, seq: str, errors: dict[str, float]) -> str:
    """A table, each block with how many hold it when they are several, and whether it reads right."""
    manager = branches.manager
    if seq not in errors:
        return "not here: this pool ran out before"
    blocks = [
        f"{block} ×{manager.ref_count(block)}" if manager.ref_count(block) > 1 else f"{block}"
        for block in manager.table(seq)
    ]
    where = "blocks" if len(blocks) > 1 else "block"
    text = f"{_format.count(manager.num_tokens(seq), 'token')} in {where} {', '.join(blocks)}; attention "
    if errors[seq] < RIGHT:
        return html.escape(f"{text}is that over its own tokens, within {errors[seq]:.0e} (measured)")
    wrong = f"is wrong by {errors[seq]:.2g} (measured): it read a block that was never copied"
    return f"{html.escape(text)}<strong>{html.escape(wrong)}</strong>"
