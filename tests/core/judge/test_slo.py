import math

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.config import Slo, Workload
from core.records import CountedBy, Ending
from core.slo import (
    allowed_misses,
    e2e_s,
    first_within_s,
    floor,
    good,
    least_tpot_s,
    margin,
    needed_good,
    sure_miss_at,
    too_many_errors,
    tpot_s,
    ttft_s,
    within,
)
from core.workloads import parse_mix
from tests.core.judge.play import START, Request, record

DEFAULT = Slo(ttft_s=0.8, tpot_s=0.05, e2e_s=None)
ALL = Slo(ttft_s=0.8, tpot_s=0.05, e2e_s=2.0)


def test_latencies_start_at_the_schedule_however_late_the_send() -> None:
    late = record(Request(late=0.5, first=0.7, last=1.7, output=21))
    assert ttft_s(late) == pytest.approx(0.7)
    assert e2e_s(late) == pytest.approx(1.7)
    assert tpot_s(late) == pytest.approx(0.05)


def test_the_tail_after_the_last_token_is_in_no_latency() -> None:
    """11 tokens, 100 ms apart, the last at 1.1 s; usage and the end of the body at 3 s."""
    slow_close = record(Request(first=0.1, last=1.1, closing=1.9, output=11, asked=11))
    assert tpot_s(slow_close) == pytest.approx(0.1)
    assert e2e_s(slow_close) == pytest.approx(1.1)


def test_tpot_divides_by_the_tokens_after_the_first_event() -> None:
    """One token, then 25 events of four 32 ms apart: 8 ms a token; and with four in the first event already."""
    assert tpot_s(record(Request(first=0.1, last=0.9, output=101))) == pytest.approx(0.008)
    assert tpot_s(record(Request(first=0.1, last=0.9, output=104, first_tokens=4))) == pytest.approx(0.008)


@pytest.mark.parametrize(("output", "first_tokens"), [(1, 1), (4, 4), (0, 0)])
def test_tpot_does_not_exist_without_later_tokens(output: int, first_tokens: int) -> None:
    assert tpot_s(record(Request(first=0.1, last=0.1, output=output, first_tokens=first_tokens))) is None


def test_tpot_is_not_known_where_an_event_may_hold_several_tokens() -> None:
    """16 events for 64 tokens, 30 ms apart, and nothing that counts: 7 ms a token at best, 30 at worst."""
    few = Request(first=0.1, last=0.55, output=16, asked=64, usage=False, counted_by="events")
    assert tpot_s(record(few)) is None
    assert least_tpot_s(record(few)) == pytest.approx(0.45 / 63)
    assert good(record(few), Slo(ttft_s=0.8, tpot_s=0.02))
    assert not good(record(few), Slo(ttft_s=0.8, tpot_s=0.007)), "too slow even with every token asked for"
    assert not good(record(few), Slo(ttft_s=0.05, tpot_s=0.02))


@pytest.mark.parametrize(
    ("output", "counted_by"), [(64, "events"), (61, "events"), (16, "usage"), (16, "token_ids"), (16, "length"), (16, None)]
)
def test_tpot_is_known_where_something_counts_or_events_are_as_many(output: int, counted_by: CountedBy | None) -> None:
    known = record(Request(first=0.1, last=0.55, output=output, asked=64, usage=False, counted_by=counted_by))
    assert tpot_s(known) == least_tpot_s(known) == pytest.approx(0.45 / (output - 1))


@given(st.integers(2, 64), st.floats(0.1, 5.0), st.floats(0.001, 0.1), st.sampled_from(["events", "usage"]))
def test_what_surely_missed_is_never_good_in_the_end(output: int, took_s: float, limit_s: float, by: CountedBy) -> None:
    """The bound by which an open request is given up holds also for one whose tokens nobody counts, and for one that stopped by
    itself before all that it was asked for had come."""
    slo = Slo(ttft_s=None, tpot_s=limit_s)
    ended = record(
        Request(first=0.1, last=0.1 + took_s, output=output, asked=64, usage=by == "usage", counted_by=by, finish="stop")
    )
    assert ended.t_first is not None
    assert ended.t_last is not None
    if ended.t_last > sure_miss_at(slo, ended.t_sched, 64, ended.t_first, 1) + 1e-6:
        assert not good(ended, slo)


