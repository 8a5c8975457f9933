"""Runs whose requests come as they were recorded."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from core import modes
from core.config import Method, Mode, ProbeConfig, Safety, Slo, Target, Workload
from core.facts import Fact, fact, says
from core.records import RepeatOrder
from core.replica import process
from core.replica.catalog import load
from core.results import Answer
from core.run import log as runs
from core.run.events import CheckDone, Note, RepeatStarted, RunStarted, StepStarted, WorkloadKnown
from core.run.log import RunLog
from core.run.material import recording
from core.run.session import Session
from core.run.state import State
from core.schedule import draw
from core.traffic import Asked, TraceArrivals, load_arrivals
from core.whatif import Refused, explain
from core.workloads import Prefix
from tests.core.run.bench import Bench, events_of, final_view, on_bench, stopped_at, to_the_end
from tests.core.run.fakes import CAPACITY_RPS, config
from tests.core.run.simulated import probe_in_virtual_time
from tests.core.traffic.traces import arrivals, blocks_file, even, poisson


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def played(path: Path, trace: TraceArrivals, context: int | None = None, **changes: object) -> tuple[Bench, Answer]:
    """A run of a trace to its end."""
    probe = replace(trace.settled(replace(config(), **changes)))
    return on_bench(path, to_the_end, probe=probe, trace=trace, context=context)


def orders(path: Path, *phases: str) -> list[RepeatOrder]:
    return [event.order for event in events_of(path, RepeatStarted) if event.order.phase in phases]


def test_a_search_plays_the_recording_at_each_rate_and_finds_the_knee(path: Path, tmp_path: Path) -> None:
    trace = arrivals(tmp_path, poisson(9000, 5.0))
    _, answer = played(path, trace)

    assert answer.outcome == "bracket"
    assert answer.knee.pass_rps is not None
    assert answer.knee.pass_rps < CAPACITY_RPS < 1.5 * (answer.knee.fail_rps or 0.0)
    searched = orders(path, "search")
    assert searched
    for order in searched:
        assert order.offsets_s is not None
        assert (order.offsets_s, order.parts, order.shared) == trace.stretch(order.segments, 0, order.segments)
    assert all(order.offsets_s is None for order in orders(path, "ramp"))


def test_the_scale_stands_beside_the_answer(path: Path, tmp_path: Path) -> None:
    trace = arrivals(tmp_path, poisson(9000, 5.0))
    _, answer = played(path, trace)

    ends = [rate_rps for rate_rps in (answer.knee.pass_rps, answer.knee.fail_rps) if rate_rps is not None]
    assert len(ends) == 2
    assert answer.knee.notes[0] == fact("trace_scales", rates_rps=ends, mean_rps=trace.use.mean_rps)
    said = [event.text for event in events_of(path, Note)]
    assert fact("trace_played", mean_rps=trace.use.mean_rps, gap_cv=trace.use.gap_cv, ramp=True) in said


def test_repeats_of_a_rate_play_one_stretch_after_the_other(path: Path, tmp_path: Path) -> None:
    trace = arrivals(tmp_path, poisson(4000, 5.0))
    played(path, trace, method=Method(mode="standard", rates_rps=(4.0, 5.0)))

    by_rate: dict[float, list[RepeatOrder]] = {}
    for order in orders(path, "list"):
        by_rate.setdefault(order.segments[-1].rate_rps, []).append(order)
    assert [len(of) for of in by_rate.values()] == [3, 3]
    for of in by_rate.values():
        planned = next(order.segments for order in of)
        assert [order.offsets_s for order in of] == [trace.stretch(order.segments, order.repeat, planned)[0] for order in of]
        assert len({order.offsets_s for order in of}) == 3


def test_a_recorded_run_needs_no_file_of_the_trace(path: Path, tmp_path: Path) -> None:
    trace = arrivals(tmp_path, poisson(9000, 5.0), [(32, 17), (33, 17)])
    bench, answer = played(path, trace)
    (tmp_path / "t.csv").unlink()

    assert final_view(path).answer == answer
    run = recording(runs.read_run(path))
    order = next(order for order in run.orders if order.phase == "search")
    assert set(draw(order, run.config.workload).input_tokens.tolist()) == {32, 33}
    assert len({order.order for order in bench.generator.orders}) == len(bench.generator.orders)


def test_a_run_file_may_begin_with_very_many_kinds_of_request(path: Path, tmp_path: Path) -> None:
    trace = arrivals(tmp_path, even(20_000, 0.01), [(100 + i, 17) for i in range(20_000)])
    on_bench(path, stopped_at(1001.0), probe=trace.settled(config()), trace=trace)

    assert path.stat().st_size > 1 << 20
    view = final_view(path)
    assert view.config is not None
    assert len(view.config.workload.mix) == 20_000


def test_what_does_not_fit_the_model_is_left_out_before_the_load(path: Path, tmp_path: Path) -> None:
    trace = arrivals(tmp_path, poisson(9000, 5.0), [(32, 17), (9000, 17)])
    _, answer = played(path, trace, context=4096, method=Method(rates_rps=(4.0,)))

    assert answer.outcome == "at_least"
    config = final_view(path).config
    assert config is not None
    assert [part.input_tokens for part in config.workload.mix] == [32]
    assert config.workload.trace is not None
    assert config.workload.trace.mean_rps == pytest.approx(trace.use.mean_rps / 2, rel=0.01)
    assert len(events_of(path, WorkloadKnown)) == 1
    check = next(event.check for event in events_of(path, CheckDone) if event.check.check == "trace")
    assert check.status == "warn"
    assert isinstance(check.message, Fact)
    assert any(says(each, "trace_unfit") for each in check.message.of)
    assert {order.offsets_s is None for order in orders(path, "list")} == {False}
    assert recording(runs.read_run(path)).config.workload == config.workload


def test_a_trace_that_fits_is_a_check_that_passes(path: Path, tmp_path: Path) -> None:
    played(path, arrivals(tmp_path, poisson(9000, 5.0)), context=4096, method=Method(rates_rps=(4.0,)))

    assert [event.check.status for event in events_of(path, CheckDone) if event.check.check == "trace"] == ["pass"]
    assert not events_of(path, WorkloadKnown)


def test_too_few_requests_for_any_window_are_refused_before_the_load(path: Path, tmp_path: Path) -> None:
    _, answer = played(path, arrivals(tmp_path, even(60)))

    assert (answer.outcome, says(answer.message, "trace_too_few")) == ("refused", True)
    assert not orders(path, "ramp", "search")


def test_a_list_that_needs_more_than_there_is_is_refused_before_the_load(path: Path, tmp_path: Path) -> None:
    _, answer = played(path, arrivals(tmp_path, even(600)), method=Method(rates_rps=(2.0, 9.0), repeats=2))

    assert answer.outcome == "refused"
    assert isinstance(answer.message, Fact)
    assert (answer.message.code, answer.message.figures["rate_rps"]) == ("trace_short", 9.0)
    assert not orders(path, "list")


@pytest.mark.parametrize(("mode", "rows"), [("quick", 250), ("standard", 700)])
def test_a_search_ends_where_the_recording_does_and_says_so(path: Path, tmp_path: Path, mode: Mode, rows: int) -> None:
    """So many requests are enough for a few requests a second, of ten that the server takes: the bracket is open above."""
    trace = arrivals(tmp_path, poisson(rows, 2.0))
    _, answer = played(path, trace, method=Method(mode=mode))

    assert answer.outcome == "at_least"
    end = next(note for note in answer.knee.notes if isinstance(note, Fact) and note.code == "trace_ends")
    assert answer.knee.pass_rps == end.figures["rate_rps"]
    top = max(event.rate_rps for event in events_of(path, StepStarted))
    assert top < CAPACITY_RPS
    taken = [modes.recorded_s(order.segments, trace.use.mean_rps, "warmup", "measured") for order in orders(path, "search")]
    assert max(taken) <= trace.use.window_s


def test_max_rps_below_the_end_of_the_recording_is_no_matter_of_the_trace(path: Path, tmp_path: Path) -> None:
    _, answer = played(path, arrivals(tmp_path, poisson(9000, 2.0)), safety=Safety(max_rps=3.0))

    assert (answer.outcome, answer.knee.pass_rps) == ("at_least", 3.0)
    assert not any(says(note, "trace_ends") for note in answer.knee.notes)


def test_a_held_rate_goes_on_where_the_order_before_ended(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = arrivals(tmp_path, poisson(900, 5.0))
    monkeypatch.setattr(modes, "RECORDED_HOLD_REQUESTS", 400)
    probe = trace.settled(replace(config(), method=Method(hold_rps=4.0)))
    _, answer = on_bench(path, stopped_at(1200.0), probe=probe, trace=trace)

    assert answer.outcome == "held"
    first, second = orders(path, "hold")[:2]
    assert first.offsets_s == trace.played(first.segments, 0.0)[0]
    assert second.offsets_s == trace.played(second.segments, modes.recorded_s(first.segments, trace.use.mean_rps))[0]
    assert first.offsets_s is not None
    assert len(first.offsets_s) < 600


def test_no_twin_is_asked_about_recorded_arrivals(path: Path, tmp_path: Path) -> None:
    trace = arrivals(tmp_path, poisson(9000, 5.0))
    probe = trace.settled(replace(config(), method=Method(mode="standard")))
    on_bench(path, stopped_at(1100.0), probe=probe, trace=trace)

    assert fact("twin_unasked", fact("twin_lacks_recording")) in [event.text for event in events_of(path, Note)]
    refused = explain(recording(runs.read_run(path)))
    assert isinstance(refused, Refused)
    assert refused.why == fact("twin_none", fact("twin_lacks_recording"))


def test_bursts_reach_a_verdict_by_what_was_planned_for_the_window(path: Path, tmp_path: Path) -> None:
    """Forty at one instant every ten seconds: the first eight wait for nobody, the last half a second and more."""
    times = [10.0 * burst for burst in range(60) for _ in range(40)]
    _, answer = played(path, arrivals(tmp_path, times), method=Method(rates_rps=(4.0,)))

    repeat = final_view(path).steps[-1].repeats[0]
    assert repeat.verdict == "fail"
    assert repeat.planned % 40 == 0
    assert answer.outcome == "below"


def test_a_lull_of_the_recording_is_no_pass_of_the_rate(path: Path, tmp_path: Path) -> None:
    """A tenth of the mean rate for the first half: what holds there would hold at no more than that."""
    quiet, busy = [10.0 * n for n in range(400)], [4000.0 + 0.5 * n for n in range(8000)]
    trace = arrivals(tmp_path, [*quiet, *busy])
    _, answer = played(path, trace, method=Method(rates_rps=(4.0,)))

    assert answer.outcome == "void"
    assert says(answer.message, "recording_unfit")
    (repeat,) = final_view(path).steps[-1].repeats
    assert repeat.verdict == "void"
    assert says(repeat.reason, "recorded_lull")
    assert repeat.planned < 0.2 * 4.0 * repeat.measure_s


def test_a_lull_that_misses_even_so_fails_the_rate(path: Path, tmp_path: Path) -> None:
    bursts = [30.0 * burst for burst in range(133) for _ in range(36)]
    trace = arrivals(tmp_path, [*bursts, *[4000.0 + 0.125 * n for n in range(32000)]])
    played(path, trace, method=Method(rates_rps=(4.0,)))
    repeat = final_view(path).steps[-1].repeats[0]
    assert repeat.verdict == "fail"
    assert repeat.planned < 0.5 * 4.0 * repeat.measure_s


def test_a_view_of_the_run_file_is_that_of_the_session(path: Path, tmp_path: Path) -> None:
    trace = arrivals(tmp_path, poisson(9000, 5.0), [(32, 17), (9000, 17)])
    bench, _ = played(path, trace, context=4096, method=Method(rates_rps=(4.0,)))

    state = State()
    for event in runs.read_run(path):
        state.apply(event)
    assert state.view(1e9) == bench.session.state.view(1e9)
    assert isinstance(next(iter(runs.read_run(path))), RunStarted)


def test_a_trace_of_poisson_arrivals_finds_the_knee_of_the_embedded_replica(path: Path, tmp_path: Path) -> None:
    """Its own lengths at recorded times that are random: the bracket is near the knee that drawn ones have in the long run."""
    replica = load("demo")
    lengths = (int(replica.input_tokens.median), int(replica.output_tokens.median))
    trace = arrivals(tmp_path, poisson(9000, 3.0), [lengths])
    answer = probe_in_virtual_time(replica, path, trace=trace)

    assert answer.outcome == "bracket"
    assert answer.knee.pass_rps is not None
    assert answer.knee.fail_rps is not None
    assert replica.truth_rps is not None
    assert 0.6 * replica.truth_rps < answer.knee.pass_rps < 1.1 * replica.truth_rps < 1.6 * answer.knee.fail_rps
    sent = [order for order in orders(path, "search") if order.offsets_s is not None]
    assert {order.parts for order in sent} == {(0,) * len(order.parts or ()) for order in sent}


IDS = [[0, at, 100 + at % 7] for at in range(20)]


def sharing(folder: Path, rate_rps: float = 5.0) -> TraceArrivals:
    """Requests of three blocks, of which each shares at least the first with all others. The bench's server counts 32 tokens for
    each, of which an endless cache can have one block of 16."""
    return load_arrivals(Asked(path=blocks_file(folder, poisson(4000, rate_rps), IDS), shares=True))


def test_each_repeat_has_the_blocks_of_its_stretch_and_its_own_plan(path: Path, tmp_path: Path) -> None:
    trace = sharing(tmp_path)
    workload = Workload(prefix=Prefix(kind="trace"))
    _, answer = played(path, trace, workload=workload, method=Method(rates_rps=(4.0,), repeats=2))

    assert answer.outcome == "at_least", answer
    sent = orders(path, "list")
    for order in sent:
        stretch = trace.stretch(order.segments, order.repeat, sent[0].segments)
        assert (order.offsets_s, order.shared) == (stretch.offsets_s, stretch.shared)
        assert order.shared is not None
        assert len(order.shared.of) == len(order.offsets_s or ())
    repeats = final_view(path).steps[0].repeats
    assert len(repeats) == 2
    assert all(repeat.planned_hit_frac is not None and 0.4 < repeat.planned_hit_frac < 0.5 for repeat in repeats)  # the first: none


def test_the_segments_of_a_held_rate_have_their_plans(path: Path, tmp_path: Path) -> None:
    trace = sharing(tmp_path)
    probe = trace.settled(replace(config(), workload=Workload(prefix=Prefix(kind="trace")), method=Method(hold_rps=4.0)))
    on_bench(path, stopped_at(1200.0), probe=probe, trace=trace)

    first, *later = final_view(path).steps[0].repeats
    assert first.planned_hit_frac is not None
    assert later
    assert {repeat.planned_hit_frac for repeat in later} == {0.5}


def test_the_ramp_and_single_requests_are_cold(path: Path, tmp_path: Path) -> None:
    trace = sharing(tmp_path)
    played(path, trace, workload=Workload(prefix=Prefix(kind="trace")))
    assert {order.shared for order in orders(path, "ramp", "single")} == {None}
    assert None not in {order.shared for order in orders(path, "search")}


async def test_a_run_of_the_embedded_replica_finds_what_was_planned(path: Path, tmp_path: Path) -> None:
    """Its counters show the hits of an endless cache, since its own keeps all of these blocks."""
    trace = load_arrivals(Asked(path=blocks_file(tmp_path, poisson(600, 5.0), IDS, output_tokens=4), shares=True))
    server, file = await process.start("chat"), RunLog(path)
    try:
        asked = ProbeConfig(
            target=Target(url=server.url),
            workload=Workload(prefix=Prefix(kind="trace")),
            slo=Slo(ttft_s=30.0, tpot_s=5.0, target=0.5),
            method=Method(rates_rps=(8.0,), measure_s=5.0),
        )
        async with asyncio.timeout(120.0):
            await Session(trace.settled(asked), file, trace=trace).run()
    finally:
        file.close()
        await server.stop()
    repeat = final_view(path).steps[0].repeats[0]
    assert repeat.planned_hit_frac is not None
    assert repeat.planned_hit_frac > 0.3
    assert repeat.prefix_hit_frac == pytest.approx(repeat.planned_hit_frac, abs=0.05)
