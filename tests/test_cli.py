from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pagedlab import __version__, cli, doctor, lab
from pagedlab.arguments import UsageError
from pagedlab.workloads import WorkloadError

HEAVY = "{'torch', 'triton', 'numba', 'plotly', 'jupyterlab', 'IPython', 'ipywidgets'}"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["bench", "--help"], ["lab", "--help"], ["doctor", "--help"], ["--version"]]
)
def test_help_imports_nothing_heavy(run_python, arguments: list[str]) -> None:
    code = f"""
import atexit, sys
from pagedlab import cli
atexit.register(lambda: print('loaded', sorted({HEAVY} & set(sys.modules))))
sys.exit(cli.main({arguments}))
"""
    ran = run_python("-c", code)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.rstrip().endswith("loaded []")


def test_version(capsys) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"pagedlab {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pagedlab: the following arguments are required: COMMAND"),
        (["bnech"], "pagedlab: argument COMMAND: invalid choice: 'bnech'"),
        (["bench", "--threads", "two"], "pagedlab bench: argument --threads: invalid int value: 'two'"),
        (["bench", "--block-sizes", "1;2"], "'1;2' is not a list of whole numbers such as 1,16,128"),
        (["doctor", "--loud"], "unrecognized arguments: --loud"),
    ],
)
def test_a_mistake_costs_one_line_and_exit_code_2(arguments: list[str], message: str, capsys) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    out, err = capsys.readouterr()
    assert exit_.value.code == 2
    assert out == ""
    assert message in err and err.count("\n") == 1 and "--help" in err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "pagedlab doctor: stopped\n"),
        (
            UsageError("tokens=0: must be at least 1"),
            2,
            "pagedlab doctor: tokens=0: must be at least 1\n",
        ),
        (WorkloadError("a.csv, line 3: no"), 2, "pagedlab doctor: a.csv, line 3: no\n"),
        (lab.LabError("no lessons"), 2, "pagedlab doctor: no lessons\n"),
        (
            FileNotFoundError(2, "No such file", "a.csv"),
            2,
            "pagedlab doctor: [Errno 2] No such file: 'a.csv'\n",
        ),
    ],
)
def test_what_goes_wrong_in_a_command(error, code, said, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(args: object) -> int:
        raise error

    monkeypatch.setattr(doctor, "command", fail)
    assert cli.main(["doctor"]) == code
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("error", [KeyError, ValueError, TypeError, IndexError])
def test_an_error_of_ours_is_not_hidden(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """What no user can cause keeps its traceback."""

    def fail(args: object) -> int:
        raise error("a mistake in the program")

    monkeypatch.setattr(doctor, "command", fail)
    with pytest.raises(error, match="a mistake in the program"):
        cli.main(["doctor"])


def test_a_reader_that_goes_away_is_no_error(child_environment: dict[str, str]) -> None:
    code = """
import sys
from pagedlab import cli, doctor
doctor.examine = lambda: iter([doctor.Check("x", "ok", "y" * 99)] * 9999)
sys.exit(cli.main(["doctor"]))
"""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], env=child_environment, text=True, **pipes) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that takes any bytes for a name")
def test_a_file_name_that_is_no_text_is_shown_as_far_as_it_can_be(run_python, tmp_path: Path) -> None:
    path = os.fsdecode(os.path.join(os.fsencode(tmp_path), b"ev\xff.csv"))
    Path(path).write_text("prompt,output\n10,5\n")
    ran = run_python("-m", "pagedlab", "advise", path, "--html", str(tmp_path / "page.html"))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (
        ran.stdout.startswith("ev\\udcff.csv: ") and "ev\\udcff.csv" in (tmp_path / "page.html").read_text()
    )


@pytest.mark.skipif(os.name != "posix", reason="needs a shell that closes what a command inherits")
def test_a_command_works_without_any_output(child_environment: dict[str, str]) -> None:
    command = f"{sys.executable} -m pagedlab claims --only short-blocks >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], env=child_environment).returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line(child_environment: dict[str, str]) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "pagedlab", "claims", "--only", "short-blocks"],
            env=child_environment, text=True, stdout=full, stderr=subprocess.PIPE,
        )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr == "pagedlab claims: [Errno 28] No space left on device\n"


@pytest.mark.parametrize(
    "arguments", [["advise", "uniform", "--html"], ["claims", "--html"], ["bench", "--record"]]
)
def test_where_nothing_can_be_written_is_said_before_the_work(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    for path, rule in (
        ("no/such/file", "there is no folder"),
        (".", "that is a folder"),
        ("a", "cannot be written"),
    ):
        assert cli.main([*arguments, path]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and f"{arguments[-1]} {path}: {rule}" in err


def test_python_m_pagedlab_is_the_same_command(run_python) -> None:
    ran = run_python("-m", "pagedlab", "doctor", "--json")
    assert json.loads(ran.stdout)["checks"][0]["topic"] == "python"


@pytest.mark.skipif(os.name != "posix", reason="a process elsewhere is not sent a Ctrl-C alone")
def test_ctrl_c_while_a_command_is_imported_is_one_line(run_python) -> None:
    code = """
import os, signal, sys
from pagedlab import cli
class Early:
    def find_spec(self, name, path, target=None):
        if name == "pagedlab.doctor":
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Early())
sys.exit(cli.main(["doctor"]))
"""
    ran = run_python("-c", code)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "pagedlab: stopped\n")
