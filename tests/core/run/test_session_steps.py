"""Whole runs of several repeats: when a step ends, a warm-up that was too short, required rates, the expected time."""

from pathlib import Path
from typing import Any

import pytest

from core import modes
from core.config import Workload
from core.facts import fact, says
from core.records import LoadDone, RepeatOrder
from core.run import log as runs
from core.run.events import LoadStateChanged, Note, RepeatJudged, RepeatStarted, StepJudged, StepStarted
from core.run.state import State
from core.workloads import parse_mix
from tests.builders import asked_step
from tests.core.run.bench import Bench, Scripted, events_of, final_view, on_bench, scripted, stopped_at, to_the_end
from tests.core.run.fakes import SERVICE_S, TOKENS, config


def verdicts(path: Path) -> list[tuple[int, str]]:
    return [(event.result.index, event.result.verdict) for event in events_of(path, RepeatJudged)]


@pytest.mark.parametrize(
    ("rate_rps", "stop", "expected"),
    [
        (4.0, "first_fail", ["pass"] * 3),
        (20.0, "first_fail", ["fail"]),
        (20.0, "majority", ["fail"] * 2),
        (4.0, "majority", ["pass"] * 2),
    ],
)
def test_a_step_ends_as_soon_as_it_is_clear(path: Path, rate_rps: float, stop: str, expected: list[str]) -> None:
    on_bench(path, to_the_end, set_up=scripted(asked_step(rate_rps, 3, stop=stop)))

    assert verdicts(path) == list(enumerate(expected))
    result = events_of(path, StepJudged)[0].result
    assert result.verdict == expected[0]
    assert result.floor is not None
    assert result.floor[0] == min(repeat.attainment_interval[0] for repeat in result.repeats)
    assert events_of(path, StepStarted)[0].repeats == 3
    assert len({event.order.start_at for event in events_of(path, RepeatStarted) if event.order.phase == "confirm"}) == len(
        expected
    )


def test_each_void_repeat_of_a_step_is_done_again_once(path: Path) -> None:
    seen: list[int] = []

    def late_s(order: RepeatOrder) -> float:
        if order.phase != "confirm":
            return 0.0
        seen.append(order.repeat)
        return 2.0 if seen.count(order.repeat) == 1 and order.repeat in (0, 2) else 0.0

    def set_up(bench: Bench) -> None:
        bench.generator.late_s = late_s
        scripted(asked_step(4.0, 3))(bench)

    _, answer = on_bench(path, to_the_end, set_up=set_up)

    assert answer.outcome == "bracket"
    assert verdicts(path) == [(0, "void"), (0, "pass"), (1, "pass"), (2, "void"), (2, "pass")]
    assert events_of(path, StepJudged)[0].result.verdict == "pass"


def test_a_pass_after_a_short_warmup_is_done_again_with_a_longer_one(path: Path) -> None:
    bench, _ = on_bench(path, to_the_end, set_up=scripted(asked_step(4.0, 2, warmup_s=1.0)))

    assert verdicts(path) == [(0, "unjudged"), (0, "pass"), (1, "pass")]
    result = events_of(path, StepJudged)[0].result
    first, second, third = result.repeats
    assert first.warmup_needed_s is not None
    assert 2 * SERVICE_S <= first.warmup_needed_s < modes.SHORTEST_WARMUP_S
    assert second.warmup_s == third.warmup_s == modes.SHORTEST_WARMUP_S
    assert second.measure_s == first.measure_s
    assert result.verdict == "pass"
    assert result.floor == (min(second.attainment or 0, third.attainment or 0),) * 2
    notes = [note.text for note in events_of(path, Note) if says(note.text, "warmup_again")]
    assert notes == [fact("warmup_again", first.reason, rate_rps=4.0)]
    search = bench.session._search
    assert isinstance(search, Scripted)
    assert search.seen[0][1] == third.e2e_s.mean


def test_a_run_that_is_stopped_promises_no_further_repeat(path: Path) -> None:
    other = path.with_name("other.jsonl")
    on_bench(other, to_the_end, set_up=scripted(asked_step(4.0, 2, warmup_s=1.0)))
    judged_at, repeat = next((event.t, event.result.order) for event in events_of(other, RepeatJudged))
    done_at = next(event.t for event in events_of(other, LoadDone) if event.order == repeat)
    on_bench(path, stopped_at((done_at + judged_at) / 2), set_up=scripted(asked_step(4.0, 2, warmup_s=1.0)))

    assert verdicts(path) == [(0, "unjudged")]
    judged = events_of(path, RepeatJudged)[0].result
    assert judged.reason == fact("warmup_short", warmup_s=1.0, needed_s=judged.warmup_needed_s)
    assert not [note for note in events_of(path, Note) if says(note.text, "warmup_again")]


