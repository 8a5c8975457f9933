"""The generator's test of itself: the server that it loads is a right one, and what it says follows from what was measured."""

import asyncio
import time

import httpx
import pytest

from core.load import selftest
from core.load.completion import AnswerReader
from core.load.nullserver import TTFT_S
from core.load.selftest import Rung
from core.load.sse import SseParser
from core.records import LoadDone, RequestEnded
from tests.core.load.server import WAIT_S


def rung(**given: float) -> Rung:
    figures = dict.fromkeys(Rung.__struct_fields__, 0.0) | {"rate_rps": 100.0, "chunks_per_s": 200.0, "sent": 300} | given
    return Rung(**figures)  # type: ignore[arg-type]


async def test_the_null_server_answers_as_a_server_does() -> None:
    async with asyncio.timeout(WAIT_S), selftest._null_server() as server, httpx.AsyncClient(trust_env=False) as client:
        for tokens in (1, 3):
            parser, reader = SseParser(), AnswerReader()
            async with client.stream("POST", server.url + "/v1/completions", json={"max_tokens": tokens}) as answer:
                assert answer.status_code == 200
                async for data in answer.aiter_raw():
                    reader.feed(parser.feed(data), time.monotonic())
            assert reader.end(orderly=True) == ("ok", None)
            assert (reader.output_tokens, reader.usage, reader.gaps.n) == (tokens, True, tokens - 1)
        assert await server.cpu_s() > 0


async def test_rungs_are_climbed_until_one_does_not_hold_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WARMUP_S": 0.05, "MEASURED_S": 0.2, "LEAD_S": 0.1, "LATE_S": 60.0}.items():
        monkeypatch.setattr(selftest, name, value)
    told: list[Rung] = []
    async with asyncio.timeout(WAIT_S):
        findings = await selftest.self_test(told.append, request_rates=(50.0, 100.0), chunk_rates=(1000.0,))
    assert [(r.rate_rps, r.chunks_per_s) for r in told] == [(50.0, 100.0), (100.0, 200.0), (10.0, 1000.0)]
    assert all(r.holds and r.ttft_error_p50_s > -0.001 for r in told)
    assert (findings.requests_per_s, findings.chunks_per_s, findings.children) == (100.0, 1000.0, 1)
    monkeypatch.setattr(selftest, "LATE_S", 0.0)
    told.clear()
    async with asyncio.timeout(WAIT_S):
        findings = await selftest.self_test(told.append, request_rates=(50.0, 100.0), chunk_rates=())
    assert [r.rate_rps for r in told] == [50.0, 50.0]
    assert findings.requests_per_s is None


@pytest.mark.parametrize(
    ("given", "holds"),
    [({}, True), ({"lateness_p99_s": 0.005}, False), ({"failed": 1}, False), ({"unsent": 1}, False), ({"sent": 0}, False)],
)
def test_what_holds(given: dict[str, float], holds: bool) -> None:
    assert rung(**given).holds is holds


def test_a_rung_has_the_percentiles_of_its_sends() -> None:
    order = selftest._order(1, 100.0)
    due = order.start_at + selftest.WARMUP_S
    ends = [
        RequestEnded(
            order=1,
            index=i,
            t_sched=due,
            t_sent=due + 0.001 * i,
            t_first=due + 0.001 * i + TTFT_S + 0.002 * i,
            t_end=due + 1.0,
            asked_input=1,
            asked_output=1,
            ending="ok",
        )
        for i in range(1, 101)
    ]
    done = LoadDone(order=1, t=due + 2.0, sent=100, unsent=0, cpu_frac=0.1, loop_lag_max_s=0.0)
    found = selftest._rung(order, 100.0, 2, ends, done, 0.1)
    seen = (found.lateness_p50_s, found.lateness_p99_s, found.ttft_error_p50_s, found.ttft_error_p99_s)
    assert list(seen) == pytest.approx([0.050, 0.099, 0.100, 0.198]), "never one rank higher"
