"""Published figures: labelled, cited, never claimed to be checked when they were not, and recomputed where
they can be."""

from __future__ import annotations

import numpy as np
import pytest

from pagedlab import gpus, published, waste, workloads
from pagedlab.models import preset
from pagedlab.workloads import Workload

WHOLE = {
    "azure-code": "azure_2023_code.csv",
    "azure-conversation": "azure_2023_conv.csv",
    "mooncake-conversation": "mooncake_conversation_lengths.csv",
}
SAMPLED = {
    "sharegpt": "sharegpt_8k_llama2_lengths_sample.csv",
    "arxiv": "arxiv_summarization_4k_llama2_lengths_sample.csv",
}
SIZES = (8, 16, 32, 64, 128, 256)


@pytest.mark.parametrize("id", published.ids())
def test_every_row_has_a_label_conditions_and_a_source(id):
    figure = published.figure(id)
    assert figure.text and figure.conditions and figure.source
    assert figure.label in {"R", "R3", "C", "U"} and figure.word in str(figure)
    assert ("as reported by" in str(figure)) is (figure.label in {"R3", "U"}) is (not figure.checked)


def test_ids_are_unique_and_cover_every_subject():
    ids = published.ids()
    assert len(set(ids)) == len(ids)
    assert {id[0] for id in ids} == set("abcdes") and published.ids("d")[0] == "d1"


def test_what_was_read_in_a_copy_only_is_printed_as_reported():
    assert published.figure("a1").citation.startswith("as reported by copies of")
    assert published.figure("b6u").citation.endswith("not verified")
    assert published.figure("b2").citation == published.figure("b2").source


@pytest.mark.parametrize("row", published.rows("models"), ids=lambda row: row["preset"])
def test_bytes_of_a_token_are_those_of_the_model(row):
    """One token more, once windows are full; at 128k the table has one decimal."""
    shape = preset(row["preset"])
    more = shape.kv_bytes(10_001, "bf16") - shape.kv_bytes(10_000, "bf16")
    assert more / 2**10 == pytest.approx(row["kib_per_token"], abs=0.05)
    assert shape.kv_bytes(131_072, "bf16") / 2**30 == pytest.approx(row["gib_at_128k"], abs=0.05)
    assert ("as reported by" in shape.source) is (row["label"] in {"R3", "U"})


def test_the_wrong_row_of_the_published_block_sizes_is_found():
    rows = published.rows("blocks")
    wrong = []
    for row in rows:
        if row["preset"] is not None:
            mib = preset(row["preset"]).on_rank(row["ranks"]).kv_bytes(row["tokens"], "bf16") / 2**20
            wrong += [(row["model"], row["block_mib"], mib)] if abs(row["block_mib"] - mib) > 0.01 else []
    found = published.figure("b19").values
    assert wrong == [("Qwen3-8B", found["wrong_mib"], found["right_mib"])]
    assert len(rows) == found["rows"] == found["follow"] + len(wrong)


def test_the_slope_of_a_paged_decode_is_three_terabytes_a_second():
    slope, rate = published.figure("d1").values, published.figure("d2").values
    token = preset("llama-3.1-8b").kv_bytes(1, "bf16")
    assert token / slope["bf16_slope_ms"] / 1e9 == pytest.approx(rate["bf16_tb_per_s"], abs=0.005)
    assert token / 2 / slope["fp8_slope_ms"] / 1e9 == pytest.approx(rate["fp8_tb_per_s"], abs=0.005)
    assert token / rate["b200_slope_ms"] / 1e9 == pytest.approx(rate["b200_tb_per_s"], abs=0.005)
    peak = gpus.named("h100-sxm").bandwidth_bytes_s / 1e12
    assert 100 * rate["bf16_tb_per_s"] / peak == pytest.approx(rate["bf16_percent"], abs=0.5)


def test_kv_bytes_overtake_weights_at_123k_tokens():
    tokens = 16.06e9 / preset("llama-3.1-8b").kv_bytes(1, "bf16")
    assert tokens == pytest.approx(published.figure("d9").values["tokens"], rel=0.005)


