"""What ends load whatever a search wants: limits of the run, a ramp that runs away, the requests of others. In virtual time."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core import prose
from core.config import ProbeConfig, Safety, Slo
from core.facts import Fact, fact, says
from core.records import LoadDone, LoadTick, RepeatOrder, ServerSample
from core.results import Answer, StepResult
from core.run.events import Note, RepeatJudged, RunStarted, StepJudged
from core.run.limits import Others, on_top, others_rps
from tests.builders import repeat as judged_repeat
from tests.builders import step as judged_step
from tests.core.run.bench import Bench, assert_ended_clean, events_of, final_view, on_bench, to_the_end
from tests.core.run.events import sample
from tests.core.run.fakes import CAPACITY_RPS, FakeServer, config


def probe(safety: Safety, slo: Slo | None = None, **method: Any) -> ProbeConfig:
    plain = config(**method)
    return msgspec.structs.replace(plain, safety=safety, slo=slo or plain.slo)


# --- limits of the run ----------------------------------------------------------------------------------------------


def test_more_in_flight_than_allowed_ends_the_run_and_keeps_what_is_finished(path: Path) -> None:
    asked = probe(Safety(max_in_flight=12), rates_rps=(4.0, 40.0))
    bench, answer = on_bench(path, to_the_end, probe=asked)

    assert answer.outcome == "void"
    assert "in flight, --max-in-flight allows 12; finished steps are kept" in answer.message
    first, last = (event.result for event in events_of(path, StepJudged))
    assert (first.rate_rps, first.verdict) == (4.0, "pass")
    assert (last.rate_rps, last.verdict) == (40.0, "unjudged")
    assert answer.knee.pass_rps == 4.0
    assert max(repeat.result.planned for repeat in events_of(path, RepeatJudged)) > 12
    assert_ended_clean(bench, path)


def test_a_held_rate_that_reaches_a_limit_has_been_held(path: Path) -> None:
    bench, answer = on_bench(path, to_the_end, probe=probe(Safety(max_duration_s=200.0), hold_rps=0.2))

    assert answer.outcome == "held"
    assert answer.message.startswith("held 0.200 requests/s (")
    assert answer.message.endswith("; stopped: --max-duration 3 min 20 s is over")
    duration_s = final_view(path).duration_s
    assert duration_s is not None
    assert 200 <= duration_s < 202
    assert_ended_clean(bench, path)


def test_a_search_that_is_out_of_time_has_no_answer(path: Path) -> None:
    bench, answer = on_bench(path, to_the_end, probe=probe(Safety(max_duration_s=60.0)))

    assert answer.outcome == "void"
    assert "No answer, stopped: --max-duration 1 min is over" in answer.message
    assert events_of(path, StepJudged)[0].result.phase == "ramp"
    assert_ended_clean(bench, path)


@pytest.mark.parametrize("rate_rps", [4.0, 40.0])
def test_a_verdict_of_the_moment_in_which_the_time_is_over_stands(path: Path, tmp_path: Path, rate_rps: float) -> None:
    """After the load has ended and before the step is closed: the log has the repeat's verdict, and so have step and knee."""
    other = tmp_path / "other.jsonl"
    on_bench(other, to_the_end, probe=probe(Safety(), rates_rps=(rate_rps, 5.0)))
    start = next(event.t for event in events_of(other, RunStarted))
    done = next(event.t for event in events_of(other, LoadDone) if event.order == events_of(other, RepeatJudged)[0].result.order)
    closed = events_of(other, StepJudged)[0].t
    assert done + 0.2 < closed
    _, answer = on_bench(path, to_the_end, probe=probe(Safety(max_duration_s=done + 0.1 - start), rates_rps=(rate_rps, 5.0)))

    (repeat,) = (event.result for event in events_of(path, RepeatJudged))
    (step,) = (event.result for event in events_of(path, StepJudged))
    assert repeat.verdict == step.verdict == ("pass" if rate_rps == 4.0 else "fail")
    assert step.reason == repeat.reason
    assert (fact("end_unread") in repeat.warnings) == (rate_rps == 4.0)
    assert not [event for event in events_of(other, RepeatJudged) if fact("end_unread") in event.result.warnings]
    assert step.floor == repeat.attainment_interval
    assert answer.outcome == "void"
    assert rate_rps in (answer.knee.pass_rps, answer.knee.first_fail_rps)


