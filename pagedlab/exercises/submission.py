"""A learner's answer: found in a file without running it, and run where it does no harm.

A lesson asks for an answer with `exercises.check("waste", my_waste)`. So the last such call in a file names
the answer to an exercise; where there is none, the name that the lesson uses does. What is run is that
expression and the statements which define what it needs, among them imports, not the rest of the file: no
plot, no measurement, no check.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import linecache
import os
import re
import symtable
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONGEST = 500_000
"""Characters of code in a file."""
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def read(data: bytes, name: str, usual: Mapping[str, str]) -> dict[str, Any]:
    """The answers in one file, as plain data; `usual` has the name of each exercise's answer in its lesson.

    "source" is the code; "found" has the expression and a digest of what it rests on by exercise, "broken" an
    exercise of which only code is there that does not parse, and why. Call it in a child: a text can be made
    to bring down Python's parser. Raises ValueError for a file that is no notebook or holds too much.

    >>> read(b"def my_waste(n, b, r): ...", "a.py", {"waste": "my_waste"})["found"]
    {'waste': ['my_waste', '...']}
    """
    pieces, broken = [], dict[str, str]()
    for piece in _cells(data) if name.endswith(".ipynb") else [data.decode("utf-8-sig")]:
        try:
            pieces.append(_parsing(piece))
        except SyntaxError as error:
            why = f"SyntaxError: {error.msg}: {(error.text or '').strip()[:80]}"
            broken |= {e: why for e, answer in usual.items() if re.search(rf"\b{answer}\b", piece)}
    source = "\n".join(pieces)
    if len(source) > LONGEST:
        raise ValueError(f"more than {LONGEST:,} characters of code")
    tree = ast.parse(source)
    defined = set[str]().union(*map(_binds, tree.body))
    answers = {exercise: answer for exercise, answer in usual.items() if answer in defined} | _checked(tree)
    found = {exercise: [answer, _digest(tree, answer)] for exercise, answer in answers.items()}
    return {"source": source, "found": found, "broken": {e: broken[e] for e in broken.keys() - found}}


@dataclass(frozen=True)
class Submission:
    """An answer that makes itself from its text when it is first called, confined to `folder`.

    It refuses to do so in the process `grader`.
    """

    source: str
    answer: str
    file: str
    folder: str
    seconds: float
    grader: int

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _made(self)(*arguments, **named)

    def makes(self) -> bool:
        """Whether it can be made; raises what its code raises, TypeError for what cannot be called."""
        if not callable(_made(self)):
            raise TypeError(f"{self.answer} is neither a function nor a class")
        return True


@functools.lru_cache(maxsize=1)
def _made(handed_in: Submission) -> Any:
    if os.getpid() == handed_in.grader:
        raise RuntimeError("a learner's code never runs in the grader's own process")
    from pagedlab.exercises import sandbox

    sandbox.enter(handed_in.folder, handed_in.seconds)
    for name in [name for name in sys.modules if name.startswith("pagedlab.exercises.solutions")]:
        sys.modules[name] = None  # type: ignore[assignment]  # ours are not to be handed in
    file, source = f"<{handed_in.file}>", handed_in.source
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "__main__"}
    needed = _needed(ast.parse(source), handed_in.answer)
    exec(compile(ast.Module(needed, []), file, "exec"), names)
    return eval(handed_in.answer, names)


# -- Reading.


def _cells(data: bytes) -> list[str]:
    try:
        cells = json.loads(data)["cells"]
        texts = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
        return [text if isinstance(text, str) else "".join(text) for text in texts]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"no notebook: {type(error).__name__}: {error}") from None


def _parsing(piece: str) -> str:
    """The piece, without the lines that only IPython reads where it does not parse with them."""
    try:
        ast.parse(piece)
    except SyntaxError:
        piece = re.sub(r"(?m)^\s*[%!?].*$", "", piece)
        ast.parse(piece)
    return piece


def _checked(tree: ast.Module) -> dict[str, str]:
    """Exercise and answer of every `check` with both; the last one counts."""
    answers = {}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) > 1]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        match call:
            case ast.Call(
                func=ast.Name(id="check") | ast.Attribute(attr="check"),
                args=[ast.Constant(str(exercise)), answer, *_],
            ):
                answers[exercise] = ast.unparse(answer)
    return answers


def _needed(tree: ast.Module, answer: str) -> list[ast.stmt]:
    """The statements of the file that define what the answer needs, in their order."""
    binds = [_binds(node) for node in tree.body]
    wanted, kept = _names(ast.parse(answer)) | {"*"}, set[int]()
    while new := {n for n, names in enumerate(binds) if names & wanted} - kept:
        kept |= new
        wanted |= set[str]().union(*(_names(tree.body[n]) for n in new))
    return [tree.body[n] for n in sorted(kept)]


def _binds(statement: ast.stmt) -> set[str]:
    """Names that a statement gives a value to, or an item or attribute; "*" for a star import."""
    if isinstance(statement, _FUNCTIONS):
        return {statement.name}
    if isinstance(statement, ast.Expr) or getattr(statement, "module", "") == "__future__":
        return set()
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, _FUNCTIONS):
            names.add(node.name)
        elif isinstance(getattr(node, "ctx", None), ast.Store):
            while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
                node = node.value
            names |= {node.id} if isinstance(node, ast.Name) else set()
    return names


def _names(node: ast.AST) -> set[str]:
    """Names of the module that it uses; those of its functions' own are none."""
    names, tables = set(), [symtable.symtable(ast.unparse(node), "", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        outside = table.get_type() == "module"
        names |= {
            s.get_name() for s in table.get_symbols() if (s.is_referenced() if outside else s.is_global())
        }
    return names


def _digest(tree: ast.Module, answer: str) -> str:
    text = "\n".join(map(ast.dump, [*_needed(tree, answer), ast.parse(answer)]))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
