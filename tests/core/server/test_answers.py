import pytest

from core.config import Slo
from core.records import CheckStatus, GapSummary, RequestRecord, ServerSample
from core.server import answers
from tests.core.server.fakes import record

IN_TIME = Slo(ttft_s=0.8, tpot_s=0.05)


def counters(queries: float | None, hits: float | None) -> ServerSample:
    return ServerSample(t=1, took_s=0.01, prefix_queries_total=queries, prefix_hits_total=hits)


def isolation(
    hits: float, queries: float = 2560, n: int = 5, version: str = "0.32.0", labels: dict[str, str] | None = None
) -> tuple[CheckStatus, str]:
    before, after = counters(1000, 10), counters(1000 + queries, 10 + hits)
    check = answers.isolation_check([record()] * n, before, after, labels or {}, version)
    assert check.check == "isolation"
    return check.status, check.message


def test_request_that_ended_in_order_says_its_latencies_from_the_schedule() -> None:
    check = answers.request_check(record())
    assert check.status == "pass"
    for words in ("512 + 128 tokens", "TTFT 40 ms", "TPOT 10 ms", "E2E 1.31 s"):
        assert words in check.message


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"ending": "http", "status": 404, "error": "The model `x` does not exist."}, "404, The model `x` does not exist"),
        ({"ending": "stream", "status": 200, "error": "boom"}, "stream, boom"),
        ({"ending": "truncated", "status": 200, "error": None}, "truncated"),
        ({"ending": "aborted", "t_first": None, "t_end": 220.0}, "failed: it was given up after 120 s without a token."),
        ({"ending": "aborted", "t_end": 220.0}, "failed: it was given up after 120 s without an end."),
        ({"ending": "connection", "status": None, "error": "Connection reset"}, "Connection reset"),
    ],
)
def test_request_that_failed_is_refused_in_the_servers_words(facts: dict[str, object], words: str) -> None:
    check = answers.request_check(record(**facts))
    assert check.status == "refuse"
    assert words in check.message
    assert not check.message.endswith("..")


def test_usage() -> None:
    check = answers.usage_check(record())
    assert check.status == "pass"
    assert "128 output tokens of 128 asked, in 128 events" in check.message
    clumped = answers.usage_check(record(gaps=GapSummary(n=31)))
    assert "in 32 events" in clumped.message
    assert answers.usage_check(record(output_tokens=100)).status == "warn"
    without = answers.usage_check(record(usage=False, prompt_tokens=None))
    assert without.status == "warn"
    assert "No usage" in without.message
    belied = answers.usage_check(record(usage=False))
    assert belied.status == "warn"
    assert belied.message.startswith(
        "The usage in the stream counts no more than a chunk: tokens are counted one per event (128 of"
    )


@pytest.mark.parametrize(
    ("prompt_tokens", "status"), [(512, "pass"), (522, "pass"), (523, "refuse"), (502, "pass"), (501, "refuse"), (None, "warn")]
)
def test_prompt_length_is_within_two_percent(prompt_tokens: int | None, status: CheckStatus) -> None:
    check = answers.prompt_length_check(record(prompt_tokens=prompt_tokens))
    assert check.status == status
    assert "512" in check.message


def test_isolation_by_the_counters() -> None:
    assert isolation(hits=0) == ("pass", "Our 5 prompts were cold: 0 of 2560 tokens looked up were hits.")
    assert isolation(hits=16)[0] == "warn"
    status, message = isolation(hits=1024)
    assert (status, "1024 of 2560" in message, "40%" in message) == ("refuse", True, True)


def test_isolation_at_exactly_one_percent_is_refused() -> None:
    assert isolation(hits=25, queries=2560)[0] == "warn"
    assert isolation(hits=25.6, queries=2560)[0] == "refuse"


def test_isolation_with_others_in_the_counters_is_not_proven() -> None:
    status, message = isolation(hits=4000, queries=9000)
    assert status == "warn"
    assert "2560 were ours" in message


def test_isolation_of_servers_that_count_blocks() -> None:
    assert isolation(hits=0, queries=160, version="0.8.5") == (
        "pass",
        "Our 5 prompts were cold: 0 of 160 blocks looked up were hits.",
    )
    assert isolation(hits=8, queries=160, version="0.8.5")[0] == "refuse"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, None),
        (counters(5, 0), None),
        (counters(None, None), counters(None, None)),
        (counters(5000, 40), counters(100, 0)),
        (counters(5, 0), counters(5, 0)),
    ],
)
def test_isolation_without_counters_that_moved_is_not_proven(before: ServerSample | None, after: ServerSample | None) -> None:
    check = answers.isolation_check([record()], before, after, {}, "0.32.0")
    assert check.status == "warn"
    assert "cannot be proven" in check.message


