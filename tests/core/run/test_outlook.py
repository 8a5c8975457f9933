"""When a run is expected to be over: never at once while it goes on, told again when it changes, with the reason."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from core.config import Method, ProbeConfig
from core.facts import Fact, Said, fact
from core.judge import Ramp, Tally
from core.records import Phase, RepeatOrder, Segment
from core.replica.catalog import load
from core.results import Answer, JudgeRules, RepeatVerdict, StepVerdict
from core.run import log as runs
from core.run.events import (
    Event,
    Expected,
    RepeatStarted,
    RunEnded,
    StepStarted,
    time_of,
)
from core.run.outlook import LEAST_S, LITTLE_S, Expects, Outlook, still_s
from core.run.replay import Replay
from core.run.state import State
from core.schedule import draw
from core.view import Progress, RunView
from tests import builders
from tests.core.run.bench import Bench, events_of, on_bench, to_the_end
from tests.core.run.events import START, opening, order, started
from tests.core.run.fakes import config
from tests.core.run.simulated import probe_in_virtual_time

RATE_RPS = 4.0
SEGMENTS = tuple(Segment(rate_rps=2.0**k, duration_s=6.0, role="measured") for k in range(8))


# --- whole runs --------------------------------------------------------------------------------------------------


def looked_at(path: Path, every_s: float = 0.5) -> list[RunView]:
    """The views of a run, from when the first load is sent to just before its end."""
    events = list(runs.read_run(path))
    begun = next(time_of(event) for event in events if isinstance(event, StepStarted))
    end = next(time_of(event) for event in events if isinstance(event, RunEnded))
    state, views, at, n = State(), [], begun, 0
    while at < end:
        while n < len(events) and time_of(events[n]) <= at:
            state.apply(events[n])
            n += 1
        views.append(state.view(at))
        at += every_s
    return views


def progress_of(view: RunView) -> Progress:
    assert view.progress is not None
    return view.progress


def assert_honest(path: Path) -> None:
    """Something is left as long as the run goes on, at least what the window that is open needs; and nothing stands still."""
    views = looked_at(path)
    low = 0
    for view in views:
        now = progress_of(view)
        assert now.elapsed_s == pytest.approx(view.now_s)
        assert now.left_s >= LEAST_S
        assert view.left_s == now.left_s
        live = view.current.live if view.current else None
        if live is not None and live.part in ("warm-up", "measuring") and view.current and view.current.phase != "ramp":
            assert now.left_s >= live.length_s - live.elapsed_s - 1e-6
        low = low + 1 if now.left_s <= LEAST_S else 0
        assert low * 0.5 <= 5.0, "the last second stood still"


METHODS = {
    "quick": Method(),
    "careful": Method(careful=True),
    "standard": Method(mode="standard", measure_s=12.0, repeats=2),
    "acceptance": Method(mode="acceptance", measure_s=10.0, repeats=3),
    "list": Method(rates_rps=(2.0, 6.0, 12.0), measure_s=20.0),
    "one": Method(rates_rps=(4.0,), measure_s=20.0),
    "required": Method(require_rps=4.0),
}


@pytest.mark.parametrize("name", METHODS)
def test_something_is_left_as_long_as_a_run_goes_on(name: str, path: Path) -> None:
    on_bench(path, to_the_end, probe=config(method=METHODS[name]))
    assert_honest(path)
    told = events_of(path, Expected)
    assert told, "at least what is expected at first"
    assert told[0].why is None
    assert all(event.why is not None for event in told[1:])
    assert all(isinstance(event.why, Fact) and event.why.code.startswith("left_") for event in told[1:])


def test_so_it_is_of_a_simulated_server_whose_requests_get_slower(path: Path) -> None:
    probe_in_virtual_time(load("slot"), path)
    assert_honest(path)


def late_once() -> Callable[[RepeatOrder], float]:
    """The first order of a list is sent late, which voids it."""
    first: list[int] = []

    def lateness_s(each: RepeatOrder) -> float:
        if each.phase == "list" and not first:
            first.append(each.order)
        return 2.0 if first == [each.order] else 0.0

    return lateness_s


def test_a_repeat_that_is_done_again_is_added_and_said(path: Path) -> None:
    def set_up(bench: Bench) -> None:
        bench.generator.late_s = late_once()

    on_bench(path, to_the_end, probe=config(method=Method(rates_rps=(RATE_RPS,), measure_s=30.0)), set_up=set_up)
    (again,) = (event for event in events_of(path, Expected) if event.why == fact("left_again", rate_rps=RATE_RPS))
    _, second = [event for event in events_of(path, RepeatStarted) if event.order.phase == "list"]
    assert again.t == pytest.approx(second.t, abs=0.5)
    assert again.left_s >= 30.0, "the whole window again"
    assert_honest(path)


# --- one estimate after another ----------------------------------------------------------------------------------


class Told:
    """An outlook with a clock of its own, and what it says."""

    def __init__(self) -> None:
        self.now, self.events = 100.0, list[Expected]()
        self.outlook = Outlook(self._hear, lambda: self.now)

    def _hear(self, event: Event) -> None:
        assert isinstance(event, Expected)
        self.events.append(event)

    @property
    def newest(self) -> tuple[float, Said | None]:
        return self.events[-1].left_s, self.events[-1].why


def closed(told: Told, verdict: StepVerdict, phase: Phase = "search") -> None:
    told.outlook.closed(builders.step(12.0, verdict, phase=phase))


def test_a_fail_that_comes_early_is_why_less_is_left() -> None:
    told = Told()
    told.outlook.begin(builders.asked_step(12.0, 1), 140.0, 100.0, 1.0)
    told.now += 10
    closed(told, "fail")
    told.outlook.begin(builders.asked_step(8.0, 1), 90.0, 50.0, 1.0)
    assert told.newest == (90.0, fact("left_failed", rate_rps=12.0))


@pytest.mark.parametrize(
    ("verdict", "left_s", "e2e_s", "extended_s", "why"),
    [
        ("pass", 60.0, 1.0, 0.0, fact("left_passed", rate_rps=12.0)),
        ("pass", 160.0, 1.0, 0.0, fact("left_more_steps", rate_rps=12.0)),
        ("pass", 160.0, 1.5, 0.0, fact("left_slower", e2e_s=1.5, assumed_s=1.0)),
        ("pass", 60.0, 1.5, 0.0, fact("left_passed", rate_rps=12.0)),
        ("fail", 160.0, 1.0, 30.0, fact("left_requests")),
        ("unjudged", 60.0, 1.0, 0.0, fact("left_ended", rate_rps=12.0)),
    ],
)
def test_why_an_action_makes_the_end_another(
    verdict: StepVerdict, left_s: float, e2e_s: float, extended_s: float, why: Fact
) -> None:
    told = Told()
    told.outlook.begin(builders.asked_step(12.0, 1), 140.0, 100.0, 1.0)
    told.now += 36
    closed(told, verdict)
    told.outlook.begin(builders.asked_step(8.0, 1), left_s, left_s - 40, e2e_s, extended_s)
    assert told.newest == (left_s, why)


def test_a_search_that_begins_anew_says_so() -> None:
    told = Told()
    told.outlook.begin(builders.asked_step(12.0, 1), 50.0, 10.0, 1.0)
    told.now += 40
    told.outlook.anew()
    told.outlook.begin(Ramp(segments=SEGMENTS), 120.0, 60.0, 1.0)
    assert told.newest == (120.0, fact("left_anew"))


@pytest.mark.parametrize("off_s", [LITTLE_S - 0.1, 0.1 - LITTLE_S])
def test_a_little_is_not_told(off_s: float) -> None:
    told = Told()
    told.outlook.begin(builders.asked_step(12.0, 1), 80.0, 40.0, 1.0)
    told.now += 30
    closed(told, "pass")
    told.outlook.begin(builders.asked_step(8.0, 1), 50.0 + off_s, 10.0, 1.0)
    assert len(told.events) == 1


def test_a_ramp_that_goes_on_adds_a_rate_at_a_time() -> None:
    told = Told()
    ramp = Ramp(segments=SEGMENTS)
    plan = order(phase="ramp", segments=SEGMENTS, start_at=told.now)
    tally = Tally(plan, draw(plan, config().workload), config().slo)
    told.outlook.begin(ramp, 130.0, 100.0, 1.0)
    told.outlook.load(SEGMENTS, told.now)
    for second in range(48):
        told.now = plan.start_at + second
        told.outlook.look(tally, JudgeRules(slo=config().slo), 120.0)
    why = fact("left_ramp_higher", rates=5)
    assert [(event.t - plan.start_at, event.left_s, event.why) for event in told.events[1:]] == [
        (30.0, 106.0, why),
        (36.0, 106.0, why),
        (42.0, 106.0, why),
    ]


def playing(told: Told, *, repeats: int = 1) -> Tally:
    """A step of `repeats` windows of 30 s that has just begun to be sent, 20 s of other things after it."""
    step = builders.asked_step(RATE_RPS, repeats)
    plan = order(phase="confirm", segments=step.segments, start_at=told.now)
    told.outlook.begin(step, 34.0 * repeats + 20.0, 20.0, 1.0)
    told.outlook.load(step.segments, told.now)
    return Tally(plan, draw(plan, config().workload), config().slo)


def test_requests_that_take_long_to_end_push_the_end_away_and_never_to_now() -> None:
    told, rules = Told(), JudgeRules(slo=config().slo)
    tally, began = playing(told), told.now
    for tenth in range(900):
        told.now = began + tenth / 10
        told.outlook.look(tally, rules, 120.0)
    assert all(event.why == fact("left_waiting") for event in told.events[1:])
    ends = [event.t + event.left_s for event in told.events]
    assert ends == sorted(ends)
    assert told.newest[0] > 20.0 + LEAST_S
    assert told.events[1].t > began + 34.0


def test_the_end_of_a_repeat_of_conversations_waits_for_their_pauses() -> None:
    left = {}
    for think_s in (0.0, 90.0):
        told, rules = Told(), JudgeRules(slo=config().slo)
        tally = playing(told)
        n = len(tally.plan)
        after = np.where(np.arange(n) % 2, np.arange(n) - 1, -1).astype(np.int32)
        turns = replace(tally.plan, after=after, think_s=np.where(after >= 0, think_s, 0.0))
        tally, told.now = Tally(tally.order, turns, config().slo), told.now + 60.0
        told.outlook.look(tally, rules, 1.0)
        left[think_s] = told.newest[0]
    assert left[90.0] > left[0.0]


@pytest.mark.parametrize(("verdicts", "others"), [((), 1), (("fail",), 0), (("fail", "pass"), 0)])
def test_two_of_three_repeats_are_expected_until_they_disagree(verdicts: tuple[RepeatVerdict, ...], others: int) -> None:
    told = Told()
    step = builders.asked_step(RATE_RPS, 3, "tighten", stop="majority")
    told.outlook.begin(step, 300.0, 20.0, 0.0)
    for verdict in verdicts:
        told.outlook.judged(builders.repeat(verdict))
    assert told.outlook._running is not None
    assert told.outlook._others_s(told.outlook._running) == pytest.approx(others * 34.0)


# --- what a reader sees ------------------------------------------------------------------------------------------


def seen(expects: Expects, at_s: float, window_left_s: float = 0.0, probe: ProbeConfig | None = None) -> Progress:
    found = expects.progress(START + at_s, START, window_left_s, probe or config())
    assert found is not None
    return found


def begun(left_s: float | None = 100.0) -> Expects:
    """A file from before changes were told: a step says what is left, and that is all."""
    expects = Expects()
    expects.begin(StepStarted(t=START + 10, step=1, phase="search", rate_rps=4.0, repeats=1, left_s=left_s))
    return expects


def test_an_old_file_shows_what_its_steps_say() -> None:
    found = seen(begun(), 30.0)
    assert (found.elapsed_s, found.expected_s, found.left_s, found.changed) == (30.0, 110.0, 80.0, None)


def test_the_window_that_is_open_is_always_part_of_what_is_left() -> None:
    assert seen(begun(), 100.0, window_left_s=38.0).left_s == pytest.approx(38.0)
    assert seen(begun(), 20.0, window_left_s=38.0).left_s == pytest.approx(90.0)


def test_what_is_overdue_is_said_and_its_end_moves_away() -> None:
    found = seen(begun(), 150.0)
    assert found.left_s == pytest.approx(still_s(40.0)) == pytest.approx(10.0)
    assert (found.changed, found.changed_t_s, found.by_s) == (fact("left_overdue", over_s=40.0), 110.0, 50.0)
    assert seen(begun(), 110.5).left_s == LEAST_S
    assert seen(begun(), 110.5).changed is None, "a moment is nothing to speak of"


def test_a_change_is_kept_with_its_reason_until_the_next() -> None:
    expects, why = begun(), fact("left_failed", rate_rps=4.0)
    expects.told(Expected(t=START + 40, left_s=30.0, why=why))
    found = seen(expects, 45.0)
    assert (found.expected_s, found.changed, found.changed_t_s, found.by_s) == (70.0, why, 40.0, -40.0)


def test_no_run_is_expected_to_outlive_the_limit_to_its_time() -> None:
    assert seen(begun(), 20.0, probe=config(max_duration_s=60.0)).left_s == pytest.approx(40.0)


def test_a_held_rate_has_the_end_that_was_set_or_none() -> None:
    held, limited = config(hold_rps=4.0), config(hold_rps=4.0, max_duration_s=60.0)
    assert begun(None).progress(START + 20, START, 0.0, held) is None
    assert seen(begun(None), 20.0, probe=limited).left_s == pytest.approx(40.0)


def test_before_the_load_and_after_the_end_nothing_is_expected() -> None:
    state = State()
    state.apply(started())
    assert state.view(START + 1).progress is None
    for event in opening(order()):
        state.apply(event)
    assert state.view(START + 2).progress is not None
    state.apply(RunEnded(t=START + 9, answer=Answer(outcome="interrupted", message="stopped")))
    assert state.view(START + 9).progress is None


def test_the_recorded_run_of_before_has_its_progress() -> None:
    replay = Replay(runs.read_run(Path("tests/data/pictures/kvlim-inverted.jsonl")))
    views = [replay.view(at) for at in range(30, int(replay.length_s), 5)]
    assert all(view.progress is not None and view.progress.left_s >= LEAST_S for view in views if view.steps)