def test_a_fail_after_a_short_warmup_stands(path: Path) -> None:
    on_bench(path, to_the_end, set_up=scripted(asked_step(20.0, 2, warmup_s=1.0)))

    assert verdicts(path) == [(0, "fail")]


def test_what_is_done_again_is_not_in_the_running_floor(path: Path) -> None:
    on_bench(path, to_the_end, set_up=scripted(asked_step(4.0, 2, warmup_s=1.0)))

    state, finished = State(), []
    for event in runs.read_run(path):
        state.apply(event)
        if isinstance(event, RepeatJudged):
            current = state.view(event.t).current
            assert current is not None
            finished.append(len(current.finished))
    assert finished == [0, 1, 2]


def test_the_expected_time_is_said_before_load_starts(path: Path) -> None:
    on_bench(path, to_the_end)

    events = list(runs.read_run(path))
    note = next(i for i, event in enumerate(events) if isinstance(event, Note))
    load = next(i for i, event in enumerate(events) if isinstance(event, LoadStateChanged))
    assert note < load
    text = events[note]
    assert isinstance(text, Note)
    assert says(text.text, "time_announced")
    assert says(text.text, "time_expected")


@pytest.mark.parametrize(("required_rps", "met"), [(4.0, True), (30.0, False)])
def test_whether_the_required_rate_was_met(path: Path, required_rps: float, met: bool) -> None:
    _, answer = on_bench(path, to_the_end, probe=config(rates_rps=(required_rps,), require_rps=required_rps))

    assert answer.required_met is met
    assert final_view(path).answer == answer


def test_without_a_required_rate_nothing_is_said_of_one(path: Path) -> None:
    _, answer = on_bench(path, to_the_end)

    assert answer.required_met is None


def test_a_list_is_judged_and_nothing_else(path: Path) -> None:
    on_bench(path, to_the_end, probe=config(rates_rps=(3.0, 6.0, 20.0)))

    steps = [event.result for event in events_of(path, StepJudged)]
    assert {step.phase for step in steps} == {"list"}
    assert {step.rate_rps: step.verdict for step in steps} == {3.0: "pass", 6.0: "pass", 20.0: "fail"}


def test_acceptance_is_strict_about_few_requests(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of a handful of requests, in which the target allows no miss, is void there."""
    tiny = asked_step(0.3, 1)
    _, answer = on_bench(path, to_the_end, probe=config(mode="acceptance"), set_up=scripted(tiny))
    assert answer.outcome == "void"

    quick = path.with_name("quick.jsonl")
    _, answer = on_bench(quick, to_the_end, set_up=scripted(tiny))
    assert answer.outcome == "bracket"


@pytest.mark.parametrize(
    "method", [{"rates_rps": (2.0, 12.0)}, {"hold_rps": 6.0, "measure_s": 30.0}], ids=["a list", "a held rate"]
)
@pytest.mark.usefixtures("short_orders")
def test_what_a_rate_needs_is_ready_before_it_begins(path: Path, method: dict[str, Any]) -> None:
    """However far it is above what was sent before, and however long more processes take to come up."""

    def slow(bench: Bench) -> None:
        bench.generator.plan_takes_s = 2.0

    bench, _ = on_bench(path, stopped_at(1160.0), probe=config(**method), set_up=slow)
    sender = bench.generator
    peaks_rps = [max(segment.rate_rps for segment in order.segments) for order in sender.orders if order.segments]
    assert sender.planned_rps == peaks_rps
    assert len(peaks_rps) >= 1
    assert all(lead_s > 0.2 for lead_s in sender.leads_s)


def test_all_repeats_of_a_run_are_told_apart_by_the_buckets_of_its_workload(path: Path) -> None:
    """Ten lengths, the longest of which hardly any window has: a window by itself would have each of its lengths apart."""
    mix = parse_mix(",".join(f"{tokens}:{TOKENS}" for tokens in range(16, 24)) + f",64:{TOKENS}=0.1,600:{TOKENS}=0.01")
    on_bench(path, to_the_end, set_up=scripted(asked_step(4.0, 3, stop="majority")), probe=config(workload=Workload(mix=mix)))

    repeats = events_of(path, StepJudged)[0].result.repeats
    known = {(16, 31), (64, 127), (512, 600)}
    assert {bucket.input for repeat in repeats for bucket in repeat.buckets} <= known
    assert all(repeat.buckets[0].input == (16, 31) for repeat in repeats)
    assert all(sum(bucket.n for bucket in repeat.buckets) == repeat.planned for repeat in repeats)
    assert all(sum(n for *_, n in repeat.sizes) == repeat.succeeded for repeat in repeats)
