"""The constants of a step, fitted from the records of simulated replicas, whose constants are known."""

import math
import random
from collections.abc import Sequence

import msgspec
import pytest

from core.engine import EngineSpec, StepModel
from core.records import RequestRecord
from core.replica.catalog import CATALOG
from core.twin import fit
from tests.core.twin.windows import constants, seen


def off(model: StepModel, engine: EngineSpec) -> tuple[float, ...]:
    """How far each constant is off, as a share of the true one."""
    return tuple(abs(found / true - 1) for found, true in zip(four(model), four(constants(engine)), strict=True))


def four(model: StepModel) -> tuple[float, ...]:
    return model.a_s, model.b_s, model.c_s, model.p_s


@pytest.mark.parametrize(
    ("name", "a", "b", "c", "p"),
    [
        ("chat", 0.01, 0.10, 0.08, 0.02),
        ("kvlim", 0.02, 0.20, 0.20, 0.03),
        ("slot", 0.01, 0.02, 0.05, 0.01),
    ],
)
def test_the_constants_come_out(name: str, a: float, b: float, c: float, p: float) -> None:
    """Also b and c, which the tokens during each life alone mix up by .92 and .35."""
    model = fit(seen(CATALOG[name], 3, measure_s=60.0).records)
    assert model is not None
    assert all(found <= most for found, most in zip(off(model, CATALOG[name].engine), (a, b, c, p), strict=True))
    assert model.error_frac < 0.005


def test_what_hardly_counts_may_be_off_where_the_step_is_not() -> None:
    """KV tokens are 3 % of a step of `demo`; requests that are preempted there wait, too."""
    engine = CATALOG["demo"].engine
    model = fit(seen(CATALOG["demo"], 3, measure_s=40.0).records)
    assert model is not None
    assert [found < most for found, most in zip(off(model, engine), (0.03, 0.06, math.inf, 0.04), strict=True)] == [True] * 4
    for decoding in (4, 16, 24):
        batch = decoding, 150.0 * decoding, 40.0
        assert model.step_s(*batch) == pytest.approx(constants(engine).step_s(*batch), rel=0.02)


def jittered(records: Sequence[RequestRecord], by_s: float) -> list[RequestRecord]:
    """The same as seen through a network that delays each token by chance."""
    chance, moved = random.Random(5), []
    for record in records:
        if record.t_first is not None and record.t_last is not None:
            first = record.t_first + chance.expovariate(1 / by_s)
            last = max(first, record.t_last + chance.expovariate(1 / by_s))
            record = msgspec.structs.replace(record, t_first=first, t_last=last, t_end=max(last, record.t_end))
        moved.append(record)
    return moved


def test_a_client_that_sees_tokens_late_changes_little() -> None:
    records = seen(CATALOG["chat"], 3, measure_s=60.0).records
    model = fit(jittered(records, 0.003))
    assert model is not None
    assert max(off(model, CATALOG["chat"].engine)) < 0.1


def test_few_requests_tell_nothing() -> None:
    records = seen(CATALOG["slot"], 3, measure_s=60.0).records
    assert fit([]) is None
    assert fit(records[:100]) is None


def test_requests_without_tokens_or_with_few_do_not_count() -> None:
    records = list(seen(CATALOG["slot"], 3, measure_s=60.0).records)
    known = fit(records)
    lost = [
        msgspec.structs.replace(record, order=99, t_first=None, t_last=None, ending="connection", output_tokens=0)
        for record in records[:50]
    ]
    short = [msgspec.structs.replace(record, order=98, output_tokens=2, t_last=record.t_first) for record in records[:50]]
    assert fit(records + lost + short) == known


def test_cached_tokens_of_a_prompt_are_not_computed() -> None:
    """If half of each prompt had come from the cache, the other half took all that time."""
    records = seen(CATALOG["slot"], 3, measure_s=60.0).records
    known = fit(records)
    model = fit([msgspec.structs.replace(record, cached_tokens=record.asked_input // 2) for record in records])
    assert known is not None
    assert model is not None
    assert model.p_s == pytest.approx(2 * known.p_s, rel=0.01)
    assert model.c_s == pytest.approx(known.c_s, rel=0.05)
