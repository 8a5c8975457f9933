"""A search whose requests are a recording's: how high it can look, and which part of the recording each step plays."""

from pathlib import Path

import msgspec
import pytest

from core import modes
from core.config import Method, Mode, ProbeConfig
from core.facts import Fact
from core.workloads import TraceUse
from tests import builders
from tests.core.judge.feed import answer_of, config, judged, ramp_of, run, started, step_of, step_result
from tests.core.traffic.traces import arrivals, poisson


def recorded(rows: int, mean_rps: float = 2.0, method: Method = Method()) -> ProbeConfig:  # noqa: B008 (frozen)
    """A run of a recording with so many requests."""
    trace = msgspec.structs.replace(builders.TRACE, rows=rows, mean_rps=mean_rps, window_s=rows / mean_rps)
    probe = config(method=method)
    return msgspec.structs.replace(probe, workload=msgspec.structs.replace(probe.workload, trace=trace))


def trace_of(probe: ProbeConfig) -> TraceUse:
    assert probe.workload.trace is not None
    return probe.workload.trace


def taken_s(probe: ProbeConfig, step: object) -> float:
    return modes.recorded_s(step.segments, trace_of(probe).mean_rps, "warmup", "measured")  # type: ignore[attr-defined]


@pytest.mark.parametrize(("mode", "repeats"), [("quick", 1), ("standard", 3), ("acceptance", 11)])
def test_no_rate_is_tried_that_the_recording_is_too_short_for(mode: Mode, repeats: int) -> None:
    """The ramp ends at a rate at which all repeats of the mode have stretches, also once requests take four times as long."""
    probe = recorded(2000 * repeats, method=Method(mode=mode))
    search = started(probe)
    top_rps = ramp_of(search)[-1].rate_rps

    rules = modes.rules_of(probe.method)
    need = 0.0
    for stage in (rules.search, rules.confirm):
        if stage is not None:
            segments = modes.step_segments(stage.measure_s, probe.slo, probe.safety, 120.0, top_rps, 4.0, 8.0)
            need += stage.repeats * modes.recorded_s(segments, 1.0, "warmup", "measured")
    assert need == pytest.approx(2000 * repeats, rel=0.05)
    twice = ramp_of(started(recorded(4000 * repeats, method=Method(mode=mode))))[-1].rate_rps
    assert twice > 1.7 * top_rps


def test_the_last_rate_that_holds_says_what_ended_the_search() -> None:
    search = started(recorded(600))
    ramp_of(search)
    found = run(search, lambda rate_rps: True, 1.0)

    assert found.answer.outcome == "at_least"
    assert found.answer.knee.pass_rps is not None
    ends = [note for note in found.answer.knee.notes if isinstance(note, Fact) and note.code == "trace_ends"]
    assert [note.figures["rate_rps"] for note in ends] == [found.answer.knee.pass_rps]
    assert ends[0].figures["scale"] == found.answer.knee.pass_rps / 2.0


def test_a_long_recording_changes_nothing_of_a_search() -> None:
    plain = run(started(config()), lambda rate_rps: rate_rps < 7.0, 1.0)
    long = run(started(recorded(10_000_000)), lambda rate_rps: rate_rps < 7.0, 1.0)

    assert plain.answer.knee.pass_rps == long.answer.knee.pass_rps
    assert plain.answer.message == long.answer.message


def test_a_recording_with_fewer_requests_than_a_window_needs_is_too_little() -> None:
    few = started(recorded(99)).too_little
    assert few is not None
    assert (few.code, few.figures["needed"], few.figures["rows"]) == ("trace_too_few", 100, 99)
    assert started(recorded(600)).too_little is None
    assert started(config()).too_little is None


def test_a_list_is_held_against_the_recording_before_the_load() -> None:
    listed = Method(rates_rps=(1.0, 8.0), repeats=2)
    short = started(recorded(500, method=listed)).too_little
    assert short is not None
    assert (short.code, short.figures["rate_rps"], short.figures["scale"]) == ("trace_short", 8.0, 4.0)
    assert started(recorded(2000, method=listed)).too_little is None
    assert started(recorded(10, method=Method(hold_rps=8.0))).too_little is None


def test_a_search_that_runs_out_of_recording_keeps_what_it_has() -> None:
    """Requests took far longer than foreseen, so that the stretches of the rest of the list are not there."""
    search = started(recorded(800, method=Method(rates_rps=(2.0, 6.0), repeats=1)))
    first = step_of(search)
    search.observe_step(judged(first, "pass"), 30.0)

    answer = answer_of(search)

    assert (answer.outcome, answer.knee.pass_rps) == ("at_least", 2.0)
    assert any(isinstance(note, Fact) and note.code == "trace_short" for note in answer.knee.notes)


def test_a_rate_that_is_judged_again_goes_on_behind_what_it_has_played(tmp_path: Path) -> None:
    probe = recorded(9000)
    search = started(probe)
    ramp_of(search)
    search.observe_ramp(4.0, 16.0)
    first = step_of(search)
    search.observe_step(step_result(first.rate_rps, "unjudged", "unjudged"), None)
    again = step_of(search)

    assert (first.from_s, again.rate_rps) == (0.0, first.rate_rps)
    assert again.from_s == pytest.approx(taken_s(probe, first))
    trace = arrivals(tmp_path, poisson(2000, 2.0))
    assert trace.stretch(again.segments, 0, again.segments, 100.0) != trace.stretch(again.segments, 0, again.segments)
    search.observe_step(step_result(again.rate_rps, "fail", "fail"), None)
    assert step_of(search).from_s == 0.0
