"""Claim: building a paged kernel from scratch is a large investment; use a framework.

One cache and one block table, and three ways to read them: a kernel written from scratch in torch, this
package's own, and a framework's. Each with the lines that somebody must write and keep, what it gets wrong in
the bug museum, and its time. The trap is to think that a framework's kernel takes any cache: it relies on
what its own engine sees to, such as memory that is cleared before anybody reads it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from pagedlab._format import count, significant
from pagedlab.claims import reading
from pagedlab.claims.reading import ratio, slower
from pagedlab.claims.verdict import Claim, Measurement, Outcome, Verdict
from pagedlab.comparison import Comparison

ID = "use-a-framework"
ROWS = ("a11", "c1", "c6", "c13")
BLOCK = 32  # a size that all of them take
SCRATCH, OURS = "from scratch", f"paged {BLOCK}"
_SOURCES = {
    "cpu": ("cpu", "cpu_kernels"),
    "triton": ("triton_launch", "triton_kernels"),
    "reference": ("reference",),
}


@dataclass(frozen=True)
class Tried:
    """A kernel's `lines`, and of how many `batches` of the museum it gets the answer: `right` as they are,
    with NaN in the slots that no token owns, `cleared` with these slots cleared."""

    name: str
    lines: int
    batches: int
    right: int
    cleared: int


def run(quick: bool) -> Verdict:
    """Try all in the museum, time those made for speed; what takes a minute to compile only if not quick."""
    from pagedlab import peers  # brings torch
    from pagedlab.museum.kernels import paged_decode
    from pagedlab_kernels import paged_attention

    decode = reading.batch(quick)
    flex = peers.get("flex")
    tried = (
        _tried(SCRATCH, paged_decode, paged_decode),
        _tried(
            "this package",
            paged_attention,
            *(import_module(f"pagedlab_kernels.{name}") for name in _SOURCES[decode.kernel]),
        ),
        _tried("FlexAttention", flex, flex.prepare),
    )
    cases = [decode.paged(BLOCK)]
    if decode.device == "cpu":  # where the one from scratch runs
        from_scratch = peers.Peer(
            SCRATCH, "", "", lambda *batch: partial(paged_decode, *batch[:-1], scale=batch[-1])
        )
        cases.append(decode.peer(from_scratch, BLOCK, SCRATCH))
    for peer in () if quick else peers.all():
        if peer.for_speed and not peer.missing:
            cases.append(decode.peer(peer, BLOCK, peer.name))
    return reading.settle(decode, cases, lambda comparison: judge(comparison, tried), quick)


def judge(comparison: Comparison, tried: Sequence[Tried]) -> Verdict:
    """The verdict on kernels as tried, the framework's last, and on the times of some."""
    names = [timing.name for timing in comparison.timings]
    *_, framework = tried
    dear = slower(comparison, SCRATCH) if SCRATCH in names else True
    if dear is None:
        return reading.unreadable(ID, comparison, ROWS)
    conditions = [
        f"{each.name}: {count(each.lines, 'line')} of code, right in {each.right} of {each.batches} batches "
        f"of the museum, and in {each.cleared} where unused slots are cleared"
        for each in tried
    ]
    conditions += [
        f"{name} takes {significant(comparison.ratio(name).median)} times as long as this package's kernel"
        for name in names
        if name != OURS
    ]
    if not set(names) - {OURS, SCRATCH}:
        conditions.append("a framework's kernel takes a minute to compile, so only a full run times it")
    if framework.cleared < framework.batches:
        outcome = Outcome.FAILS_HERE
        conditions.insert(0, f"{framework.name} does not give the answers, clean memory or not")
    elif not dear:
        outcome = Outcome.FAILS_HERE
        conditions.insert(0, "a kernel written from scratch takes no longer")
    elif framework.right < framework.batches:
        outcome = Outcome.HOLDS_WHEN
        conditions.insert(0, "the memory of the cache is cleared first: what was there shows in the answer")
    else:
        outcome = Outcome.HOLDS
    measured = [Measurement(f"lines of code, {each.name}", each.lines, "", "computed") for each in tried]
    measured += [ratio(comparison, name, f"time, {name}, of {OURS}") for name in names if name != OURS]
    return reading.told(ID, outcome, conditions, measured, ROWS, [comparison])


def _tried(name: str, kernel: Any, *sources: Any) -> Tried:
    from pagedlab import museum
    from pagedlab.museum.faults import CAREFUL

    batches = CAREFUL, [replace(batch, poisoned=False) for batch in CAREFUL]
    right, cleared = (sum(not museum.killed(batch.check, kernel) for batch in each) for each in batches)
    return Tried(name, sum(map(lines_of, sources)), len(CAREFUL), right, cleared)


def lines_of(source: Any) -> int:
    """Lines of code of a function or module: no comments, no docstrings, one statement a line.

    >>> lines_of(lines_of)
    6
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(source)))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node):
            del node.body[0]
    return sum(bool(line.strip()) for line in ast.unparse(tree).splitlines())


CLAIM = Claim(ID, "a kernel from scratch is a large investment: use a framework's", run)
