"""The reducer: what the events of a run make of its view."""

import random

import msgspec
import numpy as np
import pytest

from core.config import Method, Slo, Workload
from core.facts import fact
from core.judge.search.bracket import Bracket
from core.judge.stopping import REPORT_DELAY_S
from core.records import Check, LoadTick, RepeatOrder, ServerInfo
from core.results import Answer, Knee, RepeatResult, StepResult
from core.run.events import (
    CheckDone,
    Event,
    LoadStateChanged,
    Note,
    RepeatJudged,
    RepeatStarted,
    RunEnded,
    SampleFailed,
    SearchRestarted,
    ServerKnown,
    ServerSampled,
    StepJudged,
    StepStarted,
    WorkloadKnown,
    time_of,
)
from core.run.material import recording
from core.run.series import MAX_BINS
from core.run.state import LINES_KEPT, State, step_told
from core.workloads import MixPart, Source
from tests import builders
from tests.core.run.events import CONFIG, START, due, ended, first, opening, order, request, sample, sent, started


def applied(*events: Event) -> State:
    state = State()
    for event in events:
        state.apply(event)
    return state


def tick(t: float) -> LoadTick:
    return LoadTick(order=1, t=t, in_flight=0, loop_lag_max_s=0.0, cpu_frac=0.0)


def repeat_result(interval: tuple[float, float] = (0.9, 0.9), verdict: str = "pass") -> RepeatResult:
    counts = {"planned": 40, "sent": 40, "succeeded": 40, "good": 36, "misses": 4, "endings": {"ok": 40}}
    return builders.repeat(verdict, interval, reason="because", offered_rps=4.0, served_rps=4.0, goodput_rps=3.6, **counts)  # type: ignore[arg-type]


def step_result(**changes: object) -> StepResult:
    result = builders.step(4.0, "pass", repeat_result(), reason="all fine", floor=(0.9, 0.9))
    return msgspec.structs.replace(result, **changes)


def test_a_search_that_starts_anew_sets_aside_what_was_judged() -> None:
    slow = msgspec.structs.replace(repeat_result(verdict="fail"), reason="slow")
    mixed = step_result(step=2, verdict="mixed", repeats=(repeat_result(), slow))
    void = step_result(step=3, verdict="void", reason="the server was away", floor=None, repeats=(repeat_result(verdict="void"),))
    judged = (step_result(), mixed, void)
    before = applied(started(), *(StepJudged(t=START + n, result=step) for n, step in enumerate(judged, 1)))
    kept = [step_told(step) for step in judged]
    before.apply(SearchRestarted(t=START + 9, since=START + 3))
    before.apply(StepJudged(t=START + 20, result=step_result(step=4)))
    *aside, anew = before.view(START + 30).steps

    assert [(step.verdict, step.floor, step.set_aside) for step in aside] == [("void", None, True)] * 3
    assert [repeat.verdict for step in aside for repeat in step.repeats] == ["void"] * 4
    assert aside[0].reason == fact("set_aside", "all fine", verdict="pass")
    assert aside[1].repeats[1].reason == fact("set_aside", "slow", verdict="fail")
    assert aside[2].reason == "the server was away", "it was void before"
    assert (anew.verdict, anew.set_aside) == ("pass", False)
    assert [line.text for line in before.view(START + 30).lines][:3] == kept, "what was said stays said"
    assert Bracket.of(Method(), (*aside, anew)).knee().pass_repeats == 1


def test_a_single_request_that_is_asked_in_between_leaves_the_repeat_where_it_is() -> None:
    plan = order()
    state = applied(*opening(plan), sent(0, plan.start_at))
    tally = state.tally
    asked = RepeatOrder(order=2, phase="preflight", step=0, repeat=7, seed=11, offsets_s=(0.0,), start_at=START + 5)
    state.apply(RepeatStarted(t=START + 5, order=asked))
    state.apply(ended(0, START + 5, START + 6, number=2))

    assert tally is not None
    assert state.tally is tally
    assert tally.sent_count == 1
    assert not tally.records


def test_before_the_start_there_is_nothing() -> None:
    view = State().view(123.0)

    assert view.config is None
    assert view.series == ()
    assert view.now_s == 0