@pytest.mark.parametrize(
    ("cached", "status"), [((0, 0), "pass"), ((0, 400), "refuse"), ((None, 400), "refuse"), ((0, None), "warn")]
)
def test_isolation_by_usage_where_there_are_no_counters(cached: tuple[int | None, ...], status: CheckStatus) -> None:
    records = [record(cached_tokens=tokens) for tokens in cached]
    assert answers.isolation_check(records, None, None, {}, "0.32.0").status == status


def test_isolation_of_a_server_without_prefix_cache() -> None:
    assert isolation(hits=0, queries=0, labels={"enable_prefix_caching": "False"})[0] == "pass"
    assert isolation(hits=0, queries=0, labels={"enable_prefix_caching": "True"})[0] == "warn"


def test_output_length() -> None:
    assert (
        answers.output_length_check([record(output_tokens=128), record(output_tokens=116), record(output_tokens=122)]).status
        == "pass"
    )
    short = answers.output_length_check([record(output_tokens=40, finish_reason="stop")] * 3)
    assert short.status == "refuse"
    for words in ("end early", "31%", "stop"):
        assert words in short.message


def test_output_length_leaves_out_what_failed() -> None:
    failed = record(ending="truncated", output_tokens=5)
    assert answers.output_length_check([record(), failed]).status == "pass"
    assert answers.output_length_check([failed]).status == "warn"


def late(ttft_s: float) -> RequestRecord:
    return record(t_first=100 + ttft_s, t_last=101.27 + ttft_s)


def test_slo_that_single_requests_meet() -> None:
    check = answers.slo_check(record(), [record(), late(0.05), late(0.06)], IN_TIME)
    assert check.status == "pass"
    assert "TTFT 40 ms, 50 ms, 60 ms; TPOT 10 ms, 10 ms, 10 ms; E2E 1.31 s" in check.message
    assert "not judged" not in check.message


def test_slo_that_all_three_miss_is_infeasible() -> None:
    check = answers.slo_check(record(), [late(1.0), late(0.9), late(1.1)], IN_TIME)
    assert check.status == "refuse"
    assert "Infeasible at any rate" in check.message
    assert "TTFT over 800 ms" in check.message
    assert "TPOT over" not in check.message
    for value in ("1 s", "900 ms", "1.1 s"):
        assert value in check.message


def test_slo_that_two_of_three_miss_goes_on() -> None:
    check = answers.slo_check(record(), [late(1.0), late(0.9), late(0.1)], IN_TIME)
    assert check.status == "warn"
    assert "2 of 3" in check.message


def test_slo_missed_by_different_limits_is_infeasible_too() -> None:
    slow = record(t_last=109.0)
    check = answers.slo_check(record(), [late(1.0), slow, late(0.9)], Slo(ttft_s=0.8, tpot_s=None, e2e_s=5.0))
    assert check.status == "refuse"
    assert "TTFT over 800 ms and E2E over 5 s" in check.message


def test_slo_limit_itself_is_met() -> None:
    exact = record(t_sched=0.0, t_first=0.5, t_last=1.0)
    assert answers.slo_check(exact, [exact] * 3, Slo(ttft_s=0.5, tpot_s=None)).status == "pass"
    assert answers.slo_check(exact, [exact] * 3, Slo(ttft_s=None, tpot_s=None, e2e_s=0.999)).status == "refuse"


def test_tpot_leaves_out_the_tokens_of_the_first_event() -> None:
    five = record(t_sched=0.0, t_first=1.0, t_last=2.0, first_tokens=8, output_tokens=128)
    assert answers.slo_check(five, [five] * 3, Slo(ttft_s=None, tpot_s=1 / 120)).status == "pass"
    assert answers.slo_check(five, [five] * 3, Slo(ttft_s=None, tpot_s=1 / 121)).status == "refuse"


def test_tpot_of_one_event_is_undefined_and_no_miss() -> None:
    one = record(first_tokens=128, t_last=100.04)
    check = answers.slo_check(one, [one] * 3, IN_TIME)
    assert check.status == "pass"
    assert "TPOT none" in check.message


def test_single_requests_that_fail_miss() -> None:
    failed = record(ending="http", status=500, error="engine died.", t_first=None, t_last=None)
    check = answers.slo_check(record(), [failed] * 3, IN_TIME)
    assert check.status == "refuse"
    assert "http with status 500, engine died" in check.message
    assert answers.slo_check(record(), [record(), failed, record()], IN_TIME).status == "warn"


def test_a_slow_first_request_is_spoken_of_and_not_judged() -> None:
    check = answers.slo_check(late(5.0), [record()] * 3, IN_TIME)
    assert check.status == "pass"
    assert "the first request took 6.27 s and is not judged" in check.message
