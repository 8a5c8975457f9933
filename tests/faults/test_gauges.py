"""Whole runs against servers whose gauges nobody refreshes, or that show none: neither is zero, and neither is now."""

from collections.abc import Callable
from pathlib import Path

import pytest

from core.facts import says
from core.records import RequestEnded, RequestSent
from core.run.events import RepeatStarted
from tests.builders import told
from tests.core.load.server import Received
from tests.faults.answers import Answer, whole
from tests.faults.runs import Ran, config, preflight, probe
from tests.faults.server import FaultServer
from tests.faults.test_servers import PREFLIGHT_REQUESTS, in_load

OVERLOAD = config(rates_rps=(8.0, 2.0), measure_s=10.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


class Stepping(FaultServer):
    """Sets its gauges with the steps of its engine, as vLLM does: requests that are all cut off at once stay on its page until the
    next one. `shown`: what an earlier load left."""

    def __init__(self, *, shown: tuple[int, int] = (0, 0), slots: int = 8) -> None:
        super().__init__(slots=slots)
        self.shown = shown

    async def _serve(self, request: Received, prompt: int, n: int) -> bool | None:
        gone = await super()._serve(request, prompt, n)
        if not gone:
            self.shown = (self.running - 1, self.waiting)
        return gone

    def exposition(self) -> str:
        real = self.running, self.waiting
        self.running, self.waiting = self.shown
        try:
            return super().exposition()
        finally:
            self.running, self.waiting = real


def without_gauges(server: FaultServer) -> str:
    rows = server.exposition().splitlines(keepends=True)
    return "".join(row for row in rows if not row.startswith(("vllm:num_requests", "vllm:kv_cache")))


def without_metrics(server: FaultServer) -> Answer:
    return whole(b"", 404)


def of_a_router(server: FaultServer) -> str:
    return f'vllm:num_requests_running{{server="http://a:8000"}} {server.running}\n'


def last_order(ran: Ran) -> int:
    return [event.order.order for event in ran.events(RepeatStarted) if isinstance(event, RepeatStarted)][-1]


@pytest.mark.parametrize("page", [without_gauges, without_metrics, of_a_router])
def test_a_step_begins_on_an_idle_server_also_where_no_gauge_shows_it(
    path: Path, page: Callable[[FaultServer], str | Answer]
) -> None:
    """The server goes on with requests whose client has gone, and nothing on its page is of them."""
    busy: list[int] = []

    def watch(server: FaultServer, request: Received, number: int) -> None:
        busy.append(server.running + server.waiting)

    def make() -> FaultServer:
        server = in_load(watch, keeps_cancelled=True, slots=4)()
        server.metrics = lambda t: page(server)
        return server

    ran = probe(path, make, OVERLOAD)
    assert [step.verdict for step in ran.steps] == ["fail", "pass"]
    sent = [event.order for event in ran.events(RequestSent) if isinstance(event, RequestSent)]
    assert max(busy) > 8
    assert busy[-sent.count(last_order(ran))] == 0
    assert not any(says(said, "idle_unknown", "work_unknown") for said in ran.noted)


@pytest.mark.parametrize("slots", [2, 4, 8])
def test_gauges_that_nobody_refreshes_cost_neither_a_wait_nor_the_next_step(path: Path, slots: int) -> None:
    ran = probe(path, lambda: Stepping(slots=slots), config(rates_rps=(2.5 * slots, 0.25 * slots), measure_s=20.0))
    assert [step.verdict for step in ran.steps] == ["fail", "pass"]
    assert not any(says(said, "not_settled") for said in ran.noted)
    first, *_, last = [event.order for event in ran.events(RepeatStarted) if isinstance(event, RepeatStarted) if event.order.step]
    ended = [event.t_end for event in ran.events(RequestEnded) if isinstance(event, RequestEnded) and event.order == first.order]
    assert last.start_at - max(ended) < 8
    assert isinstance(ran.server, Stepping)
    assert ran.server.shown == (0, 0), "the next run finds it idle"


def test_gauges_that_an_earlier_load_left_are_no_others(path: Path) -> None:
    checks, server = preflight(path, lambda: Stepping(shown=(106, 15)))
    assert (checks["traffic"].status, told(checks["traffic"].message, "gauges_refreshed").figures["others"]) == ("pass", 121.0)
    assert not [check for check in checks.values() if check.status == "refuse"]
    assert server.counts["/v1/completions"] == PREFLIGHT_REQUESTS


def test_counters_that_rise_beside_no_gauge_are_others(path: Path) -> None:
    def make() -> FaultServer:
        server = FaultServer()
        server.metrics = lambda t: _rising(server, t)
        return server

    checks, server = preflight(path, make)
    assert (checks["traffic"].status, says(checks["traffic"].message, "server_working")) == ("refuse", True)
    assert server.counts["/v1/completions"] == 0


def _rising(server: FaultServer, t: float) -> str:
    server.counts["generation_tokens"] = int(50 * t)
    return without_gauges(server)