def test_facts_of_the_run() -> None:
    check = Check(check="model", status="pass", message="One model.")
    info = ServerInfo(url="http://x", model="tiny")
    state = applied(
        started(),
        CheckDone(t=START + 1, check=check),
        ServerKnown(t=START + 2, info=info),
        LoadStateChanged(t=START + 3, state="loading"),
    )
    view = state.view(START + 4)

    assert (view.config, view.checks, view.server, view.load) == (CONFIG, (check,), info, "loading")
    assert view.now_s == 4
    assert view.version == 4
    assert view.duration_s is None


def test_a_running_step_and_its_repeat() -> None:
    plan = order()
    times = due(plan)
    warm = int((times < START + 5).sum())
    events = opening(plan)
    for index, t in enumerate(times[times < START + 8]):
        events.append(sent(index, t, late_s=0.002))
    state = applied(*events)

    view = state.view(START + 8)
    assert view.current is not None
    assert view.current.live is not None
    live = view.current.live
    n = int((times < START + 8).sum())
    assert (live.sent, live.in_flight, live.no_first_token) == (n, n, n)
    assert live.part == "measuring"
    assert live.elapsed_s == pytest.approx(7.0)
    assert live.length_s == 14.0
    assert live.lateness_p99_s == pytest.approx(0.002)
    assert live.bounds.sent == n - warm
    assert view.current.finished == ()
    assert view.left_s == pytest.approx(100 - 7.5)
    assert state.tally is not None


@pytest.mark.parametrize(
    ("after_s", "part"), [(-0.2, "warm-up"), (3.9, "warm-up"), (4.1, "measuring"), (13.9, "measuring"), (14.1, "waiting")]
)
def test_the_parts_of_a_repeat(after_s: float, part: str) -> None:
    view = applied(*opening(order())).view(START + 1 + after_s)

    assert view.current is not None
    assert view.current.live is not None
    assert view.current.live.part == part
    assert view.current.live.elapsed_s >= 0


def test_a_request_that_ends_leaves_the_counts() -> None:
    plan = order()
    t0, t1, t2 = due(plan)[:3]
    events = [
        *opening(plan),
        *request(0, t0),
        sent(1, t1),
        ended(1, t1, t1 + 0.2, ttft_s=None, ending="http"),
        sent(2, t2),
        first(2, t2 + 0.1),
    ]
    view = applied(*events).view(t2 + 0.2)

    assert view.current is not None
    assert view.current.live is not None
    live = view.current.live
    assert (live.sent, live.in_flight, live.no_first_token, live.errors) == (3, 1, 0, 1)


def test_a_request_is_not_called_late_before_its_report_could_be_here() -> None:
    plan = order()
    times = due(plan)
    index = int((times < START + 5).sum())
    t = float(times[index])
    state = applied(*opening(plan), sent(index, t))
    limit_s = CONFIG.slo.ttft_s or 0.0

    def bad(now: float) -> int:
        current = state.view(now).current
        assert current is not None
        assert current.live is not None
        return current.live.bounds.bad

    assert bad(t + limit_s + 0.9 * REPORT_DELAY_S) == 0
    assert bad(t + limit_s + 1.1 * REPORT_DELAY_S) == 1


def test_a_judged_repeat_stands_still_and_counts_as_finished() -> None:
    plan = order()
    t0 = due(plan)[0]
    state = applied(*opening(plan), sent(0, t0), RepeatJudged(t=START + 15, step=1, result=repeat_result((0.4, 0.6), "fail")))

    early, late = state.view(START + 16).current, state.view(START + 60).current
    assert early == late
    assert early is not None
    assert early.finished == ((0.4, 0.6),)
    assert early.verdicts == ("fail",)
    assert early.live is not None
    assert (early.live.part, early.live.decided) == ("decided", "because")


def test_a_repeat_that_failed_by_its_queue_is_seen_to_have_failed() -> None:
    state = applied(*opening(order()))
    for interval, verdict in (((1.0, 1.0), "fail"), ((0.2, 0.3), "void"), ((0.98, 0.98), "pass")):
        state.apply(RepeatJudged(t=START + 15, step=1, result=repeat_result(interval, verdict)))

    current = state.view(START + 16).current
    assert current is not None
    assert (current.finished, current.verdicts) == (((1.0, 1.0), (0.98, 0.98)), ("fail", "pass"))


def test_a_void_repeat_is_not_finished() -> None:
    state = applied(*opening(order()), RepeatJudged(t=START + 15, step=1, result=repeat_result(verdict="void")))

    view = state.view(START + 15)
    assert view.current is not None
    assert view.current.finished == ()


