"""Reading requests from files and making them from published quantiles."""

from __future__ import annotations

import os
import threading
import warnings
from datetime import date

import numpy as np
import pytest

from pagedlab import published, trace_table, traces, workloads
from pagedlab.workloads import WorkloadError

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
ROW = "2023-11-16 18:17:03.9799600,4808,10\n"


def test_azure_columns_and_seven_decimals_of_a_second():
    workload = workloads.parse(HEADER + ROW + "2023-11-16 18:17:04.0319601,3180,8\n")
    assert workload.prompt.tolist() == [4808, 3180] and workload.output.tolist() == [10, 8]
    assert workload.arrival_ns.tolist() == [0, 52_000_100]
    assert workload.origin == "recorded"


def test_times_with_a_zone_are_compared_in_utc():
    times = ("2024-05-10 02:00:00.5+02:00", "2024-05-10 00:00:00.25+00:00", "2024-05-10T00:00:00Z")
    times += ("2024-05-09 19:00:01 -0500", "2024-05-10 02:00:02+02", " 2024-05-10 00:00:03 ")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        workload = workloads.parse(HEADER + "".join(f"{time},{n},1\n" for n, time in enumerate(times, 1)))
    assert workload.prompt.tolist() == [3, 2, 1, 4, 5, 6]
    assert (workload.arrival_ns / 1e9).tolist() == [0, 0.25, 0.5, 1, 2, 3]


def test_the_farthest_times_that_are_believed_do_not_wrap_around():
    workload = workloads.parse(HEADER + "1828-01-01,1,1\n2111-12-31,2,1\n")
    assert workload.arrival_ns.tolist() == [0, (date(2111, 12, 31) - date(1828, 1, 1)).days * 86_400 * 10**9]


def test_sharegpt_columns_with_others_among_them():
    workload = workloads.parse("source_row,num_prefill_tokens,num_decode_tokens\n0,74,918\n1,290,905\n")
    assert workload.prompt.tolist() == [74, 290] and workload.arrival_ns is None


def test_requests_come_in_order_of_arrival_and_ties_keep_their_order():
    workload = workloads.parse("timestamp_ms,input_length,output_length\n5,1,1\n3,2,1\n5,3,1\n")
    assert workload.prompt.tolist() == [2, 1, 3]
    assert workload.arrival_ns.tolist() == [0, 2_000_000, 2_000_000]


def test_a_byte_order_mark_blank_lines_and_a_missing_last_newline_are_no_errors():
    assert len(workloads.parse("\ufeff" + HEADER + ROW + "\n" + ROW.rstrip())) == 2


def test_two_plain_columns_are_enough():
    assert workloads.parse("prompt,output\n74,918\n").stored.tolist() == [991]


