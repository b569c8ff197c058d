"""The advice widget without a page: what its choices do, and that text stays text."""

from __future__ import annotations

import html
import html.parser
from dataclasses import replace

import pytest

from pagedlab import serving, workloads
from pagedlab.advice import advise
from pagedlab_widgets import AdviceView

SMALL = workloads.named("azure-conversation", requests=300)


@pytest.fixture
def view():
    view = AdviceView(SMALL)
    yield view
    view.close()


def test_it_shows_the_advice_of_the_library(view):
    expected = advise(SMALL)
    assert view.advice == expected
    advised = [row["label"] for row in view.costs.rows if "advised" in row["note"]]
    assert advised == [f"blocks of {expected.block_size}"]
    sizes = [cost.block_size for cost in expected.costs if cost.backends]
    assert [row["label"] for row in view.costs.rows] == [f"blocks of {size}" for size in sizes]
    assert view.costs.word == "simulated" and view.costs.status == ""
    shown = html.unescape(view.decision.value + view.settings.value + view.evidence.value)
    assert all(finding.text in shown and finding.word in shown for finding in expected.findings)
    assert "decision" in view.decision.value and all(flag.why in shown for flag in expected.flags)


def test_every_choice_gives_the_advice_anew(view):
    view.engine.value = "sglang"
    assert view.advice.engine.startswith("sglang") and "--page-size" in view.settings.value
    view.tp.value = 2
    assert "2 ranks" in view.advice.finding("copies").text
    view.chooser.chosen = workloads.named("uniform", requests=300)
    assert view.advice.subject.startswith("uniform")


def test_a_choice_that_cannot_be_says_why_and_shows_no_old_figures(view):
    view.model.value = "llama-3.1-70b"
    assert view.advice is None and view.costs.rows == [] and view.decision.value == view.evidence.value == ""
    assert "weights take 140,000,000,000" in view.message.value
    view.tp.value = 4
    assert view.advice is not None and view.costs.rows and "140,000,000,000" not in view.message.value


def test_a_name_from_a_file_is_neither_markup_nor_mathematics():
    view = AdviceView(replace(SMALL, name="<img src=x>$x$.csv", source="<b>rows</b>$y$"))
    shown = view.decision.value + view.evidence.value + view.message.value + view.settings.value
    tags: list[str] = []
    parser = html.parser.HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)
    parser.feed(shown)
    assert {"img", "b"}.isdisjoint(tags) and "$" not in shown
    assert "&lt;b&gt;rows" in shown
    view.close()


def test_a_choice_that_no_list_has_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match="gpu must be one of .*h100-sxm.* got 'abacus'"):
        AdviceView(SMALL, gpu="abacus")


def test_an_interrupt_leaves_no_figures_of_a_run_that_was_cut(view, monkeypatch):
    whole = serving.simulate

    def cut(*arguments, **limits):
        run = whole(*arguments, **limits)
        run.stopped = "interrupted"
        return run

    monkeypatch.setattr(serving, "simulate", cut)
    view.gpu.value = "rtx-4090"
    assert view.advice is None and view.costs.rows == [] and view.costs.status == ""
    assert "Interrupted" in view.message.value
