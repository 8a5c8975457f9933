"""The shared time axis: bins, their merging, and what stands in them."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.results import Bounds
from core.run.series import KEPT_VALUES, MAX_BINS, Series
from core.view import SeriesPoint
from tests.core.run.events import START, ended, first, sample, sent


def send(series: Series, index: int, t: float, ttft_s: float, e2e_s: float) -> None:
    series.advance(t + e2e_s)
    series.sent(sent(index, t), 4.0, True)
    series.first(first(index, t + ttft_s), t)
    series.ended(ended(index, t, t + e2e_s, ttft_s=ttft_s), had_first=True)


def at(series: Series, now: float) -> list[SeriesPoint]:
    series.advance(now)
    return list(series.points(now, None))


def test_values_fall_into_the_bin_of_their_time() -> None:
    series = Series(START)
    send(series, 0, START + 0.5, ttft_s=0.75, e2e_s=2.75)
    points = at(series, START + 5)

    assert [point.offered_rps for point in points[:4]] == [1, 0, 0, 0]
    assert [point.served_rps for point in points[:4]] == [0, 0, 0, 1]
    assert [point.ttft_p50_s for point in points[:4]] == [None, 0.75, None, None]
    assert [point.tpot_p50_s for point in points[:4]] == [None, None, None, pytest.approx(0.2)]
    assert [point.in_flight for point in points[:4]] == [1, 1, 1, 0]
    assert [point.no_first_token for point in points[:4]] == [1, 0, 0, 0]


def test_percentiles_are_nearest_rank_and_never_above_the_maximum() -> None:
    series = Series(START)
    for k in range(1, 101):
        send(series, k, START + 0.1, ttft_s=k / 1000, e2e_s=0.5)
    point = at(series, START + 3)[0]

    assert (point.ttft_p50_s, point.ttft_p95_s, point.ttft_p99_s) == pytest.approx((0.050, 0.095, 0.099))


def test_a_failed_request_serves_nothing_and_leaves_the_queue() -> None:
    series = Series(START)
    series.advance(START + 1.5)
    series.sent(sent(0, START + 0.2), 4.0, True)
    series.ended(ended(0, START + 0.2, START + 1.2, ttft_s=None, ending="http"), had_first=False)
    points = at(series, START + 3)

    assert [point.in_flight for point in points[:2]] == [1, 0]
    assert [point.no_first_token for point in points[:2]] == [1, 0]
    assert all(point.served_rps == 0 and point.tpot_p50_s is None for point in points)


def test_before_the_first_request_nothing_is_known_of_the_client() -> None:
    series = Series(START)
    series.advance(START + 3)
    series.sent(sent(0, START + 2.5), 4.0, True)

    assert [point.in_flight for point in at(series, START + 4)] == [None, None, 1, 1]


def test_gauges_are_means_and_missing_ones_are_none() -> None:
    series = Series(START)
    for k, running in enumerate((2.0, 4.0)):
        series.advance(START + k / 2)
        series.sample(sample(START + k / 2, running=running))
    point = at(series, START + 2)[0]

    assert point.running == 3.0
    assert point.waiting is None
    assert point.kv_usage_frac is None
    assert point.preemptions_per_s is None


def test_preemptions_are_a_rate_and_a_restart_gives_none() -> None:
    series = Series(START)
    readings = [(0.0, 10.0, 1.0), (1.0, 14.0, 1.0), (2.0, 3.0, 2.0), (3.0, 3.0, 2.0), (4.0, 2.0, 2.0)]
    for t, total, epoch in readings:
        series.advance(START + t)
        series.sample(sample(START + t, preemptions=total, epoch=epoch))
    points = at(series, START + 5)

    assert [point.preemptions_per_s for point in points[:5]] == [None, 4.0, None, 0.0, None]


def test_the_floor_is_that_of_the_end_of_the_bin_and_of_now() -> None:
    series = Series(START)
    series.advance(START + 1.1)
    series.floor(START + 1, Bounds(planned=10, good=1, bad=1, open=2))
    points = series.points(START + 1.6, Bounds(planned=10, good=3, bad=1, open=0))

    assert [(point.floor_lo, point.floor_hi) for point in points] == [(0.25, 0.75), (0.75, 0.75)]


def test_a_bin_that_has_just_begun_is_not_shown_and_then_has_the_rate_of_what_has_passed() -> None:
    series = Series(START)
    series.advance(START + 1.4)
    for k in range(4):
        series.sent(sent(k, START + 1.1), 4.0, True)

    assert len(series.points(START + 1.2, None)) == 1
    assert series.points(START + 1.5, None)[-1].offered_rps == pytest.approx(8.0)
    assert series.points(START + 2.3, None)[1].offered_rps == 4.0


def test_a_late_report_still_reaches_its_bin() -> None:
    series = Series(START)
    series.advance(START + 5.5)
    before = series.points(START + 5.5, None)
    series.sent(sent(0, START + 1.5), 4.0, True)
    after = series.points(START + 5.5, None)

    assert before[1].offered_rps == 0
    assert after[1].offered_rps == 1
    assert [point.in_flight for point in after] == [None, 1, 1, 1, 1, 1]


@settings(deadline=None)
@given(st.lists(st.floats(min_value=0, max_value=5 * MAX_BINS), min_size=1, max_size=60))
def test_doubling_loses_no_request(times: list[float]) -> None:
    series = Series(START)
    newest = 0.0
    for index, t in enumerate(times):
        newest = max(newest, t + 0.5)
        series.advance(START + newest)
        series.sent(sent(index, START + t), 4.0, True)
        series.first(first(index, START + t + 0.1), START + t)
        series.ended(ended(index, START + t, START + t + 0.5), had_first=True)
    end = START + (math.floor(newest / series.bin_s) + 1) * series.bin_s
    points = series.points(end, None)

    assert len(points) <= MAX_BINS
    assert sum(point.offered_rps * series.bin_s for point in points) == pytest.approx(len(times))
    assert sum(point.served_rps * series.bin_s for point in points) == pytest.approx(len(times))
    assert points[-1].in_flight == 0


def test_merged_bins_keep_their_percentiles_within_a_bound() -> None:
    series = Series(START)
    n = 10 * KEPT_VALUES
    for k in range(n):
        send(series, k, START + 2 * (k % 977) / 977, ttft_s=(k + 1) / n, e2e_s=1.5)
    series.advance(START + 4 * MAX_BINS)
    point = series.points(START + 4 * MAX_BINS, None)[0]

    assert (point.ttft_p50_s, point.ttft_p95_s, point.ttft_p99_s) == pytest.approx((0.50, 0.95, 0.99), abs=0.003)
