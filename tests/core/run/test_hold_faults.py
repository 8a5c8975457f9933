"""A held rate while something goes wrong: what is no verdict on the server is none, and what is one comes in the end."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.config import ProbeConfig, Slo
from core.facts import fact, says
from core.records import RepeatOrder, ServerSample
from core.results import StepResult
from core.run.events import RepeatStarted, StepJudged
from core.run.state import step_told
from core.slo import allowed_misses
from tests.core.run.bench import Bench, events_of, final_view, on_bench, stopped_at, to_the_end
from tests.core.run.fakes import CAPACITY_RPS, FakeServer, config
from tests.core.run.rejudge import judged_again

RATE_RPS = 4.0
pytestmark = pytest.mark.usefixtures("short_orders")


def held_orders(path: Path) -> list[RepeatOrder]:
    return [event.order for event in events_of(path, RepeatStarted) if event.order.phase == "hold"]


def steps(path: Path) -> list[StepResult]:
    return [event.result for event in events_of(path, StepJudged)]


def first_end(path: Path, probe: ProbeConfig) -> float:
    """When the first measured segment of such a run ends."""
    other = path.with_name("other.jsonl")
    on_bench(other, stopped_at(1020.0), probe=probe)
    (order,) = held_orders(other)
    first = [segment.role for segment in order.segments].index("measured")
    return order.start_at + sum(segment.duration_s for segment in order.segments[: first + 1])


def test_a_segment_that_ends_in_the_misses_of_a_frozen_server_is_not_judged(path: Path) -> None:
    """At its end each of its requests is good or has missed, and still nothing vouches for the misses."""
    probe = config(hold_rps=RATE_RPS, measure_s=30.0)
    end = first_end(path, probe)

    def freezes(bench: Bench) -> None:
        bench.server.frozen_at = end - 4.0

    _, answer = on_bench(path, stopped_at(end + 4.0), probe=probe, set_up=freezes)

    cut = steps(path)[0].repeats[0]
    assert cut.misses > allowed_misses(cut.planned, 0.95)
    assert (cut.verdict, answer.outcome) == ("unjudged", "held")
    again = judged_again(path)["steps"][0]["repeats"][0]
    assert (again["verdict"], again["misses"]) == (cut.verdict, cut.misses)


def test_segments_of_a_server_that_refuses_connections_but_is_there_fail(path: Path) -> None:
    """No sign of life will come, and none of death: after a while they are judged, and the next do not wait as long again."""

    def refuses(bench: Bench) -> None:
        bench.server.refuses_from, bench.server.serves_singles = 1030.0, True

    on_bench(path, stopped_at(1190.0), probe=config(hold_rps=RATE_RPS, measure_s=30.0), set_up=refuses)

    verdicts = [repeat.verdict for repeat in steps(path)[0].repeats]
    assert verdicts[:3] == ["fail"] * 3
    assert steps(path)[0].verdict == "fail"


class Busy(FakeServer):
    """Makes tokens for others, whatever becomes of ours."""

    def sample(self) -> ServerSample:
        ours = super().sample()
        return msgspec.structs.replace(ours, generation_tokens_total=50.0 * (ours.t - 1000.0))


def silent_from(t: float) -> Callable[[Bench], None]:
    def set_up(bench: Bench) -> None:
        bench.server.__class__ = Busy
        bench.generator.mute = (t, math.inf)

    return set_up


def many_open(**method: Any) -> ProbeConfig:
    """More requests are open at once than may miss, and they pass."""
    plain = config(measure_s=12.0, **method)
    return msgspec.structs.replace(plain, slo=Slo(ttft_s=8.0, tpot_s=0.06))


@pytest.mark.parametrize("stopped", [1031.5, 1033.0, 1036.0, 1045.0, 1200.0])
def test_what_ages_while_the_load_generator_is_silent_is_no_miss_of_the_server(path: Path, stopped: float) -> None:
    _, answer = on_bench(path, stopped_at(stopped), probe=many_open(hold_rps=0.95 * CAPACITY_RPS), set_up=silent_from(1030.0))

    verdicts = [repeat.verdict for repeat in steps(path)[0].repeats]
    assert set(verdicts) == {"pass", "unjudged"} if stopped < 1050 else {"pass"}
    assert (answer.outcome, says(answer.message, "client_mute")) == (("held", False) if stopped < 1050 else ("void", True))


def test_neither_is_it_one_of_a_step(path: Path) -> None:
    _, answer = on_bench(path, to_the_end, probe=many_open(rates_rps=(0.95 * CAPACITY_RPS,)), set_up=silent_from(1014.0))

    assert answer.message == fact("client_mute", silent_s=20.0)
    assert (answer.outcome, answer.knee.first_fail_rps, steps(path)[0].verdict) == ("void", None, "unjudged")


def test_an_error_of_our_own_leaves_a_segment_unjudged_and_is_no_matter_of_course(path: Path) -> None:
    def breaks(bench: Bench) -> None:
        bench.scraper.fails_at = 1035.0

    with pytest.raises(RuntimeError):
        on_bench(path, stopped_at(1100.0), probe=config(hold_rps=RATE_RPS, measure_s=30.0), set_up=breaks)

    (held,) = steps(path)
    assert held.reason == fact("broken_off", fact("no_segment_judged"))
    assert [line.level for line in final_view(path).lines if line.text == step_told(held)] == ["warn"]
