"""From a repeat that is over to its result."""

from dataclasses import replace

import pytest
from msgspec import structs

from core import prose
from core.config import Slo
from core.facts import Code, Fact, Figure, fact, says, several
from core.judge.stopping import still_open
from core.judge.verdict import Decision, decide_step, judge_repeat
from core.records import GapSummary, LoadTick, ServerInfo
from core.results import Bounds, RepeatResult
from core.workloads import Prefix
from tests.core.judge.judging import COMPLETE, OVER, judge, lagging
from tests.core.judge.play import (
    GOOD,
    HANGS,
    REFUSED,
    SERVER,
    SLOW,
    START,
    Play,
    Request,
    aborted,
    measured,
    ramp,
    rules,
    step,
    tail,
    warmup,
)
from tests.core.judge.test_server_readings import sample

OVERLOAD = fact("overloaded_in_warmup", misses=22, planned=40)
FAILS_AT_2 = fact("rate_fails", fact("out_of_reach", at_most_frac=0.84, target=0.95), rate_rps=2.0)


def attained(frac: float, *missed: Fact) -> Fact:
    """Of 100 requests, with a target of 95 %."""
    return fact("attainment", *missed, attained_frac=frac, planned=100, target=0.95)


def test_a_pass_with_its_numbers() -> None:
    result = judge(step(*[GOOD] * 96, *[SLOW] * 4, measure_s=10.0, warm=[GOOD] * 5, warm_s=2.0).played())
    assert (result.verdict, result.reason) == ("pass", attained(0.96))
    assert (result.attainment, result.attainment_interval) == (0.96, (0.96, 0.96))
    assert (result.planned, result.sent, result.succeeded, result.good, result.misses, result.errors) == (100, 100, 100, 96, 4, 0)
    assert result.endings == {"ok": 100}
    assert result.queue == "flat"
    assert (result.warmup_s, result.measure_s, result.duration_s) == (2.0, 10.0, 100.0)
    assert not result.curtailed
    assert result.lateness_s.n == 105


def test_attainment_below_the_target_fails() -> None:
    slow = Request(first=0.9, last=1.2, closing=0.0)
    result = judge(step(*[GOOD] * 94, *[slow] * 6).played())
    assert (result.verdict, result.reason) == ("fail", attained(0.94))


def test_a_curtailed_fail_has_an_interval() -> None:
    play = step(*[HANGS] * 30, *[GOOD] * 70, measure_s=10.0, warm_s=2.0)
    tally = aborted(play, at=5.0)
    decision = decide_step(tally, START + 5.0, rules(), 120.0)
    assert decision is not None
    result = judge(tally, decision, done_at=5.2)
    assert (result.verdict, result.curtailed, result.attainment) == ("fail", True, None)
    low, high = result.attainment_interval
    assert low == 0.0
    assert 0.7 <= high < 0.95
    assert result.misses == round(100 * (1 - high))
    assert result.reason == fact("out_of_reach", at_most_frac=high, target=0.95)
    assert result.endings == {"aborted": 31}
    assert result.errors == 0


def test_a_curtailed_pass_is_at_least() -> None:
    tally = aborted(step(*[GOOD] * 99, Request(first=0.1, last=30.0, output=900, asked=900), measure_s=10.0, warm_s=2.0), at=13.5)
    decision = decide_step(tally, START + 13.5, rules(), 120.0)
    result = judge(tally, decision, done_at=13.6)
    assert (result.verdict, result.reason) == ("pass", fact("within_reach", at_least_frac=0.99, planned=100, target=0.95))
    assert result.curtailed
    assert result.attainment is None
    assert result.attainment_interval == (0.99, 1.0)
    assert not any(says(warning, "by_one_request") for warning in result.warnings)
    assert fact("left_open", open=1, planned=100) in result.warnings


def test_drained_counts_what_is_open_as_missed() -> None:
    slo = Slo(ttft_s=0.8, tpot_s=None)
    tally = aborted(step(*[GOOD] * 90, *[Request(first=0.1, last=None)] * 10), at=80.0)
    left = still_open(10, 68.0, "window")
    result = judge(tally, Decision(kind="drained", reason=left), slo=slo)
    assert (result.verdict, result.reason) == ("fail", attained(0.9, left))
    assert (result.attainment, result.misses, result.curtailed) == (0.9, 10, False)


