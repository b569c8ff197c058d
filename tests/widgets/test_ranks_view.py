"""The view of several ranks, without a page: what a run leaves in it."""

from __future__ import annotations

import signal

import pytest

pytest.importorskip("torch.distributed")

from pagedlab.parallel import Fault, Plan, Ranks
from pagedlab_widgets import RanksView


def test_a_sound_run_shows_every_step_of_every_rank():
    view = RanksView(Plan(ranks=2, steps=8))
    outcome = view.run()
    picture = view.picture
    assert outcome is view.outcome and outcome.ending.complete
    assert [frame["step"] for frame in picture.frames] == list(range(8))
    assert all(set(frame["ranks"]) == {"0", "1"} and frame["bytes"] > 0 for frame in picture.frames)
    assert all(frame["ranks"]["1"]["tables"] == frame["ranks"]["0"]["tables"] for frame in picture.frames)
    assert "the same tables on every rank" in picture.status
    assert "(measured" in picture.summary
    assert not view.start_button.disabled and view.stop_button.disabled


def test_an_unchecked_fault_is_shown_where_the_tables_part():
    view = RanksView(Plan(ranks=2, steps=12, method="full", detect=False, fault=Fault("drop", 1, 4)))
    view.run()
    parted = view.picture.frames[view.picture.frame]
    assert view.picture.frame == 4
    assert parted["ranks"]["0"]["tokens"] != parted["ranks"]["1"]["tokens"]
    assert "nothing reported" in view.picture.status


def test_a_checked_fault_names_the_rank():
    view = RanksView(Plan(ranks=2, steps=12, fault=Fault("drop", 1, 4)))
    view.run()
    assert view.picture.culprit == 1
    assert "rank 1, step 4" in view.picture.status and view.picture.summary == ""


def test_choices_that_cannot_run_are_told_in_the_view():
    view = RanksView(Plan(ranks=2, steps=6))
    view._choose_fault.value = "diverge"
    view.start()
    assert view.picture.status.startswith("Cannot run: 'diverge' needs a replica")
    with pytest.raises(ValueError, match="diverge"):
        view.run()
    view._choose_method.value = "replicas"
    assert view.plan.fault == Fault("diverge", 1, 2)
    assert not view.start_button.disabled


def test_a_plan_of_unusual_sizes_can_be_shown():
    plan = RanksView(Plan(ranks=5, q_heads=40, kv_heads=5, steps=3)).plan
    assert (plan.ranks, plan.kv_heads) == (5, 5)


def test_of_a_long_run_the_newest_steps_are_shown():
    view = RanksView(Plan(ranks=2, steps=450))
    outcome = view.run()
    assert [frame["step"] for frame in view.picture.frames] == list(range(50, 450))
    assert all(set(frame["ranks"]) == {"0", "1"} for frame in view.picture.frames)
    assert len(outcome.records) == 2 * 450


def test_a_run_that_is_being_started_is_stopped(monkeypatch):
    """Stop is pressed before there is a process: none is made, and the view is ready for the next run."""
    view = RanksView(Plan(ranks=2, steps=10**6))

    def stop_first(ranks):
        view.stop()
        start(ranks)

    start = Ranks.start
    monkeypatch.setattr(Ranks, "start", stop_first)
    monkeypatch.setattr(Ranks, "_spawn", lambda ranks, rank: pytest.fail("a rank was started"))
    outcome = view.run()
    assert not outcome.ending.complete and outcome.ending.culprit is None
    assert view.picture.status == "Ended early: it was stopped." and not view.picture.busy
    assert not view.start_button.disabled and view.stop_button.disabled


def test_a_run_that_goes_on_is_stopped_and_nobody_is_blamed():
    view = RanksView(Plan(ranks=2, steps=10**6))
    view.picture.observe(lambda change: view.stop() if change["new"] else None, "frames")
    assert view.run().ending.why == "it was stopped"
    assert view.picture.culprit == -1 and view.picture.frames


def test_a_run_that_is_interrupted_says_so_and_leaves_the_view_ready():
    view = RanksView(Plan(ranks=2, steps=10**6))
    processes, interrupted_at = [], []

    def interrupt(change):
        if change["new"] and not processes:
            processes.extend(view._ranks._processes)
            interrupted_at.append((view.picture.status, view.stop_button.disabled))
            signal.raise_signal(signal.SIGINT)

    view.picture.observe(interrupt, "frames")
    with pytest.raises(KeyboardInterrupt):
        view.run()
    assert interrupted_at == [("2 processes at work; interrupt the cell to end them", True)]
    assert len(processes) == 2 and all(process.poll() is not None for process in processes)
    assert view.picture.status == "Ended early: interrupted. Every rank has ended."
    assert not view.picture.busy and not view.start_button.disabled and view.stop_button.disabled
    view.picture.observe(lambda change: view.stop() if change["new"] else None, "frames")
    assert view.run().ending.why == "it was stopped"
