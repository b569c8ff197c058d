"""The two walls: how many tokens fit, and how many a second come out; what moves which.

controls   model, GPU, ranks; what changes the bytes of a token: KV heads, precision, window; lengths
chart      computed: tokens a second by sequences at once, to the wall of memory and beyond it
steps      computed: what a full step spends on weights and on K and V, as published and as set
beside     published: how near to the bandwidth a paged decode came
"""

from __future__ import annotations

import html

import ipywidgets
import numpy as np

from pagedlab import _format, gpus, models, published
from pagedlab.models import weights_of
from pagedlab.walls import LATENT, Walls, with_heads, with_window

from .bar_table import BarTable, Row, Segment
from .chart import Axis, Line, LineChart, Wall
from .controls import choice_list, choice_slider, on_change, row

MIXTURES = ("qwen3-235b-a22b", "deepseek-v2", "deepseek-v3", "gpt-oss-120b")
"""Models that read only some of their weights in a step: the curve here would be theirs for no batch."""
MODELS = tuple(name for name in models.presets() if name not in MIXTURES)
CONTEXTS = tuple(2**power for power in range(8, 18))
_AS_IS = -1
_HEADS = [("as published", _AS_IS), ("1 (MQA)", 1), *((f"{n}", n) for n in (2, 4, 8, 16, 32))]
_HEADS.append((f"one latent of {LATENT} (MLA)", 0))
_WINDOWS = [("none", 0), *((f"{2**power:,}", 2**power) for power in range(7, 14))]
_PRECISIONS = ("bf16", "fp8", "int8", "int4", "fp32")


