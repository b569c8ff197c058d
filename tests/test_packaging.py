"""The house as it is delivered: what imports what, what a wheel carries, and that it works far from a
clone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path
from urllib.request import urlopen

import pytest
from packaging.specifiers import SpecifierSet

from pagedlab import __version__
from pagedlab.lab import FIRST_LESSON, MANIFEST, SETTINGS, WRITTEN

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


def pinned() -> dict[str, str]:
    versions = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, separator, version = line.partition("==")
            assert separator and version, f"constraints.txt: {line!r} is not NAME==VERSION"
            assert "+" not in version, f"constraints.txt: {line!r} names one build of a version"
            versions[name.lower().replace("_", "-")] = version
    return versions


def test_every_dependency_has_a_tested_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {text.split(";")[0].split(">")[0].split("=")[0].strip().lower() for text in wanted}
    assert names <= set(pinned())


def test_every_tested_version_takes_the_oldest_python() -> None:
    """Debian's Python is 3.11.2: one package that asks for 3.11.5 and nothing can be installed there."""
    oldest = "3.11.0"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"
    here = {each.name.lower().replace("_", "-"): each for each in distributions()}
    tested = [
        here[name] for name, version in pinned().items() if name in here and here[name].version == version
    ]
    asked = {each.name: SpecifierSet(each.metadata.get("Requires-Python", "")) for each in tested}
    assert tested and not {name: str(asks) for name, asks in asked.items() if oldest not in asks}


def test_what_looks_at_a_commit_has_the_tested_versions() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    hooks = dict(re.findall(r"repo: \S+/([\w-]+)\n +rev: v?(\S+)", text))
    assert set(hooks) == {"ruff-pre-commit", "codespell", "nbstripout"}
    assert (hooks["ruff-pre-commit"], hooks["codespell"]) == (pinned()["ruff"], pinned()["codespell"])


def test_the_version_is_the_same_wherever_it_is_written() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest and newest[1] == __version__


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree to build from, so that nothing is left behind in it."""
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("clone")
    kept_out = shutil.ignore_patterns(
        ".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache"
    )
    shutil.copytree(ROOT, folder / "tree", ignore=kept_out)
    return folder / "tree"


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    build += ["--wheel-dir", str(folder), "."]
    subprocess.run(build, cwd=tree, check=True, capture_output=True, timeout=600)
    (built,) = folder.glob("pagedlab-*.whl")
    return built


def delivered() -> set[str]:
    """Every file of the tree that belongs in a wheel, by its name there."""
    homes = {
        "pagedlab": ROOT / "pagedlab",
        "pagedlab/_lessons": ROOT / "lessons",
        "pagedlab_kernels": ROOT / "kernels/pagedlab_kernels",
        "pagedlab_widgets": ROOT / "widgets/pagedlab_widgets",
    }
    own = {*WRITTEN, "package.json"}  # what lessons write, and a note to node that these are modules
    return {
        f"{name}/{path.relative_to(home).as_posix()}"
        for name, home in homes.items()
        for path in home.rglob("*")
        if path.is_file()
        and path.name not in own
        and not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts)
        and path.suffix not in (".nbi", ".nbc")
    }


@pytest.mark.slow
def test_a_wheel_carries_every_file_of_the_house_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == delivered()
    assert {"pagedlab/_lessons/glossary.md", *(f"pagedlab/_lessons/{name}" for name in LESSONS)} <= names
    assert STATIC and {f"pagedlab_widgets/static/{name}" for name in STATIC} <= names


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where pip put the wheel; what it depends on is this environment's."""
    folder = tmp_path_factory.mktemp("installed") / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", str(folder), str(wheel)], check=True, capture_output=True)
    return folder


