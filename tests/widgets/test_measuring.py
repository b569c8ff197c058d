"""Measuring in the background, with a worker that answers when the test says so; and the worker itself."""

from __future__ import annotations

import os
import threading
import time

import pytest

from pagedlab_widgets import BarTable, measuring
from pagedlab_widgets.measuring import OUT_OF_DATE, Measuring
from pagedlab_widgets.worker import Stopped, Worker, WorkerDied


class FakeWorker:
    """Answers with what it was asked, each time the test lets it `go`."""

    def __init__(self) -> None:
        self.go, self.started, self.ran = threading.Event(), threading.Event(), []
        self.turn = threading.Lock()

    def run(self, task, value, should_stop, progress):
        with self.turn:
            progress(1, 4)
            self.started.set()
            assert self.go.wait(10)
            self.ran.append((value, should_stop()))
            if should_stop():
                raise Stopped("stopped")
            return task(value)


@pytest.fixture
def worker(monkeypatch):
    fake = FakeWorker()
    monkeypatch.setattr(measuring, "WORKER", fake)
    monkeypatch.setattr(Measuring, "WAIT", 0.0)
    return fake


def _task(value):
    if value < 0:
        raise ValueError(f"no blocks of {value}")
    return value


def _measuring(value):
    table, shown = BarTable("cost", {"time": "median"}), {"value": value}
    background = Measuring(
        table, _task, lambda: (shown["value"],), lambda answer: setattr(table, "caption", f"{answer}")
    )
    return background, table, shown


def _until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_what_is_shown_is_measured_and_drawn(worker):
    background, table, _ = _measuring(16)
    background.soon()
    assert worker.started.wait(10)
    activity = background.activity
    assert (activity.text, activity.done, activity.of) == ("measuring", 1, 4)
    worker.go.set()
    _until(lambda: table.caption == "16" and activity.text == "")
    assert (table.status, activity.message) == ("", "")


def test_only_the_latest_wish_draws(worker):
    background, table, shown = _measuring(16)
    background.soon()
    assert worker.started.wait(10)
    shown["value"] = 32
    background.soon()
    worker.go.set()
    _until(lambda: table.caption == "32")
    assert worker.ran == [(16, True), (32, False)]


def test_an_error_of_the_latest_wish_is_said_and_that_of_an_outdated_one_is_not(worker):
    background, table, shown = _measuring(-1)
    worker.go.set()
    background.soon()
    _until(lambda: background.activity.message == "Not measured: no blocks of -1")
    shown["value"] = 8
    background.soon()
    _until(lambda: table.caption == "8")
    assert background.activity.message == ""


def test_a_cancelled_measurement_says_so_and_what_stands_there_is_out_of_date(worker):
    background, table, _ = _measuring(16)
    worker.go.set()
    background.now()
    worker.go.clear(), worker.started.clear()
    background.soon()
    assert worker.started.wait(10)
    assert table.status == OUT_OF_DATE
    background.activity._handle_msg(
        {"content": {"data": {"method": "custom", "content": "cancel"}}, "buffers": []}
    )
    worker.go.set()
    _until(lambda: worker.ran[-1] == (16, True))
    assert (background.activity.text, background.activity.message) == ("", "Cancelled.")
    assert (table.caption, table.status) == ("16", OUT_OF_DATE)


def test_asking_and_waiting_gives_the_result_or_the_error(worker):
    background, table, shown = _measuring(4)
    worker.go.set()
    assert background.now() == 4 and table.caption == "4"
    shown["value"] = -3
    with pytest.raises(ValueError, match="no blocks of -3"):
        background.now()
    assert background.activity.message == "Not measured: no blocks of -3"


# ---- the process ------------------------------------------------------------------------------


def echo(value, *, should_stop, progress):
    progress(1, 2)
    if isinstance(value, Exception):
        raise value
    return os.getpid(), value


def wait(*, should_stop, progress):
    progress(0, 1)
    while not should_stop():
        time.sleep(0.001)
    raise Stopped("as asked")


def wait_deaf(*, should_stop, progress):
    progress(0, 1)
    time.sleep(60)


def die(*, should_stop, progress):
    os._exit(3)


@pytest.fixture(scope="module")
def process():
    worker = Worker()
    yield worker
    worker.close()


def test_a_task_runs_in_one_other_process_and_says_how_far_it_is(process):
    parts = []
    pid, answer = process.run(echo, "x", progress=lambda done, of: parts.append((done, of)))
    assert (answer, parts) == ("x", [(1, 2)])
    assert pid != os.getpid() and process.run(echo, "y") == (pid, "y")


def test_errors_come_back_as_they_are_or_as_text(process):
    with pytest.raises(ValueError, match="not 3"):
        process.run(echo, ValueError("not 3"))
    with pytest.raises(RuntimeError, match="its own"):
        process.run(echo, WorkerDied("its own"))
    assert process.run(echo, 1)[1] == 1


def test_a_task_stops_when_asked_and_before_it_begins(process):
    started = []
    with pytest.raises(RuntimeError, match="as asked"):
        process.run(wait, progress=lambda *_: started.append(1), should_stop=lambda: bool(started))
    with pytest.raises(Stopped, match="before it began"):
        process.run(echo, 1, should_stop=lambda: True)
    assert process.run(echo, 2)[1] == 2


def test_a_task_that_does_not_stop_loses_its_process(process, monkeypatch):
    monkeypatch.setattr("pagedlab_widgets.worker.GRACE_S", 0.1)
    started = []
    with pytest.raises(Stopped, match="its process was ended"):
        process.run(wait_deaf, progress=lambda *_: started.append(1), should_stop=lambda: bool(started))
    assert process.run(echo, 3)[1] == 3


def test_an_interrupt_while_waiting_leaves_no_answer_for_the_next_task(process):
    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.run(echo, "first", progress=interrupt)
    assert process.run(echo, "second")[1] == "second"


def test_the_process_ends_with_the_kernel_however_that_ends(run_python):
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pagedlab_widgets.worker import Worker; from test_measuring import echo\n"
        "print(Worker().run(echo, 1)[0], flush=True); os._exit(1)"  # as if it were killed
    )
    pid = int(run_python("-c", code, os.path.dirname(__file__)).stdout)

    def gone():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    _until(gone)


def test_a_process_that_dies_is_said_and_replaced(process):
    with pytest.raises(WorkerDied, match="in the middle"):
        process.run(die)
    assert process.run(echo, 4)[1] == 4
