"""Whole runs behind a gateway's limit, in virtual time over real sockets: what the server sees, what is told, what is not asked."""

from pathlib import Path

import msgspec
import pytest

from core.config import ProbeConfig, Slo
from core.facts import fact, says
from core.records import RequestEnded, RequestHeld, RequestSent
from core.report import result, to_json, to_markdown, to_text
from core.results import RepeatResult
from core.run import read_run
from core.workloads import Gateway
from tests.core.load.server import Received
from tests.core.run.both_ways import same
from tests.faults.answers import Answer, whole
from tests.faults.runs import Ran, config, probe
from tests.faults.server import FaultServer

PREFLIGHT_REQUESTS = 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def capped(gateway: Gateway | None, *, retry_after: bool = False, slo: Slo | None = None, rate_rps: float = 6.0) -> ProbeConfig:
    asked = config(rates_rps=(rate_rps,), measure_s=15.0)
    workload = msgspec.structs.replace(asked.workload, gateway=gateway, retry_after=retry_after)
    return msgspec.structs.replace(asked, workload=workload, slo=slo or asked.slo)


def repeat_of(ran: Ran) -> RepeatResult:
    return ran.steps[-1].repeats[-1]


def most_open(ran: Ran) -> int:
    """The most requests that were open at the server at once, by the client's own times."""
    ends = [(event.t_end, -1) for event in ran.events(RequestEnded) if isinstance(event, RequestEnded) and event.t_sent is not None]
    sends = [(event.t_sent, 1) for event in ran.events(RequestSent) if isinstance(event, RequestSent)]
    open_ = most = 0
    for _, change in sorted([*ends, *sends]):
        open_ += change
        most = max(most, open_)
    return most


def test_a_limit_below_what_the_rate_needs_fails_it_and_is_named_as_the_cause(path: Path) -> None:
    """Six requests a second of 0.8 s each need five places: three serve 3.75 a second."""
    ran = probe(path, FaultServer, capped(Gateway(limit=3)))
    repeat = repeat_of(ran)
    assert ran.steps[-1].verdict == "fail"
    assert most_open(ran) == 3
    assert (repeat.errors, says(repeat.reason, "out_of_reach", "gateway_queue_rising", "overloaded_in_warmup")) == (0, True)
    assert ran.answer.diagnosis is not None
    assert ran.answer.diagnosis.cause == "gateway"
    assert fact("gateway_limit", limit=3, queue=None, timeout_s=None) in ran.noted
    assert ran.events(RequestHeld)
    late = [event for event in ran.events(RequestSent) if isinstance(event, RequestSent) and event.gateway_wait_s > 0.5]
    assert late
    assert repeat.lateness_s.p99 is not None
    assert repeat.lateness_s.p99 < 0.1, "the wait at the gateway is no lateness of the client"
    same(list(read_run(path)), 5)


def test_a_limit_with_room_holds_the_rate_and_tells_the_waits(path: Path) -> None:
    ran = probe(path, FaultServer, capped(Gateway(limit=7), slo=Slo(ttft_s=2.0, tpot_s=0.4)))
    repeat = repeat_of(ran)
    assert (ran.steps[-1].verdict, repeat.errors) == ("pass", 0)
    assert most_open(ran) <= 7
    use = repeat.gateway
    assert use is not None
    assert (use.limit, use.rejected, use.timed_out, use.held > 0) == (7, 0, 0, True)
    assert use.wait_s.max is not None
    assert repeat.ttft_s.max is not None
    assert 0 < use.wait_s.max < repeat.ttft_s.max

    data = result(ran.view, None)
    assert data["workload"]["gateway"] == {"limit": 7, "queue": None, "timeout_s": None}
    assert data["steps"][-1]["repeats"][-1]["gateway"]["held"] == use.held
    assert "NaN" not in to_json(ran.view, None)
    for text in (to_text(ran.view, None), to_markdown(ran.view, "")):
        assert "Waiting at the gateway, p50 / p95 / max at 6.00 requests/s" in text
        assert "gateway's limit of 7 open requests" in text


def test_what_the_queue_rejects_is_a_miss_and_voids_nothing(path: Path) -> None:
    ran = probe(path, FaultServer, capped(Gateway(limit=3, queue=0)))
    repeat = repeat_of(ran)
    use = repeat.gateway
    assert ran.steps[-1].verdict == "fail"
    assert use is not None
    assert (use.rejected > 0, use.held, repeat.errors, repeat.endings["rejected"]) == (True, 0, 0, use.rejected)
    assert ran.answer.outcome != "void"
    assert ran.answer.diagnosis is not None
    assert ran.answer.diagnosis.cause == "gateway"
    same(list(read_run(path)), 5)


def test_who_waits_for_too_long_is_turned_away(path: Path) -> None:
    ran = probe(path, FaultServer, capped(Gateway(limit=3, timeout_s=0.3)))
    use = repeat_of(ran).gateway
    assert use is not None
    assert (use.timed_out > 0, repeat_of(ran).errors) == (True, 0)
    assert use.wait_s.max is not None
    assert use.wait_s.max < 0.6


def busy(every: int) -> FaultServer:
    """A server that turns every so many requests away for half a second, once the checks are over."""

    def fault(server: FaultServer, request: Received) -> Answer | None:
        number = server.counts["/v1/completions"] - PREFLIGHT_REQUESTS
        return whole(b"", 429, "Retry-After: 0") if number > 0 and number % every == 0 else None

    return FaultServer(fault)


def test_a_429_that_says_when_is_asked_again_only_with_the_option(path: Path, tmp_path: Path) -> None:
    without = probe(path, lambda: busy(5), capped(None, rate_rps=3.0))
    assert (without.steps[-1].verdict, repeat_of(without).errors > 0, repeat_of(without).retried) == ("fail", True, 0)

    ran = probe(tmp_path / "again.jsonl", lambda: busy(5), capped(None, retry_after=True, rate_rps=3.0))
    repeat = repeat_of(ran)
    assert (ran.steps[-1].verdict, repeat.errors, repeat.retried > 0) == ("pass", 0, True)
    assert any(says(warning, "retried") for warning in repeat.warnings)


def test_the_run_file_gives_the_same_view_again(path: Path) -> None:
    ran = probe(path, FaultServer, capped(Gateway(limit=3, queue=2)))
    assert [step.verdict for step in ran.view.steps] == [step.verdict for step in ran.steps]
    offered = sum(point.offered_rps for point in ran.view.series)
    assert offered > 0
    assert all((point.in_flight or 0) <= 3 for point in ran.view.series)
    assert all((point.in_flight or 0) >= 0 for point in ran.view.series)