def test_a_judged_step_moves_to_the_ladder_and_says_so() -> None:
    state = applied(*opening(order()), StepJudged(t=START + 15, result=step_result()))
    view = state.view(START + 16)

    assert view.current is None
    assert view.left_s == pytest.approx(100 - 15.5), "what was expected goes on between steps"
    assert view.steps == (step_result(),)
    told = fact("step_judged", "all fine", step=1, phase="search", verdict="pass", rate_rps=4.0)
    assert view.lines[-1].text == step_told(step_result()) == told
    assert view.lines[-1].t_s == 15


def test_lines_are_notes_and_failed_readings_and_only_the_last_are_kept() -> None:
    notes = [Note(t=START + k, level="warn", text=f"note {k}") for k in range(LINES_KEPT + 50)]
    state = applied(started(), *notes, SampleFailed(t=START + 900, reason="metrics answer 404"))
    view = state.view(START + 900)

    assert len(view.lines) == LINES_KEPT
    assert view.lines[-1].text == "metrics answer 404"
    assert view.lines[-2].text == f"note {LINES_KEPT + 49}"
    assert view.metrics_error == "metrics answer 404"


def test_readings_and_their_age() -> None:
    reading = sample(START + 2, running=3.0)
    state = applied(started(), SampleFailed(t=START + 1, reason="no"), ServerSampled(t=reading.t, sample=reading))
    view = state.view(START + 14)

    assert view.sample == reading
    assert view.sample_age_s == 12
    assert view.metrics_error is None


def test_after_the_end_time_stands_still() -> None:
    answer = Answer(outcome="below", message="fails", knee=Knee())
    state = applied(started(), RunEnded(t=START + 30, answer=answer))

    assert state.view(START + 31) == state.view(START + 3000)
    view = state.view(START + 31)
    assert (view.answer, view.duration_s, view.now_s) == (answer, 30.0, 30.0)


def test_an_order_without_a_step_leaves_no_trace() -> None:
    single = msgspec.structs.replace(order(phase="single"), segments=(), offsets_s=(0.0,))
    events = [started(), *opening(single)[2:], *request(0, START + 1)]
    view = applied(*events).view(START + 3)

    assert view.current is None
    assert all(point.offered_rps == 0 and point.ttft_p50_s is None for point in view.series)


def test_the_tpot_of_a_stream_by_itself_is_known_from_the_judged_singles() -> None:
    """(e2e - ttft)/10 of the second to fourth request; the first one pays for what the server sets up late."""
    state = applied(started())
    assert state.view(START).single_tpot_s is None
    for repeat, e2e_s in enumerate((9.1, 0.3, 0.5, 0.2)):
        single = msgspec.structs.replace(
            order(phase="single"), order=10 + repeat, repeat=repeat, segments=(), offsets_s=(0.0,), start_at=START + 10 * repeat
        )
        state.apply(RepeatStarted(t=single.start_at, order=single))
        state.apply(ended(0, single.start_at, single.start_at + e2e_s, number=single.order))
    failed = msgspec.structs.replace(order(phase="single"), order=14, repeat=4)
    state.apply(RepeatStarted(t=START + 50, order=failed))
    state.apply(ended(0, START + 50, START + 50.1, number=14, ending="truncated"))

    assert state.view(START + 60).single_tpot_s == pytest.approx((0.3 - 0.1) / 10)


def scrambled_run() -> list[Event]:
    """A step of 30 s with metrics; reports come up to 0.2 s late and out of order, as two pipes give them."""
    rng = random.Random(3)
    plan = order()
    timed: list[tuple[float, int, Event]] = []
    for index, t in enumerate(due(plan)):
        e2e = rng.uniform(0.2, 3.0)
        for place, event in enumerate(request(index, float(t), ttft_s=rng.uniform(0.01, 0.19), e2e_s=e2e)):
            timed.append((time_of(event) + 0.2 * index / 1000, place, event))
    for k in range(80):
        t = START + 1 + k / 2
        timed.append((t + rng.uniform(0, 0.2), 0, ServerSampled(t=t, sample=sample(t, running=k % 7, preemptions=k))))
        timed.append((t, 0, tick(t)))
    return [*opening(plan), *(event for *_, event in sorted(timed, key=lambda item: item[:2]))]


def test_views_in_between_change_nothing() -> None:
    events = scrambled_run()
    often, once = State(), State()
    for event in events:
        often.apply(event)
        often.view(time_of(event) + 0.05)
    for event in events:
        once.apply(event)

    for now in (START + 20, START + 44.9, START + 80):
        assert often.view(now) == once.view(now)


