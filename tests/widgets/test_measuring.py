"""Measuring in the background: only the latest wish draws, and an outdated one is silent."""

from __future__ import annotations

import threading
import time

import pytest

from pagedlab_widgets import BarTable, measuring
from pagedlab_widgets.measuring import Measuring, TablesShown


class FakeMemory:
    """Stands for the pool: each measurement waits for `go`, then answers with the block size it was shown."""

    num_slots = 64

    def __init__(self) -> None:
        self.go, self.started, self.measured = threading.Event(), threading.Event(), []

    def measure(self, tables, num_tokens, block_size, should_stop):
        self.started.set()
        assert self.go.wait(10)
        if block_size < 0:
            raise ValueError(f"no blocks of {block_size}")
        self.measured.append((block_size, should_stop()))
        return block_size


@pytest.fixture
def memory(monkeypatch):
    fake = FakeMemory()
    monkeypatch.setattr(measuring, "_memory_of", lambda num_slots: fake)
    monkeypatch.setattr(measuring, "_draw", lambda table, cost: table.set_trait("status", f"drawn {cost}"))
    monkeypatch.setattr(Measuring, "WAIT", 0.0)
    return fake


def _measuring(block_size):
    table = BarTable("cost", {"time": "median"})
    shown = {"block_size": block_size}
    return Measuring(lambda: TablesShown(64, shown["block_size"], {}, {}), table), table, shown


def _until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_what_is_shown_is_measured_and_drawn(memory):
    background, table, _ = _measuring(16)
    memory.go.set()
    background.soon()
    _until(lambda: table.status == "drawn 16")


def test_only_the_latest_wish_draws(memory):
    background, table, shown = _measuring(16)
    background.soon()
    assert memory.started.wait(10)
    shown["block_size"] = 32
    background.soon()
    memory.go.set()
    _until(lambda: table.status == "drawn 32")
    assert memory.measured == [(16, True), (32, False)]


def test_an_error_of_the_latest_wish_is_said(memory):
    background, table, _ = _measuring(-1)
    memory.go.set()
    background.soon()
    _until(lambda: table.status == "not measured: no blocks of -1")


def test_an_error_of_an_outdated_wish_is_silent(memory):
    background, table, shown = _measuring(-1)
    background.soon()
    assert memory.started.wait(10)
    shown["block_size"] = 8
    background.soon()
    memory.go.set()
    _until(lambda: table.status == "drawn 8")


def test_nothing_is_drawn_once_it_is_stopped(memory):
    background, table, _ = _measuring(16)
    background.soon()
    assert memory.started.wait(10)
    background.stop()
    memory.go.set()
    _until(lambda: memory.measured)
    assert memory.measured == [(16, True)] and table.status == "measuring ..."


def test_asking_and_waiting_gives_the_result(memory):
    background, table, _ = _measuring(4)
    memory.go.set()
    assert background.now() == 4 and table.status == "drawn 4"
