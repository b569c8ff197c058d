"""Decode steps to time: every way of laying out one batch, over one buffer of K and one of V.

    contiguous        a piece for each sequence, no table
    paged B           blocks of B tokens; the buffer is cut anew for each B, so all read the same bytes
    sdpa              torch's own attention over the contiguous pieces
    a peer            a framework's paged kernel over the same blocks
    read              adds up every element and does nothing else: the best that memory allows

Each in two layouts. In HND a head's tokens are neighbours (in a block, or in the whole piece), in NHD a
token's heads are; contiguous NHD is itself slow on a CPU, so a paged time means nothing unless its twin is
named. A case is made only after its answer was held to float64: what is wrong is never timed. The device is
the GPU where there is one, else the CPU. torch comes with the first batch, not with the module.

A step so small that its data stay in a cache can be timed cold all the same: the batch is there several
times, side by side in one buffer, and a call goes round all of them; its time is divided by their number. On
a GPU a round can be one CUDA graph, which leaves the launches from Python out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pagedlab import timing
from pagedlab.comparison import COLD, FEWEST_ROUNDS, Comparison
from pagedlab.decode_memory import (
    BY_HEAD,
    HND,
    IN_ORDER,
    NHD,
    SCATTERED,
    SHUFFLED,
    STEP,
    Memory,
    Sizes,
    device,
)
from pagedlab.timing import Case
from pagedlab_kernels import backends, contiguous_attention, paged_attention

if TYPE_CHECKING:
    from torch import Tensor

    from pagedlab.peers import Peer

__all__ = ["HND", "IN_ORDER", "NHD", "SCATTERED", "SHUFFLED", "Decode", "Sizes", "device", "kernel_for"]

TWIN, TORCH, READER, COPIER = "contiguous", "sdpa", "read", "copy"
_FILL_S = 0.005  # a sample of warm calls
_CHECKED = 2  # sequences whose answers are held to float64
_TOLERANCE = {"float32": 1e-4}  # absolute; the other dtypes' is that of rounding the answer


def kernel_for(device: str) -> str:
    """The fastest backend there whose times mean something.

    >>> kernel_for("cpu") in ("cpu", "reference")
    True
    """
    return next(
        backend.name
        for backend in backends()
        if backend.available and backend.for_speed and backend.runs_on in (device, "any device")
    )


def clock_for(device: str) -> timing.Clock:
    """What times work on one thread, or on a GPU."""
    if device == "cuda":
        return timing.CudaClock()
    coarse = sys.platform in ("win32", "emscripten")
    return timing.HostClock() if coarse else timing.CpuTimeClock()


class Decode(Memory):
    """One batch in memory, and cases of `timing.compare` over it.

    >>> decode = Decode(Sizes(seqs=2, tokens=40, kv_heads=1, q_heads=2, head_dim=16))
    >>> result = decode.compare([decode.twin(), decode.paged(16), decode.reader()], rounds=3)
    >>> [timing.name for timing in result.timings], result.limit
    (['contiguous', 'paged 16', 'read'], 'read')

    On a CPU the work is done on `threads` threads. With `turns` a call serves so many batches; on a GPU
    `graphs` makes it one launch, for the cases made from then on. `errors` are the largest absolute
    differences from float64.
    """

    def __init__(
        self, sizes: Sizes, seed: int = 0, *, threads: int = 1, graphs: bool = False, **memory: Any
    ) -> None:
        """`memory` is as in `Memory`."""
        super().__init__(sizes, seed, **memory)
        self.threads, self.graphs = threads, graphs and self.device == "cuda"
        self.errors: dict[str, float] = {}

    @cached_property
    def kernel(self) -> str:
        """The backend that is timed."""
        return kernel_for(self.device)

    def twin(self, layout: str = HND, name: str = TWIN, **options: Any) -> Case:
        """Attention over one contiguous piece a sequence; `options` go to the kernel."""
        rows = self.rows(layout)
        batches = [(*(each[part] for each in rows), self.lengths[part]) for part in self.parts]
        return self._ours(name, f"{layout}, one piece", contiguous_attention, batches, lambda: rows, options)

    def paged(
        self,
        block_size: int,
        order: str = SHUFFLED,
        layout: str = HND,
        name: str = "",
        attend: Callable[..., Any] = paged_attention,
        **options: Any,
    ) -> Case:
        """Attention over blocks of `block_size` tokens that lie in such an order, by `attend`."""
        blocks = [self.blocks(buffer, block_size, layout) for buffer in (self.key, self.value)]
        table = self.table(block_size, order)
        batches = [(*blocks, table[part], self.lengths[part]) for part in self.parts]
        name, lie = name or f"paged {block_size}", f"{layout}, blocks {order}"
        return self._ours(name, lie, attend, batches, lambda: _gathered(blocks, table), options)

    def sdpa(self, name: str = TORCH) -> Case:
        """torch's attention, with the query heads of a group as rows of one query: its fastest way here."""
        from torch.nn.functional import scaled_dot_product_attention

        rows = self.rows(HND)
        key, value = (each.transpose(1, 2) for each in rows)
        grouped = self.query.view(len(self.query), self.sizes.kv_heads, -1, self.sizes.head_dim)

        def call(part: slice) -> Any:
            answer = scaled_dot_product_attention(grouped[part], key[part], value[part])
            return answer.view_as(self.query[part])

        return self._case(name, f"{HND}, one piece", [partial(call, part) for part in self.parts], rows)

    def peer(self, peer: Peer, block_size: int, name: str = "") -> Case:
        """A framework's kernel over shuffled blocks, in memory as it likes it best."""
        blocks = [self.blocks(buffer, block_size, BY_HEAD) for buffer in (self.key, self.value)]
        table = self.table(block_size)
        with _on_threads(self.threads):  # peers compile and plan for so many
            calls = [peer.call(self.query[at], *blocks, table[at], self.lengths[at]) for at in self.parts]
        lie = f"{peer.engine or BY_HEAD}, blocks {SHUFFLED}"
        return self._case(name or f"{peer.name} {block_size}", lie, calls, _gathered(blocks, table))

    def reader(self) -> Case:
        """Read the bytes that a step needs, and nothing more."""
        parts = self.used()
        if self.device == "cpu":
            from pagedlab_kernels.cpu import stream_read

            return Case(READER, lambda: stream_read(*parts), "as it lies", self.bytes_read)
        return Case(READER, lambda: [part.sum() for part in parts], "as it lies", self.bytes_read)

    def copier(self) -> Case:
        """Copy those bytes on the device, which reads and writes them: what a GPU is known to do at best."""
        parts = self.used()
        copies = [part.clone() for part in parts]

        def call() -> None:
            for part, copy in zip(parts, copies, strict=True):
                copy.copy_(part)

        return Case(COPIER, self._launched(call), "as it lies", 2 * self.bytes_read)

    def compare(
        self,
        cases: Iterable[Case],
        *,
        again: Callable[[], object] | None = None,
        caches: str = COLD,
        rounds: int = FEWEST_ROUNDS,
        seed: int = 0,
        what: str = "",
        should_stop: Callable[[], bool] | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Comparison:
        """Time such cases; the first is the baseline, the reader or the copier the limit.

        On one thread of a CPU its CPU time counts, so that a machine with other things to do comes to the
        same ratios. Of several threads the time that passes counts.
        """
        listed = list(cases)
        several = self.device == "cpu" and self.threads > 1
        with _on_threads(self.threads):
            found = timing.compare(
                listed,
                again=again,
                limit=next((case.name for case in listed if case.name in (READER, COPIER)), None),
                caches=caches,
                what=f"{what or self.sizes}; kernel: {self.kernel}",
                repeats=rounds,
                min_time=_FILL_S,
                seed=seed,
                clock=None if several else clock_for(self.device),
                should_stop=should_stop,
                progress=progress,
            )
        return _each(found, len(self.parts))

    def _ours(
        self,
        name: str,
        layout: str,
        attend: Callable[..., Any],
        batches: list[tuple[Tensor, ...]],
        rows: Callable[[], list[Tensor]],
        options: dict[str, Any],
    ) -> Case:
        calls, options = [], self.scales | options
        for part, batch in zip(self.parts, batches, strict=True):
            call = partial(attend, self.query[part], *batch, backend=self.kernel, **options)
            call()  # checked once; timed without
            calls.append(partial(call, check=False))
        return self._case(name, layout, calls, rows())

    def _case(self, name: str, layout: str, calls: Sequence[Callable[[], Any]], rows: list[Tensor]) -> Case:
        """A case whose answer is right; `rows` are K and V of the first sequences, one piece each.

        Raises ArithmeticError for one that is wrong.
        """
        query, lengths = self.query[:_CHECKED].double(), self.lengths[:_CHECKED]
        key, value = (each[:_CHECKED].double() * (STEP if self.scales else 1) for each in rows)
        exact: Any = contiguous_attention(query, key, value, lengths, backend="reference")
        with _on_threads(self.threads):
            answer = calls[0]()[:_CHECKED]
        error = float((answer - exact[: len(answer)]).abs().max())
        most = _TOLERANCE.get(str(self.query.dtype).removeprefix("torch."), 0.02)
        if not error <= most:
            raise ArithmeticError(f"{name} is off by {error:.1e} from the float64 answer, more than {most}")
        self.errors[name] = error
        around = calls[0] if len(calls) == 1 else lambda: [call() for call in calls]
        return Case(name, self._launched(around), layout, self.bytes_read)

    def _launched(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """The call, or a graph of it: recorded once, on a stream of its own, then launched as one."""
        if not self.graphs:
            return call
        import torch

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            call()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return graph.replay


@contextmanager
def _on_threads(count: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _each(comparison: Comparison, turns: int) -> Comparison:
    """The times of one batch, where a call served so many."""
    if turns == 1:
        return comparison
    timings = (
        replace(timing, seconds=tuple(each / turns for each in timing.seconds))
        for timing in comparison.timings
    )
    again = tuple(each / turns for each in comparison.again)
    return replace(comparison, timings=tuple(timings), again=again)


def _gathered(blocks: list[Tensor], table: Tensor) -> list[Tensor]:
    """The first sequences in one piece; with torch's own indexing, so as not to share a kernel's look-up."""
    return [pool[table[:_CHECKED].long()].flatten(1, 2) for pool in blocks]
