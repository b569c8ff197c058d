"""Hands a learner's code to a fresh Python: cloudpickle, and Triton kernels by their source.

A `@triton.jit` object holds locks and compiled code, which no other process can use. What makes it is its
text and the names that the text refers to, so these travel, and the decorator runs again over there.
"""

from __future__ import annotations

import ast
import inspect
import io
import linecache
import textwrap
from typing import Any

import cloudpickle


def pickled(value: Any) -> bytes:
    """The value for `pickle.loads` in another Python. For handing over only: never read one from outside."""
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        function = getattr(obj, "fn", None)
        if type(obj).__module__.startswith("triton.runtime.") and inspect.isfunction(function):
            source = textwrap.dedent(inspect.getsource(function))
            used = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
            known = {
                name: value
                for name, value in function.__globals__.items()
                if name in used or getattr(value, "__name__", "").startswith("triton")  # it looks for itself
            }
            known.pop(function.__name__, None)
            return _kernel, (source, function.__name__, known)
        return super().reducer_override(obj)


def _kernel(source: str, name: str, known: dict[str, Any]) -> Any:
    """The kernel again. Triton reads its text through `inspect`, which asks the line cache."""
    file = f"<kernel {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {"__name__": "__main__", **known}
    exec(compile(source, file, "exec"), names)
    return names[name]
