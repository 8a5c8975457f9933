import msgspec
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
        "The usage in the stream counts no more than a chunk, or stops on the way: tokens are counted one per event (128 of"
    )


def test_usage_says_what_counts_in_its_place() -> None:
    ids = {"usage": False, "counted_by": "token_ids"}
    assert (answers.usage_check(record(**ids)).status, answers.usage_check(record(**ids, output_tokens=40)).status) == (
        "pass",
        "warn",
    )
    assert "counted by their ids (128 of 128 asked)" in answers.usage_check(record(**ids)).message
    few = record(usage=False, counted_by="events", prompt_tokens=None, output_tokens=32, gaps=GapSummary(n=31))
    kept = answers.usage_check(few, keeps_length=True)
    assert (kept.status, "(32 events for 128 tokens asked): the server keeps the length" in kept.message) == ("warn", True)
    assert "one per event (32 of 128 asked)" in answers.usage_check(few).message


def test_an_end_without_a_finish_reason_is_told() -> None:
    check = answers.request_check(record(finish_reason=None))
    assert check.status == "warn"
    assert check.message.endswith("It ended in order but without a finish_reason; all 128 tokens had come.")


@pytest.mark.parametrize(
    ("facts", "kept"),
    [
        ({}, True),
        ({"output_tokens": 129}, True),
        ({"usage": False, "counted_by": "events"}, True),
        ({"usage": False, "counted_by": "events", "output_tokens": 127}, True),
        ({"usage": False, "counted_by": "events", "output_tokens": 32}, False),
        ({"usage": False, "counted_by": "events", "asked_output": 2, "output_tokens": 2}, False),
        ({"asked_output": 2, "output_tokens": 2}, True),
        ({"output_tokens": 16}, False),
        ({"finish_reason": "stop"}, False),
        ({"finish_reason": None}, False),
    ],
)
def test_a_server_that_gives_the_length_asked_for(facts: dict[str, object], kept: bool) -> None:
    assert answers.gave_as_asked(record(**facts)) is kept


@pytest.mark.parametrize(
    ("reasons", "before", "after", "as_asked"),
    [
        (["length"] * 2, 1000.0, 1256.0, True),
        (["length"] * 2, 1000.0, 1257.0, False),
        (["length"] * 2, 1000.0, 1064.0, False),
        (["length", "stop"], 1000.0, 1256.0, False),
        (["length"] * 2, 1000.0, 256.0, False),
        (["length"] * 2, None, 1256.0, False),
        ([], 1000.0, 1000.0, False),
    ],
    ids=["as asked", "others", "short", "stopped", "restarted", "not known", "nothing"],
)
def test_the_servers_own_counter_tells_whether_it_keeps_the_length(
    reasons: list[str], before: float | None, after: float, as_asked: bool
) -> None:
    sent = [record(usage=False, counted_by="events", output_tokens=32, finish_reason=reason) for reason in reasons]
    first, last = (ServerSample(t=1, took_s=0.01, generation_tokens_total=total) for total in (before, after))
    assert answers.generated_as_asked(sent, first, last) is as_asked


def test_a_length_that_nobody_counts_is_not_called_short() -> None:
    few = answers.output_length_check([record(usage=False, counted_by="events", output_tokens=32)] * 3)
    assert few.status == "refuse"
    assert few.message.startswith(
        "How long answers get is not known: 3 requests for 384 tokens were answered in 25% as many events"
    )
    stopped = answers.output_length_check([record(usage=False, counted_by="events", output_tokens=32, finish_reason="stop")] * 3)
    assert stopped.message.startswith(
        "Answers end early: 25% of the 384 output tokens asked of 3 requests, counted one per event, "
    )
    kept = answers.output_length_check([record(usage=False, counted_by="length")] * 3)
    assert kept.status == "pass"
    assert "which the server keeps" in kept.message


def test_a_tpot_that_is_not_known_is_over_no_limit() -> None:
    few = record(usage=False, counted_by="events", output_tokens=16)
    check = answers.slo_check(few, [few] * 3, Slo(ttft_s=0.8, tpot_s=0.05))
    assert check.status == "pass"
    assert "TPOT none" in check.message


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


@pytest.mark.parametrize(("tokens", "status"), [(128, "pass"), (129, "pass"), (134, "pass"), (135, "refuse"), (512, "refuse")])
def test_answers_that_are_longer_than_asked(tokens: int, status: CheckStatus) -> None:
    check = answers.output_length_check([record(output_tokens=tokens)] * 3, ("max_completion_tokens", "max_tokens"))
    assert check.status == status
    if status == "refuse":
        assert check.message.startswith("Answers are longer than asked: ")
        assert check.message.endswith("does the server ignore max_completion_tokens and max_tokens?")


@pytest.mark.parametrize(
    ("asked", "came", "status"), [(1, 2, "pass"), (16, 17, "pass"), (4, 6, "refuse"), (16, 18, "refuse"), (128, 129, "pass")]
)
def test_an_end_token_that_is_counted_makes_no_answer_too_long(asked: int, came: int, status: CheckStatus) -> None:
    one = msgspec.structs.replace(record(output_tokens=came), asked_output=asked)
    assert answers.output_length_check([one] * 3).status == status
    assert answers.leaves_length_unread(one) == (status == "refuse")