@pytest.mark.slow
def test_an_installed_wheel_works_far_from_the_clone(installed: Path, tmp_path: Path, run_python) -> None:
    elsewhere = tmp_path / "some where"
    elsewhere.mkdir()
    here = {"cwd": elsewhere, "PYTHONPATH": str(installed)}
    ran = run_python("-c", "import pagedlab; print(pagedlab.__file__)", **here)
    assert Path(ran.stdout.strip()).is_relative_to(installed), ran.stderr
    ran = run_python("-m", "pagedlab", "lab", "--copy-only", **here)
    assert ran.returncode == 0, ran.stderr
    copied = {path.name for path in (elsewhere / "pagedlab-lessons").iterdir()}
    assert copied == {*LESSONS, "glossary.md", "TEACHING.md", MANIFEST}
    pytest.importorskip("torch")
    ran = run_python("-m", "pagedlab", "doctor", "--json", **here)
    checks = {check["topic"]: check for check in json.loads(ran.stdout)["checks"]}
    assert checks["lessons"]["status"] == checks["widgets"]["status"] == "ok", ran.stdout
    assert str(installed) in checks["lessons"]["found"]


@pytest.mark.slow
def test_nothing_is_needed_of_a_home_that_cannot_be_written(
    installed: Path, tmp_path: Path, run_python
) -> None:
    """A home below a file: root, too, can make no folder there."""
    (tmp_path / "a file").touch()
    home = str(tmp_path / "a file" / "home")
    here = {"PYTHONPATH": str(installed), "HOME": home, "USERPROFILE": home, "XDG_CACHE_HOME": home}
    for module in ("torch", "numba"):
        pytest.importorskip(module)
    ran = run_python("-m", "pagedlab", "doctor", "--json", **here)
    checks = {check["topic"]: check for check in json.loads(ran.stdout)["checks"]}
    assert checks["folders"]["status"] == "limited" and home in checks["folders"]["found"]
    assert "answers as the reference does" in checks["cpu kernel"]["found"], ran.stdout
    assert run_python("-m", "pagedlab", "lab", "--copy-only", **here).returncode == 0


@pytest.mark.slow
def test_an_installed_wheel_serves_its_lessons(
    installed: Path, tmp_path: Path, child_environment: dict[str, str]
) -> None:
    pytest.importorskip("jupyterlab")
    folder, runtime = tmp_path / "mine", tmp_path / "runtime"
    environment = {**child_environment, "PYTHONPATH": str(installed), "JUPYTER_RUNTIME_DIR": str(runtime)}
    start = [sys.executable, "-m", "pagedlab", "lab", str(folder), "--no-browser", "--port", "0"]
    with subprocess.Popen(
        start, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            at = running_server(server, runtime)
            with urlopen(f"{at['url']}api/contents/{FIRST_LESSON}?token={at['token']}") as answer:
                assert json.load(answer)["type"] == "notebook"
        finally:
            server.terminate()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Binder is a Linux machine")
def test_binders_steps_install_copy_and_hand_over(
    tree: Path, tmp_path: Path, child_environment: dict[str, str]
) -> None:
    """But for the environment and the network: pip builds with the tools that are here."""
    site = tmp_path / "site"
    environment = {
        **child_environment,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(site),
        **{"PIP_TARGET": str(site), "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"},
    }

    def step(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=600)

    built = step("binder/postBuild")
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tree / "pagedlab-lessons" / FIRST_LESSON).is_file() and (site / "pagedlab").is_dir()
    started = step("binder/start", "bash", "-c", 'echo "$JUPYTER_CONFIG_PATH"; exit 7')
    assert started.returncode == 7, started.stderr
    assert started.stdout.strip().split(":")[0].endswith(SETTINGS.relative_to(ROOT).as_posix())
    assert (ROOT / "binder/start").read_text().rstrip().endswith('exec "$@"')


def running_server(process: subprocess.Popen[str], runtime: Path) -> dict[str, str]:
    """What the server wrote about itself, once it answers."""
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        for file in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(OSError, ValueError):
                at = json.loads(file.read_text())
                urlopen(f"{at['url']}api?token={at['token']}").close()
                return at
        time.sleep(0.05)
    raise AssertionError(f"no server: exit code {process.poll()}")
