"""`pagedlab grade`: one row for each learner and exercise, whatever was handed in and whatever it does."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pagedlab import exercises, grade
from pagedlab.exercises import handed_in, runner, sandbox, submission
from pagedlab.lab import copy_lessons, shipped_lessons

if not hasattr(os, "fwalk"):
    pytest.skip("grading asks for processes with limits", allow_module_level=True)

RIGHT = "sum(-n % block_size for n in lengths), sum(reserve_to - n for n in lengths)"
SOLVED = f"def my_waste(lengths, block_size, reserve_to):\n    return {RIGHT}\n"
FORGES = """
import os, sys, time
def my_waste(*given):
    frame = sys._getframe()
    while "token" not in frame.f_locals:
        frame = frame.f_back
    while True:
        os.write(3, (frame.f_locals["token"] + '{"items": {"MESSAGE"}}\\n').encode())
        time.sleep(0.05)
"""


def doing(*lines):
    """An answer that is right and does more."""
    start = "import os, shutil, socket, time\ndef my_waste(lengths, block_size, reserve_to):"
    return "\n    ".join([start, *lines, f"return {RIGHT}"])


def hand_in(folder, **files):
    """A learner's folder; a suffix is the last part of a name."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / ".".join(name.rsplit("_", 1))
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def notebook(*cells):
    kinds = [{"cell_type": "markdown", "source": "def my_waste(): prose"}]
    return json.dumps({"cells": kinds + [{"cell_type": "code", "source": each} for each in cells]})


def row_of(folder, exercise="waste", seconds=5.0):
    (learner,) = handed_in.read_class(folder, 7)
    return grade.grade(learner, replace(exercises.get(exercise), seconds=seconds))


# -- What counts as an answer.


@pytest.mark.parametrize("name", ["solutions_py", "anything_ipynb"])
def test_an_answer_is_found_in_a_module_or_a_notebook(tmp_path, name):
    content = SOLVED if name.endswith("py") else notebook("1 / 0", SOLVED)
    hand_in(tmp_path / "ada" / "week 1", **{name: content})
    row = row_of(tmp_path)
    assert (row.status, row.passed, row.total, row.why) == (grade.RIGHT, 6, 6, "")
    assert row.learner == "ada" and row.file == f"week 1/{name.replace('_', '.')}"


def test_the_name_that_is_checked_last_counts_and_what_it_needs_comes_along(tmp_path):
    cells = [
        "%matplotlib inline\nimport math as m\nfrom dataclasses import dataclass",
        "raise SystemExit('a cell that has nothing to do with it')",
        "x = n = 1 / 0  # whoever has such names of their own does not mean these",
        "STEP, table = 0, {}\ntable['x'] = 1\n@dataclass\nclass Both:\n    x: int\n",
        "def mine(*n):\n    assert m.pi and Both(1).x == table['x'] == STEP + 1\n    return theirs(*n)",
        "def theirs(n, b, r):\n    return sum(-x % b for x in n), len(n) * r - sum(n)",
        "exercises.check('waste', STEP)\nexercises.check('waste', mine)",
        "broken(",
    ]
    hand_in(tmp_path / "ada", a_ipynb=notebook(*cells))
    assert row_of(tmp_path).status == grade.RIGHT


def test_lessons_as_they_were_given_are_not_handed_in(tmp_path):
    copy_lessons(tmp_path / "ada" / "lessons")
    (ada,) = handed_in.read_class(tmp_path, 7)
    assert {grade.grade(ada, exercises.get(name)).status for name in exercises.names()} == {grade.MISSING}


def test_every_lesson_says_what_its_answers_are_called():
    found = {}
    for lesson in shipped_lessons().glob("*.ipynb"):
        found |= submission.read(lesson.read_bytes(), lesson.name, {})["found"]
    assert set(found) == set(exercises.names())


def test_what_the_museum_exercise_gives_is_a_mutation_score(tmp_path):
    batch = "Batch([1, 5, 16, 0, 41], heads=4, kv_heads=2, scale=0.35, shuffled=True, poisoned=True)"
    code = f"from pagedlab.museum import Batch\ndef my_test(kernel):\n    {batch}.check(kernel)\n"
    hand_in(tmp_path / "ada", solutions_py=code)
    row = row_of(tmp_path, "bug-museum", seconds=60)
    assert row.status == grade.RIGHT and 0.75 * row.total <= row.passed < row.total
    assert row.score.startswith(f"mutation score {row.passed} of {row.total}: ")


