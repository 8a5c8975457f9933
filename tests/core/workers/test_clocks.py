"""How well another clock is known: with delays that are uneven, clocks that drift, and few or many round trips."""

import random

import pytest

from core.records import ChildMessage, LoadDone, LoadReady, LoadTick, RequestEnded, RequestFirst, RequestHeld, RequestSent
from core.workers.clocks import MOST_DRIFT, ClockEstimate, Offset, RoundTrip, astray_s, brought_home


class Remote:
    """Another machine's clock: it was `ahead_s` at 0 and gains `drift` a second."""

    def __init__(self, ahead_s: float, drift: float = 0.0) -> None:
        self.ahead_s, self.drift = ahead_s, drift

    def at(self, t: float) -> float:
        return t + self.offset(t)

    def offset(self, t: float) -> float:
        return self.ahead_s + self.drift * t

    def trip(self, t0: float, there_s: float, back_s: float) -> RoundTrip:
        return RoundTrip(t0, self.at(t0 + there_s), t0 + there_s + back_s)


def test_an_even_round_trip_tells_the_offset_exactly() -> None:
    estimate = ClockEstimate()
    estimate.add(Remote(5000.0).trip(100.0, 0.01, 0.01))
    assert estimate.at(100.02).s == pytest.approx(5000.0, abs=1e-9)
    assert estimate.at(100.02).error_s == pytest.approx(0.01)


def test_without_a_round_trip_nothing_is_known() -> None:
    assert ClockEstimate().at(0.0).error_s is None


@pytest.mark.parametrize(("there_s", "back_s"), [(0.004, 0.0), (0.0, 0.004), (0.001, 0.003)])
def test_however_uneven_the_ways_are_the_error_is_no_more_than_is_told(there_s: float, back_s: float) -> None:
    remote, estimate = Remote(-40.0), ClockEstimate()
    estimate.add(remote.trip(10.0, there_s, back_s))
    offset = estimate.at(10.004)
    assert offset.error_s == pytest.approx(0.002)
    assert abs(offset.s - remote.offset(10.0)) <= 0.002 + 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_of_many_round_trips_on_a_busy_network_the_best_counts(seed: int) -> None:
    """Delays of 0.2 ms and exponential waits of 5 ms on each way, clocks at 50 us a second: what is told holds, and is small."""
    rng, remote, estimate = random.Random(seed), Remote(123456.0, drift=50e-6), ClockEstimate()
    for i in range(50):
        estimate.add(remote.trip(i * 0.01, 2e-4 + rng.expovariate(200), 2e-4 + rng.expovariate(200)))
    offset = estimate.at(0.6)
    assert offset.error_s is not None
    assert abs(offset.s - remote.offset(0.6)) <= offset.error_s < 0.003


def test_a_good_trip_of_long_ago_gives_way_to_a_worse_one_of_now() -> None:
    """The clocks have run apart since: 100 s at most 10 ms."""
    remote, estimate = Remote(7.0, drift=MOST_DRIFT), ClockEstimate()
    estimate.add(remote.trip(0.0, 1e-4, 1e-4))
    estimate.add(remote.trip(100.0, 1e-3, 1e-3))
    offset = estimate.at(100.1)
    assert offset.s == pytest.approx(remote.offset(100.0), abs=1e-5)
    assert offset.error_s == pytest.approx(1e-3, rel=0.05)


def test_a_trip_that_is_kept_says_what_the_clocks_may_have_run_apart() -> None:
    estimate = ClockEstimate()
    estimate.add(Remote(7.0).trip(0.0, 1e-4, 1e-4))
    assert estimate.at(50.0).error_s == pytest.approx(1e-4 + 50 * MOST_DRIFT, rel=0.01)


@pytest.mark.parametrize("jump_s", [2.0, -3.0, 0.01])
def test_trips_from_before_a_clock_was_set_are_forgotten(jump_s: float) -> None:
    """The best trip ever, and then one worse trip of a clock that is another: 0.2 ms a second ago, 4 ms now."""
    estimate = ClockEstimate()
    estimate.add(Remote(7.0).trip(0.0, 1e-4, 1e-4))
    estimate.add(Remote(7.0 + jump_s).trip(1.0, 2e-3, 2e-3))
    assert estimate.at(1.01).s == pytest.approx(7.0 + jump_s, abs=2e-3)
    assert estimate.trips == 2


def test_a_clock_that_drifts_more_than_any_should_is_known_as_it_is_now() -> None:
    remote, estimate = Remote(7.0, drift=5 * MOST_DRIFT), ClockEstimate()
    for second in range(100):
        estimate.add(remote.trip(second, 1e-4 + 1e-5 * second, 1e-4 + 1e-5 * second))
    assert abs(estimate.at(99.1).s - remote.offset(99.1)) < 2e-3


def test_a_clock_is_astray_by_what_neither_the_way_nor_drift_explains() -> None:
    begun = Offset(7.0, 1e-3)
    assert astray_s(Remote(7.0).trip(100.0, 0.2, 0.0), begun, 0.0) == 0.0
    assert astray_s(Remote(7.0, drift=MOST_DRIFT).trip(3600.0, 1e-3, 1e-3), begun, 0.0) == 0.0
    assert astray_s(Remote(9.0).trip(10.0, 1e-3, 1e-3), begun, 0.0) == pytest.approx(2.0, abs=0.01)
    assert astray_s(Remote(4.0).trip(10.0, 1e-3, 1e-3), begun, 0.0) == pytest.approx(3.0, abs=0.01)


ENDED = RequestEnded(order=1, index=3, t_sched=11.0, t_end=13.0, asked_input=1, asked_output=1, ending="connection")


@pytest.mark.parametrize(
    "message",
    [
        LoadReady(t=10.0, python="", loop="", transport="", fd_limit=1),
        RequestHeld(order=1, index=0, t_sched=11.0, t=12.0),
        RequestSent(order=1, index=0, t_sched=11.0, t_sent=12.0, connect_s=0.5),
        RequestFirst(order=1, index=0, t_first=13.0, first_tokens=2),
        ENDED,
        RequestEnded(
            **{name: getattr(ENDED, name) for name in ENDED.__struct_fields__}
            | {"t_start": 11.5, "t_sent": 11.6, "t_first": 12.0, "t_last": 12.5, "ending": "ok"}
        ),
        LoadTick(order=1, t=12.0, in_flight=2, loop_lag_max_s=0.1, cpu_frac=0.2),
        LoadDone(order=1, t=12.0, sent=1, unsent=0, cpu_frac=0.1, loop_lag_max_s=0.1),
    ],
    ids=lambda message: type(message).__name__,
)
def test_every_time_of_a_message_comes_home_and_nothing_else_changes(message: ChildMessage) -> None:
    """A time is a field whose name begins with t or t_ (core.records); what is a duration or unknown stays."""
    home = brought_home(message, 4.0)
    for name in message.__struct_fields__:
        was, now = getattr(message, name), getattr(home, name)
        is_time = name == "t" or name.startswith("t_")
        assert now == (was - 4.0 if is_time and was is not None else was), name
