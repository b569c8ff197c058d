"""The museum's view: what it says of a fault, and of a reader's test."""

from __future__ import annotations

import pytest

from pagedlab import museum
from pagedlab_widgets import MuseumView


def always(kernel):
    raise AssertionError


def never(kernel):
    return None


@pytest.mark.parametrize("exhibit", [exhibit.name for exhibit in museum.exhibits()])
def test_every_exhibit_passes_the_naive_test_and_fails_the_careful_one_on_the_screen(exhibit):
    text = MuseumView(exhibit=exhibit).card.value
    assert "The naive test <b>passes</b>. The careful test <b>fails, as it should</b>." in text


@pytest.mark.parametrize(
    ("test", "killed"),
    [(museum.careful, len(museum.exhibits(scored=True))), (museum.naive, 0), (always, 0), (never, 0)],
)
def test_a_test_is_scored_by_what_it_kills(test, killed):
    view = MuseumView(test)
    assert view.score(test) == (killed, len(museum.exhibits(scored=True)))
    assert view.table.caption.startswith(f"{killed} of")


def test_walking_goes_round():
    view = MuseumView()
    first = view.chooser.value
    view._go(-1)
    assert view.chooser.value == view.chooser.options[-1]
    view._go(1)
    assert view.chooser.value == first
    with pytest.raises(KeyError, match="no exhibit 'nope'"):
        MuseumView(exhibit="nope")
