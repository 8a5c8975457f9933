"""The quick search end to end in virtual time: real arrivals, real verdicts, simulated servers whose knee is known."""

from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from core.config import Lengths, Method, ProbeConfig, Slo, Target, Workload
from core.records import RepeatOrder, Segment
from core.replica.catalog import CATALOG
from core.results import Answer
from core.schedule import Plan, draw
from core.twin import Emitted
from core.workloads import parse_mix
from tests.core.judge.virtual import QUEUE_LENGTHS, VirtualRun, batching, lengths_of, one_at_a_time, probe_of


@pytest.mark.parametrize("name", ["chat", "rag", "kvlim", "slot"])
def test_the_knee_of_a_simulated_replica_is_found(name: str) -> None:
    replica = CATALOG[name]
    assert replica.truth_rps is not None
    answer = VirtualRun(probe_of(replica, seed=11), batching(replica)).answer()
    assert answer.outcome == "bracket"
    assert answer.knee.pass_rps is not None
    assert answer.knee.first_fail_rps is not None
    # One repeat errs by up to a fifth at the knee; a search that errs by more has a fault.
    assert answer.knee.pass_rps < 1.2 * replica.truth_rps
    assert answer.knee.first_fail_rps > 0.8 * replica.truth_rps
    assert answer.knee.first_fail_rps / answer.knee.pass_rps <= 2


def test_quick_judges_a_lower_rate_where_the_lowest_that_passed_may_be_above_the_knee() -> None:
    replica = CATALOG["demo"]
    run = VirtualRun(probe_of(replica, 100), batching(replica))
    knee = run.answer().knee
    rates_rps = [step.rate_rps for step in run.results if step.phase == "search" and step.verdict == "pass"]
    assert rates_rps == sorted(rates_rps, reverse=True)
    assert len(rates_rps) > 1
    assert knee.pass_rps == rates_rps[-1]
    assert replica.truth_rps is not None
    assert knee.upper_rps is not None
    assert knee.pass_rps < replica.truth_rps < knee.upper_rps


def test_standard_confirms_what_it_found() -> None:
    replica = CATALOG["rag"]
    run = VirtualRun(probe_of(replica, 11, Method(mode="standard")), batching(replica))
    answer = run.answer()
    knee = answer.knee
    assert answer.outcome == "bracket"
    assert replica.truth_rps is not None
    assert knee.pass_rps is not None
    assert knee.first_fail_rps is not None
    assert knee.upper_rps is not None
    assert knee.pass_repeats >= 2
    assert knee.pass_rps < 1.1 * replica.truth_rps
    assert knee.pass_rps < knee.upper_rps
    assert knee.upper_rps > 0.9 * replica.truth_rps
    windows = [repeat for step in run.results if step.phase in ("confirm", "tighten") for repeat in step.repeats]
    assert all(repeat.slo_margin is not None and repeat.work is not None for repeat in windows)
    assert {repeat.verdict for repeat in windows if repeat.slo_margin and (repeat.slo_margin.at_target or 9) > 1} == {"fail"}


def test_a_pass_on_a_short_warm_up_is_run_once_more() -> None:
    replica = CATALOG["chat"]
    runs = [VirtualRun(probe_of(replica, seed), batching(replica), redo=redo) for seed in range(3) for redo in (True, False)]
    for run in runs:
        run.answer()
    assert sum(run.redone for run in runs if run.redo) > 0
    assert sum(run.redone for run in runs if not run.redo) == 0


def test_the_queue_with_one_server_waits_as_long_as_it_should() -> None:
    """Pollaczek-Khinchine: at 10 requests/s the mean wait is rate * E[s^2] / (2 * (1 - load)) = 70.8 ms."""
    order = RepeatOrder(
        order=1,
        phase="search",
        step=1,
        repeat=0,
        seed=3,
        segments=(Segment(rate_rps=10.0, duration_s=5000.0, role="measured"),),
        start_at=0.0,
    )
    plan = draw(order, Workload(input_tokens=Lengths(median=8), output_tokens=lengths_of(QUEUE_LENGTHS)))
    starts = [event.t for event in one_at_a_time(plan) if event.first]
    assert float(np.mean(np.array(starts) - plan.offsets_s)) == pytest.approx(0.0708, rel=0.1)