class TwoWalls(ipywidgets.VBox):
    """Set a model, a GPU and the bytes of a token, and see which wall is met first.

    `model` is a dense preset of `models`, `gpu` a name of `gpus`; `ranks` GPUs share the model. `kv_heads`
    (-1: as published; 0: one latent vector), `dtype` of K and V and `window` (0: none) change the bytes of a
    token; `context` is the mean length of a sequence, `longest` what a server without pages sets aside for
    each (powers of two, 256 to 131,072). Raises `ValueError` for a value that a control lacks.

    >>> walls = TwoWalls(model="llama-3.1-8b", gpu="h100-sxm", context=1024)
    >>> before = walls.walls.tokens_per_s(walls.walls.sequences)
    >>> walls.dtype.value = "fp8"
    >>> round(walls.walls.capacity.tokens / 426_784), walls.walls.tokens_per_s(walls.walls.sequences) > before
    (2, True)
    """

    def __init__(
        self,
        model: str = "llama-3.1-8b",
        gpu: str = "h100-sxm",
        *,
        ranks: int = 1,
        kv_heads: int = _AS_IS,
        dtype: str = "bf16",
        window: int = 0,
        context: int = 1024,
        longest: int = 8192,
    ) -> None:
        titles = [(gpus.named(name).title, name) for name in gpus.names()]
        self.model = choice_list("model", MODELS, model, "Model")
        self.gpu = choice_list("gpu", titles, gpu, "GPU")
        self.ranks = choice_list("ranks", (1, 2, 4, 8), ranks, "GPUs (ranks)", "GPUs that share the model")
        self.kv_heads = choice_list("kv_heads", _HEADS, kv_heads, "KV heads")
        self.dtype = choice_list("dtype", _PRECISIONS, dtype, "K and V in", "Precision of K and V")
        self.window = choice_list("window", _WINDOWS, window, "Window (tokens)", "Window in tokens")
        self.context = choice_slider(
            "context", CONTEXTS, context, "Mean context (tokens)", "Mean context in tokens"
        )
        self.longest = choice_slider(
            "longest", CONTEXTS, longest, "Longest (tokens)", "Longest request in tokens"
        )
        self.chart = LineChart(
            "Tokens a second, dashed where memory is full",
            Axis("sequences at once", log=True),
            Axis("tokens a second"),
            word="computed",
        )
        self.steps = BarTable(
            "A step with the memory full", {"weights": "weights", "kv": "K and V"}, unit="ms", word="computed"
        )
        self.beside = ipywidgets.HTML()
        self.walls: Walls | None = None
        controls = (
            *(self.model, self.gpu, self.ranks, self.kv_heads),
            *(self.dtype, self.window, self.context, self.longest),
        )
        on_change(self._draw, *controls)
        super().__init__([row(*controls), self.chart, self.steps, self.beside])
        rows = "".join(f"<li>{html.escape(str(published.figure(id)))}</li>" for id in ("d1", "d2"))
        self.beside.value = f"<p>To compare:</p><ul>{rows}</ul>"
        self._draw()

    # ---- inside ------------------------------------------------------------------------------

    def _walls(self, *, changed: bool) -> Walls | str:
        """The walls of the model as published, or with what the reader changed; or why there are none."""
        shape = models.preset(self.model.value)
        weight_bytes, self._weights_word, self._weights_source = weights_of(shape)
        if changed and self.kv_heads.value != _AS_IS:
            shape = with_heads(shape, self.kv_heads.value)
        if changed and self.window.value:
            shape = with_window(shape, self.window.value)
        dtype = self.dtype.value if changed else "bf16"
        gpu = gpus.named(self.gpu.value)
        try:
            return Walls(gpu, shape, weight_bytes, dtype, self.context.value, self.ranks.value)
        except ValueError as error:
            return str(error)

    def _draw(self) -> None:
        plain, now = self._walls(changed=False), self._walls(changed=True)
        self.walls = None if isinstance(now, str) else now
        there = {
            name: walls
            for name, walls in (("as published", plain), ("as set", now))
            if isinstance(walls, Walls) and not (name == "as set" and walls == plain)
        }
        if isinstance(now, str):
            self.chart.show([], caption=f"Nothing runs with what is set: {now}.")
        else:
            full = [walls.sequences for walls in there.values()]
            spread = np.geomspace(min(1.0, *full), 4 * max(full), 60)
            places = sorted({*full, *(round(place) if place > 1 else float(place) for place in spread)})
            lines = [
                Line(name, places, [walls.tokens_per_s(n) for n in places], until=walls.sequences)
                for name, walls in there.items()
            ]
            self.chart.show(
                [*lines, *self._published_point()],
                _drawn_walls(now, self.longest.value),
                caption=self._caption(now),
                cursor=now.sequences,
            )
        self.steps.show([_step_row(name, walls) for name, walls in there.items()])

    def _caption(self, walls: Walls) -> str:
        token = _format.size(walls.rank.kv_bytes(1, walls.dtype))
        fit, bandwidth = walls.capacity, _format.significant(walls.gpu.bandwidth_bytes_s / 1e12)
        return (
            f"A token takes {token} on each GPU; {fit.tokens:,} slots fit beside the weights "
            f"({_format.size(fit.weight_bytes)}, {self._weights_word}: {self._weights_source}) in "
            f"{100 * fit.fraction:g} % of the memory. Only reading counts, at {bandwidth} TB/s "
            f"({walls.gpu.word}); with hundreds of sequences arithmetic is slower still."
        )

    def _published_point(self) -> list[Line]:
        """One request, as it was published, where what is set is what was measured there."""
        measured = self.model.value == "llama-3.1-8b" and self.gpu.value == "h100-sxm"
        unchanged = self.kv_heads.value in (_AS_IS, 8) and not self.window.value and self.ranks.value == 1
        values, dtype = published.figure("d1").values, self.dtype.value
        if not (measured and unchanged and f"{dtype}_floor_ms" in values):
            return []
        ms = values[f"{dtype}_floor_ms"] + values[f"{dtype}_slope_ms"] * self.context.value
        return [Line("one request, d1", [1], [1e3 / ms], "points", word="published")]


def _drawn_walls(walls: Walls, longest: int) -> list[Wall]:
    drawn = [
        Wall(f"memory: {_whole(walls.sequences)} fit", x=walls.sequences),
        Wall(f"bandwidth: never more than {_format.number(walls.most_per_s)} a second", y=walls.most_per_s),
    ]
    if longest > walls.context:
        reserved = walls.reserving(longest)
        drawn.append(Wall(f"without pages, {longest:,} set aside each: {_whole(reserved)}", x=reserved))
    return drawn


def _step_row(name: str, walls: Walls) -> Row:
    kv = walls.sequences * walls.kv_s
    note = (
        f"{_whole(walls.sequences)} sequences, "
        f"{_format.number(walls.tokens_per_s(walls.sequences))} tokens a second"
    )
    return Row(name, (Segment("weights", 1e3 * walls.weights_s), Segment("kv", 1e3 * kv)), note)


def _whole(sequences: float) -> str:
    """As many as run; below one, the part of one that fits."""
    return f"{int(sequences):,}" if sequences >= 1 else f"{_format.significant(sequences)} of one"
