"""pagedlab: the limits and the cost of PagedAttention, as experiments that run on your own machine.

The names below are the ones that lessons and learners use. They are looked up when first needed, so
that `import pagedlab` takes neither torch nor a plotting library with it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pagedlab._env import prepare

__version__ = "0.1.0"

_HOMES = {
    "pagedlab.manager": ("BlockManager",),
    "pagedlab.asking": ("Admission", "Allocation", "Growth", "released_blocks"),
    "pagedlab.errors": (
        "CacheInUse",
        "DuplicateSequence",
        "OutOfBlocks",
        "SwappedSequence",
        "UnknownSequence",
    ),
    "pagedlab.eviction": ("ByPriority", "LeastRecentlyFreed"),
    "pagedlab.prefix": ("End", "Match"),
    "pagedlab.events": ("EventLog", "PoolState"),
    "pagedlab.usage": ("Usage", "Waste"),
    "pagedlab.table": ("csr_table", "padded_table"),
    "pagedlab.models": ("LayerGroup", "ModelShape"),
    "pagedlab.cache": ("PagedKVCache",),
    "pagedlab.sizing": ("Capacity", "agree_on_blocks", "capacity"),
    "pagedlab.workloads": ("Workload",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = (
    "advice", "claims", "exercises", "museum", "parallel", "published", "recorders", "serving", "timing",
    "waste", "workloads",
)  # fmt: skip

__all__ = [
    "Admission", "Allocation", "BlockManager", "ByPriority", "CacheInUse", "Capacity", "DuplicateSequence",
    "End", "EventLog", "Growth", "LayerGroup", "LeastRecentlyFreed", "Match", "ModelShape", "OutOfBlocks",
    "PagedKVCache", "PoolState", "SwappedSequence", "UnknownSequence", "Usage", "Waste", "Workload",
    "__version__", "advice", "agree_on_blocks", "capacity", "claims", "csr_table", "exercises", "museum",
    "padded_table", "parallel", "published", "released_blocks", "recorders", "serving", "timing", "waste",
    "workloads",
]  # fmt: skip

if TYPE_CHECKING:
    from pagedlab import (
        advice,
        claims,
        exercises,
        museum,
        parallel,
        published,
        recorders,
        serving,
        timing,
        waste,
        workloads,
    )
    from pagedlab.asking import Admission, Allocation, Growth, released_blocks
    from pagedlab.cache import PagedKVCache
    from pagedlab.errors import (
        CacheInUse,
        DuplicateSequence,
        OutOfBlocks,
        SwappedSequence,
        UnknownSequence,
    )
    from pagedlab.events import EventLog, PoolState
    from pagedlab.eviction import ByPriority, LeastRecentlyFreed
    from pagedlab.manager import BlockManager
    from pagedlab.models import LayerGroup, ModelShape
    from pagedlab.prefix import End, Match
    from pagedlab.sizing import Capacity, agree_on_blocks, capacity
    from pagedlab.table import csr_table, padded_table
    from pagedlab.usage import Usage, Waste
    from pagedlab.workloads import Workload

prepare()


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name]), name)
    elif name in _MODULES:
        value = import_module(f"pagedlab.{name}")
    else:
        raise AttributeError(f"module 'pagedlab' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