def test_a_request_that_never_left_by_the_end_of_the_drain_is_void() -> None:
    tally = step(*[GOOD] * 19, Request(late=None, first=None, last=None)).played()
    result = judge(tally, Decision(kind="drained", reason=still_open(1, 120.0, "window")))
    assert (result.verdict, result.reason) == ("void", fact("client_unsent", requests=1))


def test_errors_above_their_limit_fail_though_the_attainment_passes() -> None:
    result = judge(step(*[GOOD] * 97, *[REFUSED] * 3).played())
    assert result.verdict == "fail"
    assert prose.text(result.reason) == "3 of 100 requests ended in errors (3.00 %, at most 1 %): http 3"
    assert says(result.reason, "too_many_errors")
    assert (result.errors, result.error_rate, result.endings) == (3, 0.03, {"ok": 97, "http": 3})


OVERLOADED = replace(REFUSED, error="HTTP 503: Overloaded.")


def test_where_most_that_missed_were_errors_the_reason_names_them_first() -> None:
    slow = replace(GOOD, first=0.9)
    some = judge(step(*[GOOD] * 90, *[slow] * 3, *[OVERLOADED] * 7).played())
    said = "HTTP 503: Overloaded"
    assert some.reason == several(fact("ended_in_errors", errors=7, ended=100, said=said, endings={"http": 7}), attained(0.9))
    assert some.errors_said == "HTTP 503: Overloaded"
    few = judge(step(*[GOOD] * 90, *[slow] * 7, *[OVERLOADED] * 3).played())
    assert few.reason == attained(0.9)
    assert few.errors_said == "HTTP 503: Overloaded"
    assert judge(step(*[GOOD] * 100).played()).errors_said is None


def test_what_errors_have_in_common_is_kept_and_stands_in_the_warning() -> None:
    cut = replace(GOOD, first=0.1, last=1.5, output=11, ending="truncated", error="The connection broke.")
    result = judge(step(*[GOOD] * 60, *[cut] * 4, *[GOOD] * 30).played())
    assert result.failures_alike is not None
    assert result.failures_alike.figures["n"] == 4
    assert result.failures_alike.figures["age_s"] == pytest.approx(1.5)
    assert any(isinstance(each, Fact) and each.of == (result.failures_alike,) for each in result.warnings)
    assert judge(step(*[GOOD] * 90, *[REFUSED] * 7).played()).failures_alike is None


def test_errors_above_their_limit_are_told_in_the_servers_words_and_whether_anything_else_came() -> None:
    result = judge(step(*[GOOD] * 97, *[OVERLOADED] * 3).played())
    told = prose.text(result.reason)
    assert told == "3 of 100 requests ended in errors (3.00 %, at most 1 %): http 3 (HTTP 503: Overloaded)"
    play = step(*[OVERLOADED] * 100, measure_s=10.0, warm=[OVERLOADED] * 5, warm_s=2.0)
    tally = play.played(until=2.25)
    decision = decide_step(tally, START + 2.25, rules(), 120.0)
    assert decision is not None
    reason = judge(tally, decision).reason
    assert says(reason, "every_request_failed")
    assert prose.text(reason).startswith("every request failed: HTTP 503: Overloaded (")
    assert "of the window's 100 so far; at most 1 % may fail)" in prose.text(reason)


def test_errors_in_the_warm_up_are_named_before_the_overload() -> None:
    play = step(*[OVERLOADED] * 100, measure_s=10.0, warm=[OVERLOADED] * 40, warm_s=4.0)
    tally = play.played(until=3.0)
    decision = decide_step(tally, START + 3.0, rules(), 120.0)
    assert decision is not None
    assert decision.kind == "overload"
    result = judge(tally, decision)
    assert result.verdict == "fail"
    said = "HTTP 503: Overloaded"
    first = fact("ended_in_errors", errors=30, ended=30, said=said, endings={"http": 30})
    assert result.reason == several(first, decision.reason)


