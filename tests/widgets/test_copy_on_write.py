"""The sharing lab without a page: the same clicks, three ways to share, and what each costs."""

from __future__ import annotations

import html

import pytest

from pagedlab.branch_memory import HEADS
from pagedlab.branching import MODES, Branches
from pagedlab.errors import OutOfBlocks, UnknownSequence
from pagedlab_widgets import CopyOnWriteLab


@pytest.mark.parametrize("mode", MODES)
def test_whatever_branches_do_attention_is_that_over_their_own_tokens(mode):
    branches, fresh = Branches(mode, 40, 4), iter(range(1000))

    def ids(count):
        return [next(fresh) for _ in range(count)]

    branches.start("A", ids(10))
    for parent, child in (("A", "B"), ("A", "C"), ("C", "D")):
        branches.fork(parent, child)
    for seq, count in (("B", 1), ("A", 3), ("D", 2), ("C", 1)):
        branches.append(seq, ids(count))
    branches.finish("A")
    branches.fork("B", "E")
    branches.append("B", ids(5))
    assert set(branches.errors()) == set("BCDE")
    assert max(branches.errors().values()) < 1e-5


def test_each_way_pays_as_it_should():
    """10 tokens in blocks of 4: two full blocks and one with two tokens in it."""
    token = 2 * HEADS.bytes_per_token
    paid = {}
    for mode in MODES:
        branches = Branches(mode, 40, 4)
        branches.start("A", range(10))
        for child in "BCD":
            branches.fork("A", child)
        for number, seq in enumerate("ABCD"):
            branches.append(seq, [100 + number])
        work, used = branches.work, branches.manager.usage().blocks_in_use
        paid[mode] = work.copied, work.recomputed, work.bytes, used
        assert work.seconds > 0
    assert paid["copy-on-write"] == (3, 0, 3 * 4 * token, 6)  # the last writer has the block to itself
    assert paid["eager copy"] == (9, 0, 9 * 4 * token, 12)
    assert paid["append-only"] == (0, 6, 6 * token, 6)


def test_a_copy_that_is_forgotten_is_seen_in_the_answer():
    branches = Branches("copy-on-write", 8, 4)
    branches.makes_copies = False
    branches.start("A", range(6))
    branches.fork("A", "B")
    branches.append("B", [50])
    errors = branches.errors()
    assert errors["A"] < 1e-5 and errors["B"] > 0.1
    assert branches.work.bytes == 0


@pytest.mark.parametrize("mode", MODES)
def test_what_cannot_be_changes_nothing(mode):
    branches = Branches(mode, 3, 4)
    branches.start("A", range(10))
    before = branches.manager.table("A"), branches.manager.num_free_blocks
    for wrong in (lambda: branches.fork("Z", "B"), lambda: branches.append("Z", [1])):
        with pytest.raises(UnknownSequence):
            wrong()
    with pytest.raises(OutOfBlocks):
        branches.append("A", range(100, 103))
    assert (branches.manager.table("A"), branches.manager.num_free_blocks) == before
    assert list(branches.ids) == ["A"] and len(branches.ids["A"]) == 10
    with pytest.raises(ValueError, match="mode must be one of copy-on-write, eager copy, append-only"):
        Branches("lazy copy", 3, 4)


@pytest.fixture(scope="module")
def lab():
    return CopyOnWriteLab(block_size=4, prompt=10)


def _text(lab, seq):
    return html.unescape(lab._lines[seq].text.value)


def test_a_click_shows_tables_counts_and_copies(lab):
    lab.start_over()
    lab.fork("A")
    assert lab.sequences == ("A", "B") and "in blocks 0 ×2, 1 ×2, 2 ×2;" in _text(lab, "B")
    lab.append("B")
    assert "in blocks 0 ×2, 1 ×2, 3; attention is that over its own tokens" in _text(lab, "B")
    assert lab.message.value.startswith("B stored a token: 1 block copied, 32.0 KiB written in ")
    assert lab.map.traces[0].counts(lab.map.frame).shared == 2 and lab.map.follow == "B"
    lab.finish("A")
    assert lab.sequences == ("B",)
    lab.finish("B")
    assert lab.sequences == ("B",) and "The last sequence stays" in lab.message.value


def test_changing_the_mode_changes_the_view_and_not_the_story(lab):
    lab.start_over()
    lab.sample()
    lab.append_all()
    tokens = {seq: _text(lab, seq).partition(" in ")[0] for seq in lab.sequences}
    for mode in MODES:
        lab.mode.value = mode
        assert lab.map.traces[0].label == f"{mode}, blocks of 4"
        assert {seq: _text(lab, seq).partition(" in ")[0] for seq in lab.sequences} == tokens
        assert max(lab.errors.values()) < 1e-5
    lab.mode.value = "copy-on-write"
    notes = {row["label"]: row["note"] for row in lab.modes.rows}
    assert notes["copy-on-write"].startswith("3 blocks copied")
    assert notes["eager copy"].startswith("9 blocks copied")
    assert notes["append-only"].startswith("6 tokens computed again")


def test_a_beam_step_keeps_the_number_of_beams_and_gives_each_a_token(lab):
    lab.start_over()
    lab.sample()
    for step in range(1, 4):
        lab.beam_step()
        assert len(lab.sequences) == 4
        assert {lab.shown.manager.num_tokens(seq) for seq in lab.sequences} == {10 + step}
    assert max(lab.errors.values()) < 1e-5


def test_the_mode_that_copies_eagerly_runs_out_first_and_the_others_go_on(lab):
    lab.start_over()
    while not lab.stopped:
        lab.fork("A")
        lab.append_all()
    assert list(lab.stopped) == ["eager copy"]
    assert "ran out of blocks at" in lab.modes.rows[1]["note"]
    before = lab.branches["eager copy"].manager.num_free_blocks
    lab.append("A")
    assert lab.branches["eager copy"].manager.num_free_blocks == before
    lab.mode.value = "eager copy"
    assert "Start over, or choose another mode" in lab.message.value
    lab.mode.value = "copy-on-write"


def test_copies_left_out_are_told_in_the_line_of_the_sequence(lab):
    lab.makes_copies.value = False
    lab.fork("A")
    lab.append("B")
    assert "it read a block that was never copied" in _text(lab, "B")
    lab.makes_copies.value = True
    assert lab.sequences == ("A",)


def test_more_sequences_than_the_page_shows_are_not_made(lab):
    lab.start_over()
    for _ in range(9):
        lab.fork("A")
    assert len(lab.sequences) == 8 and "8 sequences are as many" in lab.message.value


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"mode": "lazy"}, "mode must be one of copy-on-write, eager copy, append-only, got 'lazy'"),
        ({"block_size": 3}, "block_size must be one of 1, 2, 4, 8, 16, got 3"),
        ({"prompt": 0}, "prompt must be one of 1, 2"),
    ],
)
def test_a_value_that_a_control_lacks_is_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        CopyOnWriteLab(**wrong)
