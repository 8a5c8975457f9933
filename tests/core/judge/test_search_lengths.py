"""What a search sends: the segments of its ramp and of its steps."""

import math

import numpy as np
import pytest

from core.config import Method, Safety, Slo
from core.modes import (
    HOLD_S,
    MODES,
    hold_segments,
    measured_s,
    planned_warmup_s,
    ramp_segments,
    repeat_cost_s,
    step_segments,
    warmup_needed_s,
    with_warmup,
)
from core.records import Segment
from tests.core.judge.feed import config, ramp_of, started, step_of, step_result

M_S = MODES["quick"].search.measure_s
SLO = Slo()


def test_the_ramp_doubles_from_two_per_idle_latency() -> None:
    ramp = ramp_of(started(idle_s=4.0))
    assert [segment.rate_rps for segment in ramp[:4]] == pytest.approx([0.5, 1.0, 2.0, 4.0])
    assert {segment.role for segment in ramp} == {"measured"}


@pytest.mark.parametrize(
    ("idle_s", "rate_rps", "duration_s"),
    [
        (1.0, 100.0, 6.0),  # 2*s0 is under 6 s
        (4.0, 100.0, 8.0),  # 2*s0
        (9.0, 100.0, 10.0),  # 2*s0 is over 10 s
        (1.0, 1.0, 12.0),  # 12 requests need longer
        (1.0, 0.1, 18.0),  # but at most three times as long
    ],
)
def test_a_segment_is_long_enough_for_twelve_requests_if_it_can(idle_s: float, rate_rps: float, duration_s: float) -> None:
    assert ramp_segments(rate_rps, idle_s, None)[0].duration_s == pytest.approx(duration_s)


def test_the_ramp_ends_after_fourteen_segments_or_six_thousand_requests() -> None:
    assert len(ramp_segments(0.01, 1.0, None)) == 14
    many = ramp_segments(10.0, 1.0, None)
    planned = [segment.rate_rps * segment.duration_s for segment in many]
    assert sum(planned[:-1]) < 6000 <= sum(planned)


def test_the_ramp_ends_at_the_highest_allowed_rate() -> None:
    assert [segment.rate_rps for segment in ramp_segments(2.0, 1.0, 11.0)] == [2.0, 4.0, 8.0, 11.0]
    assert [segment.rate_rps for segment in ramp_segments(2.0, 1.0, 8.0)] == [2.0, 4.0, 8.0]
    assert [segment.rate_rps for segment in ramp_of(started(config(start_rps=5.0, max_rps=3.0)))] == [3.0]
    assert [segment.rate_rps for segment in ramp_of(started(config(start_rps=0.3, max_rps=1.0)))] == [0.3, 0.6, 1.0]


@pytest.mark.parametrize(
    ("lasts_s", "expected_s"),
    [
        ([0.1], 0.2),
        ([4.0], 8.0),  # two means
        ([3.0, 5.0], 8.0),
        ([1.0, 7.0], 1.5 * 50 / 8),  # long requests settle last: E[x²]/E[x] is 6.25 s
        ([40.0], 80.0),  # however long that is
        ([1.0] * 19 + [100.0], 1.5 * 10_019 / 119),
    ],
)
def test_a_warm_up_follows_the_requests_that_are_long_in_the_server(lasts_s: list[float], expected_s: float) -> None:
    assert warmup_needed_s(np.array(lasts_s)) == pytest.approx(expected_s)


def test_no_warm_up_is_shorter_than_two_seconds() -> None:
    short = step_segments(40.0, SLO, Safety(), 120.0, 8.0, 0.1, 0.2)
    assert [s.duration_s for s in short if s.role == "warmup"] == [1.0, 1.0]
    assert repeat_cost_s(40.0, SLO, 8.0, 0.1, 0.2, curtail_pass=True) == pytest.approx(2.0 + 40.0 + 0.1)


@pytest.mark.parametrize(
    ("rate_rps", "e2e_s", "target", "expected_s"),
    [
        (20.0, 1.0, 0.95, 40.0),  # the mode's
        (20.0, 10.0, 0.95, 50.0),  # 5E
        (0.5, 1.0, 0.95, 200.0),  # 100 requests
        (10.0, 1.0, 0.99, 50.0),  # 500 requests
        (0.5, 1.0, 1.0, 40.0),  # no count follows from a target that allows no miss
    ],
)
def test_measured_part(rate_rps: float, e2e_s: float, target: float, expected_s: float) -> None:
    slo = Slo(target=target)
    assert measured_s(M_S, slo, rate_rps, e2e_s) == pytest.approx(expected_s)
    curtailed_s, whole_s = (repeat_cost_s(M_S, slo, rate_rps, e2e_s, 7.0, curtail_pass=curtailed) for curtailed in (True, False))
    assert curtailed_s == pytest.approx(7.0 + expected_s + e2e_s)
    assert whole_s == pytest.approx(curtailed_s + 1.2 * e2e_s), "without curtailing the slowest tenth is waited for"


