"""Nothing stays of a request: collection is off while an order runs, so what only a collection would find is a leak."""

import asyncio
import gc

import httpx
import pytest

from core.config import Target
from core.load.sender import Job, LoadClient, _Exchange
from core.load.transport.connection import Connection
from core.load.transport.direct import DirectTransport
from core.load.transport.parsing import Answers
from core.load.transport.proxy import _Asking
from core.load.transport.response import Reply
from core.records import RequestFirst
from tests.core.load.asking import speaking_tls, trusting
from tests.core.load.calling import Caller, calling, raw
from tests.core.load.proxying import proxying
from tests.core.load.server import HEAD, Handler, answer, chunk, endless, serving, token, whole

CASES = {
    "ok": whole,
    "cut": raw(HEAD, chunk(token(count=1)), close=True),
    "http error": raw(answer(500, b"boom")),
    "no http": raw(b"no http", close=True),
    "broken on the way": raw(HEAD, chunk(token(count=1)), b"no chunk\r\n"),
    "two answers": raw(HEAD, b"0\r\n\r\n", HEAD),
    "an event too long": raw(HEAD, chunk(b"data: " + b"x" * 9_000_000), close=True),
    "cancelled": endless,
}


def left() -> list[object]:
    """What of requests is there, without the connections that wait for the next."""
    of_requests = [each for each in gc.get_objects() if isinstance(each, (_Exchange, Reply, Answers, Connection))]
    kept = [each for each in of_requests if isinstance(each, Connection) and each.is_open]
    return [each for each in of_requests if each not in (*kept, *(connection._answers for connection in kept))]


@pytest.mark.parametrize("handler", CASES.values(), ids=CASES.keys())
async def test_a_request_leaves_nothing_that_only_a_collection_would_find(handler: Handler) -> None:
    async with calling(handler) as (caller, _):
        gc.collect()
        gc.disable()
        try:
            request = caller.client.prepare(b"{}")
            job = Job(order=1, index=1, t_sched=0.0, asked_input=1, asked_output=1)
            task = asyncio.create_task(caller.client.send(job, request, caller.tell))
            del request
            if handler is endless:
                await caller.until(RequestFirst)
                assert left(), "the test sees what there is"
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            del task
            await asyncio.sleep(0.01)
            assert left() == []
        finally:
            gc.enable()


THROUGH_A_PROXY = {
    "tunnel": b"",
    "no proxy there": b"closed",
    "refused": b"HTTP/1.1 403 Forbidden\r\n\r\n",
    "no http": b"no http",
    "nothing": None,
    "no tls": b"HTTP/1.1 200 OK\r\n\r\n",
}


@pytest.mark.parametrize("said", THROUGH_A_PROXY.values(), ids=THROUGH_A_PROXY.keys())
async def test_a_tunnel_leaves_nothing_that_only_a_collection_would_find(said: bytes | None) -> None:
    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said or b"")

    def left_of_tunnels() -> list[object]:
        return [*left(), *(each for each in gc.get_objects() if isinstance(each, (_Asking, httpx.HTTPError)))]

    async with (
        serving(whole, tls=speaking_tls()) as server,
        proxying(answering=None if said == b"" else answering) as proxy,
    ):
        client = LoadClient(Target(url=server.url), None, DirectTransport(trusting(), proxy.on_the_way()))
        caller = Caller(client)
        await caller.call()
        if said == b"closed":
            proxy.close()
        gc.collect()
        gc.disable()
        try:
            before = len(left_of_tunnels())
            for _ in range(5):
                assert (await caller.call()).ending == ("ok" if said == b"" else "connection")
            await asyncio.sleep(0.01)
            assert len(left_of_tunnels()) <= before
        finally:
            gc.enable()
            await client.aclose()
