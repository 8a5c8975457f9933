"""A twin with a replica's own constants is the replica; with others it is off by as much as these are."""

import math
from functools import cache
from typing import Literal

import msgspec
import numpy as np
import pytest

from core.config import Lengths, Slo, SloByKind, Workload
from core.engine import Limits, StepModel
from core.replica.catalog import CATALOG
from core.schedule import Plan, draw
from core.slo import margin
from core.twin import MOST_SHIFT, Twin, fit
from core.twin.model import _long_plan
from core.workloads import parse_mix
from tests.core.judge.virtual import probe_of
from tests.core.twin.windows import Seen, limits_of, order_of, played, seen


def twin_of(name: str, faster: float = 1.0) -> Twin:
    """The replica itself, or one that is faster by this factor."""
    engine = CATALOG[name].engine
    steps = StepModel(
        a_s=engine.step_s / faster,
        b_s=engine.per_sequence_s / faster,
        c_s=engine.per_kv_token_s / faster,
        p_s=engine.per_prefill_token_s / faster,
        error_frac=0.0,
    )
    return Twin(steps, limits_of(engine))


def plan_of(name: str, rate_rps: float, seed: int = 5) -> Plan:
    return draw(order_of(rate_rps, seed, 1, 10.0, 30.0), probe_of(CATALOG[name], seed).workload)


@pytest.mark.parametrize(
    "slo",
    [
        Slo(ttft_s=0.8, tpot_s=0.05),
        Slo(ttft_s=None, tpot_s=0.02, e2e_s=3.0),
        Slo(ttft_s=0.2, tpot_s=None),
        "by kind",
    ],
)
def test_margins_are_those_of_the_records(slo: Slo | Literal["by kind"]) -> None:
    replica, drawn = CATALOG["chat"], plan_of("chat", 12.0)
    if slo == "by kind":  # every second request has limits of its own
        kinds = list(zip(drawn.input_tokens.tolist(), drawn.output_tokens.tolist(), strict=True))
        slo = SloByKind(ttft_s=0.8, tpot_s=0.05, kinds={kind: Slo(ttft_s=None, tpot_s=0.02, e2e_s=3.0) for kind in kinds[::2]})
    tally = played(replica, order_of(12.0, 5, 1, 10.0, 30.0), 5)
    margins = twin_of("chat").margins(plan_of("chat", 12.0), slo)
    ended = [record for record in tally.records if record.ending == "ok"]
    assert len(ended) > 300
    assert [margins[record.index] for record in ended] == [margin(record, slo) for record in ended]


def test_an_answer_of_one_token_has_no_tpot() -> None:
    plan = plan_of("chat", 2.0)
    single = Plan(plan.offsets_s, plan.segment, plan.input_tokens, np.ones_like(plan.output_tokens))
    assert twin_of("chat").margins(single, Slo(ttft_s=None, tpot_s=1e-9)).max() == 0.0


def test_a_window_has_the_figure_that_was_measured() -> None:
    replica = CATALOG["kvlim"]
    twin, slo = twin_of("kvlim"), probe_of(replica, 3).slo
    for window in seen(replica, 3, (0.7, 1.05), measure_s=40.0).windows:
        plan = draw(window.order, probe_of(replica, 3).workload)
        assert twin.figure(plan, (window.from_s, window.to_s), slo) == pytest.approx(window.x)


def test_a_window_without_requests_has_no_figure() -> None:
    with pytest.raises(ValueError, match="no request"):
        twin_of("chat").figure(plan_of("chat", 2.0), (1000.0, 1001.0), Slo())


def test_a_faster_twin_has_to_be_sped_up() -> None:
    """With costs of 1/1.1 it does at 1.1 of the rate the same in 1/1.1 of the time: to be as near to the limits it needs more."""
    replica = CATALOG["chat"]
    slo, (window,) = probe_of(replica, 3).slo, seen(replica, 3, (1.0,), measure_s=40.0).windows
    plan = draw(window.order, probe_of(replica, 3).workload)
    assert window.x is not None
    shifts = [twin_of("chat", f).shift(plan, (window.from_s, window.to_s), slo, window.x) for f in (1 / 1.1, 1.0, 1.1)]
    assert shifts == pytest.approx([-0.125, 0.0, 0.125], abs=0.03)
    assert twin_of("chat", 4.0).shift(plan, (window.from_s, window.to_s), slo, window.x) == MOST_SHIFT
    assert twin_of("chat", 0.25).shift(plan, (window.from_s, window.to_s), slo, window.x) == -MOST_SHIFT


@cache
def fitted(name: str) -> tuple[Seen, StepModel]:
    run = seen(CATALOG[name], 3, measure_s=60.0)
    steps = fit(run.records)
    assert steps is not None
    return run, steps


