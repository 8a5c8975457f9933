"""What judged rates say of a fleet: the verdict, what it holds, who got more than a share, prefix hits, and a loss."""

from typing import Any

import pytest

from core.config import FleetPlan
from core.fleet_check import FleetCheck, checked, said
from core.results import Answer, Knee, Outcome, ReplicaUse, StepResult
from tests.builders import repeat, step

PLAN = FleetPlan(replicas=4, one_rps=10.0, load_at_peak=0.7, one_hit_frac=0.41)


def uses(*requests: float) -> tuple[ReplicaUse, ...]:
    return tuple(ReplicaUse(name=f"http://r{at}:8000", requests=n) for at, n in enumerate(requests))


def at(rate_rps: float, verdict: Any, phase: Any = "list", **repeats: Any) -> StepResult:
    judged: Any = "fail" if verdict == "mixed" else verdict
    return step(rate_rps, verdict, repeat(judged, **repeats), phase=phase, set_aside=phase == "lost")


def found(
    *steps: StepResult, outcome: Outcome = "bracket", holds: float | None = 33.0, fails: float | None = 40.0, plan: FleetPlan = PLAN
) -> FleetCheck:
    return checked(plan, Answer(outcome=outcome, message="", knee=Knee(pass_rps=holds, first_fail_rps=fails)), steps)


def test_the_rate_that_holds_is_held_against_what_the_replicas_could() -> None:
    check = found(at(28.0, "pass"), at(40.0, "fail"), at(33.0, "pass"))
    assert (check.verdict, check.planned, check.planned_rps, check.full_rps) == ("holds", "holds", 28.0, 40.0)
    assert (check.holds_rps, check.fails_rps, check.seen_rps) == (33.0, 40.0, 33.0)
    assert check.ratio == pytest.approx(0.825)
    fact = said(check)
    assert fact.code == "fleet_holds"
    assert {name: fact.figures[name] for name in ("replicas", "planned", "ratio")} == {
        "replicas": 4,
        "planned": "holds",
        "ratio": check.ratio,
    }


@pytest.mark.parametrize(("verdict", "is_"), [("pass", "holds"), ("fail", "fails"), ("mixed", "fails"), ("void", "not_known")])
def test_the_verdict_is_that_of_the_planned_load(verdict: str, is_: str) -> None:
    assert found(at(28.0, verdict)).verdict == is_


def test_without_an_answer_there_is_no_verdict_but_what_was_measured_stays() -> None:
    outcomes: tuple[Outcome, ...] = ("void", "refused", "interrupted")
    for outcome in outcomes:
        check = found(at(28.0, "pass"), outcome=outcome, holds=28.0, fails=None)
        assert (check.verdict, check.planned, check.holds_rps) == ("not_known", "holds", 28.0)


def test_single_requests_that_miss_the_limits_fail_any_load() -> None:
    check = found(outcome="infeasible", holds=None, fails=None)
    assert (check.verdict, check.seen_rps, check.ratio) == ("fails", None, None)


def test_where_nothing_held_the_gateway_is_looked_at_where_it_failed() -> None:
    check = found(at(28.0, "fail"), at(14.0, "fail", replicas=uses(10, 10, 10, 50)), outcome="below", holds=None, fails=14.0)
    assert said(check).code == "fleet_holds_none"
    assert (check.seen_rps, check.busiest, check.busiest_share) == (14.0, "http://r3:8000", 2.5)


def test_the_busiest_replica_is_that_of_all_windows_at_the_rate() -> None:
    twice = step(
        33.0, "pass", repeat("pass", replicas=uses(50, 30, 10, 10)), repeat("pass", replicas=uses(10, 50, 10, 30)), phase="list"
    )
    check = found(at(28.0, "pass", replicas=uses(1, 1, 1, 97)), twice)
    assert check.busiest == "http://r1:8000"
    assert check.busiest_share == pytest.approx(1.6)
    assert found(at(33.0, "pass", replicas=uses(0, 0, 0, 0))).busiest_share is None, "nobody told"
    assert found(at(33.0, "pass")).busiest_share is None


def test_prefix_hits_stand_beside_those_of_one_replica() -> None:
    check = found(at(33.0, "pass", prefix_hit_frac=0.12))
    assert (check.hit_frac, check.hit_frac_one) == (0.12, 0.41)
    cold = FleetPlan(replicas=4, one_rps=10.0)
    assert found(at(33.0, "pass", prefix_hit_frac=0.001), plan=cold).hit_frac is None


def test_a_loss_decides_where_the_planned_load_held() -> None:
    plan = FleetPlan(replicas=4, one_rps=10.0, lost=1)
    held, lost = at(28.0, "pass"), at(28.0, "fail", phase="lost")
    check = found(held, lost, plan=plan, holds=28.0, fails=None)
    assert (check.verdict, check.planned, check.after_loss, check.holds_rps) == ("fails", "holds", "fails", 28.0)
    assert found(held, at(28.0, "pass", phase="lost"), plan=plan).verdict == "holds"
    assert found(held, plan=plan).verdict == "not_known", "it was to be judged and was not"
    assert found(at(28.0, "fail"), plan=plan).after_loss is None, "it fails already with all of them"
