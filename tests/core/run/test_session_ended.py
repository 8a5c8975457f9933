"""A step that the user ends: its load is off at once, what it has is kept, and the run goes on without it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from core.facts import fact, several
from core.records import LoadDone
from core.results import Answer, StepResult
from core.run.between import Between
from core.run.events import RepeatStarted, StepJudged, StepStarted
from core.view import StepView
from tests.builders import asked_step, told
from tests.core.run.bench import Bench, assert_ended_clean, events_of, final_view, on_bench, scripted, to_the_end
from tests.core.run.fakes import config
from tests.core.run.virtual import now

Work = Callable[[Bench], Awaitable[Answer]]


def ended_when(when: Callable[[StepView], bool], said: list[bool], times: int = 1) -> Work:
    """Run, and ask for the end of the step the first so many times that `when` is true of it."""

    async def watch(bench: Bench) -> None:
        while len(said) < times:
            await asyncio.sleep(0.05)
            current = bench.session.state.view(now()).current
            if current is not None and when(current):
                said.append(bench.session.end_step())

    async def work(bench: Bench) -> Answer:
        task = asyncio.create_task(watch(bench))
        try:
            return await bench.session.run()
        finally:
            task.cancel()

    return work


def measuring(repeat: int, rate_rps: float | None = None) -> Callable[[StepView], bool]:
    def when(current: StepView) -> bool:
        live = current.live
        there = live is not None and live.part == "measuring" and live.index == repeat and live.sent > 20
        return there and current.phase != "ramp" and rate_rps in (None, current.rate_rps)

    return when


def steps_of(path: Path) -> list[StepResult]:
    return [event.result for event in events_of(path, StepJudged)]


def test_the_run_goes_on_below_the_step_that_was_ended(path: Path) -> None:
    said: list[bool] = []
    bench, answer = on_bench(path, ended_when(measuring(0), said))

    assert said == [True]
    ramp, ended, *rest = steps_of(path)
    assert (ended.phase, ended.verdict, ended.reason) == ("search", "unjudged", fact("user_ended"))
    assert [repeat.verdict for repeat in ended.repeats] == ["unjudged"]
    assert ended.repeats[0].sent > 0
    assert rest
    assert all(step.rate_rps != ended.rate_rps for step in rest), "it is not asked for again"
    assert answer.outcome == "bracket"
    assert answer.knee.pass_rps is not None
    assert answer.knee.pass_rps < ended.rate_rps < ramp.rate_rps
    assert told(answer.message, "steps_ended").figures == {"rates_rps": [ended.rate_rps]}
    assert_ended_clean(bench, path)
    assert final_view(path) == bench.session.state.view(1e9)


def test_its_load_is_off_at_once(path: Path) -> None:
    asked: list[float] = []

    def when(current: StepView) -> bool:
        here = measuring(0)(current)
        if here:
            asked.append(now())
        return here

    on_bench(path, ended_when(when, []))

    closed = next(event.t for event in events_of(path, StepJudged) if event.result.verdict == "unjudged")
    after = next(event for event in events_of(path, RepeatStarted) if event.t > asked[0])
    assert asked[0] <= closed <= asked[0] + 1.0
    assert closed <= after.t


def test_repeats_that_were_judged_are_kept(path: Path) -> None:
    bench, _ = on_bench(path, ended_when(measuring(1), []), set_up=scripted(asked_step(4.0, 3), asked_step(3.0, 1)))

    ended, following = steps_of(path)
    assert [repeat.verdict for repeat in ended.repeats] == ["pass", "unjudged"]
    assert (ended.verdict, ended.floor is not None) == ("unjudged", True)
    assert following.verdict == "pass"
    assert f"abort {ended.repeats[1].order}" in bench.generator.commands


def test_between_repeats_the_preparation_ends_first_and_no_load_follows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[float] = []

    async def prepare(self: Between) -> None:
        await asyncio.sleep(5.0)
        prepared.append(now())

    monkeypatch.setattr(Between, "prepare", prepare)
    said: list[bool] = []
    work = ended_when(lambda current: len(current.verdicts) == 1, said)
    on_bench(path, work, set_up=scripted(asked_step(4.0, 3)))

    assert said == [True]
    assert [repeat.verdict for repeat in steps_of(path)[0].repeats] == ["pass"]
    assert steps_of(path)[0].verdict == "unjudged"
    assert len(prepared) == 2


def test_a_ramp_cannot_be_ended_and_neither_can_nothing(path: Path) -> None:
    said: list[bool] = []

    def set_up(bench: Bench) -> None:
        said.append(bench.session.end_step())

    on_bench(path, ended_when(lambda current: current.phase == "ramp", said, times=3), set_up=set_up)

    assert said == [False] * 3
    assert "unjudged" not in [step.verdict for step in steps_of(path)]


def test_a_held_rate_cannot_be_ended(path: Path) -> None:
    said: list[bool] = []

    async def work(bench: Bench) -> Answer:
        asyncio.get_running_loop().call_at(1060.0, lambda: said.append(bench.session.end_step()))
        asyncio.get_running_loop().call_at(1070.0, bench.session.stop)
        return await bench.session.run()

    _, answer = on_bench(path, work, probe=config(hold_rps=4.0))

    assert said == [False]
    assert answer.outcome == "held"


def test_a_verdict_of_the_moment_before_stands(path: Path) -> None:
    other = path.with_name("other.jsonl")
    on_bench(other, to_the_end, set_up=scripted(asked_step(40.0, 1)))
    done = max(event.t for event in events_of(other, LoadDone))
    said: list[bool] = []

    async def work(bench: Bench) -> Answer:
        asyncio.get_running_loop().call_at(done + 0.1, lambda: said.append(bench.session.end_step()))
        return await bench.session.run()

    on_bench(path, work, set_up=scripted(asked_step(40.0, 1)))

    (ended,) = steps_of(path)
    assert said == [True]
    assert [repeat.verdict for repeat in ended.repeats] == ["fail"]
    assert (ended.verdict, ended.reason) == ("fail", ended.repeats[0].reason)


def test_a_list_of_which_the_only_rate_was_ended_has_no_answer(path: Path) -> None:
    _, answer = on_bench(path, ended_when(measuring(0), []), probe=config(rates_rps=(4.0,)))

    assert (answer.outcome, answer.knee.pass_rps, answer.knee.first_fail_rps) == ("interrupted", None, None)
    assert answer.message == several(fact("no_rate_judged", short_rps=None), fact("steps_ended", rates_rps=[4.0]))


def test_a_stop_right_after_it_stops_the_run(path: Path) -> None:
    async def work(bench: Bench) -> Answer:
        def both() -> None:
            bench.session.end_step()
            bench.session.stop()

        asyncio.get_running_loop().call_at(1040.0, both)
        return await bench.session.run()

    bench, answer = on_bench(path, work)

    assert answer.outcome == "interrupted"
    assert steps_of(path)[-1].verdict == "unjudged"
    assert len(steps_of(path)) == len(events_of(path, StepStarted))
    assert_ended_clean(bench, path)
