from dataclasses import replace

import msgspec
import pytest

from core.config import Slo
from core.facts import fact
from core.judge import validity
from core.records import GapSummary
from core.results import Percentiles
from tests.core.judge.play import SLO, Request, record


def lateness(p99: float, largest: float | None = None) -> Percentiles:
    return Percentiles(p50=0.001, p95=p99 / 2, p99=p99, mean=0.002, max=largest or p99, n=200)


@pytest.mark.parametrize(
    ("ttft_limit", "p99", "largest", "status"),
    [
        (0.8, 0.040, 0.30, "ok"),
        (0.8, 0.041, 0.30, "warn"),
        (0.8, 0.160, 0.80, "warn"),
        (0.8, 0.161, 0.30, "void"),
        (0.8, 0.090, 0.81, "void"),
        (0.1, 0.010, 0.05, "ok"),
        (0.1, 0.011, 0.05, "warn"),
        (0.1, 0.021, 0.05, "void"),
        (0.03, 0.010, 0.01, "ok"),
        (None, 0.010, 0.20, "ok"),
        (None, 0.100, 0.20, "warn"),
        (None, 0.101, 0.20, "void"),
    ],
)
def test_lateness_against_the_ttft_limit(ttft_limit: float | None, p99: float, largest: float, status: str) -> None:
    assert validity.lateness_status(lateness(p99, largest), ttft_limit) == status
    assert (validity.late(lateness(p99, largest), ttft_limit) is not None) == (status == "void")


def test_lateness_says_which_limit_and_whose_fault() -> None:
    found = validity.late(lateness(0.39), 0.8)
    assert found is not None
    assert (found.code, found.figures) == ("client_late", {"late_p99_s": 0.39, "limit_s": pytest.approx(0.16)})
    assert validity.late(lateness(0.1, 1.5), 0.8) == fact("client_late_once", late_max_s=1.5, ttft_limit_s=0.8)


def test_no_send_was_not_late() -> None:
    assert validity.lateness_status(Percentiles(), 0.8) == "ok"


def test_unsent_requests() -> None:
    assert validity.unsent(0) is None
    assert validity.unsent(1) == fact("client_unsent", requests=1)


def test_a_failure_of_the_client_is_named() -> None:
    out_of_files = replace(Request(late=None, first=None, last=None, end=0.0), ending="client")
    assert validity.client_failed([record(Request()), record(replace(out_of_files, ending="http"))]) is None
    assert validity.client_failed([record(out_of_files)]) == fact("client_failed", requests=1, said=None)


@pytest.mark.parametrize(("hit_frac", "void"), [(None, False), (0.0, False), (0.0099, False), (0.01, True), (0.5, True)])
def test_prefix_hits_by_the_counters(hit_frac: float | None, void: bool) -> None:
    assert (validity.warm_prompts(hit_frac, []) is not None) == void


def test_prefix_hits_by_what_the_server_told_of_our_own() -> None:
    cached = msgspec.structs.replace(record(Request()), cached_tokens=64)
    cold = [msgspec.structs.replace(record(Request()), cached_tokens=0)] * 20
    assert validity.warm_prompts(None, cold) is None
    assert validity.warm_prompts(None, [cached]) == fact("warm_prompts", hit_frac=0.125, limit_frac=0.01)


@pytest.mark.parametrize(("output", "void"), [(256, False), (244, False), (243, True), (40, True)])
def test_answers_shorter_than_asked(output: int, void: bool) -> None:
    reason = validity.short_answers([record(Request(output=output, asked=256))] * 3)
    assert (reason is not None) == void
    if void:
        assert reason == fact("short_answers", tokens_mean=float(output), asked_mean=256.0, finish_reasons={"length": 3})


LIMIT = Slo(ttft_s=0.8, tpot_s=0.05)


@pytest.mark.parametrize(
    ("outputs", "asked", "void"),
    [
        ([256], 256, False),
        ([257] * 3, 256, False),
        ([268], 256, False),
        ([269], 256, True),
        ([256, 1024], 256, True),
        ([5], 4, True),
    ],
)
def test_answers_longer_than_asked(outputs: list[int], asked: int, void: bool) -> None:
    reason = validity.long_answers([record(Request(output=output, asked=asked)) for output in outputs], LIMIT)
    assert (reason is not None) == void
    if void:
        mean = sum(outputs) / len(outputs)
        assert reason == fact("long_answers", tokens_mean=mean, asked_mean=float(asked))


@pytest.mark.parametrize(
    ("output", "last", "void"),
    [(64, 0.5, False), (65, 0.5, False), (66, 0.5, True), (66, 9.0, False), (67, 9.0, False), (68, 9.0, True)],
)
def test_an_answer_that_was_cut_off_proves_that_it_is_longer(output: int, last: float, void: bool) -> None:
    """More than a token too many within the limit on TPOT, for that the bound took as late; or 5 % at whatever pace."""
    cut = record(Request(output=output, asked=64, last=last, ending="aborted"))
    ok = [record(Request(output=64, asked=64))] * 20
    reason = validity.long_answers([*ok, cut], LIMIT)
    assert (reason is not None) == void
    if void:
        assert reason == fact("answer_outran", tokens=output, asked=64)


