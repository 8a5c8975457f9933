"""The quick search end to end in virtual time: real arrivals, real verdicts, simulated servers whose knee is known."""

from collections.abc import Iterator

import numpy as np
import pytest

from core.config import Lengths, Method, ProbeConfig, Slo, Target, Workload
from core.records import RepeatOrder, Segment
from core.replica.catalog import CATALOG
from core.schedule import Plan, draw
from core.twin import Emitted
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


def test_standard_confirms_what_it_found() -> None:
    replica = CATALOG["rag"]
    run = VirtualRun(probe_of(replica, 11, Method(mode="standard")), batching(replica))
    answer = run.answer()
    knee = answer.knee
    assert answer.outcome == "bracket"
    assert replica.truth_rps is not None
    assert knee.pass_rps is not None
    assert knee.first_fail_rps is not None
    assert knee.clear_fail_rps is not None
    assert knee.pass_repeats == 3
    assert knee.pass_rps < 1.1 * replica.truth_rps
    assert knee.pass_rps < knee.first_fail_rps <= knee.clear_fail_rps
    assert knee.clear_fail_rps > 0.9 * replica.truth_rps


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
    assert answer.knee.first_fail_rps / answer.knee.pass_rps <= 1.42


def test_limits_that_an_idle_server_misses_end_before_any_load() -> None:
    replica = CATALOG["slot"]
    probe = probe_of(replica, seed=11)
    strict = ProbeConfig(target=probe.target, slo=Slo(ttft_s=0.001), workload=probe.workload)
    run = VirtualRun(strict, batching(replica))
    assert run.answer().outcome == "infeasible"
    assert run.orders == 1