def test_whole_numbers_written_as_floats_are_lengths():
    assert workloads.parse("input_length,output_length\n374.0,44.0\n").prompt.tolist() == [374]


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "is empty"),
        (HEADER, "holds no request, only a header"),
        ("a,b\n1,2\n", "line 1: no column of prompt lengths; one of ContextTokens"),
        ("ContextTokens,b\n1,2\n", "line 1: no column of output lengths"),
        (
            HEADER + ROW + "2023-11-16 18:17:04,many,8\n",
            "line 3: a length must be a whole number of tokens, got 'many'",
        ),
        (HEADER + ROW + "2023-11-16 18:17:04,NaN,8\n", "line 3: .* got 'NaN'"),
        (HEADER + "2023-11-16 18:17:04,1.5,8\n", "line 2: .* got '1.5'"),
        (HEADER + "2023-11-16 18:17:04,inf,8\n", "line 2: .* got 'inf'"),
        (HEADER + "2023-11-16 18:17:04,-5,8\n", "line 2: a length must be 1 to 10,000,000 tokens, got '-5'"),
        (HEADER + "2023-11-16 18:17:04,0,8\n", "line 2: .* got '0'"),
        (HEADER + "2023-11-16 18:17:04,99999999999999999999,8\n", "line 2: .* 10,000,000"),
        (HEADER + "2023-11-16 18:17:04,,8\n", "line 2: .* got ''"),
        (HEADER + "2023-11-16 18:17:04,12\n", r"line 2: 2 column\(s\) only"),
        (HEADER + "yesterday,12,8\n", "line 2: 'yesterday' is not a date and time"),
        (
            "timestamp_ms,input_length,output_length\nsoon,1,1\n",
            "line 2: 'soon' is not a number of milliseconds",
        ),
        (
            "timestamp_ms,input_length,output_length\nnan,1,1\n",
            "line 2: 'nan' is not a number of milliseconds",
        ),
        (HEADER + "NaT,12,8\n", "line 2: 'NaT' is not a date and time"),
        (HEADER + "now,12,8\n", "line 2: 'now' is not a date and time"),
        (HEADER + "20231116,12,8\n", "line 2: '20231116' is not a date and time"),
        (HEADER + "2023-11-16 18:17:03 noon,12,8\n", "line 2: '2023-11-16 18:17:03 noon' is not a date"),
        (HEADER + "2023-11-16 18:17+99:00,12,8\n", "line 2: '2023-11-16 18:17[+]99:00' is not a date"),
        (
            HEADER + ROW + "9999-01-01 00:00:00,12,8\n",
            "line 3: '9999-01-01 00:00:00' is no time of requests: it lies 142 years or more from 1970",
        ),
        (HEADER + "1700-01-01 00:00:00,12,8\n", "line 2: '1700-01-01 00:00:00' is no time of requests"),
        ("timestamp_ms,prompt,output\n5e12,1,1\n", "line 2: '5e12' is no time of requests"),
        ("timestamp_ms,prompt,output\n-5,1,1\n", "line 2: '-5' is not a number of milliseconds from 0 on"),
        ("Timestamp,prompt,output\n-inf,1,1\n", "line 2: '-inf' is not a number of seconds from 0 on"),
        ("arrival_s,prompt,output\ninf,1,1\n", "line 2: 'inf' is no time of requests"),
        (HEADER + "<script>alert(1)</script>" * 20 + ",12,8\n", r"line 2: '<script>.*\.\.\. is not"),
        ("\x00\x01\x02", "line 1"),
    ],
)
def test_a_row_that_is_no_request_names_file_line_and_rule(text, words):
    with pytest.raises(WorkloadError, match="^trace.*" + words):
        workloads.parse(text, name="trace")


def test_a_file_that_is_not_there_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        workloads.load(tmp_path / "none.csv")


def test_a_folder_and_a_binary_file_are_one_error_each(tmp_path):
    with pytest.raises(OSError):
        workloads.load(tmp_path)
    binary = tmp_path / "weights.bin"
    binary.write_bytes(bytes(range(256)) * 100)
    with pytest.raises(WorkloadError, match="weights.bin, line 1"):
        workloads.load(binary)