def test_a_ramp_that_had_failed_when_the_time_was_over_has_failed(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    on_bench(other, to_the_end, probe=probe(Safety()))
    start = next(event.t for event in events_of(other, RunStarted))
    ramp = events_of(other, StepJudged)[0]
    done = max(event.t for event in events_of(other, LoadDone) if event.t < ramp.t)
    _, answer = on_bench(path, to_the_end, probe=probe(Safety(max_duration_s=done + 0.1 - start)))

    (step,) = (event.result for event in events_of(path, StepJudged))
    assert (step.phase, step.verdict, step.rate_rps) == ("ramp", "fail", ramp.result.rate_rps)
    assert answer.knee.first_fail_rps == ramp.result.rate_rps


def test_limits_that_are_not_reached_change_nothing(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    _, answer = on_bench(path, to_the_end, probe=probe(Safety(max_in_flight=100_000, max_duration_s=86_400.0)))
    _, plain = on_bench(other, to_the_end)
    assert (answer.outcome, answer.knee) == (plain.outcome, plain.knee)


def test_requests_that_wait_for_a_connection_count_as_in_flight(path: Path) -> None:
    def stuck(bench: Bench) -> None:
        def late_s(order: RepeatOrder) -> float:
            bench.generator.say(LoadTick(order=order.order, t=0.0, in_flight=500, loop_lag_max_s=0.0, cpu_frac=0.0), 3)
            return 0.0

        bench.generator.late_s = late_s

    _, answer = on_bench(path, to_the_end, probe=probe(Safety(max_in_flight=400), rates_rps=(4.0,)), set_up=stuck)
    assert "500 requests in flight, --max-in-flight allows 400" in answer.message


def test_a_ramp_does_not_run_away_while_limits_are_too_long_to_tell(path: Path) -> None:
    long = Slo(ttft_s=60.0, tpot_s=0.06)
    on_bench(path, to_the_end, probe=probe(Safety(max_duration_s=120.0), long))

    ramp = events_of(path, StepJudged)[0].result
    assert ramp.phase == "ramp"
    assert says(ramp.reason, "not_keeping_up")
    assert CAPACITY_RPS < ramp.rate_rps <= 2.1 * CAPACITY_RPS
    points = final_view(path).series
    assert max(point.in_flight or 0 for point in points if point.t_s < 60) < 600


# --- the requests of others -----------------------------------------------------------------------------------------


class Shared(FakeServer):
    """Has twelve requests of somebody else, two of which wait, and finishes three a second of them."""

    def sample(self) -> ServerSample:
        ours = super().sample()
        others = 3.0 * (ours.t - 1000.0)
        return msgspec.structs.replace(
            ours,
            running=(ours.running or 0) + 10,
            waiting=(ours.waiting or 0) + 2,
            requests_success_total=self.ended + others,
        )


def shared(bench: Bench) -> None:
    bench.server.__class__ = Shared


def test_others_void_nothing_when_that_was_agreed_to(path: Path) -> None:
    asked = probe(Safety(with_others=True), rates_rps=(4.0,))
    _, answer = on_bench(path, to_the_end, probe=asked, set_up=shared)

    assert answer.outcome == "at_least"
    assert "on top of " in answer.message
    assert answer.message.endswith("requests/s of others")
    repeat = events_of(path, RepeatJudged)[-1].result
    assert repeat.verdict == "pass"
    assert repeat.others_rps == pytest.approx(3.0, abs=0.15)  # without the twelve that were there before
    assert not any("still has" in note.text for note in events_of(path, Note))


def test_without_that_they_void_the_run(path: Path) -> None:
    _, answer = on_bench(path, to_the_end, probe=probe(Safety(), rates_rps=(4.0,)), set_up=shared)
    assert answer.outcome == "void"
    assert "others used the server" in answer.message


def test_load_backs_off_as_soon_as_more_of_them_wait_than_may(path: Path) -> None:
    asked = probe(Safety(with_others=True, max_waiting=4))
    bench, answer = on_bench(path, to_the_end, probe=asked, set_up=shared)

    assert answer.outcome == "bracket"
    failed = [event.result for event in events_of(path, StepJudged) if event.result.verdict == "fail"]
    assert all(says(step.reason, "backed_off") for step in failed)
    assert all("--max-waiting allows 4" in prose.text(step.reason) for step in failed)
    assert any(note.text.startswith("backed off from") and note.level == "warn" for note in events_of(path, Note))
    assert max(point.waiting or 0 for point in final_view(path).series) < 40
    assert_ended_clean(bench, path)


def test_a_held_rate_ends_for_the_sake_of_others(path: Path) -> None:
    asked = probe(Safety(with_others=True, max_waiting=1), hold_rps=0.2)
    bench, answer = on_bench(path, to_the_end, probe=asked, set_up=shared)

    assert answer.outcome == "held"
    assert "backed off for the sake of others" in answer.message
    assert bench.generator.commands[-1] == f"abort {bench.generator.orders[-1].order}", "the ends of what was open are in the log"
    assert_ended_clean(bench, path)


def preempted(t: float, total: float) -> ServerSample:
    return msgspec.structs.replace(sample(t), preemptions_total=total)


def suffering(safety: Safety, *samples: ServerSample, errors: int = 0) -> Fact | None:
    others = Others(safety)
    others.begin()
    for each in samples:
        others.sampled(each)
    return others.suffer(errors, 100.0)


def test_what_counts_as_suffering() -> None:
    agreed = Safety(with_others=True)
    rising = [preempted(float(t), float(t)) for t in range(3)]
    assert suffering(agreed, *rising) == fact("others_preempted")
    assert suffering(agreed, *rising[:2]) is None
    assert suffering(agreed, *rising, preempted(9.0, 2.0)) is None
    assert suffering(agreed, errors=3) == fact("errors_in_a_row", errors=3, within_s=60.0)
    assert suffering(agreed, errors=2) is None
    assert suffering(agreed, sample(1.0, waiting=900.0)) is None
    limited = Safety(with_others=True, max_waiting=0)
    assert suffering(limited, sample(1.0, waiting=1.0)) == fact("others_wait", waiting=1, limit=0)
    assert suffering(limited, sample(1.0, waiting=0.0)) is None
    assert suffering(limited, msgspec.structs.replace(sample(1.0), waiting=None)) is None
    assert suffering(Safety(), *rising, errors=9) is None


def test_what_was_before_an_order_is_not_its_doing() -> None:
    others = Others(Safety(with_others=True))
    for t in range(3):
        others.sampled(preempted(float(t), float(t)))
    others.begin()
    assert others.suffer(0, 1.0) is None
    assert others.suffer(2, 2.0) is None
    others.begin()
    assert others.suffer(1, 3.0) is None


def test_errors_far_apart_are_not_the_servers_state() -> None:
    others = Others(Safety(with_others=True))
    others.begin()
    assert [others.suffer(n, 600.0 * n) for n in range(20)] == [None] * 20
    assert others.suffer(21, 600.0 * 19 + 1.0) is not None


def test_an_answer_beside_others_says_so_also_when_they_cannot_be_counted() -> None:
    steps: tuple[StepResult, ...] = ()
    found = on_top(Answer(outcome="at_least", message="holds at 4 requests/s"), steps)
    assert found.message == "holds at 4 requests/s, on top of what others ask for, which the server does not tell"
    refused = Answer(outcome="refused", message="no")
    assert on_top(refused, steps) == refused


def test_what_was_set_aside_tells_nothing_of_the_others_beside_the_answer() -> None:
    def beside(rate_rps: float, others: float, *, aside: bool) -> StepResult:
        repeat = msgspec.structs.replace(judged_repeat("pass"), others_rps=others)
        return judged_step(rate_rps, "void" if aside else "pass", repeat, set_aside=aside)

    assert others_rps([beside(2.0, 9.0, aside=True), beside(4.0, 3.0, aside=False)]) == 3.0
