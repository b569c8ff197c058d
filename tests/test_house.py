"""The house that the package is built as: imports point down, and the block manager moves integers only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STOREYS = ("kernels", ".", "widgets")
"""Where each package lies, the lowest first."""
PACKAGES = ("pagedlab_kernels", "pagedlab", "pagedlab_widgets")


def modules(package: str) -> dict[str, Path]:
    """The files of a package by the name under which each is imported."""
    home = ROOT / STOREYS[PACKAGES.index(package)]
    found = sorted((home / package).rglob("*.py"))
    named = {".".join(path.relative_to(home).with_suffix("").parts): path for path in found}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


def imports(module: str, path: Path) -> Iterator[str]:
    """What a file imports, in functions and for type checkers too: modules, and names that may be modules."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".") + ["__init__"] * (path.name == "__init__.py")
            above = parts[: -node.level] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            yield from (source, *(f"{source}.{alias.name}" for alias in node.names))


@pytest.mark.parametrize(
    ("package", "above"), [(package, PACKAGES[n + 1 :]) for n, package in enumerate(PACKAGES[:-1])]
)
def test_no_storey_imports_one_above_it(package: str, above: tuple[str, ...]) -> None:
    up = {
        (module, name)
        for module, path in modules(package).items()
        for name in imports(module, path)
        if name.partition(".")[0] in above
    }
    assert not up


def test_nothing_that_the_block_manager_imports_knows_torch() -> None:
    """Not even later, in a function: it returns copies as data, and others make them."""
    library = modules("pagedlab")
    waiting, seen = ["pagedlab.manager"], set()
    while waiting:
        module = waiting.pop()
        if module in seen or module == "pagedlab":  # the package lists every name, and imports none
            continue
        seen.add(module)
        waiting += [name for name in imports(module, library[module]) if name in library]
    assert {"pagedlab.pool", "pagedlab.prefix", "pagedlab.events"} <= seen
    heavy = {(module, name) for module in seen for name in imports(module, library[module])}
    assert not {pair for pair in heavy if pair[1].partition(".")[0] in ("torch", *PACKAGES[::2])}


def test_no_two_test_files_have_one_name():
    """pytest imports them by their bare name: of two it would take one and refuse the other."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
