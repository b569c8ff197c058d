"""Published figures: labelled, cited, and never claimed to be checked when they were not."""

from __future__ import annotations

import pytest

from pagedlab import published


@pytest.mark.parametrize("row", published._data()["figures"], ids=lambda row: row["id"])
def test_every_row_has_conditions_and_a_source(row):
    figure = published.figure(row["id"])
    assert figure.text and figure.conditions and figure.source and figure.values
    assert figure.word in {"published", "computed"} and figure.word in str(figure)


def test_what_was_read_in_a_copy_only_is_printed_as_reported():
    assert published.figure("a1").citation.startswith("as reported by")
    assert published.figure("b2").citation == published.figure("b2").source


@pytest.mark.parametrize("trace", published.traces())
def test_quantiles_rise(trace):
    lengths = published.lengths(trace)
    for quantiles in (lengths.prompt, lengths.output):
        assert list(quantiles) == sorted(quantiles)
        assert list(quantiles.values()) == sorted(quantiles.values())
    waste = [lengths.waste_percent[str(size)] for size in (8, 16, 32, 64, 128, 256)]
    assert waste == sorted(waste)


def test_an_unknown_row_lists_those_that_exist():
    with pytest.raises(KeyError, match="a1, a5, b2, b15"):
        published.figure("z9")
