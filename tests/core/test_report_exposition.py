"""A run as metrics, parsed back: what is known has a sample, what is not has none, and a run that goes on has the same names."""

from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from core.records import Phase
from core.report import live_exposition, to_exposition
from core.results import StepVerdict
from core.run import Replay, read_run
from core.view import RunView
from tests.tui import knee_samples, mode_samples, samples

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Samples:
    """Every sample by its name and labels; each once, and all of ours."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in ("gauge", "counter")
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            assert sample.name.startswith("kneescope_")
            found[key] = sample.value
    return found


def of(found: Samples, name: str, **labels: str) -> list[float]:
    """The values of that name whose labels are these, among others."""
    return [
        value for (each, given), value in found.items() if each == f"kneescope_{name}" and labels.items() <= dict(given).items()
    ]


def recorded(share: float) -> RunView:
    run = Replay(read_run(Path("screenshots/demo.jsonl")))
    return run.view(run.length_s * share)


def test_a_run_has_its_bracket_its_fleet_and_its_time() -> None:
    view = knee_samples.finished()
    found = parsed(to_exposition(view))
    assert view.answer is not None
    knee = view.answer.knee
    assert of(found, "pass_rps") == [knee.pass_rps]
    assert of(found, "first_fail_rps") == [knee.first_fail_rps]
    assert of(found, "clear_fail_rps") == [knee.clear_fail_rps]
    assert of(found, "fail_rps") == [knee.fail_rps]
    assert of(found, "fleet_replicas", at="pass") == [7]
    assert of(found, "fleet_replicas", at="fail") == [6]
    assert of(found, "peak_rps") == [50]
    assert of(found, "target") == [0.95]
    assert of(found, "limit_seconds", latency="ttft") == [0.5]
    assert of(found, "limit_seconds", latency="e2e") == []
    assert of(found, "run_info", model="tiny", outcome="bracket", mode=str(view.config.method.mode if view.config else "")) == [1]
    (began,) = of(parsed(to_exposition(replace(view, started_utc="2026-01-01T00:00:00Z"))), "run_start_timestamp_seconds")
    assert began == 1767225600


def test_a_step_has_its_floor_and_latencies_by_rate() -> None:
    view = recorded(1.0)
    found = parsed(to_exposition(view))
    for step in view.steps:
        where = {"step": str(step.step), "phase": step.phase, "rate_rps": f"{step.rate_rps:.6g}"}
        assert of(found, "step_verdict", **where, verdict=step.verdict) == [1]
        assert step.floor is not None
        assert of(found, "floor", **where, bound="at_least") == [step.floor[0]]
        assert of(found, "floor", **where, bound="at_most") == [step.floor[1]]
        if step.phase == "ramp":
            assert of(found, "ttft_seconds", **where) == []  # of a ramp they are those of all its rates
        else:
            repeat = step.repeats[0]
            assert of(found, "ttft_seconds", **where, quantile="0.95") == [repeat.ttft_s.p95]
            assert of(found, "tpot_seconds", **where, quantile="0.5") == [repeat.tpot_s.p50]
            assert of(found, "attainment", **where, repeat="0", bound="at_least") == [repeat.attainment_interval[0]]
    assert {verdict: of(found, "steps", verdict=verdict) for verdict in get_args(StepVerdict)} == {
        "pass": [1],
        "fail": [1],
        "mixed": [0],
        "void": [0],
        "unjudged": [0],
    }


def test_what_was_set_aside_has_no_sample() -> None:
    run = Replay(read_run(Path("tests/data/runs/away.jsonl")))
    view = run.view(run.length_s)
    aside = {str(step.step) for step in view.steps if step.set_aside}
    assert aside
    assert not any(of(parsed(to_exposition(view)), "step_verdict", step=step) for step in aside)


@pytest.mark.parametrize(
    "view", [samples.nothing_yet(), samples.refused(), samples.preflight()], ids=["nothing", "refused", "checks"]
)
def test_what_is_not_known_has_no_sample(view: RunView) -> None:
    for found in (parsed(to_exposition(view)), parsed(live_exposition(view))):
        assert of(found, "pass_rps") == of(found, "fleet_replicas") == of(found, "floor") == []


def test_a_run_that_goes_on_tells_the_present() -> None:
    view = recorded(0.7)
    found = parsed(live_exposition(view))
    assert view.current is not None
    live = view.current.live
    assert live is not None
    assert of(found, "rate_rps") == [view.current.rate_rps]
    assert {phase: of(found, "phase", phase=phase) for phase in get_args(Phase)} == {
        phase: [float(phase == view.current.phase)] for phase in get_args(Phase)
    }
    assert of(found, "in_flight") == [live.in_flight]
    assert of(found, "current_lateness_seconds", quantile="0.99") == [live.lateness_p99_s]
    counts = {state: of(found, "current_requests", state=state) for state in ("planned", "sent", "good", "missed", "open")}
    bounds = live.bounds
    assert counts == {
        "planned": [bounds.planned],
        "sent": [bounds.sent],
        "good": [bounds.good],
        "missed": [bounds.bad],
        "open": [bounds.open],
    }
    floor = view.current.floor
    assert floor is not None
    assert [of(found, "current_floor", bound=bound)[0] for bound in ("at_least", "at_most")] == list(floor)
    assert of(found, "answered") == [0]


def test_counters_never_fall_while_a_run_goes_on() -> None:
    run = Replay(read_run(Path("tests/data/runs/away.jsonl")))
    before: Samples = {}
    for part in range(1, 21):
        found = {
            key: value
            for key, value in parsed(live_exposition(run.view(run.length_s * part / 20))).items()
            if key[0].endswith("_total")
        }
        assert len(found) == 3
        assert all(value >= before.get(key, 0) for key, value in found.items())
        before = found
    assert before["kneescope_requests_sent_total", frozenset()] > 400


def test_once_answered_it_has_all_that_the_report_has() -> None:
    view = recorded(1.0)
    live, over = parsed(live_exposition(view)), parsed(to_exposition(view))
    assert over.items() <= live.items()
    assert of(live, "answered") == [1]
    assert of(live, "rate_rps") == [0]


def test_void_repeats_are_counted() -> None:
    view = mode_samples.standard()
    found = parsed(live_exposition(view))
    voids = sum(repeat.verdict == "void" for step in view.steps if step.phase != "ramp" for repeat in step.repeats)
    assert of(found, "repeats", verdict="void") == [voids]


def test_a_hostile_name_stays_a_label() -> None:
    view = knee_samples.finished()
    assert view.server is not None
    name = 'a"} 1\nevil_metric 2\\'
    found = parsed(to_exposition(replace(view, server=replace(view.server, model=name))))
    assert of(found, "run_info", model=name) == [1]