def test_one_token_too_many_proves_nothing_however_short_the_answer() -> None:
    assert validity.long_answers([record(Request(output=5, asked=4, last=9.0, ending="aborted"))], LIMIT) is None
    assert validity.long_answers([record(Request(output=6, asked=4, last=9.0, ending="aborted"))], LIMIT) is not None


def test_without_a_limit_on_tpot_no_bound_takes_a_length_for_granted() -> None:
    cut = record(Request(output=66, asked=64, last=0.5, ending="aborted"))
    assert validity.long_answers([cut], Slo(ttft_s=0.8, tpot_s=None)) is None
    assert validity.long_answers([cut], LIMIT) is not None


def test_no_answer_is_neither_short_nor_long() -> None:
    assert validity.short_answers([]) is None
    assert validity.long_answers([], LIMIT) is None
    assert validity.prompt_length_off([]) is None


@pytest.mark.parametrize(("prompt", "void"), [(512, False), (522, False), (523, True), (502, False), (501, True), (None, False)])
def test_prompt_length_off(prompt: int | None, void: bool) -> None:
    assert (validity.prompt_length_off([record(Request(prompt=prompt))]) is not None) == void


def test_one_break_is_a_restart_and_many_are_not() -> None:
    assert validity.restarted(0, []) is None
    assert validity.restarted(1, []) is not None
    assert validity.restarted(1, [record(Request())]) == fact("server_restarted", unbroken=True)
    assert validity.restarted(1, [record(Request()), record(replace(Request(), ending="connection"))]) == fact("server_restarted")
    assert validity.restarted(2, []) is None


@pytest.mark.parametrize(
    ("others", "ours", "void"), [(None, 10, False), (2, 10, False), (3, 10, True), (5, 500, False), (6, 500, True), (0, 0, False)]
)
def test_requests_of_others(others: float | None, ours: int, void: bool) -> None:
    assert (validity.others_took_part(others, ours) is not None) == void


PACED = Request(first=0.1, last=1.28, output=60, asked=60, gaps=GapSummary(n=59, sum_s=1.18, max_s=0.02))
ONE_WRITE = Request(first=1.3, last=1.3002, output=60, asked=60, gaps=GapSummary(n=59, sum_s=0.0002, max_s=1e-4, under_1ms=59))
ONE_EVENT = Request(first=1.3, last=1.3, first_tokens=60, output=60, asked=60)
IN_CLUMPS = Request(first=0.5, last=1.3, output=60, asked=60, gaps=GapSummary(n=59, sum_s=0.8, max_s=0.4, under_1ms=56))
HALF = Request(first=0.5, last=1.3, output=61, asked=61, gaps=GapSummary(n=60, sum_s=0.8, max_s=0.1, under_1ms=30))
UNDER_HALF = Request(first=0.5, last=1.3, output=61, asked=61, gaps=GapSummary(n=60, sum_s=0.8, max_s=0.1, under_1ms=29))


@pytest.mark.parametrize("request_", [ONE_WRITE, ONE_EVENT, IN_CLUMPS, HALF])
def test_tokens_in_clumps_void_where_tpot_is_judged(request_: Request) -> None:
    assert validity.in_clumps([record(request_)] * 5, SLO, None) == fact("tokens_in_clumps", clumped=5, answers=5)
    assert validity.in_clumps([record(request_)] * 5, Slo(ttft_s=0.8, tpot_s=None), None) is None


@pytest.mark.parametrize("request_", [PACED, UNDER_HALF, Request(first=0.3, last=0.3, output=1, asked=1)])
def test_paced_answers_and_single_tokens_are_no_clumps(request_: Request) -> None:
    assert validity.in_clumps([record(request_)] * 5, SLO, None) is None


def test_more_than_a_fifth_must_be_clumped() -> None:
    paced, clumped = record(PACED), record(IN_CLUMPS)
    assert validity.in_clumps([paced] * 4 + [clumped], SLO, None) is None
    assert validity.in_clumps([paced] * 7 + [clumped] * 2, SLO, None) is not None


def test_answers_that_decode_fast_are_not_judged_by_their_gaps() -> None:
    """20 tokens within 60 ms, half of the gaps under 1 ms: nothing is hidden there."""
    fast = record(Request(first=0.01, last=0.07, output=20, asked=20, gaps=GapSummary(n=19, sum_s=0.06, max_s=0.02, under_1ms=12)))
    assert validity.in_clumps([fast] * 5, SLO, None) is None


