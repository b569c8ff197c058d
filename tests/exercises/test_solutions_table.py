"""For every exercise the tests hold right answers in unlike styles, and wrong ones whose mistake is named."""

from __future__ import annotations

from importlib import import_module

import pytest
import test_addresses as addresses
import test_allocator
import test_attention as attention
import test_bug_museum
import test_choices as choices
import test_copy_on_write_check
import test_messages
import test_waste_check

from pagedlab import exercises, museum

TABLE = {
    "waste": (test_waste_check.RIGHT, test_waste_check.WRONG),
    "allocator": (test_allocator.RIGHT, test_allocator.WRONG),
    "copy-on-write": (test_copy_on_write_check.RIGHT, test_copy_on_write_check.WRONG),
    "kv-bytes": (addresses.BYTES_RIGHT, addresses.BYTES_WRONG),
    "token-address": (addresses.ADDRESS_RIGHT, addresses.ADDRESS_WRONG),
    **{name: (attention.RIGHT[name], attention.WRONG[name]) for name in attention.RIGHT},
    **{name: (choices.RIGHT[name], choices.WRONG[name]) for name in choices.RIGHT},
    "bug-museum": (test_bug_museum.RIGHT, test_bug_museum.WRONG),
    "table-diff": (test_messages.RIGHT, test_messages.WRONG),
}


def named(exercise, words):
    """The hints, of a mistake or of an exhibit that a test lets live, that have these words."""
    hints = [mistake.hint for mistake in exercises.get(exercise).misconceptions]
    hints += [exhibit.hint for exhibit in museum.exhibits(scored=True)] if exercise == "bug-museum" else []
    return {hint for hint in hints if words in hint}


def test_the_table_has_every_exercise():
    assert set(TABLE) == set(exercises.names())


@pytest.mark.parametrize("name", exercises.names())
def test_five_right_answers_in_unlike_styles_and_eight_mistakes_each_with_its_own_hint(name):
    right, wrong = TABLE[name]
    assert len(set(map(id, right.values()))) == len(right) >= 5
    hints = [named(name, words) for _, words in wrong.values()]
    assert all(len(each) <= 1 for each in hints), "words that two hints share tell no mistake"
    assert len(set().union(*hints)) >= 8


@pytest.mark.parametrize("name", exercises.names())
def test_the_shipped_solution_is_right(name):
    module = import_module(f"pagedlab.exercises.solutions.{name.replace('-', '_')}")
    assert exercises.check(name, module.solution, progress=None).passed
