"""The library's public names as pages: signature, docstring with its examples, and the source one click away.

What is public is what a package lists in `__all__`. Everything is read from the running library, and all of
it is text: a docstring's paragraphs, drawings and doctests become elements, nothing in it is markup.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from html import escape
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from pagedlab import _MODULES, export

_OURS = ("pagedlab", "pagedlab_kernels", "pagedlab_widgets")
PACKAGES = (_OURS[0], *(f"pagedlab.{name}" for name in _MODULES), *_OURS[1:])


@dataclass
class Api:
    """Pages of HTML by their names; where each public name is found, by the name and what it is; the files
    that links named `source.MODULE.html#line-N` lead to, by the module.
    """

    bodies: dict[str, str] = field(default_factory=dict)
    found: dict[tuple[str, str], str] = field(default_factory=dict)
    sources: dict[str, Path] = field(default_factory=dict)


class _Bare(str):
    """An annotation that a signature shows as it was written, without quotes."""

    __repr__ = str.__str__


def read() -> Api:
    """A page that lists the packages, one of each, and the files of source that they lead to.

    >>> api = read()
    >>> next(where for (name, _), where in api.found.items() if name == "BlockManager.free")
    'pagedlab.html#BlockManager.free'
    """
    api = Api()
    modules = {name: import_module(name) for name in PACKAGES}
    rows = (
        f'<dt><a href="{name}.html">{name}</a></dt><dd>{escape(_first(module.__doc__ or ""))}</dd>'
        for name, module in modules.items()
    )
    api.bodies["api"] = f'<div class="api"><h1>The library</h1><dl>{"".join(rows)}</dl></div>'
    for module in modules.values():
        _add(api, module)
    return api


def _add(api: Api, module: ModuleType) -> None:
    page = module.__name__
    # A package has a page of its own.
    things = {name: getattr(module, name) for name in sorted(_public(module), key=str.lower)}
    things = {
        name: each for name, each in things.items() if not (inspect.ismodule(each) or name.startswith("__"))
    }
    names = " ".join(f'<a href="#{name}">{name}</a>' for name in things)
    parts = [f"<h1>{page}</h1>", _prose(module.__doc__ or ""), f'<p class="names">{names}</p>']
    for name, thing in things.items():
        for path, each in [(name, thing), *_members(name, thing)]:
            text = inspect.getdoc(each) or "" if _is_code(each) else ""
            level = 3 if "." in path else 2
            parts.append(f'<h{level} id="{path}"><code>{escape(_head(path, each))}</code>{_link(api, each)}')
            parts.append(f"</h{level}>{_prose(text)}")
            api.found.setdefault((path, _first(text)), f"{page}.html#{path}")
    api.bodies[page] = f'<div class="api">{"".join(parts)}</div>'


def _first(text: str) -> str:
    """A docstring's first paragraph, in one line."""
    return " ".join(text.partition("\n\n")[0].replace("`", "").split())


def _public(module: ModuleType) -> list[str]:
    """What a module lists, or else what it defines."""
    own = [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    ]
    return getattr(module, "__all__", own)


def _members(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """The methods and properties of a class, its own first, and of the classes of ours that it extends."""
    found: dict[str, Any] = {}
    for home in thing.__mro__ if inspect.isclass(thing) else ():
        if home.__module__.partition(".")[0] in _OURS:
            fields = getattr(home, "__dataclass_fields__", {})
            found |= {key: each for key, each in vars(home).items() if key not in found and key not in fields}
    for member, each in found.items():
        plain = each.__func__ if isinstance(each, classmethod | staticmethod) else each
        if not member.startswith("_") and _is_code(plain):
            yield f"{name}.{member}", plain


def _is_code(thing: Any) -> bool:
    """Whether it was written here; a constant has its type's docstring and no source."""
    return inspect.isclass(thing) or inspect.isfunction(_function(thing))


def _function(thing: Any) -> Any:
    """What computes a property; any other thing as it is."""
    if isinstance(thing, property):
        return thing.fget
    return thing.func if isinstance(thing, cached_property) else inspect.unwrap(thing)


def _head(path: str, thing: Any) -> str:
    """A name as one would write it: what it takes and what it returns, or what it is."""
    if not _is_code(thing):
        return f"{path} = {thing!r}"[:200]
    kind = "class " * inspect.isclass(thing)
    if isinstance(thing, type) and issubclass(thing, Enum):
        return f"{kind}{path}: {', '.join(thing.__members__)}"
    try:
        signature = inspect.signature(_function(thing))
    except ValueError:  # an exception has that of its base, which is not Python's
        return kind + path
    returns = _bare(signature.return_annotation)
    if isinstance(thing, property | cached_property):
        return f"{path}: {returns}"
    parameters = [each.replace(annotation=_bare(each.annotation)) for each in signature.parameters.values()]
    if parameters and parameters[0].name in ("self", "cls"):
        del parameters[0]
    text = str(signature.replace(parameters=parameters, return_annotation=returns))
    return kind + path + re.sub(r" at 0x[0-9a-f]+", "", text).removesuffix(" -> None")


def _bare(annotation: Any) -> Any:
    written = getattr(annotation, "__forward_arg__", annotation)
    return _Bare(written) if isinstance(written, str) else written


def _link(api: Api, thing: Any) -> str:
    """The way to the line where it is defined; "" for what has none."""
    code = _function(thing)
    if not _is_code(thing) or code.__module__.partition(".")[0] not in _OURS:
        return ""
    api.sources[code.__module__] = Path(inspect.getsourcefile(code) or "")
    line = inspect.getsourcelines(code)[1]
    return f' <a class="source" href="source.{code.__module__}.html#line-{line}">source</a>'


def _prose(text: str) -> str:
    """A docstring's blocks: examples in colours, drawings and tables as they stand, and paragraphs."""
    parts = []
    for block in filter(None, re.split(r"\n\s*\n", inspect.cleandoc(text))):
        if block.lstrip().startswith(">>>"):
            parts.append(export.highlighted(inspect.cleandoc(block), "pycon"))
        elif re.search("^(?: |==)", block, re.MULTILINE):
            parts.append(f'<pre class="plain" tabindex="0">{escape(block)}</pre>')
        else:
            words = re.sub("`+([^`]+)`+", r"<code>\1</code>", escape(block))
            parts.append(f"<p>{words}</p>")
    return "".join(parts)
