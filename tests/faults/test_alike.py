"""Whole runs whose failures have one thing in common: it is said in the warnings, the conclusion and the advice."""

import asyncio
from pathlib import Path

import pytest

from core import prose
from core.config import Slo
from core.facts import Fact, says
from core.report import result, to_text
from core.results import RepeatResult
from core.run.session import Session
from tests.core.load.server import Received
from tests.faults.answers import EVENT_STREAM, JSON, Answer, tokens, whole
from tests.faults.runs import Ran, config, probe
from tests.faults.server import FaultServer, reset

AGE_S = 1.0
PREFLIGHT_REQUESTS = 5
SEARCH = config(slo=Slo(ttft_s=0.9, tpot_s=0.5))
TIMED_OUT = whole(b"upstream request timeout", 504, "Content-Type: text/plain")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


class Gateway(FaultServer):
    """Behind a gateway that ends every answer at one age; the more are served, the longer each takes."""

    def __init__(self) -> None:
        super().__init__(slots=64)
        self.ended = 0

    async def _serve(self, request: Received, prompt: int, n: int) -> bool | None:
        self._take(self.running)
        try:
            async with asyncio.timeout(AGE_S):
                return await super()._serve(request, prompt, n)
        except TimeoutError:
            self.ended += 1
            return await self._end(request)

    def _take(self, running: int) -> None:
        self.decode_s = 0.5 + 0.05 * running

    async def _end(self, request: Received) -> bool | None:
        reset(request)
        return True


class BeforeTheFirstByte(Gateway):
    """It has no token by then, and the gateway says so."""

    def _take(self, running: int) -> None:
        self.prefill_s, self.decode_s = 0.3 + 0.07 * running, 0.1

    async def _end(self, request: Received) -> bool | None:
        return await self.deliver(request, TIMED_OUT)


def alike_of(ran: Ran) -> list[tuple[RepeatResult, Fact]]:
    return [(repeat, alike) for step in ran.steps for repeat in step.repeats if (alike := repeat.failures_alike) is not None]


@pytest.mark.parametrize("server", [Gateway, BeforeTheFirstByte])
def test_a_gateway_that_cuts_every_answer_at_one_age_is_told_by_that_age(path: Path, server: type[Gateway]) -> None:
    ran = probe(path, server, SEARCH)
    found = alike_of(ran)
    assert ran.server.ended > 0  # type: ignore[attr-defined]
    assert {step.phase for step in ran.steps if any(repeat.failures_alike for repeat in step.repeats)} >= {"ramp"}
    for repeat, alike in found:
        assert alike.figures["n"] == alike.figures["errors"]
        assert alike.figures["age_s"] == pytest.approx(AGE_S, abs=0.06)
        assert alike.figures["moment_s"] is alike.figures["backend"] is None
        assert any(says(warning, "failures_alike") for warning in repeat.warnings)
    diagnosis = ran.answer.diagnosis
    assert diagnosis is not None
    assert diagnosis.cause == "failures"
    assert says(diagnosis.sentence, "failures_alike")
    assert isinstance(diagnosis.advice, Fact)
    assert diagnosis.advice.code == "common_cause"
    assert diagnosis.advice.figures["age_s"] == pytest.approx(AGE_S, abs=0.06)
    text = " ".join(to_text(ran.view, None).split())
    assert "came 1.00 s after the request" in text
    assert "Look for a time limit of 1.00 s" in text
    told = [repeat for step in result(ran.view, None)["steps"] for repeat in step["repeats"] if repeat["failures_alike"]]
    assert all(repeat["failures_alike_fact"]["code"] == "failures_alike" for repeat in told)
    assert len(told) == len(found)


def test_a_backend_that_fails_is_told_by_its_header(path: Path) -> None:
    """One of three says 500 once there is load; the gateway names each."""

    def fault(server: FaultServer, request: Received) -> Answer | None:
        number = server.counts["/v1/completions"]
        name = f"X-Served-By: pod-{number % 3}"
        if number % 3 == 1 and number > PREFLIGHT_REQUESTS:
            return whole(b'{"error":{"message":"CUDA error"}}', 500, JSON, name)
        prompt, n = len(request.json["prompt"]), request.json["max_tokens"]
        return Answer(pieces=tokens(n, first_s=0.05, gap_s=0.1, prompt=prompt), headers=(EVENT_STREAM, name))

    ran = probe(path, lambda: FaultServer(fault, slots=64), config(rates_rps=(6.0,), measure_s=20.0))
    ((_, alike),) = alike_of(ran)
    assert (alike.figures["backend"], alike.figures["backend_ok_frac"], alike.figures["age_s"]) == ("pod-1", 0.0, None)
    assert ran.answer.diagnosis is not None
    assert isinstance(ran.answer.diagnosis.advice, Fact)
    assert ran.answer.diagnosis.advice.figures["backend"] == "pod-1"


class Crashing(FaultServer):
    """Its process can end: whatever is open breaks at once, and a gateway has nobody to send the next ones to."""

    def __init__(self) -> None:
        super().__init__(slots=64)
        self._crashed = asyncio.Event()

    async def _serve(self, request: Received, prompt: int, n: int) -> bool | None:
        serving = asyncio.ensure_future(super()._serve(request, prompt, n))
        crashed = asyncio.ensure_future(self._crashed.wait())
        await asyncio.wait((serving, crashed), return_when=asyncio.FIRST_COMPLETED)
        crashed.cancel()
        if serving.done():
            return serving.result()
        serving.cancel()
        reset(request)
        return True

    async def crash(self) -> None:
        self._crashed.set()
        self._crashed = asyncio.Event()
        await self.restart(20.0, whole(b'{"error":{"message":"no healthy upstream"}}', 503, JSON))


def test_a_process_that_ends_breaks_all_at_one_moment_and_the_reason_says_so(path: Path) -> None:
    async def meddle(session: Session, server: FaultServer) -> None:
        assert isinstance(server, Crashing)
        while session.state.view(0.0).current is None or server.running < 6:  # noqa: ASYNC110 (virtual time)
            await asyncio.sleep(0.01)
        await server.crash()

    ran = probe(path, Crashing, config(rates_rps=(8.0,), measure_s=10.0), meddle=meddle)
    away, again = ran.steps
    assert (away.verdict, again.verdict) == ("void", "pass")
    assert isinstance(away.reason, Fact)
    assert away.reason.code == "server_away"
    (alike,) = away.reason.of
    assert isinstance(alike, Fact)
    assert (alike.figures["n"], alike.figures["age_s"]) == (6, None)
    assert alike.figures["moment_s"] == pytest.approx(0.0, abs=0.1)
    assert "6 of " in prose.text(away.reason)
