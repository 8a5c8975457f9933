"""A server whose queue of new connections is full: what that costs is the server's time, not lateness of the client's."""

import asyncio
import socket
import time

import pytest

from core.config import Slo, Target
from core.judge.tally import Tally
from core.load.transport.direct import STUCK_S
from core.records import RequestSent
from tests.core.judge.play import plan_of
from tests.core.load.calling import Caller, client_of
from tests.core.load.orders import order
from tests.core.load.server import WAIT_S, Server, whole


@pytest.mark.usefixtures("transport")
async def test_a_connection_that_is_not_taken_at_once_is_told_apart_from_a_late_send() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = [socket.create_connection(address)]  # Linux lets one more in than it was told
        client = client_of(Target(url=f"http://127.0.0.1:{address[1]}"))
        caller = Caller(client)
        began = time.monotonic()
        call = caller.start()
        await asyncio.sleep(0.2)  # its first SYN is dropped by now, and the next comes a second after it
        assert caller.told == []
        server = await asyncio.start_server(Server(whole).connected, sock=listener)
        try:
            async with asyncio.timeout(WAIT_S):
                await call
        finally:
            server.close()
            await client.aclose()
            for filler in fillers:
                filler.close()
    sent = caller.told[0]
    assert isinstance(sent, RequestSent)
    assert caller.last.ending == "ok"
    assert STUCK_S < sent.connect_s <= sent.t_sent - began


@pytest.mark.usefixtures("transport")
async def test_an_ordinary_connection_is_not_spoken_of() -> None:
    listener = await asyncio.start_server(Server(whole).connected, "127.0.0.1", 0)
    client = client_of(Target(url=f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"))
    try:
        caller = Caller(client)
        await caller.call()
    finally:
        listener.close()
        await client.aclose()
    sent = caller.told[0]
    assert isinstance(sent, RequestSent)
    assert sent.connect_s == 0.0


def test_only_what_is_the_clients_is_lateness() -> None:
    tally = Tally(order((10, 1.0)), plan_of([0.0, 0.1], [0, 0], 2), Slo())
    tally.sent(RequestSent(order=1, index=0, t_sched=0.0, t_sent=3.01, connect_s=3.0))
    tally.sent(RequestSent(order=1, index=1, t_sched=0.1, t_sent=0.102))
    assert tally.lateness_s.max is not None
    assert tally.lateness_s.max < 0.02
