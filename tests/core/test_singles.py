"""What single requests on the idle server show of the limits."""

import pytest

from core.config import Slo
from core.facts import Fact, Figure, fact
from core.records import Ending, RequestRecord
from core.singles import NO_RATE, judged
from tests.core.server.fakes import record

IN_TIME = Slo(ttft_s=0.8, tpot_s=0.05)


def late(ttft_s: float) -> RequestRecord:
    return record(t_first=100 + ttft_s, t_last=101.27 + ttft_s)


def limits(found: Fact) -> tuple[Figure, ...]:
    """The limits that were missed."""
    return tuple(found.figures[f"{name}_limit_s"] for name in ("ttft", "tpot", "e2e"))


def test_limits_that_single_requests_meet() -> None:
    found = judged([record(), late(0.05), late(0.06)], IN_TIME, record())
    assert (found.code, found.figures["judged"], found.figures["slow_first_s"]) == ("singles_meet", 3, None)
    assert found.figures["ttft_s"] == pytest.approx([0.04, 0.05, 0.06])
    assert found.figures["tpot_s"] == pytest.approx([0.01] * 3)
    assert found.figures["e2e_s"] == pytest.approx([1.31, 1.32, 1.33])


def test_limits_that_all_three_miss_are_infeasible() -> None:
    found = judged([late(1.0), late(0.9), late(1.1)], IN_TIME)
    assert (found.code, found.figures["missed"], limits(found)) == ("all_singles_miss", 3, (0.8, None, None))
    assert found.figures["ttft_s"] == pytest.approx([1.0, 0.9, 1.1])
    assert found.code in NO_RATE


def test_two_of_three_that_miss_are_no_obstacle() -> None:
    found = judged([late(1.0), late(0.9), late(0.1)], IN_TIME)
    assert (found.code, found.figures["missed"], found.figures["judged"]) == ("some_singles_miss", 2, 3)
    assert found.code not in NO_RATE


def test_limits_missed_by_different_requests_are_infeasible_too() -> None:
    found = judged([late(1.0), record(t_last=109.0), late(0.9)], Slo(ttft_s=0.8, tpot_s=None, e2e_s=5.0))
    assert (found.code, limits(found)) == ("all_singles_miss", (0.8, None, 5.0))


def test_the_limit_itself_is_met() -> None:
    exact = record(t_sched=0.0, t_first=0.5, t_last=1.0)
    assert judged([exact] * 3, Slo(ttft_s=0.5, tpot_s=None)).code == "singles_meet"
    assert judged([exact] * 3, Slo(ttft_s=None, tpot_s=None, e2e_s=0.999)).code == "all_singles_miss"


def test_tpot_leaves_out_the_tokens_of_the_first_event() -> None:
    five = record(t_sched=0.0, t_first=1.0, t_last=2.0, first_tokens=8, output_tokens=128)
    assert judged([five] * 3, Slo(ttft_s=None, tpot_s=1 / 120)).code == "singles_meet"
    assert judged([five] * 3, Slo(ttft_s=None, tpot_s=1 / 121)).code == "all_singles_miss"


def test_tpot_of_one_event_is_undefined_and_no_miss() -> None:
    found = judged([record(first_tokens=128, t_last=100.04)] * 3, IN_TIME)
    assert (found.code, found.figures["tpot_s"]) == ("singles_meet", [])


def test_single_requests_that_fail_miss() -> None:
    failed = record(ending="http", status=500, error="engine died.", t_first=None, t_last=None)
    how = fact("request_broken_off", ending="http", status=500, said="engine died")
    assert judged([failed] * 3, IN_TIME) == fact("all_singles_fail", how, judged=3, endings={"http": 3})
    one = judged([record(), failed, record()], IN_TIME)
    assert (one.code, one.of, limits(one)) == ("some_singles_miss", (how,), (None, None, None))
    beside = judged([failed, late(1.0), late(1.0)], IN_TIME)
    assert (beside.code, beside.of, limits(beside)) == ("all_singles_miss", (how,), (0.8, None, None))


@pytest.mark.parametrize("ending", ["aborted", "client"])
def test_requests_that_we_gave_up_or_spoilt_tell_of_no_limit(ending: Ending) -> None:
    found = judged([late(1.0), late(1.0), record(ending=ending)], IN_TIME)
    assert found.code == "singles_spoilt"
    assert found.code not in NO_RATE
    assert judged([record(), late(1.0), record(ending=ending)], IN_TIME).code == "some_singles_miss"


def test_no_request_shows_nothing() -> None:
    assert judged([], IN_TIME) == fact("singles_missing", sent=0, wanted=3)


def test_a_slow_first_request_is_told_and_not_judged() -> None:
    found = judged([record()] * 3, IN_TIME, late(5.0))
    assert found.code == "singles_meet"
    assert found.figures["slow_first_s"] == pytest.approx(6.27)
