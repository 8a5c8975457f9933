"""What of a recorded run is drawn behind another one, and what is said of the two."""

import pytest
from msgspec.structs import replace

from core.compare import GhostFloor, Side, Step, beside, ghost_of
from core.config import Slo
from core.facts import says
from core.results import StepVerdict
from tests.core.compare.sides import asked, repeat, side, step

SLO = Slo(ttft_s=0.8, tpot_s=0.05, target=0.95)


def behind(**given: object) -> Side:
    return side(8.0, 10.0, asked=asked(max_error_rate=SLO.max_error_rate), **given)


def at(rate_rps: float, floor: tuple[float, float] | None, verdict: StepVerdict = "pass", phase: str = "list") -> Step:
    return replace(step(rate_rps, verdict, repeat()), floor=floor, phase=phase)


def test_the_last_floor_of_each_rate_is_drawn_but_of_ramps_and_where_nothing_is_known() -> None:
    steps = (
        at(10.0, (0.4, 0.8), "fail"),
        at(8.0, (0.5, 0.9), "fail"),
        at(8.0, (0.97, 1.0)),
        at(9.0, (0.0, 1.0), "fail"),
        at(7.0, None, "void"),
        at(16.0, (0.1, 0.2), "fail", phase="ramp"),
    )
    found = ghost_of(behind(steps=steps, label="old.jsonl"), SLO)
    assert found.floors == (
        GhostFloor(rate_rps=8.0, low=0.97, high=1.0, verdict="pass"),
        GhostFloor(rate_rps=10.0, low=0.4, high=0.8, verdict="fail"),
    )
    assert (found.label, found.pass_rps, found.fail_rps, found.other) == ("old.jsonl", 8.0, 10.0, None)


@pytest.mark.parametrize("other", [{"ttft_s": 3.0}, {"target": 0.99}, {"e2e_s": 9.0}])
def test_by_other_limits_a_floor_means_something_else_so_only_the_bracket_is_left(other: dict[str, float]) -> None:
    found = ghost_of(behind(steps=(at(8.0, (0.97, 1.0)),)), replace(SLO, **other))
    assert found.floors == ()
    assert (found.pass_rps, found.fail_rps) == (8.0, 10.0)
    assert found.other is not None
    assert found.other.code == "ghost_other_limits"
    assert says(found.told, "differs")


def test_until_there_is_an_answer_the_ghosts_bracket_is_told() -> None:
    told = ghost_of(behind(label="old.jsonl"), SLO).told
    assert (told.code, told.figures) == ("ghost_told", {"label": "old.jsonl", "pass_rps": 8.0, "fail_rps": 10.0})


def test_the_headline_is_that_of_a_comparison_with_the_ghost_as_a() -> None:
    said = beside(behind(label="old.jsonl"), side(12.0, 16.0, asked=behind().asked))
    assert (said.code, said.figures) == ("ghost_compared", {"label": "old.jsonl"})
    assert says(said, "compare_better")
    assert says(beside(behind(), side(12.0, 16.0)), "compare_refused"), "another error limit"