def test_a_wrong_answer_comes_with_the_mistake_and_with_inputs_that_can_be_tried_again(tmp_path):
    one_too_many = "sum((x // b + 1) * b - x for x in n), sum(r - x for x in n)"
    hand_in(tmp_path / "ada", solutions_py=f"def my_waste(n, b, r):\n    return {one_too_many}\n")
    row = row_of(tmp_path)
    assert row.status == grade.WRONG and row.passed < row.total and "one too many" in row.mistake
    assert row.why.startswith("the smallest input that was found to fail: tried lengths=[")
    assert row == row_of(tmp_path)
    same = exercises.check("waste", eval(f"lambda n, b, r: ({one_too_many})"), seed=row.seed, progress=None)
    assert same.to_dict() == row.report


def test_learners_have_seeds_of_their_own(tmp_path):
    for name in "ab":
        hand_in(tmp_path / name, solutions_py=SOLVED)
    first, second = (learner.seed for learner in handed_in.read_class(tmp_path, 7))
    assert first != second
    assert [learner.seed for learner in handed_in.read_class(tmp_path, 8)] != [first, second]


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({"exercises": {"waste": {"solved": True}}}, "agrees"),
        ({"exercises": {"waste": {"solved": False}}}, "says not solved"),
        ({"exercises": {}}, ""),
        ({"exercises": {"waste": 3}}, "cannot be read"),
        ([], "cannot be read"),
    ],
)
def test_the_learners_own_progress_is_compared_and_not_believed(tmp_path, kept, said):
    hand_in(tmp_path / "ada", solutions_py=SOLVED, progress_json=json.dumps(kept))
    assert row_of(tmp_path).progress == said


def test_a_claim_without_an_answer_is_told(tmp_path):
    kept = json.dumps({"exercises": {"kv-bytes": {"solved": True}}})
    hand_in(tmp_path / "ada", solutions_py=SOLVED, progress_json=kept)
    row = row_of(tmp_path, "kv-bytes")
    assert (row.status, row.progress) == (grade.MISSING, "says solved")


# -- What cannot be run, and why.

