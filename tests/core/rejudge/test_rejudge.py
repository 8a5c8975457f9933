"""A recorded run under other limits: the same limits give the run's own verdicts; others decide what its requests decide."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from msgspec.structs import replace

from core.config import Method, Slo
from core.errors import UserError
from core.facts import Fact, fact, says
from core.judge import Decision
from core.rejudge import Limits, Rejudged, rejudged
from core.replica.catalog import CATALOG
from core.report import rejudge_text
from core.results import RepeatResult, RepeatVerdict
from core.run import RepeatAgain, RunAgain, StepAgain, judged_again, read_run
from core.run.events import RepeatJudged
from tests.core.run.rejudge import RUNS, golden_path
from tests.core.run.simulated import probe_in_virtual_time

DEMO = next(run for run in RUNS if run.stem == "demo")
"""A quick search: 17.5 requests/s held, 24.7 failed in the ramp."""


def again(path: Path, **limits: Any) -> Rejudged:
    return rejudged(judged_again(read_run(path), Limits(**limits).of))


@lru_cache
def recorded(name: str, mode: str, seed: int = 11) -> Path:
    """A run of a simulated replica, made once in virtual time."""
    path = Path(mkdtemp()) / "run.jsonl"
    method = {"quick": Method(), "list": Method(rates_rps=(4.0, 40.0), repeats=2, measure_s=20.0)}[mode]
    probe_in_virtual_time(CATALOG[name], path, method=method, seed=seed)
    return path


SIMULATED = [("slot", "quick"), ("demo", "list")]


@pytest.mark.parametrize("run", RUNS, ids=lambda path: path.stem)
def test_the_same_limits_give_the_verdicts_of_a_recorded_run(run: Path) -> None:
    said = again(run)
    assert [rate.now for rate in said.rates] == [rate.then for rate in said.rates]
    assert [rate.rate_rps for rate in said.rates] == [rate.rate_then_rps for rate in said.rates]
    repeats = [each for rate in said.rates for each in rate.repeats]
    assert [each.now.verdict for each in repeats] == [each.then.verdict for each in repeats]
    assert all(each.now.attainment_interval == pytest.approx(each.then.attainment_interval) for each in repeats)
    assert said.knee.pass_rps == said.knee_then.pass_rps
    assert golden_path(run).exists()


@pytest.mark.parametrize(("name", "mode"), SIMULATED)
def test_the_same_limits_give_the_answer_of_a_new_run(name: str, mode: str) -> None:
    said = again(recorded(name, mode))
    assert [rate.now for rate in said.rates] == [rate.then for rate in said.rates]
    assert said.knee == said.knee_then
    assert said.undecided_rps == ()


@pytest.mark.parametrize(("name", "mode"), SIMULATED)
def test_limits_that_are_hardly_others_change_nothing(name: str, mode: str) -> None:
    """Not by comparing limits: the requests themselves say the same."""
    slo = read_slo(recorded(name, mode))
    nearly = {key: value * (1 + 1e-12) for key in ("ttft_s", "tpot_s", "e2e_s") if (value := getattr(slo, key)) is not None}
    said = again(recorded(name, mode), **nearly)
    assert [rate.now for rate in said.rates] == [rate.then for rate in said.rates]
    assert said.knee.pass_rps == said.knee_then.pass_rps


def read_slo(path: Path) -> Slo:
    return again(path).then


@pytest.mark.parametrize(("name", "mode"), SIMULATED)
def test_looser_limits_lose_no_pass_and_tighter_ones_win_none(name: str, mode: str) -> None:
    path = recorded(name, mode)
    slo = read_slo(path)
    limits = {key: value for key in ("ttft_s", "tpot_s", "e2e_s") if (value := getattr(slo, key)) is not None}
    for factor, order in ((4.0, ("fail", "mixed", "undecided", "pass")), (0.5, ("pass", "undecided", "mixed", "fail"))):
        for rate in again(path, **{key: factor * value for key, value in limits.items()}).rates:
            if rate.then in order:
                assert order.index(rate.now) >= order.index(rate.then) or rate.now == "undecided"


def test_load_that_was_cut_short_is_undecided_by_looser_limits() -> None:
    said = again(recorded("demo", "list"), ttft_s=600.0, tpot_s=60.0)
    low, high = said.rates
    assert (low.now, high.then, high.now) == ("pass", "fail", "undecided")
    assert high.floor_now is not None
    assert high.floor_now[0] < said.now.target <= high.floor_now[1]
    assert (said.knee.pass_rps, said.knee.fail_rps, said.undecided_rps) == (4.0, None, (40.0,))
    assert says(said.message, "again_not_decided")
    assert says(high.why, "again_undecided")
    assert "undecided" in rejudge_text(said)


def test_tighter_limits_below_all_rates_are_not_measured() -> None:
    said = again(DEMO, e2e_s=0.6, ttft_s="none", tpot_s="none")
    assert (said.outcome, said.knee.pass_rps) == ("below", None)
    ramp, search = said.rates
    assert (ramp.now, search.now) == ("fail", "fail")
    assert ramp.rate_rps < search.rate_rps < ramp.rate_then_rps  # the ramp failed earlier by these
    assert says(said.message, "again_bracket")


def test_limits_that_single_requests_miss_are_infeasible() -> None:
    said = again(DEMO, ttft_s=0.001)
    assert (said.outcome, said.knee.pass_rps) == ("infeasible", None)
    assert says(said.message, "again_infeasible", "singles_over_limits")


def test_a_looser_target_moves_the_lower_end_up_only_to_rates_that_were_sent() -> None:
    said = again(next(run for run in RUNS if run.stem.endswith("list")), target=0.01)
    assert said.knee.pass_rps in {rate.rate_rps for rate in said.rates}


def test_a_limit_may_be_taken_away_but_not_all_of_them() -> None:
    slo = Slo(ttft_s=0.8, tpot_s=0.05, e2e_s=None, default=True)
    assert Limits(tpot_s="none", target=0.99).of(slo) == Slo(ttft_s=0.8, tpot_s=None, target=0.99)
    assert Limits().of(slo) is slo
    with pytest.raises(UserError, match="no limit"):
        Limits(ttft_s="none", tpot_s="none").of(slo)
    with pytest.raises(UserError, match="--target"):
        Limits(target=0.0).of(slo)


# one rate, by its repeats

BASE = judged_again(read_run(DEMO), lambda slo: slo)
REPEAT = BASE.steps[-1].repeats[0].then
OPEN = fact("again_undecided", low_frac=0.4, high_frac=0.97, target=0.95, sent=1, planned=2)


def repeat(then: RepeatVerdict, now: RepeatVerdict | None) -> RepeatAgain:
    """A repeat with these verdicts; None: undecided now."""
    result: RepeatResult = replace(REPEAT, verdict=then)
    if now is None:
        return RepeatAgain(then=result, now=replace(REPEAT, verdict="unjudged", attainment_interval=(0.4, 0.97)), undecided=OPEN)
    return RepeatAgain(then=result, now=replace(REPEAT, verdict=now))


@pytest.mark.parametrize(
    ("repeats", "planned", "now", "code"),
    [
        ([("pass", "pass"), ("pass", "pass")], 2, "pass", "all_passed"),
        ([("pass", "pass"), ("fail", None)], 2, "undecided", "again_undecided"),
        ([("fail", "pass")], 2, "undecided", "again_few_repeats"),
        ([("fail", "pass")], 1, "pass", None),
        ([("pass", "fail"), ("pass", None)], 2, "fail", None),
        ([("fail", None), ("fail", "fail"), ("fail", "fail")], 3, "fail", None),
        ([("fail", None), ("fail", "fail"), ("pass", "pass"), ("pass", "pass")], 4, "undecided", "again_undecided"),
        ([("void", "void"), ("pass", "pass")], 1, "pass", None),
    ],
)
def test_a_rate_is_decided_if_its_verdict_is_whatever_the_undecided_repeats_were(
    repeats: Sequence[tuple[RepeatVerdict, RepeatVerdict | None]], planned: int, now: str, code: Any
) -> None:
    step = replace(BASE.steps[-1], repeats=tuple(repeat(*each) for each in repeats), planned=planned)
    (rate,) = rejudged(replace(BASE, steps=(step,))).rates
    assert rate.now == now
    assert code is None or says(rate.why, code)


def test_a_step_that_was_void_or_ended_by_the_user_stays_as_it_was() -> None:
    step: StepAgain = replace(BASE.steps[-1], then=replace(BASE.steps[-1].then, verdict="unjudged", reason=fact("user_ended")))
    run: RunAgain = replace(BASE, steps=(step,), limits=Slo(ttft_s=0.5))
    said = rejudged(run)
    assert (said.rates[0].now, said.knee.pass_rps, said.outcome) == ("unjudged", None, None)
    assert isinstance(said.message, Fact)
    assert said.message.code == "again_nothing"


def test_what_others_made_fail_fails_by_any_limits() -> None:
    """A rate that was given up because others suffered rests on no limit."""
    path = recorded("demo", "list")
    events = list(read_run(path))
    decision = Decision(kind="fail", reason=fact("backed_off", fact("undecided"), rate_rps=40.0))
    changed = [
        replace(event, result=replace(event.result, reason=decision.reason))
        if isinstance(event, RepeatJudged) and event.result.verdict == "fail"
        else event
        for event in events
    ]
    said = rejudged(judged_again(changed, Limits(ttft_s=600.0, tpot_s=60.0).of))
    assert [rate.now for rate in said.rates] == ["pass", "fail"]
