"""A restart while nothing is sent is noticed, unless it was wanted or there is more than one process."""

from core.facts import Fact, fact
from core.records import EngineSample, ServerSample
from core.run.restarts import Restarts
from tests.core.run.events import sample


def row(t: float, *epochs: float) -> list[ServerSample]:
    return [sample(t + i, epoch=epoch, tokens=100.0 * epoch + t + i) for i, epoch in enumerate(epochs)]


def told(first: list[ServerSample], gap: list[ServerSample], second: list[ServerSample], *, ours: bool = False) -> Fact | None:
    """What is said after a second order at 4 requests/s, whose readings begin with the newest one of before."""
    restarts = Restarts()
    restarts.begin([], ours=False)
    assert restarts.ended(2.0, first) is None
    restarts.begin([*first, *gap], ours=ours)
    return restarts.ended(4.0, second)


def test_the_same_process_before_and_after_is_none() -> None:
    assert told(row(0, 1, 1), row(10, 1), row(20, 1, 1)) is None


def test_another_process_after_the_gap_is_a_restart() -> None:
    restarted = fact("restarted_between_steps", before_rps=2.0, rate_rps=4.0)
    assert told(row(0, 1, 1), row(10, 2), row(20, 2, 2)) == restarted
    assert told(row(0, 1, 1), [], row(20, 2, 2)) == restarted, "also when the reading before the order was too old to be kept"


def test_between_two_repeats_of_a_rate_it_is_said_so() -> None:
    restarts = Restarts()
    restarts.begin([], ours=False)
    restarts.ended(4.0, row(0, 1, 1))
    restarts.begin(row(0, 1, 1), ours=False)
    assert restarts.ended(4.0, row(20, 2, 2)) == fact("restarted_between_repeats", rate_rps=4.0)


def test_a_counter_that_fell_is_enough() -> None:
    first, second = [sample(0.0, tokens=500.0), sample(1.0, tokens=900.0)], [sample(20.0, tokens=10.0)]
    assert told(first, [], second) is not None


def test_one_that_was_wanted_is_no_news() -> None:
    assert told(row(0, 1, 1), row(10, 2), row(20, 2, 2), ours=True) is None


def test_one_during_an_order_is_told_elsewhere() -> None:
    assert told(row(0, 1, 2), row(10, 2), row(20, 2, 2)) is None
    assert told(row(0, 1, 1), row(10, 1), row(20, 1, 2)) is None


def test_several_processes_in_turn_are_none() -> None:
    assert told(row(0, 1, 2, 1), row(10, 2), row(20, 1, 2, 1)) is None
    assert told(row(0, 1, 1), row(10, 2, 1), row(20, 2, 2)) is None
    restarts = Restarts()
    for rate_rps, epochs in ((1.0, (1, 1)), (2.0, (2, 2))):
        restarts.begin([], ours=False)
        restarts.ended(rate_rps, row(10 * rate_rps, *epochs))
    restarts.begin(row(20, 2, 2), ours=False)
    assert restarts.ended(3.0, row(30, 1, 1)) is None, "a process that was seen before"


def test_what_was_forgotten_is_not_compared() -> None:
    restarts = Restarts()
    restarts.begin([], ours=False)
    restarts.ended(2.0, row(0, 1, 1))
    restarts.forget()
    restarts.begin(row(0, 1, 1), ours=False)
    assert restarts.ended(4.0, row(20, 2, 2)) is None


def test_replicas_that_changed_between_two_orders_are_named() -> None:
    def fleet(t: float, *names: str) -> list[ServerSample]:
        rows = tuple(EngineSample(name=name, running=0.0, requests_success_total=t, started=1.0) for name in names)
        return [ServerSample(t=t + i, took_s=0.0, by_engine=rows, by_replica=True) for i in range(4)]

    changed = fact("replicas_changed_between", "b:1", before_rps=2.0, rate_rps=4.0, before=2, after=1)
    assert told(fleet(0, "a:1", "b:1"), [], fleet(20, "a:1")) == changed
    assert told(fleet(0, "a:1", "b:1"), fleet(10, "a:1"), fleet(20, "a:1")) == changed
    assert told(fleet(0, "a:1", "b:1"), [], fleet(20, "a:1", "b:1")) is None
    during = [*fleet(0, "a:1", "b:1"), *fleet(5, "a:1")]
    assert told(during, [], fleet(20, "a:1")) is None, "that order was void, and said so"
