import math

import msgspec
import pytest

from core import prose
from core.config import Slo
from core.facts import Fact, fact
from core.judge import caveats
from core.records import CountedBy
from core.results import Percentiles
from tests.core.judge.play import SLO, Request, record


@pytest.mark.parametrize(
    ("planned", "target", "told"),
    [
        (19, 0.95, fact("no_miss_allowed", planned=19)),
        (20, 0.95, fact("few_requests", planned=20, target=0.95, needed=100)),
        (99, 0.95, fact("few_requests", planned=99, target=0.95, needed=100)),
        (100, 0.95, None),
        (499, 0.99, fact("few_requests", planned=499, target=0.99, needed=500)),
        (500, 0.99, None),
        (10_000, 1.0, fact("no_miss_allowed", planned=10_000)),
    ],
)
def test_few_requests(planned: int, target: float, told: Fact | None) -> None:
    assert caveats.few_requests(planned, target) == told


def test_window_and_warm_up_against_the_steps_own_duration_of_a_request() -> None:
    assert caveats.short_window(40.0, 8.0) is None
    assert caveats.short_window(40.0, 8.1) is not None
    assert caveats.short_warmup(16.0, 16.0) is None
    assert caveats.short_warmup(16.0, 16.2) is not None
    assert caveats.short_window(40.0, None) is None
    assert caveats.short_warmup(0.0, None) is None


def test_passed_by_one_request() -> None:
    assert caveats.by_one_request(95, 100, 0.95) == fact("by_one_request", good=95, planned=100)
    assert caveats.by_one_request(96, 100, 0.95) is None


def test_what_a_pass_that_was_cut_short_leaves_out_of_its_percentiles() -> None:
    assert caveats.left_open(0, 50) is None
    assert caveats.left_open(1, 101) is None
    assert caveats.left_open(2, 101) == fact("left_open", open=2, planned=101)


def test_lateness_worth_a_word() -> None:
    assert caveats.lateness(Percentiles(p99=0.03, max=0.1, n=9), 0.8) is None
    assert caveats.lateness(Percentiles(p99=0.09, max=0.1, n=9), 0.8) == fact("sends_late", late_p99_s=0.09)
    assert caveats.lateness(Percentiles(p99=0.3, max=0.4, n=9), 0.8) is None, "that is void, and said there"


def test_a_client_that_stood_still() -> None:
    assert caveats.loop_lag(0.16, 0.8) is None
    assert caveats.loop_lag(0.3, 0.8) == fact("loop_stalled", lag_max_s=0.3)


@pytest.mark.parametrize(
    ("n", "word"), [(0, None), (1, "p95 and p99"), (19, "p95 and p99"), (20, "p99 rests"), (99, "p99 rests"), (100, None)]
)
def test_percentiles_of_few_values(n: int, word: str | None) -> None:
    found = caveats.few_values(n)
    assert found == (None if word is None else fact("few_values", answers=n, latency=None))
    assert (word or "") in (prose.text(found) if found else "")


def test_few_values_of_one_latency_name_it() -> None:
    assert caveats.few_values(5, "TPOT") == fact("few_values", answers=5, latency="TPOT")


def test_no_success_has_words() -> None:
    assert caveats.no_success(0, 40) == fact("no_success", planned=40)
    assert caveats.no_success(1, 40) is None
    assert caveats.no_success(0, 0) is None


def test_a_lengthened_step_is_told() -> None:
    assert caveats.lengthened(None) is None
    assert caveats.lengthened(20.0) == fact("lengthened", by_s=20.0)


@pytest.mark.parametrize(
    ("output_tps", "outputs", "served_rps", "off"),
    [
        (2000.0, [256] * 100, 7.8125, False),
        (2000.0, [256] * 100, 7.45, False),
        (2000.0, [256] * 100, 7.4, True),
        (2000.0, [256] * 100, 8.3, True),
        (2000.0, [56, 456] * 50, 7.4, False),
        (2000.0, [56, 456] * 500, 7.4, True),
        (0.0, [256], 1.0, True),
        (0.0, [], 0.0, False),
        (10.0, [], 1.0, False),
        (10.0, [256], 0.0, False),
        (0.0, [0, 0], 1.0, False),
    ],
)
def test_token_rate_against_request_rate(output_tps: float, outputs: list[int], served_rps: float, off: bool) -> None:
    """2000 tokens/s over 256 tokens are 7.8 requests/s; lengths that vary may move that by two standard errors."""
    assert (caveats.token_rate_off(output_tps, outputs, served_rps) is not None) == off


