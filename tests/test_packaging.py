"""The house as it is delivered: what imports what, what a wheel carries, and that it works far from a
clone."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = (
    "torch",
    "triton",
    "numba",
    "llvmlite",
    "plotly",
    "pandas",
    "jupyterlab",
    "ipywidgets",
    "anywidget",
    "IPython",
)
LESSONS = sorted(path.name for path in (ROOT / "lessons").glob("*.ipynb"))
STATIC_FOLDER = ROOT / "widgets/pagedlab_widgets/static"
STATIC = sorted(path.name for path in STATIC_FOLDER.iterdir() if path.suffix in (".js", ".css"))


def test_kernels_and_widgets_are_folders_not_packages() -> None:
    """The bare names belong to other distributions: one of them would shadow the other."""
    assert not (ROOT / "kernels/__init__.py").exists()
    assert not (ROOT / "widgets/__init__.py").exists()
    assert (ROOT / "kernels/pagedlab_kernels/__init__.py").exists()
    assert (ROOT / "widgets/pagedlab_widgets/__init__.py").exists()


@pytest.mark.parametrize(
    "module", ["pagedlab", "pagedlab.cli", "pagedlab.timing", "pagedlab.manager", "pagedlab_kernels"]
)
def test_an_import_stays_light(run_python, module: str) -> None:
    code = f"import sys, {module}; print(sorted(set(sys.modules) & {set(HEAVY)}))"
    ran = run_python("-c", code)
    assert ran.stdout.strip() == "[]", ran.stdout + ran.stderr


def test_the_library_finds_its_lessons_in_a_clone(run_python) -> None:
    ran = run_python("-c", "from pagedlab.lab import shipped_lessons; print(shipped_lessons())")
    assert ran.stdout.strip() == str(ROOT / "lessons"), ran.stderr


def test_the_readme_shows_pictures_that_exist() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert pictures and all((ROOT / picture).is_file() for picture in pictures)


def test_every_folder_of_modules_is_delivered() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {
        ".".join(path.parent.relative_to(home).parts)
        for home, package in ((ROOT, "pagedlab"), (ROOT / "kernels", "pagedlab_kernels"))
        for path in (home / package).glob("**/__init__.py")
    }
    assert found | {"pagedlab._lessons", "pagedlab_widgets"} == set(listed)


def test_binder_installs_every_dependency_by_its_name_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[><=;\s]", line)[0] for line in project["dependencies"]} - {"triton"}
    lines = (ROOT / "binder" / "environment.yml").read_text().splitlines()
    given = {line.removeprefix("  - ").split("=")[0] for line in lines if line.startswith("  - ")}
    assert {"pytorch-cpu" if name == "torch" else name for name in wanted} <= given


def test_every_dependency_has_a_tested_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, separator, version = line.partition("==")
            assert separator and version, f"constraints.txt: {line!r} is not NAME==VERSION"
            assert "+" not in version, f"constraints.txt: {line!r} names one build of a version"
            pinned[name.lower().replace("_", "-")] = version
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {text.split(";")[0].split(">")[0].split("=")[0].strip().lower() for text in wanted}
    assert names <= set(pinned)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the tree, so that nothing is left behind in it."""
    folder = tmp_path_factory.mktemp("wheel")
    kept_out = shutil.ignore_patterns(
        ".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache"
    )
    shutil.copytree(ROOT, folder / "tree", ignore=kept_out)
    pytest.importorskip("setuptools", minversion="77")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    build += ["--wheel-dir", str(folder), "."]
    subprocess.run(build, cwd=folder / "tree", check=True, capture_output=True, timeout=600)
    (built,) = folder.glob("pagedlab-*.whl")
    return built


@pytest.mark.slow
def test_a_wheel_carries_three_packages_the_lessons_and_the_widgets_files(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"pagedlab/__init__.py", "pagedlab_kernels/__init__.py", "pagedlab_widgets/__init__.py"} <= names
    assert LESSONS and {f"pagedlab/_lessons/{name}" for name in LESSONS} <= names
    assert STATIC and {f"pagedlab_widgets/static/{name}" for name in STATIC} <= names
    shipped = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "pagedlab/data").rglob("*") if path.is_file()
    }
    assert shipped <= names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "pagedlab",
        "pagedlab_kernels",
        "pagedlab_widgets",
    }


@pytest.mark.slow
def test_an_unpacked_wheel_works_far_from_the_clone(wheel: Path, tmp_path: Path, run_python) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    elsewhere = tmp_path / "some where"
    elsewhere.mkdir()
    ran = run_python("-m", "pagedlab", "lab", "--copy-only", cwd=elsewhere, PYTHONPATH=str(tmp_path / "site"))
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in (elsewhere / "pagedlab-lessons").glob("*.ipynb")) == LESSONS
