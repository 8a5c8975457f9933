"""A held rate: judged segment by segment while it goes on, raised and lowered, and stopped."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from itertools import accumulate
from pathlib import Path

import msgspec
import pytest

from core import prose
from core.config import Safety
from core.facts import Fact, fact, says
from core.records import LoadDone, RepeatOrder, RequestEnded, RequestSent
from core.report import notes, to_text
from core.results import Answer, StepResult
from core.run import log as runs
from core.run.events import LoadStateChanged, Note, RepeatJudged, RepeatStarted, RunEnded, StepJudged, StepStarted
from core.run.hold import HeldRate
from core.run.state import State, step_told
from core.schedule import draw
from core.slo import allowed_misses, good
from tests.builders import told
from tests.core.run.bench import Bench, assert_ended_clean, events_of, final_view, on_bench, stopped_at
from tests.core.run.fakes import CAPACITY_RPS, config
from tui.cli.probe import code_of
from tui.terminal.signals import NO_ANSWER

RATE_RPS = 4.0
pytestmark = pytest.mark.usefixtures("short_orders")


def at(*calls: tuple[float, Callable[[Bench], object]]) -> Callable[[Bench], Awaitable[Answer]]:
    """Run, and do something with the bench at virtual times."""

    async def work(bench: Bench) -> Answer:
        for t, call in calls:
            asyncio.get_running_loop().call_at(t, call, bench)
        return await bench.session.run()

    return work


def stop(bench: Bench) -> None:
    bench.session.stop()


def held_orders(path: Path) -> list[RepeatOrder]:
    return [event.order for event in events_of(path, RepeatStarted) if event.order.phase == "hold"]


def steps(path: Path) -> list[StepResult]:
    return [event.result for event in events_of(path, StepJudged)]


def by_hand(path: Path, order: RepeatOrder) -> dict[int, tuple[int, int]]:
    """(planned, good) of each segment of an order, from the log alone."""
    probe = config(hold_rps=RATE_RPS)
    plan = draw(order, probe.workload)
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for segment in plan.segment.tolist():
        counts[segment][0] += 1
    for record in events_of(path, RequestEnded):
        if record.order == order.order and good(record, probe.slo):
            counts[int(plan.segment[record.index])][1] += 1
    return {segment: (planned, good_) for segment, (planned, good_) in counts.items()}


def test_each_segment_is_judged_and_a_stop_ends_it_as_held(path: Path) -> None:
    bench, answer = on_bench(path, stopped_at(1160.0), probe=config(hold_rps=RATE_RPS, measure_s=30.0))

    assert answer.outcome == "held"
    figures = told(answer.message, "held_rate").figures
    assert (figures["rate_rps"], figures["segments"], figures["passed"]) == (RATE_RPS, 5, 5)
    (held,) = steps(path)
    assert (held.phase, held.rate_rps, held.verdict) == ("hold", RATE_RPS, "pass")
    assert [repeat.index for repeat in held.repeats] == [0, 1, 2, 3, 4, 5]
    assert [repeat.verdict for repeat in held.repeats] == ["pass"] * 5 + ["unjudged"]
    (order,) = held_orders(path)
    measured = [i for i, segment in enumerate(order.segments) if segment.role == "measured"]
    counted = by_hand(path, order)
    for repeat, segment in zip(held.repeats[:5], measured, strict=False):
        assert (repeat.planned, repeat.good) == counted[segment]
        assert repeat.measure_s == order.segments[segment].duration_s
        assert repeat.queue is not None
        assert not repeat.curtailed
    assert held.floor == (min(repeat.attainment or 0 for repeat in held.repeats[:5]),) * 2
    assert events_of(path, RunEnded)[0].t < 1160.5
    assert events_of(path, LoadStateChanged)[-1].state == "stopped"
    assert_ended_clean(bench, path)
    assert final_view(path) == bench.session.state.view(1e9)


def test_what_was_measured_of_the_segment_that_a_stop_cuts_is_kept_and_told(path: Path) -> None:
    _, answer = on_bench(path, stopped_at(1030.0), probe=config(hold_rps=RATE_RPS, measure_s=30.0))

    (held,) = steps(path)
    (cut,) = held.repeats
    (order,) = held_orders(path)
    first = [segment.role for segment in order.segments].index("measured")
    planned, good_ = by_hand(path, order)[first]
    aborted = sum(record.ending == "aborted" for record in events_of(path, RequestEnded))
    assert (cut.verdict, cut.curtailed, cut.planned, cut.good, cut.misses) == ("unjudged", True, planned, good_, 0)
    assert 0 < cut.good == cut.sent - aborted
    assert cut.ttft_s.n == cut.good
    found = fact("cut_off", sent=cut.sent, good=cut.good, misses=0, open=aborted)
    assert held.verdict == "unjudged"
    assert told(held.reason, "cut_off") == told(answer.message, "cut_off") == found
    assert prose.text(found) in to_text(final_view(path), None).replace("\n  ", " ")


def test_a_fail_that_was_certain_when_its_segment_was_cut_off_is_a_fail(path: Path) -> None:
    _, answer = on_bench(path, stopped_at(1040.0), probe=config(hold_rps=1.3 * CAPACITY_RPS, measure_s=60.0))

    (held,) = steps(path)
    (cut,) = held.repeats
    assert cut.misses > allowed_misses(cut.planned, 0.95)
    assert (cut.verdict, cut.curtailed, held.verdict) == ("fail", True, "fail")
    assert cut.sent < cut.planned
    assert cut.attainment is None
    assert held.floor == cut.attainment_interval
    low, high = cut.attainment_interval
    figures = told(answer.message, "held_rate").figures
    assert figures == {"rate_rps": held.rate_rps, "segments": 1, "passed": 0, "low_frac": low, "high_frac": high}


def test_the_misses_of_a_server_that_froze_before_the_stop_are_no_verdict(path: Path) -> None:
    def freezes(bench: Bench) -> None:
        bench.server.frozen_at = 1030.0

    _, answer = on_bench(path, stopped_at(1038.0), probe=config(hold_rps=RATE_RPS, measure_s=30.0), set_up=freezes)

    (cut,) = steps(path)[0].repeats
    assert cut.misses > allowed_misses(cut.planned, 0.95)
    assert cut.verdict == "unjudged"
    assert answer.outcome == "held"


@pytest.mark.parametrize("stopped", [1032.5, 1200.0])
def test_the_misses_of_a_server_that_is_gone_are_no_verdict(path: Path, stopped: float) -> None:
    def goes(bench: Bench) -> None:
        bench.server.refuses_from, bench.server.cuts, bench.server.healthy = 1030.0, True, False

    _, answer = on_bench(path, stopped_at(stopped), probe=config(hold_rps=RATE_RPS, measure_s=30.0), set_up=goes)

    (cut,) = steps(path)[0].repeats
    assert cut.misses > allowed_misses(cut.planned, 0.95)
    assert (cut.verdict, told(cut.reason, "server_away").figures["seen"]) == ("void", "lost")
    assert (answer.outcome, steps(path)[0].verdict) == ("void", "void")


def test_a_segment_of_which_nothing_is_left_to_come_is_judged_at_the_stop(path: Path) -> None:
    """Its last answer may have come before its end; that no report is under way any more is known without waiting."""
    probe = config(hold_rps=1.2, measure_s=84.0)
    on_bench(path, stopped_at(1240.0), probe=probe)
    (order,) = held_orders(path)
    plan, ended = draw(order, probe.workload), [record for record in events_of(path, RequestEnded) if record.order == order.order]
    lasts: dict[int, float] = defaultdict(float)
    for record in ended:
        lasts[int(plan.segment[record.index])] = max(lasts[int(plan.segment[record.index])], record.t_end)
    ends = [order.start_at + end for end in accumulate(segment.duration_s for segment in order.segments)]
    first = [segment.role for segment in order.segments].index("measured")
    at_ = next(i for i in range(first, len(lasts)) if lasts[i] < ends[i])
    other = path.with_name("other.jsonl")
    on_bench(other, stopped_at(ends[at_] + 0.1), probe=probe)

    last = steps(other)[0].repeats[at_ - first]
    assert (last.verdict, last.sent, last.curtailed) == ("pass", last.planned, False)
    assert events_of(other, RunEnded)[0].t < ends[at_] + 0.25


def test_a_rate_that_is_changed_before_its_first_segment_gives_no_warning(path: Path) -> None:
    def press(factor: float) -> Callable[[Bench], object]:
        return lambda bench: bench.session.change_rate(factor)

    presses = [(1008.0, press(1.1)), (1008.3, press(1.1)), (1009.5, press(1.1)), (1012.7, press(1 / 1.1))]
    _, answer = on_bench(path, at(*presses, (1080.0, stop)), probe=config(hold_rps=RATE_RPS, measure_s=30.0))

    view = final_view(path)
    assert len(steps(path)) >= 3
    assert [line.text for line in view.lines if line.level != "info"] == []
    assert notes(view) == []
    assert steps(path)[0].reason == fact("no_segment_judged")
    assert len(told(answer.message, "held").of) == sum(bool(step.repeats) for step in steps(path))


def test_a_press_while_an_order_is_being_prepared_is_not_lost(path: Path) -> None:
    def slow(bench: Bench) -> None:
        bench.generator.plan_takes_s = 2.0

    _, answer = on_bench(
        path,
        at((1006.5, lambda bench: bench.session.change_rate(1.25)), (1080.0, stop)),
        probe=config(hold_rps=RATE_RPS, measure_s=30.0),
        set_up=slow,
    )

    assert {segment.rate_rps for order in held_orders(path) for segment in order.segments if segment.role == "measured"} == {5.0}
    figures = told(answer.message, "held_rate").figures
    assert (figures["rate_rps"], figures["segments"], figures["passed"]) == (5.0, 2, 2)


def test_nothing_is_aborted_before_the_stop(path: Path) -> None:
    """Also where every segment fails."""
    bench, answer = on_bench(path, stopped_at(1160.0), probe=config(hold_rps=1.3 * CAPACITY_RPS, measure_s=30.0))

    aborted = [record for record in events_of(path, RequestEnded) if record.ending == "aborted"]
    assert aborted
    assert min(record.t_end for record in aborted) >= 1159.99
    assert bench.generator.commands.count(f"abort {held_orders(path)[0].order}") == 1
    assert steps(path)[0].verdict == "fail"
    assert {repeat.verdict for repeat in steps(path)[0].repeats} >= {"fail"}
    assert answer.outcome == "held"


def test_segments_are_judged_as_soon_as_their_requests_are_decided(path: Path) -> None:
    on_bench(path, stopped_at(1160.0), probe=config(hold_rps=RATE_RPS, measure_s=30.0))

    (order,) = held_orders(path)
    end = order.start_at + sum(segment.duration_s for segment in order.segments if segment.role == "warmup")
    for event in [event for event in events_of(path, RepeatJudged) if event.result.verdict == "pass"]:
        end += order.segments[-1].duration_s
        assert end < event.t < end + 2.0


def test_the_view_follows_the_segment_that_is_sent(path: Path) -> None:
    on_bench(path, stopped_at(1160.0), probe=config(hold_rps=RATE_RPS, measure_s=30.0))
    (order,) = held_orders(path)
    warmup_s = sum(segment.duration_s for segment in order.segments if segment.role == "warmup")

    state, seen = State(), []
    for event in runs.read_run(path):
        state.apply(event)
        t = event.t if isinstance(event, StepStarted | RepeatStarted) else None
        if isinstance(event, RequestSent) and event.order == order.order:
            t = event.t_sent
        current = state.view(t).current if t is not None else None
        if current is not None and current.live is not None and t is not None:
            seen.append((t - order.start_at, current.live, len(current.finished)))
    counted = by_hand(path, order)
    for since_s, live, finished in seen:
        index = max(int((since_s - warmup_s) // 30.0), 0)
        assert live.index == index
        assert live.part == ("warm-up" if since_s < warmup_s else "measuring")
        assert live.bounds.planned == counted[2 + index][0]
        assert live.drain_left_s is None
        assert finished <= index
    assert [live.length_s for _, live, _ in seen[:1]] == [pytest.approx(warmup_s + 30.0)]
    assert max(finished for *_, finished in seen) == 5


def late(bench: Bench) -> None:
    bench.generator.late_s = lambda order: 2.0 if order.phase == "hold" and order.segments[-1].rate_rps == RATE_RPS else 0.0


@pytest.mark.parametrize("limit_s", [None, 100.0], ids=["x", "--max-duration"])
def test_a_held_rate_of_which_every_segment_is_void_is_no_answer(path: Path, limit_s: float | None) -> None:
    probe = config(hold_rps=RATE_RPS, measure_s=30.0)
    probe = msgspec.structs.replace(probe, safety=Safety(max_duration_s=limit_s))
    _, answer = on_bench(path, stopped_at(1101.0 if limit_s else 1100.0), probe=probe, set_up=late)

    (held,) = steps(path)
    verdicts = [repeat.verdict for repeat in held.repeats]
    assert set(verdicts[:2]) == {"void"}
    assert (held.verdict, held.floor) == ("void", None)
    newest = [repeat.reason for repeat in held.repeats if repeat.verdict == "void"][-1]
    void = fact("segments_void", newest, void=verdicts.count("void"))
    assert told(held.reason, "segments_void") == void
    assert says(newest, "client_late", "client_late_once", "client_unsent")

    view = final_view(path)
    assert answer.outcome == "void"
    assert told(answer.message, "held_in_vain") == answer.message
    assert told(answer.message, "segments_void") == void
    assert says(answer.message, "max_duration") == (limit_s is not None)
    assert code_of(view) == NO_ANSWER
    assert prose.text(newest) in " ".join(to_text(view, None).split())
    assert [line.level for line in view.lines if line.text == step_told(held)] == ["warn"]


def test_a_late_client_voids_a_segment_and_the_next_rate_is_held_on(path: Path) -> None:
    def up(bench: Bench) -> None:
        bench.session.change_rate(1.25)

    _, answer = on_bench(path, at((1060.0, up), (1160.0, stop)), probe=config(hold_rps=RATE_RPS, measure_s=30.0), set_up=late)

    assert answer.outcome == "held"
    assert [step.verdict for step in steps(path)] == ["void", "pass"]
    assert told(answer.message, "held_void").figures == {"rate_rps": RATE_RPS}
    assert told(answer.message, "held_rate").figures["rate_rps"] == 5.0


def test_a_changed_rate_is_a_new_step_once_what_is_open_has_ended(path: Path) -> None:
    returned: list[float | None] = []

    def up(bench: Bench) -> None:
        returned.append(bench.session.change_rate(1.25))

    _, answer = on_bench(path, at((1060.0, up), (1160.0, stop)), probe=config(hold_rps=RATE_RPS, measure_s=30.0))

    first, second = held_orders(path)
    assert returned == [5.0]
    assert [step.rate_rps for step in steps(path)] == [4.0, 5.0]
    assert {segment.rate_rps for segment in second.segments if segment.role == "measured"} == {5.0}
    done = next(event for event in events_of(path, LoadDone) if event.order == first.order)
    assert 1060.0 < done.t < second.start_at < done.t + 1.5
    ended = [record for record in events_of(path, RequestEnded) if record.order == first.order]
    assert {record.ending for record in ended} == {"ok"}
    assert max(event.t_sent for event in events_of(path, RequestSent) if event.order == first.order) <= 1060.2
    assert [repeat.verdict for repeat in steps(path)[0].repeats] == ["pass", "unjudged"]
    assert steps(path)[1].repeats[0].index == 0
    assert steps(path)[1].repeats[0].verdict == "pass"
    assert [each.figures["rate_rps"] for each in told(answer.message, "held").of if isinstance(each, Fact)] == [4.0, 5.0]
    assert fact("rate_next", rate_rps=5.0, at_limit=False) in [note.text for note in events_of(path, Note)]


def test_presses_add_up_and_max_rps_holds(path: Path) -> None:
    probe = msgspec.structs.replace(config(hold_rps=RATE_RPS, measure_s=30.0), safety=Safety(max_rps=6.0))
    returned: list[float | None] = []

    def press(factor: float) -> Callable[[Bench], None]:
        return lambda bench: returned.append(bench.session.change_rate(factor))

    _, answer = on_bench(
        path,
        at((1060.0, press(1.2)), (1060.05, press(1.2)), (1060.1, press(1.2)), (1100.0, press(2.0)), (1140.0, stop)),
        probe=probe,
    )

    assert returned == [pytest.approx(4.8), pytest.approx(5.76), 6.0, 6.0]
    assert [step.rate_rps for step in steps(path)] == [4.0, 6.0], "a press at the limit starts nothing anew"
    assert max(segment.rate_rps for order in held_orders(path) for segment in order.segments) == 6.0
    assert fact("rate_stays", rate_rps=6.0, at_limit=True) in [note.text for note in events_of(path, Note)]
    assert answer.outcome == "held"


def test_a_rate_that_is_not_held_cannot_be_changed(path: Path) -> None:
    returned: list[float | None] = []
    on_bench(path, at((1030.0, lambda bench: returned.append(bench.session.change_rate(2.0))), (1031.0, stop)))

    assert returned == [None]


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_a_factor_must_make_sense(factor: float) -> None:
    with pytest.raises(ValueError, match="factor"):
        HeldRate(4.0, None, lambda: None).change(factor)


def test_a_stop_while_the_rate_changes_leaves_no_load(path: Path) -> None:
    bench, answer = on_bench(
        path, at((1060.0, lambda bench: bench.session.change_rate(1.25)), (1060.3, stop)), probe=config(hold_rps=RATE_RPS)
    )

    assert answer.outcome == "held"
    assert events_of(path, RunEnded)[0].t < 1060.8
    assert_ended_clean(bench, path)


def test_a_server_that_freezes_while_a_rate_is_held_gives_no_answer(path: Path) -> None:
    def freezes(bench: Bench) -> None:
        bench.server.frozen_at = 1090.0

    bench, answer = on_bench(
        path, lambda bench: bench.session.run(), probe=config(hold_rps=RATE_RPS, measure_s=30.0), set_up=freezes
    )

    assert answer.outcome == "void"
    assert answer.message == fact("server_unusable", fact("server_frozen", silent_s=10.0))
    assert steps(path)[-1].verdict == "void"
    assert_ended_clean(bench, path)


def test_an_order_that_runs_out_is_followed_by_the_next_in_the_same_step(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.modes.HOLD_REQUESTS", 250)
    on_bench(path, stopped_at(1160.0), probe=config(hold_rps=RATE_RPS, measure_s=30.0))

    first, second = held_orders(path)[:2]
    assert (first.repeat, second.repeat) == (0, 2)
    assert first.step == second.step
    assert [repeat.index for repeat in steps(path)[0].repeats] == [0, 1, 2, 3, 4][: len(steps(path)[0].repeats)]
    assert len(steps(path)) == 1


def test_a_stop_before_the_rate_is_held_is_an_interruption(path: Path) -> None:
    _, answer = on_bench(path, stopped_at(1001.0), probe=config(hold_rps=RATE_RPS))

    assert answer.outcome == "interrupted"


def test_a_segment_that_had_hardly_begun_warns_of_nothing(path: Path) -> None:
    """Fewer than two readings of the server are no sign that it could not be read."""
    on_bench(path, stopped_at(1160.0), probe=config(hold_rps=RATE_RPS, measure_s=30.0))
    (order,) = held_orders(path)
    begin = order.start_at + sum(segment.duration_s for segment in order.segments if segment.role == "warmup") + 30.0
    other = path.with_name("other.jsonl")
    on_bench(other, stopped_at(begin + 0.2), probe=config(hold_rps=RATE_RPS, measure_s=30.0))

    assert len(steps(other)[0].repeats) == 2
    assert notes(final_view(other)) == []
