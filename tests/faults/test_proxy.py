"""Runs and single requests through a proxy, in virtual time: what it costs is seen, what it refuses is said before any load."""

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock
from urllib.parse import quote

import msgspec
import pytest

from core.access import Access
from core.config import Target
from core.load.sender import CONNECT_TIMEOUT_S, LoadClient
from core.load.transport.direct import DirectTransport
from core.records import RequestEnded, RequestSent
from core.run.log import RunLog
from core.run.session import Session
from tests.core.load.asking import speaking_tls, trusting
from tests.core.load.calling import Caller
from tests.core.load.proxying import LOGIN, PASSWORD, USER, ForwardProxy, Stream, proxying
from tests.core.load.server import Handler, serving, whole
from tests.faults.clock import virtually
from tests.faults.runs import Ran, _in_process, _scraper, config
from tests.faults.server import FaultServer

FAR = "192.0.2.7:8000"
"""An address for documentation (RFC 5737), which counts as near and is nobody's."""
SLOW_S = 2.0
SECRETS = (PASSWORD, quote(PASSWORD, safe=""), b64encode(f"{USER}:{PASSWORD}".encode()).decode(), "TESTSECRET")


@asynccontextmanager
async def running(path: Path, scheme: str, proxy: ForwardProxy) -> AsyncIterator[Session]:
    given = config(rates_rps=(4.0,), measure_s=15.0)
    target = msgspec.structs.replace(given.target, url=f"{scheme}://{FAR}", proxy=proxy.url.replace(LOGIN, ""), insecure=True)
    access = Access(api_key="sk-TESTSECRET", proxy=proxy.url)
    log = RunLog(path)
    try:
        yield Session(
            msgspec.structs.replace(given, target=target),
            log,
            access=access,
            start_load=_in_process,
            scraper=_scraper,
            clock=lambda: time.monotonic(),
        )
    finally:
        log.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_whole_run_goes_through_the_proxy_and_says_so_without_its_password(tmp_path: Path, scheme: str) -> None:
    path = tmp_path / "run.jsonl"

    async def work() -> tuple[Ran, list[list[str]], int]:
        faults = FaultServer()
        tls = speaking_tls() if scheme == "https" else None
        async with serving(faults, tls=tls) as server, proxying(leads_to=server.url) as proxy, running(path, scheme, proxy) as run:
            return Ran(await run.run(), path, faults), proxy.asked, server.connections

    ran, asked, connections = virtually(work)
    repeat = ran.steps[-1].repeats[-1]
    assert ran.steps[-1].verdict == "pass"
    assert repeat.endings["ok"] == repeat.sent > 30
    targets = {target for _, target in asked}
    if scheme == "https":
        assert targets == {FAR}
        assert len(asked) == connections < ran.server.counts["/v1/completions"]
    else:
        assert {f"http://{FAR}/v1/completions", f"http://{FAR}/metrics"} <= targets
    assert "Everything goes through the proxy http://127.0.0.1:" in " ".join(ran.said)
    assert not any(secret in path.read_text() for secret in SECRETS)


def test_a_proxy_that_wants_another_login_is_said_before_any_load(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 407 not {PASSWORD}\r\nContent-Length: 0\r\n\r\n".encode())

    async def work() -> tuple[Ran, list[list[str]]]:
        async with proxying(answering=answering) as proxy, running(path, "https", proxy) as run:
            return Ran(await run.run(), path, FaultServer()), proxy.asked

    ran, asked = virtually(work)
    assert ran.answer.outcome == "refused"
    assert "through the proxy: 407 not ***; give its address with user and password in a variable, --proxy env:NAME" in str(
        ran.said
    )
    assert {target for _, target in asked} == {FAR}
    assert not any(secret in path.read_text() for secret in SECRETS)


# --- single requests ------------------------------------------------------------------------------------------------


def called(handler: Handler, *, spare: int = 0, **options: object) -> tuple[RequestSent | None, RequestEnded, int]:
    """One request over https through a proxy; what was told, and how many connections to the proxy were closed by then."""

    async def work() -> tuple[RequestSent | None, RequestEnded, int]:
        async with serving(handler, tls=speaking_tls()) as server, proxying(**options) as proxy:  # type: ignore[arg-type]
            transport = DirectTransport(trusting(), proxy.on_the_way(), spare)
            client = LoadClient(Target(url=server.url), Access(proxy=proxy.url), transport)
            caller = Caller(client)
            await caller.start()
            if spare:
                await asyncio.sleep(1.0)
            closed = proxy.closed
            await client.aclose()
            sent = caller.told[0]
            return sent if isinstance(sent, RequestSent) else None, caller.last, closed

    return virtually(work)


def test_what_a_tunnel_takes_is_in_the_time_for_which_the_server_kept_a_request_waiting() -> None:
    open_at_once = ForwardProxy._open

    async def slow(self: ForwardProxy, authority: str) -> Stream:
        await asyncio.sleep(SLOW_S)
        return await open_at_once(self, authority)

    with mock.patch.object(ForwardProxy, "_open", slow):
        sent, ended, _ = called(whole)
    assert ended.ending == "ok"
    assert sent is not None
    assert ended.t_start is not None
    assert SLOW_S <= sent.connect_s <= sent.t_sent - ended.t_start


def test_a_proxy_that_never_answers_costs_the_connect_timeout_and_leaves_no_connection_behind() -> None:
    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    sent, ended, closed = called(whole, spare=4, answering=answering)
    assert (sent, ended.ending) == (None, "timeout")
    assert ended.t_start is not None
    assert ended.t_end - ended.t_start == pytest.approx(CONNECT_TIMEOUT_S, abs=0.1)
    assert closed == 4 + 1