def test_a_long_file_shows_its_progress(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(traces, "_SHOW_PROGRESS_FROM_BYTES", 1)
    path = tmp_path / "long.csv"
    path.write_text("input_length,output_length\n" + "3,4\n" * 1000)
    assert len(workloads.load(path)) == 1000
    assert "reading long.csv" in capsys.readouterr().err
    workloads.load(path, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("trace", published.traces())
def test_a_workload_from_quantiles_has_the_published_quantiles(trace):
    expected = published.lengths(trace)
    workload = workloads.named(trace, requests=40_000)
    assert workload.origin == "assumed" and "quantiles" in workload.name and expected.trace in workload.source
    for share in (0.1, 0.25, 0.5, 0.75, 0.9):
        assert np.quantile(workload.prompt, share) == pytest.approx(expected.prompt[share], rel=0.05)
        assert np.quantile(workload.output, share) == pytest.approx(expected.output[share], rel=0.1, abs=1)
    assert workload.stored.max() <= expected.longest
    assert workload.prompt.mean() == pytest.approx(expected.mean[0], rel=0.1)


@pytest.mark.parametrize("name", workloads.names())
def test_the_same_seed_gives_the_same_requests(name):
    one, same, other = (workloads.named(name, requests=500, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(one.prompt, same.prompt) and np.array_equal(one.output, same.output)
    assert not np.array_equal(one.prompt, other.prompt)
    assert one.prompt.min() >= 1 and one.output.min() >= 1


def test_an_unknown_name_lists_those_that_exist():
    with pytest.raises(KeyError, match="azure-conversation, sharegpt"):
        workloads.named("azure-conv")


def test_spread_zero_makes_all_alike_and_one_changes_nothing():
    workload = workloads.named("lognormal", requests=2_000)
    assert workload.with_spread(1) is workload
    alike = workload.with_spread(0)
    assert np.unique(alike.prompt).size == 1 and alike.origin == "assumed"
    assert np.median(alike.prompt) == pytest.approx(np.median(workload.prompt), rel=0.01)
    assert workload.with_spread(2).prompt.std() > workload.prompt.std()
    with pytest.raises(ValueError, match="0 to 4, got -1"):
        workload.with_spread(-1)


# ---- JSON lines ---------------------------------------------------------------------------------

ROUND = '{"timestamp": 27482, "input_length": 1100, "output_length": 52, "hash_ids": [46, 47, 48]}\n'


def test_mooncake_lines_carry_arrivals_and_prefix_hashes():
    workload = workloads.parse(
        '{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [5]}\n' + ROUND
    )
    assert workload.prompt.tolist() == [9, 1100] and workload.output.tolist() == [1, 52]
    assert workload.arrival_ns.tolist() == [0, 27_482_000_000]
    assert [workload.prefix_hashes[i] for i in range(2)] == [(5,), (46, 47, 48)]


def test_lines_out_of_order_keep_their_hashes():
    early = '{"timestamp": 3, "input_length": 5, "output_length": 1, "hash_ids": [9]}\n'
    workload = workloads.parse(ROUND + early)
    assert workload.prompt.tolist() == [5, 1100]
    assert workload.prefix_hashes[0] == (9,) and workload.prefix_hashes[1] == (46, 47, 48)


def test_ragpulse_lines_load_as_lengths_and_seconds_without_prefixes():
    line = '{"timestamp": "82.5", "input_length": 3112, "output_length": 192, "hash_ids": {"history": [1]}}\n'
    workload = workloads.parse(line + line.replace("82.5", "93"))
    assert workload.arrival_ns.tolist() == [0, 10_500_000_000] and workload.prefix_hashes is None


def test_prompts_that_begin_alike_have_the_same_token_ids_as_far_as_their_hashes_agree():
    workload = workloads.parse(
        '{"input_length": 1100, "output_length": 7, "hash_ids": [3, 4, 5]}\n'
        '{"input_length": 1030, "output_length": 7, "hash_ids": [3, 4, 6]}\n'
    )
    one, other = (workload.token_ids(request) for request in range(2))
    assert len(one) == 1100 and len(other) == 1030
    assert one[:1024] == other[:1024] and not set(one[1024:]) & set(other)
    assert workload.token_ids(0, 500, 600) == one[500:600]
    produced = workload.token_ids(0, 1095, 1107)
    assert produced[:5] == one[1095:] and len(set(produced)) == 12
    assert not set(produced[5:]) & set(workload.token_ids(1, 0, 1037))
    with pytest.raises(IndexError, match="tokens 0 to 1108 of request 0: it has 1100 and 7"):
        workload.token_ids(0, 0, 1108)


def test_without_hashes_every_token_is_the_requests_own():
    workload = workloads.parse("input_length,output_length\n5,2\n5,2\n")
    assert not set(workload.token_ids(0)) & set(workload.token_ids(1))


@pytest.mark.parametrize(
    "line, words",
    [
        ("{", "line 3: not JSON"),
        ("[1, 2, 3]", r"line 3: an object with input_length and output_length is needed, got \[1, 2, 3\]"),
        ("7", "line 3: an object with input_length and output_length is needed, got 7"),
        ("[" * 100_000, "line 3: not JSON"),
        ('{"conversations": [{"from": "human", "value": "hi"}]}', "line 3: holds conversations, not lengths"),
        ('{"input_length": 5}', "line 3: an object with input_length and output_length is needed"),
        (ROUND.replace("1100", '"1100"'), "line 3: a length must be a whole number of tokens, got '1100'"),
        (ROUND.replace("1100", "true"), "line 3: a length must be .* got True"),
        (ROUND.replace("1100", "1100.5"), "line 3: .* got '1100.5'"),
        (ROUND.replace("1100", "1e400"), "line 3: .* got 'inf'"),
        (ROUND.replace("52,", "0,"), "line 3: a length must be 1 to 10,000,000 tokens, got '0'"),
        (ROUND.replace(", 48", ""), "line 3: a prompt of 1,100 tokens has 3 hash ids, .* got 2"),
        (ROUND.replace("48]", '"x"]'), "line 3: hash_ids must be whole numbers from 0"),
        (ROUND.replace("48]", "-1]"), "line 3: hash_ids must be whole numbers from 0"),
        (ROUND.replace("27482", '"soon"'), "line 3: 'soon' is not a number of seconds"),
        (ROUND.replace("27482", "NaN"), "line 3: nan is not a number of milliseconds"),
        (ROUND.replace("27482", "9e12"), "line 3: 9000000000000.0 is no time of requests"),
        (ROUND.replace("27482", "[]"), r"line 3: \[\] is not a time"),
        (ROUND.replace("27482", "-1"), "line 3: -1 is not a number of milliseconds from 0 on"),
        (ROUND.replace("27482", "-Infinity"), "line 3: -inf is not a number of milliseconds from 0 on"),
        (
            ROUND.replace("timestamp", "arrival_s").replace("27482", "NaN"),
            "line 3: 'nan' is not a number of sec",
        ),
        (
            ROUND.replace('"timestamp": 27482, ', ""),
            "line 3: some requests have a timestamp and some have none",
        ),
    ],
)
def test_a_json_line_that_is_no_request_names_file_line_and_rule(line, words):
    with pytest.raises(WorkloadError, match="^trace.jsonl, " + words):
        workloads.parse(ROUND + "\n" + line, name="trace.jsonl")


def test_a_whole_mooncake_file_loads_with_its_shared_prefixes(trace_path):
    workload = workloads.load(trace_path("mooncake_conversation_head.jsonl"))
    assert (len(workload), workload.prompt[0], len(workload.prefix_hashes)) == (3_894, 6_758, 3_894)
    assert {hashes[0] for hashes in (workload.prefix_hashes[i] for i in range(500))} == {0}
    first = workload.first(10)
    assert len(first) == 10 and first.prefix_hashes[9] == workload.prefix_hashes[9]
    assert workload.with_spread(0.5).prefix_hashes is None


# ---- other forms of the same, and what is wrong with real files -----------------------------------


@pytest.mark.parametrize(
    "name, content",
    [
        ("plain.csv", "74,918\n290,905\n"),
        ("plain.txt", "74\t918\n290\t905"),
        ("excel.csv", "\ufeffprompt_tokens;completion_tokens\n74;918\n290;905\n"),
        ("burst.csv", "Model,Request tokens,Response tokens\nA,74,918\nB,290,905\n"),
        ("pairs.jsonl", "[74, 918]\n[290, 905]\n"),
        ("CAPITALS.JSONL", '{"input_length": 74, "output_length": 918}\n{"prompt": 290, "output": 905}\n'),
        ("bom.jsonl", '\ufeff{"input_length": 74, "output_length": 918}\n{"prompt": 290, "output": 905}'),
        ("list.json", '[{"prompt_len": 74, "output_len": 918},\n {"prompt_len": 290, "output_len": 905}]\n'),
        ("list-of-pairs.json", "[[74,918],[290,905]]"),
        ("no-suffix", '{"num_prefill_tokens": 74, "num_decode_tokens": 918}\n[290, 905]\n'),
    ],
)
def test_the_same_two_requests_in_every_form(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    for workload in (workloads.load(path), workloads.parse(content)):
        assert workload.prompt.tolist() == [74, 290] and workload.output.tolist() == [918, 905]


def test_a_long_list_is_read_in_pieces_that_cut_its_items_anywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(traces, "_CHUNK", 7)
    path = tmp_path / "list.json"
    path.write_text("[" + ", ".join(f'{{"prompt": {n}, "output": 1}}' for n in range(1, 40)) + "]")
    assert workloads.load(path).prompt.tolist() == list(range(1, 40))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_can_be_read(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("prompt,output\n3,4\n",))
    writer.start()
    assert workloads.load(path).stored.tolist() == [6]
    writer.join()


@pytest.mark.parametrize(
    "text, words",
    [
        ("1,2,3\n4,5,6\n", "line 1: no column of prompt lengths"),
        ("a,b\n1,2\n", "line 1: no column of prompt lengths"),
        ("[[1, 2], [3, 4], [5", r"item 3: not JSON, or cut off: '\[5'"),
        ("[[1, 2], nonsense]", "item 2: not JSON, or cut off"),
        ("[" + "[" * 100_000, "item 1: not JSON"),
        ("prompt,output\n" + "9" * traces.MAX_LINE, "line 2: longer than 1,048,576 characters"),
    ],
)
def test_a_file_that_is_no_trace_is_one_error(text, words):
    with pytest.raises(WorkloadError, match="^trace, " + words):
        workloads.parse(text, name="trace")


def test_bad_rows_are_left_out_and_counted_where_that_is_asked_for():
    rows = "".join(f"2023-11-16 18:17:{second:02},{second + 1},8\n" for second in range(60))
    bad = "2023-11-16 18:18:00,0,8\n2023-11-16 18:18:01,-1,8\nnever,1,1\n2023-11-16 18:18:02,12"
    with pytest.raises(WorkloadError, match="line 62: .* got '0'"):
        workloads.parse(HEADER + rows + bad)
    workload = workloads.parse(HEADER + rows + bad, tolerant=True)
    assert len(workload) == 60 and workload.skipped.rows == 4
    assert workload.skipped.reasons == (
        ("line 62: a length must be 1 to 10,000,000 tokens, got '0'", 2),
        ("line 65: 2 column(s) only: ['2023-11-16 18:18:02', '12']", 1),
        ("line 64: 'never' is not a date and time", 1),
    )
    assert "2 row(s) left out, first line 62" in str(workload.skipped)


def test_a_time_in_a_unit_that_nobody_told_is_said_to_be_unread():
    for text in ("arrival,prompt,output\nnan,5,6\n", '{"arrival": NaN, "prompt": 5, "output": 6}'):
        workload = workloads.parse(text, tolerant=True)
        assert workload.arrival_ns is None
        assert "'arrival' not read: a time is called one of TIMESTAMP, " in str(workload.skipped)
    for text in (
        "arrival_s,prompt,output\n7,5,6\n8.5,5,6",
        '{"arrival_s": 7, "prompt": 5, "output": 6}\n' * 2,
    ):
        workload = workloads.parse(text)
        assert workload.skipped is None and workload.arrival_ns[-1] in (0, 1_500_000_000)


def test_prefixes_that_some_requests_lack_are_said_to_be_left_out():
    workload = workloads.parse(ROUND + ROUND + '{"timestamp": 1, "prompt": 5, "output": 6}\n')
    assert workload.prefix_hashes is None and "hash_ids left out: from request 3 on" in str(workload.skipped)


def test_rows_behind_a_quote_that_nobody_closes_are_counted():
    rows = "prompt,output\n" + "10,5\n" * 40
    workload = workloads.parse(rows + '"10,5\n' + "10,5\n" * 3, tolerant=True)
    assert len(workload) == 40 and workload.skipped.rows == 4
    assert str(workload.skipped).startswith("4 row(s) left out, first line 42: ")
    with pytest.raises(WorkloadError, match="40 of 40 rows are no requests"):
        workloads.parse('"prompt","output"\n"' + "10,5\n" * 40, tolerant=True)


def test_a_json_line_cut_off_in_the_middle_is_left_out_and_counted():
    workload = workloads.parse(ROUND * 10 + ROUND[:40], tolerant=True)
    assert len(workload) == len(workload.prefix_hashes) == 10
    assert workload.skipped.rows == 1 and "line 11: not JSON" in str(workload.skipped)


def test_a_file_that_is_mostly_no_requests_is_refused_all_the_same():
    with pytest.raises(WorkloadError, match="3 of 13 rows are no requests, more than 10%.*first line 12"):
        workloads.parse("prompt,output\n" + "1,1\n" * 10 + "0,1\n" * 3, tolerant=True)


def test_what_lies_beyond_the_most_requests_is_an_error_or_said_to_be_unread(monkeypatch):
    monkeypatch.setattr(trace_table, "MAX_REQUESTS", 3)
    for text in ("prompt,output\n" + "5,6\n" * 4, "[5, 6]\n" * 4):
        with pytest.raises(WorkloadError, match="more than 3 requests"):
            workloads.parse(text)
        workload = workloads.parse(text, tolerant=True)
        assert len(workload) == 3 and "goes on after 3 requests; the rest was not read" in str(
            workload.skipped
        )


def test_of_prefix_hashes_no_more_are_read_than_memory_holds(monkeypatch):
    monkeypatch.setattr(trace_table, "MAX_HASHES", 6)
    workload = workloads.parse(ROUND * 3, tolerant=True)
    assert len(workload) == len(workload.prefix_hashes) == 2
    assert "goes on after 2 requests" in str(workload.skipped)


def test_a_jsonl_file_is_read_as_json_whatever_it_begins_with(tmp_path):
    path = tmp_path / "not-json.jsonl"
    path.write_text("input_length,output_length\n3,4\n")
    with pytest.raises(WorkloadError, match="not-json.jsonl, line 1: not JSON"):
        workloads.load(path)