def test_every_request_failing_is_a_fail_without_latencies() -> None:
    result = judge(step(*[REFUSED] * 20).played())
    assert (result.verdict, result.attainment) == ("fail", 0.0)
    assert result.ttft_s.n == result.tpot_s.n == result.e2e_s.n == result.itl_s.n == 0
    assert result.ttft_s.p95 is None
    assert fact("no_success", planned=20) in result.warnings


def test_failures_are_misses_and_in_no_latency() -> None:
    """60 % time out, 40 % answer in 100 ms."""
    timed_out = Request(first=None, last=None, end=30.0, ending="timeout")
    quick = Request(first=0.05, last=0.1)
    result = judge(step(*[quick, timed_out, quick, timed_out, timed_out] * 10).played())
    assert (result.verdict, result.attainment) == ("fail", 0.4)
    assert result.ttft_s.n == 20
    assert result.ttft_s.max == pytest.approx(0.05)


def test_one_success_and_one_token_answers_give_numbers() -> None:
    one_token = Request(first=0.3, last=0.3, output=1, asked=1)
    result = judge(step(*[one_token] * 20).played())
    assert result.verdict == "pass"
    assert result.tpot_s.n == 0
    assert fact("no_tpot", without=20, answers=20) in result.warnings
    single = judge(step(one_token).played())
    assert single.ttft_s.p99 == single.ttft_s.max == pytest.approx(0.3)


def test_a_rising_queue_fails_whatever_the_attainment() -> None:
    waits = [Request(first=0.1 + 0.7 * i / 200, last=0.2 + 0.7 * i / 200) for i in range(200)]
    play = step(*waits, measure_s=2.0, warm_s=0.0)
    result = judge(play.played())
    assert result.queue == "rising"
    reached = fact("attainment", attained_frac=1.0, planned=200, target=0.95)
    assert (result.verdict, result.reason) == ("fail", fact("queue_rising", reached))


def test_a_straggler_changes_no_throughput_but_stays_in_e2e() -> None:
    """10 requests/s, one of them lasting 150 s."""
    even = [Request(first=0.05, last=0.09)] * 100
    straggler = [*even[:50], Request(first=0.05, last=150.0), *even[51:]]
    slo = Slo(ttft_s=0.8, tpot_s=None)
    plain, stretched = (judge(step(*r, measure_s=10.0).played(slo=slo), slo=slo, done_at=160.0) for r in (even, straggler))
    assert plain.offered_rps == stretched.offered_rps == pytest.approx(10.0)
    assert plain.served_rps == pytest.approx(10.0)
    assert stretched.served_rps == pytest.approx(plain.served_rps, rel=0.02)
    assert stretched.output_tps == pytest.approx(plain.output_tps, rel=0.02)
    assert stretched.e2e_s.max == pytest.approx(150.0)


def test_rates_are_of_the_window() -> None:
    """Of the warm-up one finishes before [2, 12) and two inside; the last of the window finishes after it."""
    slow = replace(GOOD, first=0.5, last=3.0)
    play = step(*[GOOD] * 10, measure_s=10.0, warm=[GOOD, slow, slow], warm_s=2.0)
    result = judge(play.played(slo=Slo(ttft_s=0.8, tpot_s=None)), slo=Slo(ttft_s=0.8, tpot_s=None))
    assert result.served_rps == pytest.approx((9 + 2) / 10)
    assert result.goodput_rps == pytest.approx(1.0)
    assert result.output_tps == pytest.approx(21 * 11 / 10)
    assert result.total_tps == pytest.approx((21 + 512) * 11 / 10)


def test_of_a_cut_window_only_the_part_that_passed_counts() -> None:
    play = step(*[Request(first=0.05, last=0.1)] * 100, measure_s=10.0, warm_s=2.0)
    result = judge(aborted(play, at=7.04), Decision(kind="fail", reason=fact("undecided")), done_at=7.0)
    assert result.offered_rps == pytest.approx(10.0, rel=0.03)
    assert result.served_rps == pytest.approx(10.0, rel=0.03)
    assert result.goodput_rps == pytest.approx(10.0, rel=0.03)