def test_one_seed_gives_one_answer() -> None:
    replica = CATALOG["slot"]
    runs = [VirtualRun(probe_of(replica, seed), batching(replica)) for seed in (3, 3, 4)]
    answers = [run.answer() for run in runs]
    assert answers[0] == answers[1]
    assert runs[0].elapsed_s == runs[1].elapsed_s != runs[2].elapsed_s


def collapsing(plan: Plan) -> Iterator[Emitted]:
    """One server for 10 requests/s, which does only 6/s from a backlog of 60 on until it has worked it off."""
    now, overloaded = 0.0, False
    due = plan.offsets_s.tolist()
    arrived = 0
    for index, due_s in enumerate(due):
        now = max(now, due_s)
        while arrived < len(due) and due[arrived] <= now:
            arrived += 1
        backlog = arrived - index
        overloaded = backlog >= 60 or (overloaded and backlog > 1)
        now += 1 / 6 if overloaded else 1 / 10
        yield Emitted(now, [index], [index])


@pytest.mark.parametrize("seed", range(5))
def test_a_server_that_collapses_under_overload_is_judged_by_what_it_holds(seed: int) -> None:
    """In the long run it holds the limit up to 8.0 requests/s; it serves 6 in overload, and never 10 within the limit."""
    probe = ProbeConfig(
        target=Target(url="http://127.0.0.1:8000"),
        slo=Slo(ttft_s=0.8, tpot_s=None),
        workload=Workload(input_tokens=Lengths(median=8), output_tokens=Lengths(median=1)),
        method=Method(seed=seed),
    )
    answer = VirtualRun(probe, collapsing).answer()
    assert answer.outcome == "bracket"
    assert answer.knee.pass_rps is not None
    assert answer.knee.first_fail_rps is not None
    assert answer.knee.pass_rps <= 8.5
    assert answer.knee.first_fail_rps >= 7.5
    assert answer.knee.first_fail_rps / answer.knee.pass_rps <= 2 + 1e-9


def test_a_replica_holds_less_of_what_comes_in_bursts() -> None:
    """Over four searches each, of the same seeds: quick ones tell a rate only roughly (`tests/benchmarks/arrivals.py` has more)."""

    def held_rps(cv: float, seed: int) -> float:
        probe = probe_of(CATALOG["demo"], seed)
        workload = msgspec.structs.replace(probe.workload, arrival_cv=cv)
        answer = VirtualRun(msgspec.structs.replace(probe, workload=workload), batching(CATALOG["demo"])).answer()
        return answer.knee.pass_rps or 0.0

    even, poisson, bursty = (sum(held_rps(cv, seed) for seed in range(4)) for cv in (0.5, 1.0, 4.0))
    assert even >= poisson
    assert bursty < 0.8 * poisson


def test_a_kind_with_a_wider_limit_is_judged_by_it_from_the_single_requests_to_the_answer() -> None:
    """Documents of 4,000 tokens take 0.2 s alone, and are a quarter of all: with the limit of the chats nothing can hold."""
    rag = CATALOG["rag"]

    def found(limits: str) -> Answer:
        workload = Workload(mix=parse_mix(f"300:60=3,4000:60=1{limits}"))
        probe = msgspec.structs.replace(probe_of(rag, seed=11), slo=Slo(ttft_s=0.15, tpot_s=None), workload=workload)
        return VirtualRun(probe, batching(rag)).answer()

    assert found("").knee.pass_rps is None
    answer = found("@ttft=3s")
    assert answer.outcome == "bracket"
    assert answer.knee.pass_rps is not None
    assert answer.knee.pass_rps > 0.5


def test_limits_that_an_idle_server_misses_end_before_any_load() -> None:
    replica = CATALOG["slot"]
    probe = probe_of(replica, seed=11)
    strict = ProbeConfig(target=probe.target, slo=Slo(ttft_s=0.001), workload=probe.workload)
    run = VirtualRun(strict, batching(replica))
    assert run.answer().outcome == "infeasible"
    assert run.orders == 1
