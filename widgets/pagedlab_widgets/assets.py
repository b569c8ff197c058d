"""The JavaScript and CSS of the widgets, as the browser gets them.

A widget travels as *one* module, yet its source is several small ones: what only computes can then be
tested without a browser, and what two widgets share is written once. `script` joins them when a widget
class is made. It is no bundler: it knows `import { a, b } from "./x.js";` and `export` before a
declaration, and refuses anything else.
"""

from __future__ import annotations

import re
from pathlib import Path

STATIC = Path(__file__).parent / "static"

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let)\b)", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b(?! default\b).*$", re.MULTILINE)


def script(name: str) -> str:
    """The module `name` of the static folder with every module it imports in front of it, each once.

    >>> "import " in script("block_map.js").partition("export default")[0].replace("important ", "")
    False
    """
    parts: list[str] = []
    _collect(name, parts, set())
    return "\n".join(parts)


def style(*names: str) -> str:
    """The style sheets `names` of the static folder, one after the other."""
    return "\n".join((STATIC / name).read_text(encoding="utf-8") for name in names)


def _collect(name: str, parts: list[str], seen: set[str]) -> None:
    if name in seen:
        return
    seen.add(name)
    source = (STATIC / name).read_text(encoding="utf-8")
    for wanted in _IMPORT.findall(source):
        _collect(wanted, parts, seen)
    source = _EXPORT.sub("", _IMPORT.sub("", source))
    if other := _OTHER.search(source):
        raise ValueError(
            f'{name}: cannot join {other[0]!r}; write import {{ a, b }} from "./x.js" or export a declaration'
        )
    parts.append(f"// {name}\n{source}")