def test_an_overload_in_the_warm_up_has_no_window_to_count() -> None:
    play = step(*[GOOD] * 40, measure_s=4.0, warm=[HANGS] * 40, warm_s=4.0)
    result = judge(aborted(play, at=3.0), Decision(kind="overload", reason=OVERLOAD), done_at=3.1)
    assert (result.verdict, result.reason) == ("fail", OVERLOAD)
    assert result.offered_rps == pytest.approx(10.0), "as planned"
    assert (result.served_rps, result.goodput_rps, result.output_tps) == (0.0, 0.0, 0.0)
    assert result.attainment_interval == (0.0, 1.0)
    assert result.queue is None


def test_interrupted_is_unjudged() -> None:
    result = judge(aborted(step(*[GOOD] * 100), at=5.0), None, unsent=2)
    assert (result.verdict, result.reason) == ("unjudged", fact("undecided"))
    assert result.curtailed
    assert result.queue is None
    assert fact("client_unsent", requests=2) in result.warnings


def test_a_ramp_is_unjudged_and_over_all_its_segments() -> None:
    tally = ramp([GOOD] * 12, [SLOW] * 12).played()
    result = judge(tally, Decision(kind="fail", reason=FAILS_AT_2, segment=1))
    assert result.verdict == "unjudged"
    assert result.reason == fact("ramp_hint", FAILS_AT_2)
    assert (result.planned, result.good, result.misses) == (24, 12, 12)
    assert result.queue is None


def test_a_ramp_of_one_segment_is_a_ramp_too() -> None:
    result = judge(ramp([GOOD] * 12).played(), Decision(kind="complete", reason=fact("no_rate_failed")))
    assert (result.verdict, result.queue) == ("unjudged", None)


def test_a_ramp_during_which_the_server_restarted_does_not_even_say_where_to_look() -> None:
    tally = ramp([GOOD] * 12, [SLOW] * 12).played()
    failed = Decision(kind="fail", reason=FAILS_AT_2, segment=1)
    result = judge(tally, failed, samples=[sample(-1, epoch=1.0), sample(9, epoch=2.0)])
    assert result.verdict == "void"
    assert says(result.reason, "server_restarted")


def test_a_curtailed_fail_says_what_its_interval_says() -> None:
    """Misses that were reported between the decision and the end of the load are in both."""
    play = step(*[REFUSED] * 20, measure_s=4.0, warm_s=1.0)
    stale = fact("out_of_reach", at_most_frac=0.94, target=0.95)
    result = judge(aborted(play, at=3.0), Decision(kind="fail", reason=stale), done_at=3.1)
    assert isinstance(result.reason, Fact)
    assert fact("out_of_reach", at_most_frac=result.attainment_interval[1], target=0.95) in result.reason.of


def test_nothing_planned_is_void() -> None:
    result = judge(step(measure_s=40.0).played())
    assert (result.verdict, result.attainment) == ("void", None)
    assert isinstance(result.reason, Fact)
    assert (result.reason.code, result.reason.figures["measure_s"]) == ("nothing_planned", 40.0)
    assert result.error_rate == 0.0


@pytest.mark.parametrize(
    ("play", "extra", "code", "words"),
    [
        (step(*[replace(SLOW, late=0.5)] * 20), {}, "client_late", "one send in a hundred was late by 500 ms"),
        (step(*[SLOW] * 20), {"unsent": 1}, "client_unsent", "1 planned request could not be sent"),
        (step(*[SLOW] * 19, replace(REFUSED, late=None, ending="client")), {}, "client_failed", "failed on this machine"),
        (step(*[replace(SLOW, output=8, asked=21)] * 20), {}, "short_answers", "averaged 8 tokens where 21 were asked for"),
        (step(*[replace(SLOW, prompt=600)] * 20), {}, "prompt_length_off", "prompts averaged 600 tokens"),
        (
            step(*[SLOW] * 20),
            {"samples": [sample(-1, epoch=1.0), sample(9, epoch=2.0)]},
            "server_restarted",
            "the server restarted",
        ),
        (
            step(*[SLOW] * 20),
            {"samples": [sample(-1, hits=0, queries=0), sample(9, hits=50, queries=5000)]},
            "warm_prompts",
            "not cold",
        ),
        (
            step(*[SLOW] * 20),
            {"samples": [sample(-1, success=0, running=0), sample(99, success=30, running=0)]},
            "others_took_part",
            "others used",
        ),
        (step(*[replace(SLOW, gaps=GapSummary(n=20, under_1ms=20))] * 20), {}, "tokens_in_clumps", "tokens arrive in clumps"),
        (
            step(*[SLOW] * 20),
            {"ticks": lagging(*[0.3, 0.001] * 10)},
            "client_stalled",
            "stalled for more than 160 ms in 10 of 20 reports",
        ),
        (step(*[SLOW] * 19), {"strict": True}, "too_few_requests", "no miss is allowed"),
    ],
)
def test_void_comes_before_fail(play: Play, extra: dict[str, object], code: Code, words: str) -> None:
    tally = play.played()
    result = judge(tally, **extra)  # type: ignore[arg-type]
    assert result.verdict == "void"
    assert words in prose.text(result.reason)
    assert says(result.reason, code)
    assert tally.bounds(OVER).good == 0