UNFIT = {
    "no Python": ({"solutions_py": "def my_waste(n:\n"}, "solutions.py: SyntaxError: "),
    "no notebook": ({"a_ipynb": "{"}, "a.ipynb: ValueError: no notebook: JSONDecodeError"),
    "brackets": ({"a_ipynb": "[" * 200_000}, "a.ipynb: ValueError: no notebook: RecursionError"),
    "no cells": ({"a_ipynb": '{"cells": [3]}'}, "a.ipynb: ValueError: no notebook: TypeError"),
    "no text": ({"solutions_py": b"\xff\xfe"}, "solutions.py: UnicodeDecodeError"),
    "too much code": ({"solutions_py": SOLVED + "#" * submission.LONGEST}, "more than 500,000 characters"),
    "deep code": ({"solutions_py": SOLVED + "x = " + "-" * 400_000 + "1"}, "solutions.py: "),
    "another module": ({"solutions_py": f"import helpers\n{doing('helpers')}"}, "No module named 'helpers'"),
    "ours": (
        {"solutions_py": "from pagedlab.exercises.solutions.waste import solution as my_waste"},
        "import of pagedlab.exercises.solutions.waste halted",
    ),
    "no function": (
        {"solutions_py": "my_waste = 3"},
        "neither a function nor a class",
    ),
    "raises at once": (
        {"solutions_py": "my_waste = {}['x']"},
        "KeyError: 'x' (line 1 of <module>: my",
    ),
    "ends at once": (
        {"solutions_py": "import os\nmy_waste = os._exit(0)"},
        "(exit code 0)",
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_cannot_be_run_says_why(tmp_path, case):
    files, words = UNFIT[case]
    hand_in(tmp_path / "ada", **files)
    row = row_of(tmp_path)
    assert row.status == grade.NOT_RUN and words in row.why and row.report is None


def test_a_notebook_that_cannot_be_read_concerns_its_own_lesson(tmp_path):
    lesson = tmp_path / "ada" / "04-how-big-is-a-token.ipynb"
    hand_in(lesson.parent)
    lesson.write_text("no JSON")
    assert row_of(tmp_path, "kv-bytes").status == grade.NOT_RUN
    assert row_of(tmp_path, "waste").status == grade.MISSING


def test_no_link_is_followed_and_only_files_of_a_sensible_size_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(handed_in, "_LARGEST", 1 << 20)
    outside = tmp_path / "outside.py"
    outside.write_text(SOLVED)
    folder = hand_in(tmp_path / "class" / "ada", fine_py=SOLVED)
    (folder / "link.py").symlink_to(outside)
    (folder / "linked").symlink_to(tmp_path)
    (folder.parent / "eve").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.py")
    with (folder / "huge.py").open("wb") as file:
        file.truncate(1 << 40)
    ada, eve = handed_in.read_class(folder.parent, 7)
    assert set(ada.answers) == {"waste"} and not eve.answers
    linked = "a link, which is not followed"
    whys = [
        "huge.py: has more than 1.00 MiB",
        f"link.py: {linked}",
        f"linked: {linked}",
        "pipe.py: is no file",
    ]
    assert sorted(ada.troubles["kv-bytes"].split("; ")) == whys
    assert eve.troubles["waste"] == f"eve: {linked}"


# -- What is handed in to do harm.

HOSTILE = {
    "loops": (doing("while True: pass"), grade.NOT_RUN, "no answer within 1 seconds"),
    "floods": (doing("while True: print('x' * 10**6)"), grade.NOT_RUN, ""),
    "exits": (doing("os._exit(3)"), grade.NOT_RUN, "exit code 3"),
    "eats": (doing("bytearray(16 << 30)"), grade.WRONG, "MemoryError"),
    "deletes": (doing("os.remove('solutions.py')"), grade.WRONG, "No such file"),
    "resets": (FORGES.replace('"MESSAGE"', '"ready": true'), grade.NOT_RUN, "no answer within 1 seconds"),
    "forges": (FORGES.replace('"MESSAGE"', '"value": {"items": {"x": 1}}'), grade.WRONG, "got {'x': 1}"),
    "leaves": (
        doing("if not os.fork():", "  os.setsid()", "  if not os.fork(): time.sleep(600)", "  os._exit(0)"),
        grade.RIGHT,
        "",
    ),
    "peeks": (
        doing(
            "assert 'SECRET' not in os.environ and os.environ['HOME'] == os.getcwd()",
            "block = '/proc/self/environ'",
            "assert not os.path.exists(block) or 'SECRET' not in open(block).read()",
        ),
        grade.RIGHT,
        "",
    ),
}
LOCKED = {
    "writes": (doing("open('CLASS/good/solutions.py', 'a')"), grade.WRONG, "Permission denied"),
    "removes": (doing("shutil.rmtree('CLASS')"), grade.WRONG, "Permission denied"),
    "kills": (doing("os.kill(os.getppid(), 9)"), grade.WRONG, "Operation not permitted"),
    "calls": (doing("socket.create_connection(('127.0.0.1', 9))"), grade.WRONG, "Permission denied"),
}
if sandbox._landlock() >= 6:
    HOSTILE |= LOCKED
NAMES = ("=cmd()", "-1+1", "two\nlines", "\x1b[2Jred", "‮evil", os.fsdecode(b"\xff"), "good")


def run_grade(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SECRET": "SECRET"}
    line = [sys.executable, "-m", "pagedlab", "grade", str(folder), "--seed", "7", *arguments]
    # A job in the background is started deaf to Ctrl-C, and so would be what it starts.
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(line, env=environment, text=True, **pipes)
    finally:
        signal.signal(signal.SIGINT, heard)


def contents(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def processes_that_sleep():
    lines = [path for path in Path("/proc").glob("[0-9]*/cwd") if path.is_symlink()]
    return [link for link in lines if "pagedlab-grade-" in os.readlink(link)]


@pytest.fixture(scope="module")
def hostile_class(tmp_path_factory):
    folder = tmp_path_factory.mktemp("class")
    for name, (code, _, _) in HOSTILE.items():
        hand_in(folder / name, solutions_py=code.replace("CLASS", str(folder)))
    for name in NAMES:
        hand_in(folder / name, solutions_py=SOLVED)
    before = contents(folder)
    ran = run_grade(folder, "--seconds", "1", "--json")
    out, err = ran.communicate(timeout=300)
    assert ran.returncode == 0, err
    assert contents(folder) == before, "nothing in the class's folder may change"
    return json.loads(out), err


def test_a_hostile_class_has_a_row_for_everything(hostile_class):
    record, err = hostile_class
    rows = {(row["learner"], row["exercise"]): row for row in record["rows"]}
    assert record["complete"] is True and record["seed"] == 7
    assert set(rows) == {(name, each) for name in [*HOSTILE, *NAMES] for each in exercises.names()}
    assert all(rows[name, "waste"]["status"] == grade.RIGHT for name in NAMES)
    assert {row["status"] for row in record["rows"] if row["exercise"] != "waste"} == {grade.MISSING}
    assert len(err.splitlines()) == len(sandbox.gaps())


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_an_answer_does_it_is_one_clear_row(hostile_class, name):
    _, status, words = HOSTILE[name]
    rows = hostile_class[0]["rows"]
    row = next(row for row in rows if (row["learner"], row["exercise"]) == (name, "waste"))
    assert row["status"] == status and words in row["why"], row


def test_a_file_may_have_a_sensible_size(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "_FILE_BYTES", 1 << 16)
    hand_in(tmp_path / "ada", solutions_py=doing("open('x', 'wb').write(bytes(1 << 17))"))
    row = row_of(tmp_path)
    assert row.status == grade.WRONG and "File too large" in row.why


def test_no_process_of_a_submission_is_left(hostile_class):
    assert processes_that_sleep() == []


def test_ctrl_c_ends_it_and_keeps_what_is_known(tmp_path):
    hand_in(tmp_path / "a", solutions_py=SOLVED)
    hand_in(tmp_path / "b", solutions_py="while True: pass\n" + doing("while True: pass"))
    ran = run_grade(tmp_path, "--csv", "--seconds", "600")
    try:
        read = [ran.stdout.readline() for _ in range(1 + len(exercises.names()))]
        ran.send_signal(signal.SIGINT)
        out, err = ran.communicate(timeout=60)
    finally:
        ran.kill()
    rows = list(csv.DictReader(io.StringIO("".join(read) + out)))
    assert ran.returncode == 130 and err.endswith("pagedlab grade: stopped\n")
    assert [row["status"] for row in rows] == [grade.RIGHT] + [grade.MISSING] * 13
    assert processes_that_sleep() == []


# -- How it reads.

NAME = "=a\n\x1b[2J"
ROW = grade.Row(NAME, "waste", grade.WRONG, 1, 6, "1 of 6", "@hint", "+why", "a.py", 3, "says solved")


def test_a_spreadsheet_takes_no_name_for_a_formula_and_a_terminal_obeys_none(capsys):
    grade._csv()(ROW)
    header, row = csv.reader(io.StringIO(capsys.readouterr().out))
    assert dict(zip(header, row, strict=True)) == {
        **{"learner": r"'=a\n\x1b[2J", "exercise": "waste", "status": "wrong", "passed": "1", "total": "6"},
        **{"score": "1 of 6", "mistake": "'@hint", "why": "'+why", "file": "a.py", "seed": "3"},
        "progress": "says solved",
    }
    grade._text(ROW)
    out = capsys.readouterr().out
    assert " ".join(out.split()) == r"=a\n\x1b[2J waste wrong 1 of 6; progress.json says solved @hint +why"
    assert "\x1b" not in out


def test_the_summary_counts_and_names_the_mistakes():
    other = replace(ROW, exercise="kv-bytes", mistake="x")
    lines = grade.summary([ROW, ROW, replace(ROW, status=grade.RIGHT, mistake=""), other]).splitlines()
    assert [" ".join(line.split()) for line in lines[2:4]] == ["waste 1 2 0 0", "kv-bytes 0 1 0 0"]
    assert lines[5:] == ["2 x waste: @hint", "1 x kv-bytes: x"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "No such file or directory: 'nowhere'"),
        (["."], "has no folder in it; one for each learner is expected"),
        ([".", "--csv", "--json"], "--json and --csv: choose one"),
        ([".", "--seconds", "0"], "--seconds 0: must be more than 0"),
    ],
)
def test_a_mistake_of_the_teachers_is_one_line(tmp_path, run_python, arguments, words):
    ran = run_python("-m", "pagedlab", "grade", *arguments)
    assert ran.returncode == 2 and ran.stdout == "" and words in ran.stderr.splitlines()[-1]


# -- What keeps it apart.


def test_an_answer_is_never_made_in_the_graders_own_process(tmp_path):
    ours = submission.Submission(SOLVED, "my_waste", "a.py", str(tmp_path), 1.0, os.getpid())
    with pytest.raises(RuntimeError, match="never runs in the grader's own process"):
        ours([1], 2, 3)


def test_an_answer_travels_to_a_fresh_python(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "way", lambda: "spawn")
    hand_in(tmp_path / "ada", solutions_py=doing("assert 'SECRET' not in os.environ"))
    monkeypatch.setenv("SECRET", "SECRET")
    assert row_of(tmp_path).status == grade.RIGHT


def test_what_a_machine_cannot_take_away_is_said(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for version, gaps in ((7, 0), (5, 1), (0, 2)):
        monkeypatch.setattr(sandbox, "_landlock", lambda version=version: version)
        assert len(sandbox.gaps()) == gaps
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "any number of processes" in sandbox.gaps()[0]