def test_without_tpot_the_other_limits_decide() -> None:
    one_token = Request(first=0.5, last=0.5, output=1, asked=1)
    assert good(record(one_token), DEFAULT)
    assert not good(record(one_token), Slo(ttft_s=0.4, tpot_s=0.05))
    assert good(record(one_token), Slo(ttft_s=None, tpot_s=0.05))


@pytest.mark.parametrize(
    ("request_", "meets"),
    [
        (Request(first=0.8, last=1.8), True),
        (Request(first=0.81, last=1.8), False),
        (Request(first=0.4, last=1.39), True),
        (Request(first=0.4, last=1.45), False),
        (Request(first=0.8, last=2.0, output=41), True),
        (Request(first=0.8, last=2.01, output=41), False),
    ],
)
def test_every_limit_at_once(request_: Request, meets: bool) -> None:
    assert good(record(request_, due=0.0), ALL) is meets


@pytest.mark.parametrize("ending", ["http", "stream", "truncated", "empty", "timeout", "connection", "client", "aborted"])
def test_any_other_ending_is_a_miss_however_fast(ending: Ending) -> None:
    assert not good(record(Request(ending=ending)), DEFAULT)


@pytest.mark.parametrize(
    ("request_", "share"),
    [
        (Request(first=0.4, last=1.0), 0.6),
        (Request(first=0.4, last=1.3), 0.9),
        (Request(first=0.4, last=1.9, output=101), 0.95),
        (Request(first=1.6, last=1.7), 2.0),
        (Request(first=0.2, last=0.2, output=1), 0.25),
    ],
)
def test_the_margin_is_that_of_the_latency_nearest_to_its_limit(request_: Request, share: float) -> None:
    assert margin(record(request_), ALL) == pytest.approx(share)


def test_without_a_latency_that_is_limited_there_is_no_margin() -> None:
    assert margin(record(Request(ending="stream")), ALL) is None
    assert margin(record(Request(first=0.5, last=0.5, output=1, asked=1)), Slo(ttft_s=None, tpot_s=0.05)) is None


TIMES = st.one_of(st.none(), st.floats(-1e6, 1e6), st.sampled_from([0.0, 0.05, 0.8, 1.0, 2.0, math.nextafter(0.8, 1)]))
LIMIT = st.one_of(st.none(), st.floats(1e-6, 3600.0), st.sampled_from([0.05, 0.8, 2.0]))


@given(TIMES, TIMES, st.integers(0, 3), st.integers(0, 30), LIMIT, LIMIT, LIMIT)
def test_good_is_a_margin_of_one_or_less_in_the_last_bit(
    t_first: float | None,
    t_last: float | None,
    first_tokens: int,
    output: int,
    ttft: float | None,
    tpot: float | None,
    e2e: float | None,
) -> None:
    """As a comparison of each latency with its limit says it."""
    assume((ttft, tpot, e2e) != (None, None, None))
    slo = Slo(ttft_s=ttft, tpot_s=tpot, e2e_s=e2e)
    ended = msgspec.structs.replace(
        record(Request(), due=0.0), t_first=t_first, t_last=t_last, first_tokens=first_tokens, output_tokens=output
    )
    per_token = tpot_s(ended)
    met = [
        *([t_first is not None and t_first <= ttft] if ttft is not None else []),
        *([t_last is not None and t_last <= e2e] if e2e is not None else []),
        *([per_token <= tpot] if tpot is not None and per_token is not None else []),
    ]
    assert good(ended, slo) == within(margin(ended, slo)) == all(met)
    failed = msgspec.structs.replace(ended, ending="stream")
    assert (good(failed, slo), margin(failed, slo)) == (False, None)


@given(st.floats(1e-6, 3600.0), st.integers(-3, 3))
def test_a_latency_next_to_its_limit_is_on_its_own_side_of_one(limit_s: float, steps: int) -> None:
    latency_s = limit_s
    for _ in range(abs(steps)):
        latency_s = math.nextafter(latency_s, math.copysign(math.inf, steps))
    assert (latency_s / limit_s <= 1.0) == (latency_s <= limit_s)