SHARED = Prefix(kind="shared", tokens=270, groups=2)
"""Of the prompts of 512 tokens here half, since 14 tokens are no block."""


def judged_as_shared(
    hits: float, prefix: Prefix = SHARED, *, with_others: bool = False, cached: int | None = None, hits_told: bool = False
) -> RepeatResult:
    """`hits` of a thousand tokens by the counters, `cached` of each prompt by the answers."""
    tally = step(*[Request(cached=cached)] * 20).played()
    judging = structs.replace(rules(prefix=prefix), with_others=with_others, hits_told=hits_told)
    samples = [sample(-1, hits=0, queries=0), sample(9, hits=hits, queries=1000)]
    return judge_repeat(tally, COMPLETE, OVER, judging, samples, [], None, SERVER)


@pytest.mark.parametrize("hits", [500, 451, 549])
def test_prefix_hits_as_planned_are_what_was_asked_for(hits: int) -> None:
    result = judged_as_shared(hits)
    assert result.verdict == "pass"
    assert result.prefix_hit_frac == pytest.approx(hits / 1000)
    assert result.planned_hit_frac == 0.5


@pytest.mark.parametrize("hits", [0, 449, 551])
def test_prefix_hits_off_the_plan_are_another_workload(hits: int) -> None:
    result = judged_as_shared(hits)
    figures: dict[str, Figure] = {
        "hit_frac": hits / 1000,
        "planned_frac": 0.5,
        "counted": True,
        "shared_tokens": 540,
        "kv_tokens": None,
    }
    assert (result.verdict, result.reason) == ("void", Fact(code="hits_off", figures=figures))


def test_hits_off_the_plan_are_what_a_check_of_a_fleet_is_to_find() -> None:
    result = judged_as_shared(120, hits_told=True)
    assert (result.verdict, result.prefix_hit_frac) == ("pass", 0.12)
    assert not any(says(each, "hits_off") for each in result.warnings)


def test_hits_beside_others_are_those_that_the_answers_tell() -> None:
    """The counters are everybody's then."""
    assert judged_as_shared(0, with_others=True, cached=256).verdict == "pass"
    result = judged_as_shared(500, with_others=True, cached=0)
    assert isinstance(result.reason, Fact)
    assert (result.reason.code, result.reason.figures["counted"]) == ("hits_off", False)


def test_hits_that_nothing_tells_are_said_not_to_be_known() -> None:
    result = judged_as_shared(0, with_others=True)
    assert result.verdict == "pass"
    assert fact("hits_unseen") in result.warnings


def judged_as_recorded(hits: float, *, chains: bool = True) -> RepeatResult:
    """Half of each prompt came before, by the trace; a ramp has none of it."""
    tally = step(*[Request(known=270 if chains else None)] * 20).played()
    samples = [sample(-1, hits=0, queries=0), sample(9, hits=hits, queries=1000)]
    return judge_repeat(tally, COMPLETE, OVER, rules(prefix=Prefix(kind="trace")), samples, [], None, SERVER)


@pytest.mark.parametrize("hits", [500, 451, 549])
def test_hits_near_those_of_an_endless_cache_are_the_recording(hits: int) -> None:
    result = judged_as_recorded(hits)
    assert (result.verdict, result.planned_hit_frac) == ("pass", 0.5)


