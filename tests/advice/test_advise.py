"""Advice as a whole: on real traces where they are, on workloads with their lengths everywhere."""

from __future__ import annotations

import html
import html.parser
import json
import re
from dataclasses import asdict, replace

import numpy as np
import pytest

from pagedlab import cli, serving, workloads
from pagedlab.advice import CANNOT_TELL, Advice, AdviceError, Choice, Finding, advise, served
from pagedlab.advice.advisor import in_pool
from pagedlab.advice.block_cost import Demand, Hits, advised, behind, block_costs
from pagedlab.advice.engine_log import EngineLog
from pagedlab.advice.report import NOTHING
from pagedlab.advice.served import Pool
from pagedlab.advice.setting import resolve
from pagedlab.serving import ASSUMED
from pagedlab.workloads import PrefixHashes, Workload

REAL = {
    "code": "azure_2023_code.csv",
    "conversation": "azure_2023_conv.csv",
    "long documents": "mooncake_conversation_head.jsonl",
    "shared prefixes": "mooncake_synthetic_head.jsonl",
}
WORDS = {"measured", "simulated", "published", "recorded", "computed", "assumed", CANNOT_TELL}


def generated(kind: str) -> Workload:
    """With the published lengths of the same traces; one of them with prefixes made up."""
    names = {"code": "azure-code", "conversation": "azure-conversation"}
    workload = workloads.named(names.get(kind, "mooncake-conversation"), requests=1_500)
    if kind != "shared prefixes":
        return workload
    counts = -(-workload.prompt // 512)
    own = iter(range(1_000, 10**9))
    rows = [
        tuple((request % 5) * 100 + at if at < 4 else next(own) for at in range(count))
        for request, count in enumerate(counts.tolist())
    ]
    return replace(workload, output=np.maximum(1, workload.output // 3), prefix_hashes=PrefixHashes.of(rows))


@pytest.fixture(params=["real", "generated"], scope="module")
def four(request, trace_path) -> dict[str, Workload]:
    if request.param == "generated":
        return {kind: generated(kind) for kind in REAL}
    return {kind: workloads.load(trace_path(name)) for kind, name in REAL.items()}


@pytest.fixture(scope="module")
def advices(four) -> dict[str, Advice]:
    return {kind: advise(workload, gpu="h100") for kind, workload in four.items()}


def test_four_traces_get_different_advice_and_each_answer_has_its_word_and_evidence(advices):
    at_once = {kind: advice.finding("capacity").values["running"] for kind, advice in advices.items()}
    assert (
        at_once["conversation"] > at_once["code"] > max(at_once["long documents"], at_once["shared prefixes"])
    )
    assert len({round(value) for value in at_once.values()}) == 4
    assert advices["long documents"].block_size > advices["conversation"].block_size
    told = {kind: advice.finding("prefix hits").word for kind, advice in advices.items()}
    assert told["code"] == told["conversation"] == CANNOT_TELL and told["shared prefixes"] == "simulated"
    for advice in advices.values():
        assert {finding.word for finding in advice.findings} <= WORDS
        assert all(finding.text and finding.evidence for finding in advice.findings)
        assert str(advice.block_size) in advice.finding("block size").text
        assert next(flag for flag in advice.flags if flag.flag == "--block-size").value == str(
            advice.block_size
        )


def test_what_about_each_trace_decided_is_said_in_other_words_not_only_in_other_numbers(advices):
    """Near the top: long requests, prompts that begin alike, growth, where the time goes."""
    told = {
        kind: str(advice).partition("what to set in")[0].partition("\nwhy: ")[2]
        for kind, advice in advices.items()
    }
    assert len({re.sub(r"[\d.,]+", "", text) for text in told.values()}) == 4
    assert "requests are long" in told["long documents"] and "requests are long" not in told["conversation"]
    assert "prompts begin alike" in told["shared prefixes"] and "begin alike" not in told["code"]
    assert all("time (simulated)" in text and "block size (simulated)" in text for text in told.values())


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_on_a_held_out_half_the_advice_is_within_five_percent_of_the_best(four, engine):
    """The first half is looked at, the second is served; by the stated cost, and if tables were free."""
    setting = resolve(Choice(engine=engine))
    for kind, workload in four.items():
        first = np.arange(len(workload)) < len(workload) // 2
        seen, unseen = (
            block_costs(in_pool(half, Demand.of(half), setting), setting)
            for half in (workload.only(first), workload.only(~first))
        )
        size = advised(seen, setting).block_size
        held_out = [cost for cost in unseen if cost.backends]
        mine = next(cost for cost in held_out if cost.block_size == size)
        assert mine.total_us <= 1.05 * min(cost.total_us for cost in held_out), kind
        assert mine.free_us <= 1.05 * min(cost.free_us for cost in held_out), kind


def test_waste_and_short_requests_are_those_that_were_published(trace_path):
    code = advise(trace_path(REAL["code"])).finding
    assert code("short requests").values["requests_share"] == pytest.approx(0.055, abs=5e-4)
    assert code("short requests").values["tokens_share"] == pytest.approx(0.0017, abs=5e-5)
    assert code("what bounds a step").values["turns_at_tokens"] == pytest.approx(123_000, rel=0.005)
    assert code("waste").values["at_final_length_share"] == pytest.approx(0.0151, abs=1e-4)  # blocks of 64


SMALL = workloads.named("azure-conversation", requests=400)


def test_the_reader_who_knows_what_table_work_costs_gets_the_best_size():
    free, dear = (advise(SMALL, entry_ns=ns) for ns in (0.0, 1_000.0))
    assert free.block_size == 16 and dear.block_size > advise(SMALL).block_size > free.block_size
    assert "assumed: given" in dear.finding("block size").evidence


def test_how_the_advice_moves_is_what_another_advice_says():
    change = next(c for c in advise(SMALL).changes if c.input == "requests at once")
    other = advise(SMALL, max_running=int(change.becomes.split()[-1]))
    assert change.block_size == other.block_size


def test_the_decision_is_claimed_between_the_published_costs_of_table_work_alone():
    """A dearer entry moves the advice, and the engine's default is judged at both ends."""
    advice = advise(SMALL, engine="sglang")
    text = advice.finding("decision").text
    assert "whether table work is free or 62 ns an entry, the published bounds" in text
    mine, usual = (
        next(cost for cost in advice.costs if cost.block_size == size) for size in (advice.block_size, 1)
    )
    dear, free = usual.total_us / mine.total_us - 1, usual.free_us / mine.free_us - 1
    assert dear > 0.5 > 0.1 > abs(free)
    assert (
        f"the default of sglang, 1, costs {abs(100 * free):.1f} % " in text
        and f"{100 * dear:.0f} % more" in text
    )
    most = re.search(r"with computing prompts, at most (\d+) % of all GPU time", text)
    assert most is not None and 0 < int(most[1]) < 100 * dear
    dearer = [c for c in advice.changes if c.becomes == "247 ns"]
    assert dearer[0].more_share > behind(advice.costs, advice.block_size, resolve(Choice(engine="sglang")))
    given = advise(SMALL, entry_ns=10.0).finding("decision").text
    assert "with table work at 10 ns an entry (assumed: given)" in given and "published bounds" not in given


@pytest.mark.parametrize("trace", ["azure-code", "azure-conversation"])
def test_where_another_size_would_be_advised_todays_costs_more(trace):
    """Both columns of how the advice moves go by one measure."""
    advice = advise(workloads.named(trace, requests=400))
    moved = [change for change in advice.changes if change.block_size != advice.block_size]
    assert moved and all(change.more_share >= NOTHING for change in moved)


def test_an_engine_that_preempts_by_another_rule_says_so_where_preemptions_stand():
    told = advise(SMALL, engine="tensorrt-llm").finding("why: growth").text
    assert "by vLLM's rule; in tensorrt-llm nothing is preempted under GUARANTEED_NO_EVICT" in told
    assert "by vLLM's rule" not in advise(SMALL).finding("why: growth").text


def test_what_unknown_prefixes_would_change_is_said_where_blocks_bound_a_match():
    said = "Prefix hits, which the trace does not tell, would be for smaller ones"
    assert said in advise(SMALL).finding("why: block size").text
    assert said not in advise(SMALL, engine="tensorrt-llm").finding("why: block size").text


def test_memory_as_a_driver_reports_it_may_be_given_and_the_difference_is_told():
    sold, driver = advise(SMALL), advise(SMALL, gpu_gb=85.06)
    assert "81,559 MiB of an H100" in sold.finding("capacity").evidence
    assert "memory of H100 SXM assumed: given" in driver.finding("capacity").evidence
    more = driver.finding("capacity").values["tokens"] - sold.finding("capacity").values["tokens"]
    assert more == pytest.approx(0.92 * 5.06e9 / 131_072, abs=64)
    with pytest.raises(AdviceError, match=r"120 billion parameters by its name, 2 bytes each\): weight_gb"):
        advise(SMALL, model="gpt-oss-120b")


def test_a_size_of_the_readers_own_is_judged_and_warned_of():
    advice = advise(SMALL, block_size=24)
    assert [cost.backends for cost in advice.costs if cost.block_size == 24] == [()]
    assert any("24 under FlashInfer: 16/32/64" in warning for warning in advice.warnings)
    assert any(
        w.startswith("blocks of 1 cost") for w in advise(SMALL, engine="sglang", block_size=1).warnings
    )


@pytest.mark.parametrize(
    ("engine", "line"),
    [
        ("vllm", "\n--enable-prefix-caching\n"),
        ("sglang", "\n--disable-radix-cache not set: the cache is on\n"),
        ("tensorrt-llm", "\nkv_cache_config.enable_block_reuse True\n"),
    ],
)
def test_the_prefix_cache_is_set_as_the_engines_command_takes_it(engine, line):
    """A value behind vLLM's switch would be an unrecognised argument."""
    assert line in str(advise(SMALL, engine=engine))


def test_only_backends_that_run_on_the_gpu_decide_the_block_size():
    """A latent vector on an H200 is read by FlashMLA alone: the kernels of 32 and 128 are Blackwell's."""
    latent = {"model": "deepseek-v3", "weight_gb": 671, "tp": 8}
    on_hopper, on_blackwell = (advise(SMALL, gpu=gpu, **latent) for gpu in ("h200", "b200"))
    assert on_hopper.block_size == 64 and not on_hopper.warnings
    assert [cost.block_size for cost in on_blackwell.costs if cost.backends] == [32, 64, 128]
    assert "a latent vector for 8 ranks" in on_hopper.finding("copies").evidence


def test_what_was_simulated_is_said_of_every_engine():
    """The simulator preempts the newest, whatever the engine would do itself."""
    for engine in ("vllm", "sglang", "tensorrt-llm"):
        assert (
            "newest running request is preempted"
            in advise(SMALL, engine=engine).finding("preemptions").evidence
        )


def test_impossible_requests_are_left_out_with_their_numbers_and_none_that_fits_is_refused():
    mixed = workloads.parse("1000,10\n900000,10\n" * 20)
    finding = advise(mixed, gpu="h100").finding("impossible requests")
    assert "20 request(s) can never be served" in finding.text and "900,009 tokens" in finding.text
    with pytest.raises(AdviceError, match=r"no request of pasted fits: the shortest stores 900,009 tokens"):
        advise(workloads.parse("900000,10\n"), gpu="h100")


def test_one_request_that_a_contiguous_piece_cannot_hold_is_told():
    advice = advise(workloads.parse("300000,10\n"), gpu="h100")
    assert "0.0 contiguous, next power of two" in advice.finding("other allocation").text
    assert "(1 never fit)" in advice.finding("other allocation").text
    assert json.loads(advice.to_json())["block_size"] == advice.block_size


@pytest.mark.parametrize("rows", ["1,1\n", "1,1\n" * 3, "10000000,1\n1,1\n" * 2, "5,10000000\n2,1\n"])
def test_the_least_and_the_longest_requests_are_answered(rows):
    assert advise(workloads.parse(rows), gpu="h200").block_size >= 16


def test_a_log_of_this_model_takes_the_place_of_the_sum():
    log = EngineLog("start.log", tokens=65_536, kv_gib=8.0, per_request=4096, concurrency=16.0, block_size=16)
    advice = advise(SMALL, log=log)
    assert advice.finding("capacity").values["tokens"] == pytest.approx(65_536, abs=256)
    assert "65,536 tokens of the start-up log" in advice.finding("capacity").evidence
    assert advice.finding("log: tokens").word == "recorded"
    other = advise(SMALL, log=log, model="qwen3-8b")
    assert "start.log is of another model, dtype or rank: its tokens are not used" in other.warnings
    assert not [warning for warning in advice.warnings if "start.log" in warning]
    told = [{flag.flag for flag in each.flags} for each in (advice, other)]
    assert told[1] - told[0] == {"--gpu-memory-utilization"}, "the log's memory was counted"


def test_preemptions_and_other_allocation_come_from_the_real_managers():
    advice = advise(workloads.named("azure-conversation", requests=1_500))
    others = advice.finding("other allocation").values
    assert others["paged"] > others["virtual"] > others["reserve"] > 0
    assert others["paged"] > others["power-of-two"] > others["reserve"]
    preempted = list(advice.finding("preemptions").values["preemptions"].values())
    assert preempted[0] > 0 and preempted == sorted(preempted, reverse=True)


def test_a_cache_as_large_as_the_trace_finds_all_that_was_seen_before_and_a_small_one_less():
    """One that takes turns: five prompts of 20 units each, in a pool of two prompts or of all."""
    workload = workloads.parse(
        "".join(
            f'{{"prompt": {20 * 512}, "output": 1, "hash_ids": {list(range(100 * turn, 100 * turn + 20))}}}\n'
            for turn in [*range(5)] * 3
        )
    )
    seen = Demand.of(workload).hits
    assert seen.share_of_prompts == pytest.approx(2 / 3)

    def found(slots: int) -> Hits:
        pool = Pool(slots, 16, 1, ASSUMED)
        return served.found_in_pool(workload, pool, seen)

    assert found(10**6).share_of_prompts == pytest.approx(2 / 3, abs=0.05)  # the last unit is computed again
    assert found(2 * 20 * 512).tokens.tolist() == [0] * 15
    assert found(100).tokens.tolist() == [0] * 15, "less than one unit"


def test_the_prefix_cost_is_of_what_the_pool_finds_and_the_most_is_said_beside_it():
    workload = generated("shared prefixes")
    advice = advise(workload, gpu="h100")
    finding = advice.finding("prefix hits")
    assert finding.values["in_pool_share"] < finding.values["unlimited_share"]
    assert "(computed)" in finding.text and "the most that any pool could find" in finding.text.lower()
    setting = resolve(Choice())
    cost = next(cost for cost in advice.costs if cost.block_size == advice.block_size)
    assert cost.prefix_us == pytest.approx(
        1e6 * finding.values["lost_tokens"] * setting.prefill_s / workload.output.mean()
    )


def test_the_time_to_answer_does_not_grow_with_the_trace(monkeypatch):
    monkeypatch.setattr(served, "WINDOW", 50)
    assert "the first 50 requests" in advise(SMALL).finding("preemptions").evidence
    monkeypatch.setattr(served, "MAX_STEPS", {False: 10, True: 10})
    assert "cut short" in advise(SMALL).finding("preemptions").evidence


def test_the_first_screen_is_the_decision():
    """As text and as a page: what to set, what decided and the flags, before any table or evidence."""
    advice = advise(SMALL)
    top, flags, cost, evidence = re.split("what to set in|cost of one produced|\nevidence\n", str(advice))
    assert top.splitlines()[2].startswith(f"decision (simulated): set --block-size {advice.block_size} ")
    assert f"--block-size {advice.block_size}\n" in flags and "how the advice moves" in cost
    assert evidence.startswith("trace (assumed)") and "decision" not in evidence
    page = advice.to_html()
    order = [page.index(words) for words in ("<dt>decision", "What to set in", "costs</h2>", "Evidence</h2>")]
    assert order == sorted(order)


# ---- as text, JSON and a page -------------------------------------------------------------------------


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_the_page_asks_for_nothing_and_text_from_a_file_is_text(tmp_path, capsys):
    path = tmp_path / "<img src=x onerror=alert(1)>.csv"
    path.write_text("prompt,output\n" + "500,20\n" * 30 + "<script>alert(2)</script>,5\n")
    page = tmp_path / "advice.html"
    assert cli.main(["advise", str(path), "--html", str(page)]) == 0
    text = page.read_text()
    tags = _Tags()
    tags.feed(text)
    assert {"img", "script", "link", "iframe"}.isdisjoint(tags.tags)
    assert not [name for name, _ in tags.attributes if name in ("src", "href", "onerror")]
    assert "&lt;script&gt;alert(2)" in text and "&lt;img src=x" in text
    assert "1 row(s) left out, first line 32" in capsys.readouterr().out


def test_text_page_and_json_say_the_same_of_what_was_left_out_too():
    rows = "prompt,output\n" + "1000,10\n" * 30 + "900000,10\nmany,1\n2000"
    advice = advise(workloads.parse(rows, tolerant=True))
    assert {"left out", "impossible requests"} <= {finding.topic for finding in advice.findings}
    shown, page = " ".join(str(advice).split()), html.unescape(advice.to_html())
    kept = json.loads(advice.to_json())
    for said in (*advice.findings, *advice.flags):
        assert json.loads(json.dumps(asdict(said))) in kept["findings"] + kept["flags"]
        for words in (said.text, said.evidence) if isinstance(said, Finding) else (said.why, said.flag):
            assert words in shown and words in page


def test_a_limit_that_binds_is_left_alone_and_what_raising_it_would_do_is_told():
    """The block size holds for the limit it was decided under, so the two are not changed together."""
    workload = workloads.named("uniform", requests=2_000)
    advice = advise(workload)
    limit = next(flag for flag in advice.flags if flag.flag == "--max-num-seqs")
    assert limit.value == "1024" and not limit.changed and "it binds before memory" in limit.why
    assert "memory does not bind" in advice.finding("why: memory").text
    raised = advice.changes[-1]
    fit = int(raised.becomes.split()[-1].replace(",", ""))
    assert raised.input == "requests at once" and fit > 1024
    assert raised.block_size == advise(workload, max_running=fit).block_size


def test_json_is_the_same_answer_and_strict(capsys):
    assert cli.main(["advise", "azure-code", "--gpu", "h100", "--json"]) == 0
    read = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert read["block_size"] == advise("azure-code", gpu="h100").block_size
    assert {finding["word"] for finding in read["findings"]} <= WORDS
    assert [cost["block_size"] for cost in read["costs"]] == sorted(
        cost["block_size"] for cost in read["costs"]
    )


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "a TRACE is needed"),
        (["azure-code", "--model", "llama-3.1-9b"], "no model 'llama-3.1-9b' here; near: llama-3.1-8b"),
        (["azure-code", "--gpu", "v100"], "no GPU 'v100' here; near:"),
        (["azure-code", "--backend", "tgi"], "no engine 'tgi' here"),
        (["azure-cod"], "azure-cod: no such file, and no such workload; near: azure-code, "),
        (["azure-code", "--vllm-log", "nowhere.log"], "No such file or directory: 'nowhere.log'"),
        (["azure-code", "--tp", "-2"], "tp must be a whole number from 1 to 1,000,000, got -2"),
        (["azure-code", "--gpu-gb", "3.5"], "gpu_gb must be at least 4, got 3.5"),
        (["azure-code", "--html", "/nowhere/x.html"], "--html /nowhere/x.html: there is no folder /nowhere"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, words, capsys):
    assert cli.main(["advise", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("pagedlab advise: ") and words in err and err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "prompt,output\n0,1\n", "\x00\x01", "[" * 100_000])
def test_a_file_that_is_no_trace_is_one_line(text, tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    assert cli.main(["advise", str(path)]) == 2
    assert capsys.readouterr().err.startswith("pagedlab advise: trace.csv")


def test_what_a_machine_without_kernels_cannot_measure_is_said(monkeypatch):
    import pagedlab.cost

    def missing(slots: int) -> None:
        raise ImportError("no torch here")

    monkeypatch.setattr(pagedlab.cost, "AttentionCost", missing)
    advice = advise(SMALL, measure=True)
    assert (
        advice.finding("kernel here").word == CANNOT_TELL
        and "no torch here" in advice.finding("kernel here").evidence
    )
    assert advice.finding("table here").word == "measured"


@pytest.mark.slow
def test_measuring_here_adds_findings_and_leaves_the_advice_for_a_gpu_alone():
    advice = advise(SMALL, measure=True)
    assert advice.finding("kernel here").word == "measured"
    assert set(advice.finding("kernel here").values["ratios"]) == {16, 32, 64, 128, 256}


def test_control_c_while_a_run_is_simulated_ends_the_command(monkeypatch, capsys):
    whole = serving.simulate

    def cut(*arguments, **limits):
        run = whole(*arguments, **limits)
        run.stopped = "interrupted"
        return run

    monkeypatch.setattr(serving, "simulate", cut)
    assert cli.main(["advise", "uniform"]) == 130
    assert capsys.readouterr() == ("", "pagedlab advise: stopped\n")