def test_a_step_warms_up_in_two_halves_and_keeps_the_load_up_to_the_end() -> None:
    search = started(config(slo=Slo(tpot_s=None, e2e_s=25.0), drain_s=60.0), idle_s=4.0)
    ramp_of(search)
    search.observe_ramp(4.0, 8.0)
    rate_rps = math.sqrt(32.0)
    assert step_of(search).segments == (
        Segment(rate_rps=1.5 * rate_rps, duration_s=12.0, role="warmup"),  # E 6 s as yet, twice that at the knee: W 24 s
        Segment(rate_rps=rate_rps, duration_s=12.0, role="warmup"),
        Segment(rate_rps=rate_rps, duration_s=40.0, role="measured"),
        Segment(rate_rps=rate_rps, duration_s=85.0, role="tail"),
    )


def test_the_boosted_warm_up_stays_under_the_highest_allowed_rate() -> None:
    search = started(config(max_rps=6.0))
    ramp_of(search)
    search.observe_ramp(4.0, 6.0)
    segments = step_of(search).segments
    assert [s.rate_rps for s in segments] == pytest.approx([6.0, math.sqrt(24.0), math.sqrt(24.0), math.sqrt(24.0)])


# --- a warm-up that turned out too short ---


@pytest.mark.parametrize(
    ("rate_rps", "passed_rps", "expected_s"),
    [
        (8.0, None, 6.0),  # only the idle server was seen
        (8.8, 8.0, 3.0 * 1.2 * 1.21),
        (16.0, 8.0, 6.0),  # no more than twofold
        (6.0, 8.0, 3.0 * 1.2),  # never less than what was seen, with its margin
    ],
)
def test_a_warm_up_is_planned_for_what_the_rate_may_bring(rate_rps: float, passed_rps: float | None, expected_s: float) -> None:
    assert planned_warmup_s(3.0, rate_rps, passed_rps) == pytest.approx(expected_s)


def test_the_next_rate_up_is_warmed_up_for_longer() -> None:
    search = started(config(method=Method()))
    ramp_of(search)
    search.observe_ramp(4.0, 16.0)
    warmups_s, rates_rps = [], []
    for _ in range(2):
        step = step_of(search)
        rates_rps.append(step.rate_rps)
        warmups_s.append(sum(s.duration_s for s in step.segments if s.role == "warmup"))
        search.observe_step(step_result(step.rate_rps, "pass", phase=step.phase), 4.0)
    assert rates_rps == pytest.approx([8.0, 8.0 * 2**0.5])
    assert warmups_s == pytest.approx([2 * 1.5 * 2, 2 * 4.0 * 2])


STEP = step_segments(40.0, SLO, Safety(), 120.0, 8.0, 2.0, 4.0)


def test_a_longer_warm_up_leaves_the_rest_of_a_step_alone() -> None:
    longer = with_warmup(STEP, 10.0, 8.0, Safety())
    assert [(s.rate_rps, s.duration_s, s.role) for s in longer[:2]] == [(12.0, 5.0, "warmup"), (8.0, 5.0, "warmup")]
    assert longer[2:] == STEP[2:]
    assert with_warmup(STEP, 10.0, 8.0, Safety(max_rps=9.0))[0].rate_rps == 9.0


@pytest.mark.parametrize("needed_s", [1.0, 3.8, 4.0])
def test_a_warm_up_is_never_made_shorter(needed_s: float) -> None:
    assert with_warmup(STEP, needed_s, 8.0, Safety()) == STEP


def test_a_warm_up_has_no_longest() -> None:
    assert sum(s.duration_s for s in with_warmup(STEP, 254.0, 8.0, Safety()) if s.role == "warmup") == 254.0


# --- a held rate ---


def test_a_held_rate_warms_up_and_then_measures_stretch_after_stretch() -> None:
    held = hold_segments(60.0, SLO, Safety(), 4.0, 3.0, 6.0)
    assert [s.role for s in held[:3]] == ["warmup", "warmup", "measured"]
    assert held[:2] == step_segments(60.0, SLO, Safety(), 120.0, 4.0, 3.0, 6.0)[:2]
    assert {(s.rate_rps, s.duration_s) for s in held[2:]} == {(4.0, 60.0)}
    assert sum(s.duration_s for s in held[2:]) == pytest.approx(HOLD_S)


def test_a_held_rate_is_one_order_of_at_most_half_a_million_requests() -> None:
    held = hold_segments(60.0, SLO, Safety(), 100.0, 3.0, 6.0)
    assert 490_000 < sum(s.duration_s * s.rate_rps for s in held[2:]) <= 500_000
