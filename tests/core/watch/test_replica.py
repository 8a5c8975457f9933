"""One replica over time, by its row: rates, percentiles, restarts, failures, load and growth."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.facts import fact
from core.server import Found
from core.watch import Estimate, Figures, Load, ReplicaKnee, Row, Watched, row_notes
from tests.core.watch.feed import EPOCH, steady, vitals

URL = "http://a:1"


def watched(knee_rps: float | None = None, wait_s: float | None = None, **options: float) -> Watched:
    knee = None if knee_rps is None else ReplicaKnee(knee_rps, None, "tiny", Path("run.jsonl"), wait_s)
    made = Watched(knee=knee, **options)
    made.see(Found((URL,)), 0.0)
    return made


def row(of: Watched, now: float) -> Row:
    return of.table(now).rows[0]


def figures(of: Watched, now: float) -> Figures:
    found = row(of, now).figures
    assert found is not None
    return found


def test_before_a_reading_nothing_is_known_and_after_one_no_rate() -> None:
    made = watched()
    assert (row(made, 2.0).state, row(made, 2.0).figures) == ("unread", None)
    made.take(URL, vitals(3.0, running=4.0, waiting=1.0))
    found = figures(made, 3.0)
    assert (found.running, found.waiting, found.kv_usage_frac) == (4.0, 1.0, 0.1)
    assert (found.arriving_rps, found.ttft_p50, found.errors_per_s) == (None, None, None)


def test_rates_are_differences_over_the_window() -> None:
    made = watched()
    made.take(URL, vitals(0.0, ttft=(0, 0, 0, 0), running=2.0))
    made.take(
        URL,
        vitals(
            10.0,
            ttft=(0, 90, 100, 100),
            errors=5.0,
            running=6.0,
            waiting=2.0,
            requests_success_total=40.0,
            preemptions_total=20.0,
            prompt_tokens_total=5000.0,
            generation_tokens_total=1000.0,
            prefix_queries_total=5000.0,
            prefix_hits_total=1250.0,
        ),
    )
    found = figures(made, 10.0)
    assert (found.finished_rps, found.arriving_rps) == (4.0, 4.6)  # 40 finished, and 6 more are in flight
    assert (found.prompt_tps, found.output_tps, found.prefix_hit_frac) == (500.0, 100.0, 0.25)
    assert (found.preemptions_per_s, found.errors_per_s, found.over_s, found.in_flight) == (2.0, 0.5, 10.0, 5.0)
    assert found.ttft_p95 == Estimate(0.75)
    assert (found.tpot_p50, found.tpot_of) == (found.ttft_p50, "gap")


def test_the_window_moves_on() -> None:
    made = watched()
    for t in range(0, 101):
        made.take(URL, vitals(float(t), requests_success_total=float(t if t < 50 else 50 + 9 * (t - 50))))
    found = figures(made, 100.0)
    assert (found.over_s, found.finished_rps) == (30.0, 9.0)


@pytest.mark.parametrize("epoch", [EPOCH + 60, EPOCH, None])
def test_a_restart_makes_no_negative_rate_and_is_told(epoch: float | None) -> None:
    """Known by the start of the process, else by a counter that fell."""
    made = watched(knee_rps=10.0)
    steady(made, URL, 8.0, 20)
    made.take(URL, vitals(21.0, requests_success_total=3.0, epoch=epoch))
    found = figures(made, 21.0)
    assert (found.finished_rps, found.arriving_rps, found.over_s) == (None, None, None)
    assert row(made, 30.0).restarted_s == 9.0
    assert fact("watch_restarted", ago_s=9.0) in row_notes(row(made, 30.0))
    made.take(URL, vitals(22.0, requests_success_total=7.0, epoch=epoch))
    assert figures(made, 22.0).finished_rps == 4.0
    assert row(made, 90.0).restarted_s is None


def test_every_rate_stays_at_or_above_zero_when_a_counter_is_lost() -> None:
    """Errors are no counter that tells a restart; their rate is cut at 0."""
    made = watched()
    made.take(URL, vitals(0.0, errors=9.0))
    made.take(URL, vitals(1.0, errors=2.0))
    assert figures(made, 1.0).errors_per_s == 0.0


def test_two_servers_behind_one_address_are_seen() -> None:
    """A process that began before the one that answered last is another one; no restart goes back."""
    made = watched()
    made.take(URL, vitals(0.0, epoch=EPOCH, requests_success_total=100.0))
    made.take(URL, vitals(1.0, epoch=EPOCH + 500, requests_success_total=7.0))
    made.take(URL, vitals(2.0, epoch=EPOCH, requests_success_total=101.0))
    assert row(made, 2.0).several
    assert row_notes(row(made, 2.0)) == (fact("watch_several"),)
    assert figures(made, 2.0).finished_rps is None


def test_a_replica_that_cannot_be_read_says_why_and_since_when() -> None:
    made = watched()
    steady(made, URL, 8.0, 3)
    made.fail(URL, 4.0, "cannot be reached")
    made.fail(URL, 5.0, "answers 503")
    found = row(made, 7.0)
    assert (found.state, found.since_s, found.why, found.figures, found.failures) == ("failing", 3.0, "answers 503", None, 2)
    assert row_notes(found) == (fact("watch_failing", since_s=3.0, said="answers 503"),)
    made.take(URL, vitals(8.0, requests_success_total=64.0))
    assert (row(made, 8.0).state, row(made, 8.0).why, figures(made, 8.0).finished_rps) == ("ok", None, 8.0)


def test_after_a_long_gap_rates_are_of_now() -> None:
    made = watched()
    made.take(URL, vitals(0.0, requests_success_total=0.0))
    made.take(URL, vitals(500.0, requests_success_total=9000.0))
    assert figures(made, 500.0).finished_rps is None
    made.take(URL, vitals(501.0, requests_success_total=9002.0))
    assert figures(made, 501.0).finished_rps == 2.0


def test_a_slow_watch_has_rates_too() -> None:
    made = watched(window_s=300.0)
    for n in range(4):
        made.take(URL, vitals(300.0 * n, requests_success_total=600.0 * n))
    assert (figures(made, 900.0).finished_rps, figures(made, 900.0).over_s) == (2.0, 300.0)


def test_a_reading_that_takes_long_is_told_of_and_the_time_between_two_is_not() -> None:
    made = watched()
    steady(made, URL, 1.0, 5)
    assert row_notes(row(made, 35.0)) == ()  # --every 30s
    made.ask(URL, 35.0)
    assert row_notes(row(made, 38.0)) == ()
    assert row_notes(row(made, 39.0)) == (fact("watch_late", age_s=4.0),)
    made.take(URL, vitals(39.5, requests_success_total=40.0))
    assert row_notes(row(made, 50.0)) == ()


def test_load_is_the_share_of_the_measured_knee() -> None:
    made = watched(knee_rps=10.0)
    steady(made, URL, 8.0, 20)
    load = row(made, 20.0).load
    assert load == Load(0.8, "knee")
    assert (load.above(0.8), load.above(0.7)) == (False, True)


def test_without_a_knee_load_is_the_kv_cache_and_waiting_requests_are_more_than_any() -> None:
    made = watched()
    made.take(URL, vitals(0.0, kv_usage_max_frac=0.4, waiting=3.0))
    assert row(made, 0.0).load == Load(0.4, "kv")  # one reading is a moment
    made.take(URL, vitals(1.0, kv_usage_max_frac=0.5, waiting=1.0))
    load = row(made, 1.0).load
    assert load == Load(1.0, "waiting")
    assert load.above(1.0)
    made.take(URL, vitals(2.0, kv_usage_max_frac=0.6, waiting=0.0))
    assert row(made, 2.0).load == Load(0.6, "kv")


def test_a_server_that_tells_little_has_no_load() -> None:
    made = watched()
    made.take(URL, vitals(0.0, kv_usage_max_frac=None, waiting=None, running=None, requests_success_total=None))
    made.take(URL, vitals(1.0, kv_usage_max_frac=None, waiting=None, running=None, requests_success_total=None))
    assert (row(made, 1.0).load, figures(made, 1.0).arriving_rps, figures(made, 1.0).in_flight) == (None, None, None)


@pytest.mark.parametrize("knee_rps", [None, 10.0])
def test_requests_that_nothing_comes_of_are_stuck_and_more_than_any_load(knee_rps: float | None) -> None:
    made = watched(knee_rps)
    for t in range(0, 100):
        done = min(t, 60)  # from then on the engine does nothing, and its API still answers
        made.take(
            URL,
            vitals(float(t), running=4.0, requests_success_total=2.0 * done, generation_tokens_total=50.0 * done),
        )
        stuck = row(made, float(t)).load == Load(1.0, "stalled")
        assert stuck == (t >= 80)
    found = row(made, 99.0)
    assert found.load is not None
    assert found.load.above(1.0)
    assert row_notes(found) == (fact("watch_stalled", stalled_s=39.0),)
    made.take(URL, vitals(100.0, running=4.0, requests_success_total=120.0, generation_tokens_total=3001.0))
    assert row_notes(row(made, 100.0)) == ()


@pytest.mark.parametrize(
    "at_rest",
    [
        {"running": 0.0, "generation_tokens_total": 9.0},  # idle
        {"running": 4.0, "generation_tokens_total": None},  # the server counts no tokens: a long answer looks the same
        {"running": None, "waiting": None, "generation_tokens_total": 9.0},
    ],
)
def test_a_replica_is_not_stuck_for_what_nobody_asks_or_tells(at_rest: dict[str, Any]) -> None:
    made = watched()
    for t in range(0, 60):
        made.take(URL, vitals(float(t), **at_rest))
    assert figures(made, 59.0).stalled_s is None


def test_requests_that_only_wait_are_stuck_too() -> None:
    made = watched(10.0)
    for t in range(0, 60, 30):  # as `--once --every 30s` reads
        made.take(URL, vitals(float(t), waiting=1.0))
    assert row(made, 30.0).load == Load(1.0, "stalled")


@pytest.mark.parametrize(("waiting", "load"), [(30.0, Load(1.0, "waiting")), (2.0, Load(0.4, "knee"))])
def test_a_queue_beyond_the_limits_of_the_run_counts_whatever_the_rate(waiting: float, load: Load) -> None:
    made = watched(knee_rps=10.0, wait_s=0.8)
    for t in range(0, 31):
        made.take(URL, vitals(float(t), running=4.0, waiting=waiting, requests_success_total=4.0 * t, generation_tokens_total=t))
    assert row(made, 30.0).load == load
    assert figures(made, 30.0).wait_s == waiting / 4
    notes = (fact("watch_queue", wait_s=7.5),) if load.by == "waiting" else ()
    assert row_notes(row(made, 30.0)) == notes


def test_a_queue_that_was_gone_once_or_few_finished_of_says_nothing() -> None:
    made = watched(knee_rps=10.0, wait_s=0.8)
    made.take(URL, vitals(0.0, waiting=40.0))
    made.take(URL, vitals(1.0, waiting=40.0, requests_success_total=9.0, generation_tokens_total=1.0))
    assert figures(made, 1.0).wait_s is None
    made.take(URL, vitals(2.0, waiting=0.0, requests_success_total=50.0, generation_tokens_total=2.0))
    assert figures(made, 2.0).wait_s == 0.0


def test_a_run_of_another_model_is_told_of() -> None:
    made, plain = watched(knee_rps=10.0), watched()
    for each in (made, plain):
        each.take(URL, replace(vitals(0.0), model="large"))
    assert row_notes(row(made, 0.0)) == (fact("watch_other_model", model="large", run_model="tiny"),)
    assert (row(plain, 0.0).model, row_notes(row(plain, 0.0))) == ("large", ())
    made.take(URL, replace(vitals(1.0), model="tiny"))
    assert row_notes(row(made, 1.0)) == ()


def test_growth_is_told_beside_a_knee_alone() -> None:
    made, plain = watched(knee_rps=20.0), watched()
    for t in range(0, 301):
        for each in (made, plain):
            each.take(URL, vitals(float(t), requests_success_total=4.0 * t + 0.01 * t * t))
    found = row(made, 300.0).growth
    assert found is not None
    assert found.state == "rising"
    assert found.eta_s == pytest.approx(500.0, rel=0.02)  # 10 requests/s now, and 0.02 more each second
    assert row_notes(row(made, 300.0)) == (fact("watch_rising", eta_s=found.eta_s),)
    assert row(plain, 300.0).growth is None


def test_what_a_page_draws_is_kept_for_a_quarter_of_an_hour() -> None:
    made = watched()
    for t in range(0, 2000, 10):
        made.take(URL, vitals(float(t)))
    points = made.points(URL)
    assert (points[0].t, points[-1].t) == (1090.0, 1990.0)
    assert made.points("http://nobody:1") == ()