def test_limits_not_set_are_left_out() -> None:
    slow = record(Request(first=5.0, last=50.0))
    assert good(slow, Slo(ttft_s=None, tpot_s=None, e2e_s=60.0))
    assert not good(slow, Slo(ttft_s=None, tpot_s=None, e2e_s=40.0))


@pytest.mark.parametrize(
    ("slo", "mix", "within_s"),
    [
        (Slo(ttft_s=0.8, e2e_s=None), "8:8", 0.8),
        (Slo(ttft_s=0.8, e2e_s=0.5), "8:8", 0.5),
        (Slo(ttft_s=None, tpot_s=0.05), "8:8", None),
        (Slo(ttft_s=0.8), "8:8,9:9@ttft=3s", 3.0),
        (Slo(ttft_s=0.8), "8:8,9:9@ttft=none", None),
        (Slo(ttft_s=0.8), "8:8@ttft=2s@e2e=1s", 1.0),
    ],
)
def test_how_late_a_first_token_may_come_by_the_loosest_kind_of_request(slo: Slo, mix: str, within_s: float | None) -> None:
    assert first_within_s(Workload(mix=parse_mix(mix)).limits(slo)) == within_s


def test_before_the_first_token_the_nearer_of_ttft_and_e2e_decides() -> None:
    assert sure_miss_at(ALL, START, 21) == pytest.approx(START + 0.8)
    assert sure_miss_at(Slo(ttft_s=3.0, e2e_s=2.0), START, 21) == pytest.approx(START + 2.0)
    assert sure_miss_at(Slo(ttft_s=None, tpot_s=0.05), START, 21) == math.inf


def test_after_it_the_lower_bound_of_tpot_decides() -> None:
    assert sure_miss_at(DEFAULT, START, 21, START + 0.3, 1) == pytest.approx(START + 0.3 + 20 * 0.05)
    assert sure_miss_at(DEFAULT, START, 21, START + 0.3, 5) == pytest.approx(START + 0.3 + 16 * 0.05)
    assert sure_miss_at(ALL, START, 101, START + 0.3, 1) == pytest.approx(START + 2.0)


def test_only_the_end_tells_when_no_limit_is_left() -> None:
    assert sure_miss_at(Slo(ttft_s=0.8, tpot_s=None), START, 21, START + 0.3, 1) == math.inf
    assert sure_miss_at(ALL, START, 4, START + 0.3, 4) == math.inf


def test_a_first_token_past_its_limit_changes_nothing() -> None:
    assert sure_miss_at(DEFAULT, START, 21, START + 0.9, 1) == pytest.approx(START + 0.8)


@pytest.mark.parametrize(
    ("planned", "target", "misses"), [(20, 0.95, 1), (19, 0.95, 0), (480, 0.95, 24), (100, 0.99, 1), (1000, 0.999, 1), (7, 1.0, 0)]
)
def test_how_many_may_miss(planned: int, target: float, misses: int) -> None:
    assert allowed_misses(planned, target) == misses
    assert needed_good(planned, target) == planned - misses
    assert needed_good(planned, target) / planned >= target - 1e-12


def test_one_error_in_a_hundred_is_allowed_at_one_percent() -> None:
    assert not too_many_errors(1, 100, 0.01)
    assert too_many_errors(2, 100, 0.01)
    assert too_many_errors(1, 99, 0.01)
    assert not too_many_errors(3, 300, 0.01)


def test_the_floor_takes_each_end_for_itself() -> None:
    assert floor([]) is None
    assert floor([(0.97, 0.97), (0.5, 0.99), (0.93, 0.98)]) == (0.5, 0.97)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted), min_size=1), st.data())
def test_the_floor_holds_the_least_final_attainment(ends: list[list[float]], data: st.DataObject) -> None:
    """Wherever in its interval each repeat ends, the minimum over them is in the floor."""
    final = [data.draw(st.floats(low, high)) for low, high in ends]
    found = floor([(low, high) for low, high in ends])
    assert found is not None
    assert found[0] <= min(final) <= found[1]
