import msgspec
import pytest

from core.config import Slo
from core.facts import Code, Fact, Figure, Said, fact, parts, says
from core.records import CheckStatus, GapSummary, RequestRecord, ServerSample, Shape
from core.server import answers
from core.singles import judged
from core.workloads import Prefix
from tests.core.server.fakes import figures, found, record

IN_TIME = Slo(ttft_s=0.8, tpot_s=0.05)


def counters(queries: float | None, hits: float | None) -> ServerSample:
    return ServerSample(t=1, took_s=0.01, prefix_queries_total=queries, prefix_hits_total=hits)


def isolation(
    hits: float, queries: float = 2560, n: int = 5, version: str = "0.32.0", labels: dict[str, str] | None = None
) -> tuple[CheckStatus, Said]:
    before, after = counters(1000, 10), counters(1000 + queries, 10 + hits)
    check = answers.isolation_check([record()] * n, before, after, labels or {}, version)
    assert check.check == "isolation"
    return check.status, check.message


def test_request_that_ended_in_order_says_its_latencies_from_the_schedule() -> None:
    check = answers.request_check(record())
    assert (check.status, found(check).code) == ("pass", "request_answered")
    assert figures(check, "prompt_tokens", "output_tokens") == (512, 128)
    assert figures(check, "ttft_s", "tpot_s", "e2e_s") == pytest.approx((0.04, 0.01, 1.31))


@pytest.mark.parametrize(
    ("facts", "how"),
    [
        (
            {"ending": "http", "status": 404, "error": "The model `x` does not exist."},
            fact("request_broken_off", ending="http", status=404, said="The model `x` does not exist"),
        ),
        (
            {"ending": "stream", "status": 200, "error": "boom"},
            fact("request_broken_off", ending="stream", status=None, said="boom"),
        ),
        (
            {"ending": "truncated", "status": 200, "error": None},
            fact("request_broken_off", ending="truncated", status=None, said=None),
        ),
        (
            {"ending": "aborted", "t_first": None, "t_end": 220.0},
            fact("request_given_up", after_s=120.0, first_token=False, tokens_too_many=None),
        ),
        (
            {"ending": "aborted", "t_end": 220.0},
            fact("request_given_up", after_s=120.0, first_token=True, tokens_too_many=None),
        ),
        (
            {"ending": "connection", "status": None, "error": "Connection reset"},
            fact("request_broken_off", ending="connection", status=None, said="Connection reset"),
        ),
    ],
)
def test_request_that_failed_is_refused_in_the_servers_words(facts: dict[str, object], how: Fact) -> None:
    for text_refused in (False, True):
        check = answers.request_check(record(**facts), text_refused=text_refused)
        assert check.status == "refuse"
        assert check.message == fact("request_failed", how, prompt_tokens=512, output_tokens=128, text_refused=text_refused)


SHAPES: list[tuple[Shape, CheckStatus, list[Code]]] = [
    (Shape(), "pass", []),
    (Shape(prompt="messages", length_by="max_completion_tokens"), "pass", []),
    (Shape(prompt="messages", length_by="max_tokens"), "pass", ["takes_max_tokens"]),
    (Shape(prompt="text"), "pass", ["takes_text"]),
    (Shape(usage="end"), "pass", ["takes_usage_at_end"]),
    (Shape(left_out=("top_p",), usage="none"), "pass", ["takes_no_usage", "fields_left_out"]),
    (Shape(left_out=("ignore_eos",)), "warn", ["fields_left_out"]),
    (Shape(salted=False), "warn", ["takes_no_salt"]),
]


@pytest.mark.parametrize(("shape", "status", "codes"), SHAPES)
def test_what_a_server_has_written_otherwise_is_said_beside_its_answer(
    shape: Shape, status: CheckStatus, codes: list[Code]
) -> None:
    check = answers.with_shape(answers.request_check(record()), shape)
    assert check.status == status
    assert [each.code for each in parts(check.message) if isinstance(each, Fact)] == [
        *(["in_turn"] if codes else []),
        "request_answered",
        *codes,
    ]
    refused = answers.request_check(record(ending="http", status=400))
    assert answers.with_shape(refused, shape) == refused