def test_made_up_lengths_waste_what_the_row_says():
    row = published.figure("b16").values
    uniform = _lengths(range(50, 101))
    for size, percent in row["50_to_100_percent"].items():
        assert 100 * waste.at_final_length(uniform, int(size)) == pytest.approx(percent, abs=0.5)
    assert [waste.at_final_length(_lengths([512]), 2**k) for k in range(10)] == [0] * 10
    for size, percent in row["520_percent"].items():
        assert 100 * waste.at_final_length(_lengths([520]), int(size)) == pytest.approx(percent, abs=0.5)


@pytest.mark.parametrize("trace", published.traces())
def test_quantiles_rise(trace):
    lengths = published.lengths(trace)
    for quantiles in (lengths.prompt, lengths.output):
        assert list(quantiles) == sorted(quantiles)
        assert list(quantiles.values()) == sorted(quantiles.values())
    shares = [lengths.waste_percent[str(size)] for size in SIZES]
    assert shares == sorted(shares)


@pytest.mark.parametrize("trace", published.traces())
def test_the_ranges_of_all_traces_span_each_of_them(trace):
    row, lengths = published.figure("b15").values, published.lengths(trace).waste_percent
    for key, name in (
        ("block_16_percent", "16"),
        ("block_256_percent", "256"),
        ("reserve_percent", "reserve"),
    ):
        low, high = row[key]
        assert low - 0.5 * (low > 1) <= lengths[name] <= high + 0.5 * (high > 1)


@pytest.mark.parametrize("trace", WHOLE)
def test_a_whole_trace_has_the_quantiles_and_the_waste_of_its_row(trace, trace_path):
    """The row counts prompt and output, the cache never stores a request's last token: hence `output + 1`."""
    workload, row = workloads.load(trace_path(WHOLE[trace]), progress=False), published.lengths(trace)
    assert len(workload) == row.rows
    for lengths, quantiles in ((workload.prompt, row.prompt), (workload.output, row.output)):
        shares = np.quantile(lengths, list(quantiles), method="nearest")
        assert shares == pytest.approx(list(quantiles.values()), rel=0.01, abs=1)
    assert (round(workload.prompt.mean()), round(workload.output.mean())) == row.mean
    assert int((workload.prompt + workload.output).max()) == row.longest
    whole = Workload(trace, "recorded", "", workload.prompt, workload.output + 1)
    for size in SIZES:
        percent = 100 * waste.at_final_length(whole, size)
        assert percent == pytest.approx(row.waste_percent[str(size)], abs=0.006)
    short = 100 * np.mean(workload.prompt + workload.output <= 100)
    assert short == pytest.approx(published.figure("a20").values["by_trace_percent"][trace], abs=0.05)


@pytest.mark.parametrize("trace", SAMPLED)
def test_a_sampled_trace_wastes_what_its_row_says_within_sampling_error(trace, trace_path):
    """20,000 of about 30,000 requests: four standard errors of a mean of last-block waste."""
    sample, row = workloads.load(trace_path(SAMPLED[trace]), progress=False), published.lengths(trace)
    lengths = sample.prompt + sample.output
    for size in SIZES:
        empty = -lengths % size
        percent = 100 * empty.sum() / (lengths + empty).sum()
        error = 4 * 100 * empty.std() / np.sqrt(len(lengths)) / lengths.mean()
        assert percent == pytest.approx(row.waste_percent[str(size)], abs=error + 0.006)


@pytest.mark.parametrize("trace", WHOLE)
def test_a_whole_trace_wastes_over_time_what_its_row_says(trace, trace_path):
    workload, row = workloads.load(trace_path(WHOLE[trace]), progress=False), published.figure("s2").values
    for size in (16, 256):
        percent = 100 * waste.paged(workload, size).wasted_share
        assert percent == pytest.approx(row[f"block_{size}_percent"][trace], abs=0.0006)


def test_an_unknown_row_lists_those_that_exist():
    with pytest.raises(KeyError, match="a1, a2, .*b15"):
        published.figure("z9")


def _lengths(tokens) -> Workload:
    tokens = np.array(list(tokens))
    return Workload("case", "assumed", "a test", tokens, np.ones(len(tokens), np.int64))