def test_the_servers_own_decode_time_counts_where_an_answer_came_at_once() -> None:
    """The client's TPOT is 0.0 ms while the server says that it decoded for 190 ms: a clump. It says 30 ms: a fast server."""
    late_first = record(ONE_WRITE)
    assert validity.in_clumps([late_first] * 5, SLO, 0.19) is not None
    assert validity.in_clumps([late_first] * 5, SLO, 0.03) is None
    early = record(replace(ONE_WRITE, first=0.02, last=0.0202))
    assert validity.in_clumps([early] * 5, SLO, 0.19) is not None
    assert validity.in_clumps([early] * 5, SLO, None) is None, "20 ms in all leave no room for 100 ms of decoding"


def test_two_clumps_count_by_the_servers_decode_time() -> None:
    two = record(Request(first=0.2, last=0.25, output=60, asked=60, gaps=GapSummary(n=59, sum_s=0.05, max_s=0.05, under_1ms=58)))
    assert validity.in_clumps([two] * 5, SLO, 0.19) is not None
    assert validity.in_clumps([two] * 5, SLO, None) is None


def test_tpot_alone_that_nobody_has_is_not_decidable() -> None:
    only_tpot = Slo(ttft_s=None, tpot_s=0.05)
    one_token = record(Request(first=0.3, last=0.3, output=1, asked=1))
    assert validity.tpot_undecidable([one_token], only_tpot) is not None
    assert validity.tpot_undecidable([one_token, record(PACED)], only_tpot) is None
    assert validity.tpot_undecidable([one_token], SLO) is None
    assert validity.tpot_undecidable([], only_tpot) is None


def test_a_window_in_a_lull_of_a_recording() -> None:
    assert validity.recorded_lull(80, 40.0, 4.0) is None
    assert validity.recorded_lull(9, 40.0, 0.475) is None  # of 19 so few may come by chance
    figures = {"planned": 79, "measure_s": 40.0, "rate_rps": 4.0, "expected": 160.0}
    assert validity.recorded_lull(79, 40.0, 4.0) == fact("recorded_lull", **figures)


def test_a_window_without_requests() -> None:
    assert validity.nothing_planned(3, 40.0, 0.01) is None
    assert validity.nothing_planned(0, 40.0, 0.01) == fact("nothing_planned", measure_s=40.0, rate_rps=0.01)


@pytest.mark.parametrize(
    ("lags", "void"),
    [
        ([], False),
        ([0.3], False),
        ([0.3] + [0.01] * 4, False),
        ([0.3] * 2 + [0.01] * 38, False),
        ([0.3] * 3 + [0.01] * 38, True),
        ([0.16] * 40, False),
        ([0.161] * 40, True),
        ([0.3, 0.01] * 20, True),
        ([2.0] + [0.01] * 90, False),
    ],
)
def test_a_client_that_stands_still_again_and_again(lags: list[float], void: bool) -> None:
    """Reports twice a second; with a TTFT limit of 0.8 s, stalls of up to 160 ms are nothing."""
    assert (validity.stalled(lags, 0.8) is not None) == void


def test_the_limit_of_a_stall_is_that_of_lateness() -> None:
    assert validity.stalled([0.3, 0.01] * 20, 1.5) is None
    assert validity.stalled([0.11] * 20, None) is not None
    found = validity.stalled([0.3, 0.01] * 20, 0.8)
    assert found is not None
    figures = {"limit_s": pytest.approx(0.16), "over": 20, "reports": 40, "worst_s": 0.3}
    assert (found.code, found.figures) == ("client_stalled", figures)


@pytest.mark.parametrize(
    ("planned", "target", "void"),
    [(0, 0.95, False), (1, 0.95, True), (19, 0.95, True), (20, 0.95, False), (99, 0.99, True), (100, 0.99, False), (5, 1.0, False)],
)
def test_a_window_that_allows_no_miss(planned: int, target: float, void: bool) -> None:
    assert (validity.too_few(planned, target) is not None) == void


def test_a_window_that_allows_no_miss_says_what_it_takes() -> None:
    assert validity.too_few(12, 0.95) == fact("too_few_requests", planned=12, target=0.95)


def test_what_would_be_refused_at_any_rate_is_not_the_loads_doing() -> None:
    ok = record(Request())
    refusal = msgspec.structs.replace(ok, ending="http", status=401, error="HTTP 401 Unauthorized: no.")
    assert validity.refused([refusal] * 2, 100, 0.01) == fact("refusals", requests=2, said="HTTP 401 Unauthorized: no")
    assert validity.refused([refusal], 100, 0.01) is None
    for status in (408, 425, 429, 500, 503):
        assert validity.refused([msgspec.structs.replace(refusal, status=status)] * 50, 100, 0.01) is None
    assert validity.refused([ok] * 100, 100, 0.01) is None
