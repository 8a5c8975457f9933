"""Two repeats are compared without a model: where steps are no straight line of the batch, where they are uneven, where batches are
of other sizes."""

import math

import pytest

from core.records import RequestRecord
from core.run.alike import Batches, Bounds, batches_of, bounds, slower_for_certain
from core.run.drift import Drift, Speed
from core.twin import lives_of
from tests.core.run.uneven import SERVERS, UNEVEN, StepTime, played, straight, with_a_knee

EACH_SERVER = pytest.mark.parametrize("step_s", SERVERS, ids=lambda step_s: step_s.__name__)


def met(records: list[RequestRecord]) -> Batches:
    return batches_of(lives_of(records))


def hear(step_s: StepTime, *repeats: tuple[float, float], spread: float = 0.0) -> list[Speed]:
    """What is said of repeats at these (requests/s, factor)."""
    drift = Drift()
    return [
        drift.judged(played(step_s, rate_rps, at, factor, spread), rate_rps)
        for at, (rate_rps, factor) in enumerate(repeats, start=1)
    ]


def codes(heard: list[Speed]) -> list[str | None]:
    return [None if speed.change is None else speed.change.code.removesuffix("_unlike") for speed in heard]


@EACH_SERVER
@pytest.mark.parametrize("spread", [0.0, UNEVEN])
def test_a_steady_server_raises_no_alarm_at_very_different_rates(step_s: StepTime, spread: float) -> None:
    heard = hear(step_s, *((rate_rps, 1.0) for rate_rps in (1.5, 9.0, 3.0, 1.5, 6.0, 3.0)), spread=spread)

    assert codes(heard) == [None] * 6


@EACH_SERVER
@pytest.mark.parametrize("spread", [0.0, UNEVEN])
@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_half_the_speed_is_told_though_its_batches_overflow(step_s: StepTime, spread: float, factor: float) -> None:
    """At 3 requests/s the slower server has all its slots taken, and the faster one few of them."""
    heard = hear(step_s, (3.0, 1.0), (3.0, factor), (3.0, factor), (3.0, 1.0), spread=spread)

    assert codes(heard) == [None, "server_slower", None, "server_faster"]


def test_by_how_much_is_told_only_of_batches_that_were_alike() -> None:
    alike = hear(straight, (6.0, 1.0), (6.0, 2.0))[1].change
    unlike = hear(straight, (3.0, 1.0), (3.0, 4.0))[1].change

    assert alike is not None
    assert alike.code == "server_slower"
    assert alike.figures["factor"] == pytest.approx(2.0, abs=0.05)
    assert unlike is not None
    assert unlike.code == "server_slower_unlike"
    before_s, now_s = unlike.figures["before_step_s"], unlike.figures["step_s"]
    assert isinstance(before_s, float)
    assert isinstance(now_s, float)
    assert now_s > 4 * before_s, "the larger batch makes it slower still"


@EACH_SERVER
@pytest.mark.parametrize(("before", "now"), [((3.0, 1.0), (3.0, 1.4)), ((3.0, 1.0), (6.0, 1.0)), ((6.0, 1.5), (3.0, 1.0))])
def test_the_bounds_hold_the_factor(step_s: StepTime, before: tuple[float, float], now: tuple[float, float]) -> None:
    found = bounds(met(played(step_s, before[0], 1, before[1])), met(played(step_s, now[0], 2, now[1])))

    true = math.log(now[1] / before[1])
    assert found.least is not None or found.most is not None
    assert found.within(true) == pytest.approx(true, abs=0.03), f"not between {found.within(-9.0):.2f} and {found.within(9.0):.2f}"
    assert found.back().back() == found


def test_batches_far_apart_bound_one_side_alone() -> None:
    few, many = met(played(straight, 1.5, 1)), met(played(straight, 9.0, 2))

    assert bounds(few, many).least is None
    assert bounds(few, many).most is not None
    assert bounds(many, few).most is None


def test_nothing_is_known_of_no_requests() -> None:
    none, some = met([]), met(played(straight, 3.0, 1))

    assert bounds(none, some) == bounds(some, none) == Bounds(None, None)
    assert not slower_for_certain(none, some)
    assert not slower_for_certain(some, none)


def test_a_slower_server_at_a_higher_rate_may_only_have_larger_batches() -> None:
    """Nothing shows which, so nothing is said; at the rate of before it is."""
    assert codes(hear(with_a_knee, (1.5, 1.0), (9.0, 2.0))) == [None, None]
    assert codes(hear(with_a_knee, (1.5, 1.0), (9.0, 2.0), (1.5, 2.0))) == [None, None, "server_slower"]