def test_closed_bins_are_made_once() -> None:
    state, seen = State(), None
    for event in scrambled_run():
        state.apply(event)
        seen = state.view(time_of(event))
    assert seen is not None

    again = state.view(START + 41.7)
    assert all(a is b for a, b in zip(seen.series[:38], again.series[:38], strict=True))


def test_a_long_run_keeps_its_series_bounded() -> None:
    state = applied(started())
    for k in range(0, 40 * MAX_BINS, 7):
        state.apply(Note(t=START + k, text="still here"))
    view = state.view(START + 40 * MAX_BINS)

    assert len(view.series) <= MAX_BINS
    assert view.bin_s == 64.0
    assert view.series[-1].t_s + view.bin_s >= 40 * MAX_BINS - view.bin_s


def test_a_new_step_begins_afresh() -> None:
    state = applied(*opening(order()), RepeatJudged(t=START + 15, step=1, result=repeat_result()))
    state.apply(StepJudged(t=START + 15, result=step_result()))
    state.apply(StepStarted(t=START + 16, step=2, phase="search", rate_rps=8.0, repeats=3))

    current = state.view(START + 17).current
    assert current is not None
    assert (current.step, current.rate_rps, current.repeats_planned, current.finished, current.live) == (2, 8.0, 3, (), None)
    assert state.tally is None
    assert state.view(START + 17).left_s is None


def test_the_countdown_runs_while_no_limit_decides_what_is_open() -> None:
    """The end of an answer that is under way in time is waited for, until the drain time after the window is over."""
    slow = msgspec.structs.replace(CONFIG, slo=Slo(ttft_s=0.5, tpot_s=None), method=Method(drain_s=20.0))
    plan = order()
    times = due(plan, slow)
    window_end = plan.start_at + 14.0
    inside = [i for i, t in enumerate(times.tolist()) if plan.start_at + 4.0 <= t < window_end]
    events = opening(plan, slow)
    for i in inside[:-1]:
        events += request(i, float(times[i]))
    last = inside[-1]
    events += [sent(last, float(times[last])), first(last, float(times[last]) + 0.1)]
    state = applied(*sorted(events, key=time_of))

    def left_s(t: float) -> float | None:
        current = state.view(t).current
        assert current is not None
        assert current.live is not None
        return current.live.drain_left_s

    assert left_s(window_end - 1) is None
    assert left_s(window_end + 5) == pytest.approx(15.0)
    assert left_s(window_end + 30) == 0.0
    state.apply(ended(last, float(times[last]), window_end + 6.0))
    assert left_s(window_end + 7) is None


def test_only_what_passed_or_failed_is_in_the_floor_of_a_step() -> None:
    plan = order()
    state = applied(*opening(plan))
    for verdict in ("void", "unjudged", "pass"):
        state.apply(
            RepeatJudged(t=START + 20, step=1, result=repeat_result((0.2, 0.3) if verdict != "pass" else (0.9, 0.9), verdict))
        )

    current = state.view(START + 21).current
    assert current is not None
    assert current.finished == ((0.9, 0.9),)


def test_how_slowly_answers_close_is_known_from_the_requests_before() -> None:
    """A single request's body ended 3 s after its last token: only twice that after its limit is an open one late."""
    single = msgspec.structs.replace(ended(0, START + 0.1, START + 0.2, number=0), t_end=START + 3.2)
    plan = order()
    index = int(np.searchsorted(due(plan), plan.start_at + 4.0))
    t = float(due(plan)[index])
    tally = applied(started(), single, *opening(plan)[1:], sent(index, t), first(index, t + 0.1)).tally

    assert tally is not None
    limit_s = 0.1 + 10 * 0.05
    assert tally.bounds(t + limit_s + 5.9).bad == 0
    assert tally.bounds(t + limit_s + 6.1).bad == 1


def test_what_requests_ask_for_is_what_was_drawn_before_load() -> None:
    mix = tuple(MixPart(input_tokens=10 + row, output_tokens=3, row=row) for row in range(4))
    drawn = Workload(mix=mix, source=Source(kind="dataset", file="a.jsonl", rows=4))
    events: list[Event] = [started(), WorkloadKnown(t=START, workload=drawn), RepeatStarted(t=START, order=order())]

    state = applied(*events)
    config = state.view(START).config
    assert config is not None
    assert config.workload == recording(events).config.workload == drawn
    assert state.tally is not None
    assert set(state.tally.plan.input_tokens.tolist()) == {10, 11, 12, 13}