def test_the_least_sure_way_of_counting_is_told() -> None:
    by_length, by_events = record(usage=False, counted_by="length"), record(usage=False, counted_by="events")
    assert answers.counted_by([record(counted_by="usage"), by_length]) == "length"
    assert answers.counted_by([by_events, record(counted_by="usage")]) == "events"
    assert answers.counted_by([record(ending="http", counted_by="events"), record()]) == "usage"
    assert answers.counted_by([record(ending="http")]) is None


def test_usage() -> None:
    check = answers.usage_check(record())
    assert (check.status, check.message) == ("pass", fact("usage_seen", output_tokens=128, asked=128, events=128))
    clumped = answers.usage_check(record(gaps=GapSummary(n=31)))
    assert figures(clumped, "events") == (32,)
    assert answers.usage_check(record(output_tokens=100)).status == "warn"
    without = answers.usage_check(record(usage=False, prompt_tokens=None))
    assert (without.status, without.message) == ("warn", fact("usage_missing", events=128, asked=128))
    belied = answers.usage_check(record(usage=False))
    assert (belied.status, belied.message) == ("warn", fact("usage_implausible", events=128, asked=128))


def test_usage_says_what_counts_in_its_place() -> None:
    ids = {"usage": False, "counted_by": "token_ids"}
    assert (answers.usage_check(record(**ids)).status, answers.usage_check(record(**ids, output_tokens=40)).status) == (
        "pass",
        "warn",
    )
    assert answers.usage_check(record(**ids)).message == fact("counted_by_ids", output_tokens=128, asked=128)
    few = record(usage=False, counted_by="events", prompt_tokens=None, output_tokens=32, gaps=GapSummary(n=31))
    kept = answers.usage_check(few, keeps_length=True)
    assert (kept.status, kept.message) == ("warn", fact("length_counts", events=32, asked=128, usage_in_stream=False))
    assert answers.usage_check(few).message == fact("usage_missing", events=32, asked=128)


def test_an_end_without_a_finish_reason_is_told() -> None:
    check = answers.request_check(record(finish_reason=None))
    assert check.status == "warn"
    assert says(check.message, "request_answered")
    assert fact("ended_without_reason", output_tokens=128) in parts(check.message)


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
    came: dict[str, Figure] = {"came_frac": 0.25, "asked_tokens": 384, "requests": 3, "by_usage": False}
    assert (few.status, few.message) == ("refuse", fact("answers_uncounted", **came))
    stopped = answers.output_length_check([record(usage=False, counted_by="events", output_tokens=32, finish_reason="stop")] * 3)
    assert stopped.message == fact("answers_short", **came, finish_reasons={"stop": 3})
    kept = answers.output_length_check([record(usage=False, counted_by="length")] * 3)
    assert (kept.status, kept.message) == ("pass", fact("answers_end_by_length", requests=3))


def test_a_tpot_that_is_not_known_is_over_no_limit() -> None:
    few = record(usage=False, counted_by="events", output_tokens=16)
    check = answers.slo_check(few, [few] * 3, Slo(ttft_s=0.8, tpot_s=0.05))
    assert check.status == "pass"
    assert figures(check, "tpot_s") == ([],)


@pytest.mark.parametrize(
    ("prompt_tokens", "status", "code"),
    [
        (512, "pass", "prompt_as_asked"),
        (522, "pass", "prompt_as_asked"),
        (523, "refuse", "prompt_miscounted"),
        (502, "pass", "prompt_as_asked"),
        (501, "refuse", "prompt_miscounted"),
        (None, "warn", "prompt_length_unknown"),
    ],
)
def test_prompt_length_is_within_two_percent(prompt_tokens: int | None, status: CheckStatus, code: Code) -> None:
    check = answers.prompt_length_check(record(prompt_tokens=prompt_tokens))
    assert (check.status, found(check).code) == (status, code)
    assert figures(check, "asked") == (512,)
    assert prompt_tokens is None or figures(check, "prompt_tokens") == (prompt_tokens,)


def test_isolation_by_the_counters() -> None:
    assert isolation(hits=0) == ("pass", fact("prompts_cold", hits=0, looked_up=2560, unit="tokens", prompts=5))
    assert isolation(hits=16) == ("warn", fact("prompts_cold", hits=16, looked_up=2560, unit="tokens", prompts=5))
    assert isolation(hits=1024) == ("refuse", fact("prompts_not_cold", hits=1024, looked_up=2560, unit="tokens", hit_frac=0.4))