@pytest.mark.parametrize("hits", [449, 551])
def test_hits_off_those_of_an_endless_cache_are_another_workload(hits: int) -> None:
    result = judged_as_recorded(hits)
    figures: dict[str, Figure] = {"hit_frac": hits / 1000, "planned_frac": 0.5, "counted": True, "kv_tokens": None}
    assert (result.verdict, result.reason) == ("void", Fact(code="trace_hits_off", figures=figures))


def test_nothing_is_planned_where_no_blocks_are_sent() -> None:
    result = judged_as_recorded(0, chains=False)
    assert (result.verdict, result.planned_hit_frac) == ("pass", None)


def test_what_the_server_said_of_the_repeat() -> None:
    samples = [
        sample(-0.5, kv=0.9, kv_max=0.9, preemptions=3, waiting=50, running=60),
        sample(1, kv=0.4, kv_max=0.7, preemptions=3, waiting=6, running=9),  # the warm-up: its peaks are those of its boost
        sample(6, kv=0.4, kv_max=0.5, preemptions=3, waiting=2, running=8),
        sample(7, kv=0.3, kv_max=0.4, preemptions=7, waiting=4, running=8),
    ]
    result = judge(step(*[GOOD] * 20).played(), samples=samples)
    assert (result.kv_usage_max, result.preemptions, result.waiting_max, result.running_max) == (0.5, 4.0, 4.0, 9.0)
    silent = judge(step(*[GOOD] * 20).played())
    assert (silent.kv_usage_max, silent.preemptions, silent.waiting_max, silent.prefix_hit_frac) == (None, None, None, None)


def test_warnings_of_a_pass() -> None:
    server = ServerInfo(url="http://127.0.0.1:8000", metrics_url="http://127.0.0.1:8000/metrics")
    play = step(*[GOOD] * 19, SLOW, measure_s=4.0, warm_s=1.0)
    tick = LoadTick(order=7, t=START + 1, in_flight=3, loop_lag_max_s=0.3, cpu_frac=0.9)
    result = judge(play.played(), ticks=[tick], server=server)
    assert result.verdict == "pass"
    told = [warning.code for warning in result.warnings if isinstance(warning, Fact)]
    assert {"by_one_request", "few_requests", "window_short", "warmup_short", "few_values"} <= {*told}
    assert {"loop_stalled", "metrics_unread"} <= {*told}
    said = " | ".join(map(prose.text, result.warnings))
    for words in (
        "passed by one request",
        "saw only 20 requests",
        "shorter than 5 mean request durations",
        "the warm-up of 1 s was too short",
        "p99 rests on only 20 answers",
        "the client stalled for 300 ms",
        "metrics could not be read",
    ):
        assert words in said


def test_a_curtailed_fail_gets_no_lecture_on_its_length() -> None:
    play = step(*[HANGS] * 20, measure_s=4.0, warm_s=1.0)
    result = judge(aborted(play, at=3.0), Decision(kind="fail", reason=fact("undecided")), done_at=3.1)
    assert result.warnings == ()


def test_gaps_and_percentiles_are_of_the_windows_answers_alone() -> None:
    slow_gaps = GapSummary(n=1, sum_s=9.0, max_s=9.0, bins=((800, 1),))
    play = step(*[GOOD] * 20, warm=[replace(GOOD, first=0.7, gaps=slow_gaps)], warm_s=2.0)
    result = judge(play.played())
    assert result.itl_s.n == 0
    assert result.ttft_s.max == pytest.approx(0.1)
    assert result.e2e_s.n == 20


def test_a_child_that_died_leaves_what_was_open_open() -> None:
    tally = step(*[GOOD] * 100, measure_s=10.0, warm_s=0.0).played(until=5.0)
    result = judge_repeat(tally, None, START + 5.3, rules(), [], [], None, SERVER)
    assert result.verdict == "unjudged"
    assert tally.bounds(START + 5.05) == Bounds(planned=100, good=result.good, bad=0, open=10)
    assert result.misses == 0


def test_two_warm_up_halves_add_up() -> None:
    play = Play((warmup(3.0, 1.5), warmup(3.0), measured(10.0), tail()), ((GOOD,) * 5, (GOOD,) * 3, (GOOD,) * 20, ()))
    assert judge(play.played()).warmup_s == 6.0