@pytest.mark.parametrize("name", ["demo", "chat", "kvlim"])
def test_the_knee_of_a_fitted_twin_is_the_replicas(name: str) -> None:
    replica = CATALOG[name]
    probe, twin = probe_of(replica, 3), Twin(fitted(name)[1], limits_of(replica.engine))
    assert replica.truth_rps is not None
    knee = twin.knee(probe.workload, probe.slo, 0.6 * replica.truth_rps, 24_000, seed=3)
    assert knee is not None
    assert knee.rate_rps == pytest.approx(replica.truth_rps, rel=0.05)
    assert 0.002 < knee.se_frac < 0.05


def test_the_knee_is_that_of_the_runs_own_arrivals() -> None:
    replica, twin = CATALOG["demo"], twin_of("demo")
    assert replica.truth_rps is not None
    workload, slo = probe_of(replica, 3).workload, probe_of(replica, 3).slo
    poisson, bursty, even = (
        twin.rough_knee(msgspec.structs.replace(workload, arrival_cv=cv), slo, 0.8 * replica.truth_rps, 24_000)
        for cv in (1.0, 2.0, 0.5)
    )
    assert poisson is not None
    assert bursty is not None
    assert even is not None
    assert bursty.rate_rps < 0.9 * poisson.rate_rps < poisson.rate_rps < even.rate_rps


def test_a_knee_far_away_is_none() -> None:
    probe = probe_of(CATALOG["chat"], 3)
    assert twin_of("chat").knee(probe.workload, probe.slo, 0.5, 3000) is None


def test_other_limits_move_the_knee() -> None:
    """As a run with these would: places are what `slot` is short of, blocks what `kvlim` is."""
    for name, field, factor in (("slot", "max_seqs", 2), ("kvlim", "kv_tokens", 2)):
        replica = CATALOG[name]
        probe, twin = probe_of(replica, 3), twin_of(name)
        more = msgspec.structs.replace(twin.limits, **{field: factor * getattr(twin.limits, field)})
        knees = [Twin(twin.steps, each).rough_knee(probe.workload, probe.slo, 4.0, 12_000) for each in (twin.limits, more)]
        assert knees[0] is not None
        assert knees[1] is not None
        assert knees[1].rate_rps > 1.2 * knees[0].rate_rps


def test_fewer_windows_pass_at_higher_rates() -> None:
    replica = CATALOG["chat"]
    probe = probe_of(replica, 3)
    assert replica.truth_rps is not None
    curve = twin_of("chat").pass_curve(probe.workload, probe.slo, replica.truth_rps, 8.0, 40.0, draws=6)
    shares = [share for _, share in curve]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.95
    assert shares[-1] < 0.05
    assert 0.2 < dict(curve)[0.0] < 0.95


def test_what_does_not_fit_into_the_cache_is_refused() -> None:
    steps = twin_of("chat").steps
    small = Twin(steps, Limits(max_seqs=8, max_batched_tokens=2048, kv_tokens=256))
    with pytest.raises(ValueError, match="KV cache"):
        small.figure(plan_of("chat", 2.0), (0.0, 30.0), Slo())


def test_without_a_known_cache_there_is_room_for_all() -> None:
    probe = probe_of(CATALOG["chat"], 3)
    unknown = Twin(twin_of("chat").steps, Limits(max_seqs=256, max_batched_tokens=2048))
    plan = plan_of("chat", 10.0)
    assert unknown.figure(plan, (10.0, 40.0), probe.slo) == twin_of("chat").figure(plan, (10.0, 40.0), probe.slo)


def test_the_same_length_for_all_has_a_knee_too() -> None:
    probe = probe_of(CATALOG["chat"], 3)
    fixed = msgspec.structs.replace(probe.workload, input_tokens=Lengths(median=512), output_tokens=Lengths(median=128))
    knee = twin_of("chat").knee(fixed, probe.slo, 10.0, 6000)
    assert knee is not None
    assert math.isfinite(knee.rate_rps)


def test_the_long_run_of_a_mix_keeps_its_kinds_and_their_shares() -> None:
    mix = Workload(mix=parse_mix("1024:128=3,4096:64=1"))
    plan = _long_plan(mix, 4000, 0)
    pairs = list(zip(plan.input_tokens.tolist(), plan.output_tokens.tolist(), strict=True))
    assert set(pairs) == {(1024, 128), (4096, 64)}
    assert pairs.count((4096, 64)) / len(pairs) == pytest.approx(0.25, abs=0.01)


def test_a_kind_with_a_wider_limit_raises_the_knee_of_its_mix() -> None:
    """Prompts of 4,000 tokens take 0.2 s alone: they miss 0.25 s long before the others miss anything."""
    twin, slo = twin_of("rag"), Slo(ttft_s=0.25, tpot_s=None)
    strict, own = (Workload(mix=parse_mix(f"500:50=3,4000:50=1{limits}")) for limits in ("", "@ttft=3s"))
    knees = [twin.rough_knee(workload, slo, 3.0, 6000) for workload in (strict, own)]
    assert knees[0] is not None
    assert knees[1] is not None
    assert knees[1].rate_rps > 1.1 * knees[0].rate_rps