def test_isolation_at_exactly_one_percent_is_refused() -> None:
    assert isolation(hits=25, queries=2560)[0] == "warn"
    assert isolation(hits=25.6, queries=2560)[0] == "refuse"


def test_isolation_with_others_in_the_counters_is_not_proven() -> None:
    shared = fact("cold_unproven_others", hits=4000, looked_up=9000, unit="tokens", ours_tokens=2560)
    assert isolation(hits=4000, queries=9000) == ("warn", shared)


def test_isolation_of_servers_that_count_blocks() -> None:
    assert isolation(hits=0, queries=160, version="0.8.5") == (
        "pass",
        fact("prompts_cold", hits=0, looked_up=160, unit="blocks", prompts=5),
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
    assert says(check.message, "cold_unproven_still", "cold_unproven_uncounted")


@pytest.mark.parametrize(
    ("cached", "status", "found"),
    [
        ((0, 0), "pass", fact("prompts_cold_by_usage", cached_tokens=0, prompt_tokens=1024, prompts=2)),
        ((0, 400), "refuse", fact("prompts_not_cold_by_usage", cached_tokens=400, prompt_tokens=1024, prompts=2)),
        ((None, 400), "refuse", fact("prompts_not_cold_by_usage", cached_tokens=400, prompt_tokens=1024, prompts=2)),
        ((0, None), "warn", fact("cold_unproven_uncounted")),
    ],
)
def test_isolation_by_usage_where_there_are_no_counters(cached: tuple[int | None, ...], status: CheckStatus, found: Fact) -> None:
    records = [record(cached_tokens=tokens) for tokens in cached]
    check = answers.isolation_check(records, None, None, {}, "0.32.0")
    assert (check.status, check.message) == (status, found)


def test_isolation_of_a_server_without_prefix_cache() -> None:
    assert isolation(hits=0, queries=0, labels={"enable_prefix_caching": "False"}) == ("pass", fact("no_prefix_cache"))
    assert isolation(hits=0, queries=0, labels={"enable_prefix_caching": "True"}) == ("warn", fact("cold_unproven_still"))


SHARED = Prefix(kind="shared", tokens=256, groups=4)
GROUPS: dict[str, Figure] = {"tokens": 256, "groups": 4}


@pytest.mark.parametrize(
    ("hits", "status", "code"),
    [
        (1024, "pass", "shared_as_planned"),
        (930, "pass", "shared_as_planned"),
        (900, "warn", "shared_off_plan"),
        (0, "warn", "shared_off_plan"),
        (1500, "warn", "shared_off_plan"),
    ],
)
def test_shared_prefixes_by_the_counters(hits: int, status: CheckStatus, code: Code) -> None:
    """Of four prompts of 512 tokens half."""
    check = answers.shared_check([record()] * 4, counters(1000, 10), counters(3048, 10 + hits), SHARED, 16)
    assert (check.check, check.status) == ("isolation", status)
    assert check.message == fact(code, **GROUPS, hit_frac=hits / 2048, planned_frac=0.5)


def test_what_a_gateway_makes_of_shared_prefixes_is_told_of_a_fleet() -> None:
    check = answers.shared_check([record()] * 4, counters(1000, 10), counters(3048, 10), SHARED, 16, fleet=True)
    assert (check.status, check.message) == ("pass", fact("shared_as_planned", **GROUPS, hit_frac=0.0, planned_frac=0.5))


def test_shared_prefixes_by_the_answers_where_no_counter_tells() -> None:
    told = [record(cached_tokens=256)] * 4
    assert answers.shared_check(told, None, None, SHARED, 16).message == fact(
        "shared_as_planned", **GROUPS, hit_frac=0.5, planned_frac=0.5
    )
    check = answers.shared_check([*told, record()], counters(None, None), counters(None, None), SHARED, 128)
    assert (check.status, check.message) == ("warn", fact("shared_unproven", **GROUPS, planned_frac=0.5))


def test_output_length() -> None:
    assert (
        answers.output_length_check([record(output_tokens=128), record(output_tokens=116), record(output_tokens=122)]).status
        == "pass"
    )
    short = answers.output_length_check([record(output_tokens=40, finish_reason="stop")] * 3)
    assert (short.status, found(short).code) == ("refuse", "answers_short")
    assert figures(short, "came_frac", "asked_tokens", "requests") == (40 / 128, 384, 3)
    assert figures(short, "finish_reasons") == ({"stop": 3},)


@pytest.mark.parametrize(("tokens", "status"), [(128, "pass"), (129, "pass"), (134, "pass"), (135, "refuse"), (512, "refuse")])
def test_answers_that_are_longer_than_asked(tokens: int, status: CheckStatus) -> None:
    check = answers.output_length_check([record(output_tokens=tokens)] * 3, ("max_completion_tokens", "max_tokens"))
    assert check.status == status
    if status == "refuse":
        assert (found(check).code, found(check).of) == ("answers_long", ("max_completion_tokens", "max_tokens"))


@pytest.mark.parametrize(
    ("asked", "came", "status"), [(1, 2, "pass"), (16, 17, "pass"), (4, 6, "refuse"), (16, 18, "refuse"), (128, 129, "pass")]
)
def test_an_end_token_that_is_counted_makes_no_answer_too_long(asked: int, came: int, status: CheckStatus) -> None:
    one = msgspec.structs.replace(record(output_tokens=came), asked_output=asked)
    assert answers.output_length_check([one] * 3).status == status
    assert answers.leaves_length_unread(one) == (status == "refuse")


def test_an_estimated_length_is_called_one() -> None:
    long = answers.output_length_check([record(output_tokens=512, usage=False)] * 3)
    assert figures(long, "came_frac", "asked_tokens", "requests", "by_usage") == (4.0, 384, 3, False)


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
    given_up = fact("request_given_up", after_s=120.0, first_token=True, tokens_too_many=4000)
    assert found(check).of == (given_up,)


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
    assert (found(check).code, *figures(check, "answers", "e2e_alone")) == ("stream_held_back", 3, slo == E2E_ONLY)
    assert found(check).figures["e2e_s"] == pytest.approx([1.4] * 3, abs=0.001)


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
    none = answers.output_length_check([failed])
    assert (none.status, none.message) == ("warn", fact("answers_unmeasured"))


@pytest.mark.parametrize(
    ("singles", "status"),
    [
        ([record()] * 3, "pass"),
        ([record(), record(), record(t_first=101.0)], "warn"),
        ([record(t_first=101.0)] * 3, "refuse"),
        ([record(ending="http", status=500)] * 3, "refuse"),
    ],
)
def test_the_limits_are_checked_by_the_one_judgement_of_single_requests(singles: list[RequestRecord], status: CheckStatus) -> None:
    check = answers.slo_check(record(), singles, IN_TIME)
    assert (check.check, check.status, check.message) == ("slo", status, judged(singles, IN_TIME, record()))


# --- answers that may stop by themselves ------------------------------------------------------------------------------


def test_answers_that_stop_early_pass_with_how_long_they_were() -> None:
    singles = [record(output_tokens=n, finish_reason=reason) for n, reason in ((20, "stop"), (40, "stop"), (128, "length"))]
    check = answers.output_length_check(singles, stop="natural")
    ended: dict[str, int] = {"stop": 2, "length": 1}
    came: dict[str, Figure] = {"requests": 3, "mean_tokens": 188 / 3, "most_tokens": 128, "finish_reasons": ended}
    assert (check.status, check.message) == ("pass", fact("answers_natural", **came))


def test_answers_longer_than_the_most_are_refused_however_they_may_stop() -> None:
    check = answers.output_length_check([record(output_tokens=512)] * 3, stop="natural")
    assert (check.status, found(check).code) == ("refuse", "answers_long")


def test_how_long_answers_get_that_stop_early_is_not_known_without_usage() -> None:
    few = record(usage=False, counted_by="events", output_tokens=32, finish_reason="stop")
    check = answers.output_length_check([few, record(), record()], stop="natural")
    assert (check.status, found(check).code) == ("warn", "answers_natural")
    assert figures(check, "mean_tokens") == (None,)
    by_ids = record(usage=False, counted_by="token_ids", output_tokens=32, finish_reason="stop")
    assert answers.output_length_check([by_ids] * 3, stop="natural").status == "pass"


@pytest.mark.parametrize(("tokens", "status"), [(1, "pass"), (128, "pass"), (129, "warn")])
def test_usage_of_fewer_tokens_than_the_most_is_as_good(tokens: int, status: CheckStatus) -> None:
    assert answers.usage_check(record(output_tokens=tokens), stop="natural").status == status
    by_ids = record(output_tokens=tokens, usage=False, counted_by="token_ids")
    assert answers.usage_check(by_ids, stop="natural").status == status
