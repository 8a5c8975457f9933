"""Whole runs on fakes, in virtual time: the answer, the log, the views, and stopping."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from core import prose
from core.config import FleetAsk, Method
from core.facts import Fact, fact, says
from core.judge.search.search import Search
from core.results import Answer, StepResult
from core.run import log as runs
from core.run.events import Event, LoadStateChanged, RepeatJudged, RunEnded, StepJudged, StepStarted
from core.run.log import RunLog
from core.run.state import State
from core.view import RunView
from tests.core.run.bench import Bench, assert_ended_clean, events_of, final_view, on_bench, stopped_at, to_the_end
from tests.core.run.fakes import CAPACITY_RPS, config, long_run_attainment
from tests.core.run.virtual import now


def knee_in_the_long_run(ttft_s: float) -> float:
    low, high = 0.5 * CAPACITY_RPS, CAPACITY_RPS
    for _ in range(6):
        middle = (low + high) / 2
        low, high = (middle, high) if long_run_attainment(middle, ttft_s) >= 0.95 else (low, middle)
    return (low + high) / 2


def test_a_quick_run_brackets_the_knee_of_the_server(path: Path) -> None:
    bench, answer = on_bench(path, to_the_end)

    knee = knee_in_the_long_run(config().slo.ttft_s or 0.0)
    assert answer.outcome == "bracket"
    assert answer.knee.pass_rps is not None
    assert answer.knee.first_fail_rps is not None
    assert answer.knee.pass_rps <= knee <= answer.knee.first_fail_rps <= 2 * answer.knee.pass_rps
    assert answer.knee.first_fail is None, "it failed in the ramp alone"
    ramp = events_of(path, StepJudged)[0].result
    assert says(ramp.reason, "ramp_failed")
    assert prose.text(ramp.reason).startswith("held 2.50, 5.00; at ")
    assert_ended_clean(bench, path)


def test_the_log_of_a_run_gives_the_same_final_view(path: Path) -> None:
    bench, answer = on_bench(path, to_the_end)

    view = final_view(path)
    assert view == bench.session.state.view(1e9)
    assert view.answer == answer
    assert view.client is not None
    assert view.client.transport == "fake"
    assert view.steps[0].phase == "ramp"


def test_views_taken_while_it_runs_are_those_of_the_log_up_to_there(path: Path) -> None:
    views: list[RunView] = []

    async def work(bench: Bench) -> None:
        task = asyncio.create_task(bench.session.run())
        while not task.done():
            await asyncio.sleep(0.237)
            views.append(bench.session.state.view(now()))

    on_bench(path, work)

    state, applied, events = State(), 0, list(runs.read_run(path))
    for view in views:
        for event in events[applied : view.version]:
            state.apply(event)
        applied = view.version
        assert state.view(1000.0 + view.now_s) == view
    fresh = State()
    for event in events:
        fresh.apply(event)
    assert state.view(1e9) == fresh.view(1e9)


def test_orders_rise_and_each_starts_after_the_last_has_ended(path: Path) -> None:
    bench, _ = on_bench(path, to_the_end)

    numbers = [order.order for order in bench.generator.orders]
    assert numbers == sorted(set(numbers))
    states = [event.state for event in events_of(path, LoadStateChanged)]
    assert [state for state in states if state != "draining"] == ["loading", "idle"] * len(events_of(path, RepeatJudged))
    assert {order.phase for order in bench.generator.orders[:4]} == {"single"}
    assert [order.repeat for order in bench.generator.orders[:4]] == [0, 1, 2, 3]
    assert all(order.seed == 11 for order in bench.generator.orders)


def test_arrivals_and_requests_have_their_seeds_in_every_order(path: Path) -> None:
    method = Method(arrival_seed=5, workload_seed=7)
    bench, _ = on_bench(path, to_the_end, probe=replace(config(), method=method))

    assert {order.seed for order in bench.generator.orders} == {7}
    assert {order.arrival_seed for order in bench.generator.orders if order.segments} == {5}


def test_settings_beside_each_other_have_one_draw_at_every_rate_of_a_phase(path: Path) -> None:
    bench, _ = on_bench(path, to_the_end, probe=replace(config(), method=Method(one_draw=True)))
    steps = [order for order in bench.generator.orders if order.phase == "search"]
    assert len({order.segments[-1].rate_rps for order in steps}) > 1
    assert {order.draw for order in steps} == {0}
    bench, _ = on_bench(path.with_name("fresh.jsonl"), to_the_end)
    steps = [order for order in bench.generator.orders if order.phase == "search"]
    assert len({order.draw for order in steps}) == len(steps)


def test_a_setting_that_another_one_beats_ends_early_by_the_gpus_of_its_replica(path: Path) -> None:
    """A replica of two GPUs has to carry twice what one GPU of the best does."""
    answers = []
    for gpus in (1, 2):
        probe = replace(config(), method=Method(beat_rps=0.6 * CAPACITY_RPS), fleet=FleetAsk(tp=gpus))
        answers.append(on_bench(path.with_name(f"{gpus}.jsonl"), to_the_end, probe=probe)[1])
    beaten = [[note for note in answer.knee.notes if says(note, "beaten")] for answer in answers]
    assert beaten[0] == []
    assert isinstance(beaten[1][0], Fact)
    assert beaten[1][0].figures["best_rps"] == 1.2 * CAPACITY_RPS


def test_a_run_of_bursts_says_so_beside_its_answer(path: Path) -> None:
    even, bursty = (replace(config(), workload=replace(config().workload, arrival_cv=cv)) for cv in (0.5, 2.0))
    _, answer = on_bench(path, to_the_end, probe=bursty)
    assert fact("bursty_arrivals", arrival_cv=2.0) in answer.knee.notes
    _, answer = on_bench(path.with_name("even.jsonl"), to_the_end, probe=even)
    assert not any(says(note, "bursty_arrivals") for note in answer.knee.notes)


def test_single_requests_leave_no_trace_in_steps_and_series(path: Path) -> None:
    on_bench(path, to_the_end)

    state, step = State(), None
    for event in runs.read_run(path):
        if isinstance(event, StepStarted):
            step = event
            break
        state.apply(event)
    assert step is not None
    view = state.view(step.t)
    assert view.current is None
    assert all(point.in_flight is None and point.offered_rps == 0 for point in view.series)


def test_the_expected_time_is_told_with_each_step(path: Path) -> None:
    on_bench(path, to_the_end)

    assert all(event.left_s is not None and event.left_s > 0 for event in events_of(path, StepStarted))


def test_stop_in_the_middle_of_a_step_keeps_what_is_finished(path: Path) -> None:
    bench, answer = on_bench(path, stopped_at(1040.0))

    assert answer.outcome == "interrupted"
    assert answer.knee.first_fail_rps is not None, "the ramp had ended before"
    assert [result.verdict for result in (event.result for event in events_of(path, StepJudged))] == ["fail", "unjudged"]
    last = events_of(path, StepJudged)[-1].result
    cut = last.repeats[-1]
    open_ = cut.sent - cut.good - cut.misses
    assert last.reason == fact("stopped", fact("cut_off", sent=cut.sent, good=cut.good, misses=cut.misses, open=open_))
    assert events_of(path, RepeatJudged)[-1].result.verdict == "unjudged"
    assert events_of(path, RepeatJudged)[-1].result.sent > 0
    assert events_of(path, LoadStateChanged)[-1].state == "stopped"
    assert bench.generator.commands[-1] == f"abort {bench.generator.orders[-1].order}"
    assert events_of(path, RunEnded)[0].t < 1040.5
    assert_ended_clean(bench, path)
    assert final_view(path) == bench.session.state.view(1e9)


def test_stop_during_preflight(path: Path) -> None:
    bench, answer = on_bench(path, stopped_at(1001.0))

    assert answer.outcome == "interrupted"
    assert events_of(path, StepJudged) == []
    assert_ended_clean(bench, path)


def test_stop_before_the_run_sends_nothing(path: Path) -> None:
    async def work(bench: Bench) -> Answer:
        bench.session.stop()
        return await bench.session.run()

    bench, answer = on_bench(path, work)

    assert answer.outcome == "interrupted"
    assert bench.generator.orders == []
    assert isinstance(list(runs.read_run(path))[-1], RunEnded)


def test_a_cancelled_run_leaves_no_load_and_a_whole_log(path: Path) -> None:
    async def work(bench: Bench) -> None:
        task = asyncio.create_task(bench.session.run())
        await asyncio.sleep(40)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    bench, _ = on_bench(path, work)

    assert events_of(path, RunEnded)[0].answer.outcome == "interrupted"
    assert_ended_clean(bench, path)


def test_the_log_is_on_the_disk_after_each_repeat_and_at_the_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[list[Event]] = []
    monkeypatch.setattr(RunLog, "sync", lambda log: synced.append(list(runs.read_run(log.path))))
    on_bench(path, to_the_end)

    judged = len(events_of(path, RepeatJudged))
    assert [type(events[-1]) for events in synced] == [RepeatJudged] * judged + [RunEnded]


def test_the_search_learns_the_mean_latency_of_a_step_that_passed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[tuple[StepResult, float | None]] = []
    observe = Search.observe_step

    def spy(search: Search, result: StepResult, mean_e2e_s: float | None) -> None:
        learned.append((result, mean_e2e_s))
        observe(search, result, mean_e2e_s)

    monkeypatch.setattr(Search, "observe_step", spy)
    on_bench(path, to_the_end, probe=config(start_rps=0.8))

    assert {result.verdict for result, _ in learned} == {"pass", "fail"}
    for result, mean_e2e_s in learned:
        assert mean_e2e_s == (result.repeats[-1].e2e_s.mean if result.verdict == "pass" else None)
        assert result.verdict == "fail" or mean_e2e_s is not None