def test_an_estimated_length_is_called_one() -> None:
    long = answers.output_length_check([record(output_tokens=512, usage=False)] * 3)
    assert "400% of the 384 output tokens asked of 3 requests, counted one per event, came" in long.message


@pytest.mark.parametrize(
    ("facts", "unread"),
    [
        ({}, False),
        ({"output_tokens": 129}, False),
        ({"output_tokens": 512}, True),
        ({"output_tokens": 512, "ending": "aborted"}, True),
        ({"output_tokens": 16}, True),
        ({"output_tokens": 16, "finish_reason": "stop"}, False),
        ({"output_tokens": 16, "ending": "aborted"}, False),
    ],
)
def test_a_length_that_the_server_chose_itself(facts: dict[str, object], unread: bool) -> None:
    assert answers.leaves_length_unread(record(**facts)) == unread


def test_an_answer_given_up_says_how_long_it_had_got() -> None:
    check = answers.request_check(record(ending="aborted", output_tokens=4000, t_end=220.0))
    assert "it was given up after 120 s without an end, 4000 tokens long by then" in check.message


# --- streams that are held back -----------------------------------------------------------------------------------


BUFFERED = record(t_first=101.4, t_last=101.4005, gaps=GapSummary(n=127, sum_s=0.0005, max_s=0.0001, under_1ms=127))
ONE_EVENT = record(t_first=101.4, t_last=101.4, first_tokens=128, gaps=GapSummary())
E2E_ONLY = Slo(ttft_s=None, tpot_s=None, e2e_s=5.0)


ROUND_TRIPS = record(t_first=101.3, t_last=101.4, gaps=GapSummary(n=127, sum_s=0.1, max_s=0.05, under_1ms=125))


@pytest.mark.parametrize("held", [BUFFERED, ONE_EVENT, ROUND_TRIPS], ids=["one read", "one event", "over round trips"])
@pytest.mark.parametrize(
    ("slo", "status"),
    [(IN_TIME, "refuse"), (Slo(ttft_s=0.8, tpot_s=None), "refuse"), (Slo(ttft_s=None, tpot_s=0.05), "refuse"), (E2E_ONLY, "warn")],
)
def test_a_stream_that_comes_whole_hides_ttft_and_tpot(held: RequestRecord, slo: Slo, status: CheckStatus) -> None:
    check = answers.stream_check([held] * 3, slo, None)
    assert check is not None
    assert (check.check, check.status) == ("stream", status)
    assert "Something on the way buffers the stream, or the server does: 3 of 3 answers came whole and at once, after 1.4 s" in (
        check.message
    )


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"t_first": 100.08, "t_last": 100.0804}, "within 100 ms all of it is fast, not held back"),
        ({"output_tokens": 3, "asked_output": 3}, "three tokens may share a read"),
        ({"output_tokens": 1, "asked_output": 1, "first_tokens": 1, "gaps": GapSummary()}, "one token has no stream"),
        ({"t_first": 101.3, "gaps": GapSummary(n=127, sum_s=0.1, max_s=0.01, under_1ms=114)}, "ten steps of a fast decode"),
        ({"t_first": 101.2, "gaps": GapSummary(n=127, sum_s=0.2, max_s=0.0009, under_1ms=127)}, "0.9 ms a token, for 200 ms"),
    ],
)
def test_a_stream_that_may_be_as_it_was_made_is_not_spoken_of(facts: dict[str, object], why: str) -> None:
    seen = msgspec.structs.replace(BUFFERED, **facts)
    assert answers.stream_check([seen] * 3, IN_TIME, None) is None, why


def test_one_answer_that_came_as_a_stream_is_enough() -> None:
    assert answers.stream_check([BUFFERED, BUFFERED, record()], IN_TIME, None) is None
    failed = record(ending="truncated")
    assert answers.stream_check([BUFFERED, failed], IN_TIME, None) is not None
    assert answers.stream_check([failed], IN_TIME, None) is None
    assert answers.stream_check([], IN_TIME, None) is None


@pytest.mark.parametrize(("decode_s", "held"), [(None, True), (0.1, False), (0.101, True), (1.2, True)])
def test_a_server_that_decoded_fast_by_its_own_account_held_nothing_back(decode_s: float | None, held: bool) -> None:
    assert (answers.stream_check([BUFFERED] * 3, IN_TIME, decode_s) is not None) == held


def test_the_servers_own_decode_time_is_the_mean_between_two_readings() -> None:
    def reading(decode: tuple[float, float] | None) -> ServerSample:
        return ServerSample(t=1, took_s=0.01, decode_time_s=decode)

    assert answers.decode_s(reading((10.0, 5)), reading((16.0, 9))) == pytest.approx(1.5)
    assert answers.decode_s(reading((10.0, 5)), reading((10.0, 5))) is None
    assert answers.decode_s(reading(None), reading((10.0, 5))) is None
    assert answers.decode_s(None, reading((10.0, 5))) is None


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