def test_answers_without_tpot_or_usage_are_counted() -> None:
    one = record(Request(first=0.3, last=0.3, output=1, asked=1))
    assert caveats.no_tpot([one, record(Request())], SLO) == fact("no_tpot", without=1, answers=2)
    assert caveats.no_tpot([one], Slo(ttft_s=1.0, tpot_s=None)) is None
    assert caveats.no_usage([record(Request())]) is None
    old = record(Request(usage=False))
    assert caveats.no_usage([record(Request()), old]) == fact("no_usage", without=1, answers=2, counted_by={"events": 1})


def test_by_what_answers_without_usage_are_counted() -> None:
    ways: tuple[CountedBy, ...] = ("length", "events", "length", "token_ids")
    ok = [record(Request(counted_by="usage")), *(record(Request(usage=False, counted_by=by)) for by in ways)]
    counted = {"events": 1, "length": 2, "token_ids": 1}
    assert caveats.no_usage(ok) == fact("no_usage", without=4, answers=5, counted_by=counted)


def test_a_tpot_that_is_not_known_is_no_tpot_that_does_not_exist() -> None:
    ok = [record(Request(usage=False, counted_by="events", output=5)), record(Request(usage=False, counted_by="events"))]
    assert caveats.tpot_unknown(ok, SLO) == fact("tpot_unknown", without=1, answers=2)
    assert caveats.no_tpot(ok, SLO) is None
    assert caveats.tpot_unknown(ok, Slo(ttft_s=1.0, tpot_s=None)) is None
    assert caveats.tpot_unknown(ok[1:], SLO) is None


def test_answers_without_a_finish_reason_are_counted() -> None:
    assert caveats.no_finish_reason([record(Request())]) is None
    assert caveats.no_finish_reason([record(Request()), record(Request(finish=None))]) == fact(
        "no_finish_reason", without=1, answers=2
    )


def test_what_the_server_did_not_tell() -> None:
    assert caveats.several_processes(False) is None
    assert caveats.several_processes(True) is not None
    assert caveats.unread(0, False) is None
    assert caveats.unread(3, True) is None
    assert caveats.unread(0, True) is not None
    assert caveats.unread(1, True) is not None


def test_a_strict_target_needs_many_requests() -> None:
    assert math.isclose(caveats.needed_requests(0.999), 5000)


def test_what_failed_is_told_once_with_its_count() -> None:
    ok = record(Request())
    aborted = msgspec.structs.replace(ok, ending="aborted")
    assert caveats.what_failed([ok, aborted]) is None
    words = "HTTP 400 Bad Request: This model's maximum context length is 2048 tokens."
    refused = msgspec.structs.replace(ok, ending="http", error=words)
    cut = msgspec.structs.replace(ok, ending="truncated", error="The connection broke.")
    failed = [refused, refused, refused, cut]
    assert caveats.what_failed(failed) == fact("errors_said", times=3, errors=4, said=words.rstrip("."), other_sentences=1)
    alike = fact("failures_alike", errors=4, n=4)
    told = caveats.what_failed(failed, alike)
    assert told == fact("errors_said", alike, times=3, errors=4, said=words.rstrip("."), other_sentences=1)
    assert caveats.what_failed([cut]) == fact("errors_said", times=1, errors=1, said="The connection broke", other_sentences=0)


def test_requests_that_went_out_twice_are_counted() -> None:
    ok = record(Request())
    assert caveats.resent([ok]) is None
    assert caveats.resent([msgspec.structs.replace(ok, resent=True), ok]) == fact("resent", requests=1)


def test_luck_is_told_where_it_made_the_verdict_likelier_and_is_no_chance_in_a_recording() -> None:
    assert caveats.luck("pass", -0.2) == fact("window_lucky", less_frac=0.2)
    assert caveats.luck("fail", 0.2, recorded=True) == fact("window_unlucky", more_frac=0.2, recorded=True)
    assert caveats.luck("pass", -0.2, recorded=True) == fact("window_lucky", less_frac=0.2, recorded=True)
    assert caveats.luck("pass", 0.2) is None
    assert caveats.luck("fail", -0.2) is None
    assert caveats.luck("pass", -0.09) is None
    assert caveats.luck("pass", None) is None
