"""A closed loop beside the answer: how far it goes, what it says, and that nothing which ends it touches the answer."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core import report
from core.config import ProbeConfig, Safety
from core.facts import fact, says
from core.records import RequestEnded, ServerSample
from core.results import Answer, ClosedLoop
from core.run import closed, recording
from core.run import log as runs
from core.run.closed import RUNG_S
from core.run.events import AnswerFound, ClosedMeasured, ClosedStarted, Note, RepeatJudged, RunEnded, time_of
from core.run.state import State
from tests.core.run.bench import Bench, assert_ended_clean, events_of, final_view, on_bench, to_the_end
from tests.core.run.fakes import CAPACITY_RPS, SLOTS, config
from tests.core.run.virtual import now


def asked(safety: Safety = Safety(), **method: Any) -> ProbeConfig:  # noqa: B008 (frozen)
    method = {"rates_rps": (4.0, 14.0), "closed_loop": True, **method}
    plain: ProbeConfig = config(**method)
    return msgspec.structs.replace(plain, safety=safety)


def measured(path: Path) -> ClosedLoop:
    """The last word."""
    return events_of(path, ClosedMeasured)[-1].closed


def test_it_doubles_until_the_target_fails_and_stands_beside_the_answer(path: Path) -> None:
    bench, answer = on_bench(path, to_the_end, probe=asked())

    assert (answer.outcome, answer.knee.pass_rps, answer.knee.fail_rps) == ("bracket", 4.0, 14.0)
    found = measured(path)
    assert [(rung.in_flight, rung.met) for rung in found.rungs] == [(1, True), (2, True), (4, True), (8, True), (16, False)]
    assert found.ended is not None
    assert says(found.ended, "closed_missed")
    assert found.highest is not None
    assert found.highest.in_flight == SLOTS
    assert found.highest.completed_rps == pytest.approx(CAPACITY_RPS, rel=0.05), "a full server that nobody waits for"
    assert all(rung.duration_s >= RUNG_S for rung in found.rungs)
    data = report.result(final_view(path), None)
    assert data["closed_loop"]["times_pass"] == found.highest.completed_rps / 4.0
    assert data["closed_loop"]["message_fact"]["code"] == "closed_loop"
    assert len(data["closed_loop"]["rungs"]) == 5
    assert [event.answer for event in events_of(path, AnswerFound)] == [answer], "whole before the loop, with its diagnosis"
    assert answer.diagnosis is not None
    assert_ended_clean(bench, path)


def test_without_being_asked_there_is_none(path: Path) -> None:
    on_bench(path, to_the_end, probe=asked(closed_loop=False))

    assert not events_of(path, ClosedStarted)
    assert not events_of(path, AnswerFound)
    assert report.result(final_view(path), None)["closed_loop"] is None


def test_its_requests_are_in_no_repeat_no_plot_and_no_model(path: Path) -> None:
    on_bench(path, to_the_end, probe=asked())
    with_it, orders = final_view(path), {event.order.order for event in events_of(path, ClosedStarted)}
    assert orders
    sent = sum(event.result.sent for event in events_of(path, RepeatJudged))
    of_repeats = [e for e in events_of(path, RequestEnded) if e.order not in orders and e.t_sent is not None]
    assert sum(each.sent for each in with_it.margins) <= len(of_repeats)
    assert sent <= len(of_repeats)
    began = min(event.order.start_at for event in events_of(path, ClosedStarted)) - 1000.0
    during = [point for point in with_it.series if point.t_s > began]
    assert len(during) > 20
    assert all(point.offered_rps == point.served_rps == 0.0 for point in during)
    assert all(point.waiting is None and point.in_flight in (None, 0.0) for point in during[1:])
    material = recording(runs.read_run(path))
    assert material.ended
    assert not orders & {record.order for record in material.records}


@pytest.mark.parametrize(
    ("safety", "in_flight", "why"),
    [
        (Safety(max_in_flight=6), [1, 2, 4], "closed_in_flight"),
        (Safety(max_rps=14.0), [1, 2, 4, 8], "closed_max_rps"),
    ],
)
def test_it_goes_no_further_than_the_limits_of_the_run_allow(path: Path, safety: Safety, in_flight: list[int], why: Any) -> None:
    """14 requests/s are allowed, and twice the 10 that 8 in flight complete would be more."""
    _, answer = on_bench(path, to_the_end, probe=asked(safety, rates_rps=(2.0,)))

    assert answer.knee.pass_rps == 2.0
    found = measured(path)
    assert [rung.in_flight for rung in found.rungs] == in_flight
    assert found.ended is not None
    assert says(found.ended, why)
    said = report.closed_fact(final_view(path), answer)
    assert said is not None
    assert said.figures["to_the_end"] is False


def test_there_must_be_time_for_it(path: Path) -> None:
    on_bench(path, to_the_end, probe=asked(rates_rps=(2.0,)))
    before_s = events_of(path, ClosedStarted)[0].t - 1000.0
    again = path.with_name("again.jsonl")
    limited = asked(Safety(max_duration_s=before_s + 1.5 * RUNG_S), rates_rps=(2.0,))
    bench, answer = on_bench(again, to_the_end, probe=limited)

    assert answer.knee.pass_rps == 2.0
    found = measured(again)
    assert [rung.in_flight for rung in found.rungs] == [1]
    assert found.ended is not None
    assert says(found.ended, "closed_no_time")
    assert_ended_clean(bench, again)


def test_a_run_whose_file_breaks_off_in_it_has_its_answer(path: Path) -> None:
    _, answer = on_bench(path, to_the_end, probe=asked())
    state, events = State(), list(runs.read_run(path))
    begun = next(at for at, event in enumerate(events, 1) if isinstance(event, ClosedStarted))
    for event in events[:begun]:
        state.apply(event)
    view = state.view(time_of(events[begun - 1]))
    assert (view.answer, view.found) == (None, answer)
    assert report.answer_of(view) == answer
    assert report.answer_of(report.while_going(view)) == answer
    assert recording(events[:begun]).knee == answer.knee
    assert not recording(events[:begun]).ended


def test_what_is_warned_of_meanwhile_does_not_stand_beside_the_answer(path: Path) -> None:
    on_bench(path, to_the_end, probe=asked())
    events = list(runs.read_run(path))
    without = final_view(path)
    first = next(at for at, event in enumerate(events) if isinstance(event, ClosedStarted))
    told = fact("not_settled", requests=3, after_s=15)
    state = State()
    for event in (*events[:first], Note(t=time_of(events[first]), level="warn", text=told), *events[first:]):
        state.apply(event)
    view = state.view(time_of(events[-1]))
    assert told in [line.text for line in view.lines]
    assert report.notes(view) == report.notes(without)


def during(do: Callable[[Bench], None], at_s: float = 5.0) -> Callable[[Bench], Awaitable[Answer]]:
    """Run, and do something so long after the closed loop began."""

    async def work(bench: Bench) -> Answer:
        task = asyncio.create_task(bench.session.run())
        while not bench.generator.closed_orders:
            assert not task.done()
            await asyncio.sleep(0.1)
        asyncio.get_running_loop().call_later(at_s, do, bench)
        return await task

    return work


def test_a_stop_keeps_the_answer_and_leaves_no_load(path: Path) -> None:
    bench, answer = on_bench(path, during(lambda bench: bench.session.stop(), 25.0), probe=asked())

    assert (answer.outcome, answer.knee.pass_rps, answer.knee.fail_rps) == ("bracket", 4.0, 14.0)
    found = measured(path)
    assert [rung.in_flight for rung in found.rungs] == [1]
    assert found.ended is not None
    assert says(found.ended, "closed_stopped")
    assert any(command.startswith("abort") for command in bench.generator.commands[-2:])
    assert not bench.server.in_flight
    assert_ended_clean(bench, path)


def test_a_server_that_goes_away_ends_it_and_not_the_answer(path: Path) -> None:
    def freeze(bench: Bench) -> None:
        bench.server.frozen_at = now()

    bench, answer = on_bench(path, during(freeze), probe=asked())

    assert answer.outcome == "bracket"
    found = measured(path)
    assert found.ended is not None
    assert says(found.ended, "closed_broken")
    assert says(found.ended, "server_frozen")
    assert_ended_clean(bench, path)


def test_the_end_of_the_time_of_the_run_ends_it_and_not_the_answer(path: Path) -> None:
    """Requests that are still open when the 20 s are over may last beyond --max-duration."""
    on_bench(path, to_the_end, probe=asked(rates_rps=(2.0,)))
    before_s = events_of(path, ClosedStarted)[0].t - 1000.0
    limited = asked(Safety(max_duration_s=before_s + RUNG_S + 1.0), rates_rps=(2.0,))

    def freeze(bench: Bench) -> None:
        bench.server.frozen_at = now()

    again = path.with_name("again.jsonl")
    bench, answer = on_bench(again, during(freeze, RUNG_S - 0.5), probe=limited)
    assert answer.knee.pass_rps == 2.0
    found = measured(again)
    assert found.rungs == ()
    assert found.ended is not None
    assert says(found.ended, "closed_broken")
    assert says(found.ended, "max_duration")
    assert_ended_clean(bench, again)


def test_an_error_of_our_own_in_it_is_raised_and_the_answer_is_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(rung: closed.Rung) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(closed.Rung, "result", broken)
    with pytest.raises(ZeroDivisionError):
        on_bench(path, to_the_end, probe=asked())
    (found,), (ended,) = events_of(path, AnswerFound), events_of(path, RunEnded)
    assert ended.answer == found.answer
    assert ended.answer.outcome == "bracket"
    assert says(measured(path).ended or "", "closed_broken")


def test_the_death_of_the_child_ends_it_and_not_the_answer(path: Path) -> None:
    def die(bench: Bench) -> None:
        bench.generator.dies_at = now()

    _, answer = on_bench(path, during(die), probe=asked())

    assert answer.outcome == "bracket"
    found = measured(path)
    assert found.ended is not None
    assert says(found.ended, "closed_broken")
    assert isinstance(list(runs.read_run(path))[-1], RunEnded)


def test_others_end_it_where_they_suffer_and_spoil_it_where_they_should_not_be(path: Path) -> None:
    def preempted(bench: Bench) -> None:
        plain, preemptions = bench.server.sample, [0.0]

        def sample() -> ServerSample:
            preemptions[0] += 1
            return msgspec.structs.replace(plain(), preemptions_total=preemptions[0])

        bench.server.sample = sample  # type: ignore[method-assign]

    _, answer = on_bench(path, during(preempted), probe=asked(Safety(with_others=True)))
    assert answer.outcome == "bracket"
    found = measured(path)
    assert found.ended is not None
    assert says(found.ended, "others_preempted")
    assert found.rungs == ()

    def used(bench: Bench) -> None:
        bench.server.ended += 50

    alone = path.with_name("alone.jsonl")
    _, answer = on_bench(alone, during(used), probe=asked())
    assert answer.outcome == "bracket"
    found = measured(alone)
    assert found.ended is not None
    assert says(found.ended, "others_took_part")


def test_a_server_that_refuses_at_once_is_left_alone(path: Path) -> None:
    def refuse(bench: Bench) -> None:
        bench.server.refuses_from, bench.server.healthy = now(), False

    _, answer = on_bench(path, during(refuse), probe=asked())
    assert answer.outcome == "bracket"
    found = measured(path)
    assert found.ended is not None
    assert not any(rung.met for rung in found.rungs)


def test_it_has_an_upper_end_of_its_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed, "MOST_IN_FLIGHT", 4)
    on_bench(path, to_the_end, probe=asked())
    found = measured(path)
    assert [rung.in_flight for rung in found.rungs] == [1, 2, 4]
    assert found.ended is not None
    assert says(found.ended, "closed_in_flight")
