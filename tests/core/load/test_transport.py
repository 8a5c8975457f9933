"""Connections: made without limit, kept, replaced when dead, closed when cancelled, and their faults named."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohappyeyeballs
import httpx
import pytest

from core.config import Target
from core.load import sender as client_module
from core.load.sender import LoadClient
from core.records import RequestEnded, RequestFirst, RequestSent
from tests.core.load.calling import Caller, Message, calling, client_of, end_of, raw
from tests.core.load.server import WAIT_S, WHOLE, Handler, Received, endless, serving, whole

pytestmark = pytest.mark.usefixtures("transport")


async def test_a_refused_connection() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        client = client_of(Target(url=f"http://127.0.0.1:{free.getsockname()[1]}"))
        caller = Caller(client)
        ended = await caller.call()
        await client.aclose()
    assert ended.ending == "connection"
    assert (ended.t_sent, ended.status) == (None, None)
    assert ended.error is not None
    assert len(caller.told) == 1


async def test_a_name_that_does_not_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    client = client_of(Target(url="http://nowhere.invalid"))
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
        ended = await Caller(client).call()
    await client.aclose()
    assert ended.ending == "connection"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL])
async def test_running_out_of_files_or_ports_is_the_clients_own_fault(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def no_socket(**_: object) -> None:
        raise OSError(number, "no more")

    async with calling(whole) as (caller, _):
        with monkeypatch.context() as patch:
            patch.setattr("aiohappyeyeballs.impl.socket.socket", no_socket)
            ended = await caller.call()
    assert (ended.ending, ended.t_sent) == ("client", None)


async def test_a_connect_that_hangs_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(client_module, "CONNECT_TIMEOUT_S", 0.01)
    async with calling(whole) as (caller, _):
        with monkeypatch.context() as patch:
            patch.setattr(aiohappyeyeballs, "start_connection", hang)
            ended = await caller.call()
    assert (ended.ending, ended.t_sent) == ("timeout", None)


async def test_a_server_that_breaks_off_before_its_answer() -> None:
    async def handler(request: Received) -> bool:
        request.reset()
        return True

    async with calling(handler) as (caller, server):
        assert (await caller.call()).ending == "connection"
        assert len(server.received) == 1, "a fresh connection that dies is not tried again: the request may have been taken"


async def test_an_answer_that_is_not_http() -> None:
    assert (await end_of(raw(b"SSH-2.0-OpenSSH\r\n\r\n", close=True))).ending == "connection"


async def test_bytes_that_no_text_has_in_a_head_are_an_error_like_any_other(transport: str) -> None:
    ended = await end_of(raw(b"HTTP/1.1 500 \xff\xfe\x80\r\nContent-Length: 0\r\n\r\n"))
    assert ended.ending == ("http" if transport == "own" else "connection")


async def test_answers_read_to_their_end_leave_the_connection_for_the_next() -> None:
    async with calling(whole) as (caller, server):
        for _ in range(5):
            assert (await caller.call()).ending == "ok"
        assert (server.connections, len(server.received)) == (1, 5)


def dying_when_reused(last_bytes: bytes = b"", *, forever: bool = False, reset: bool = False) -> Handler:
    """Answers the first request of a connection; on the second it closes it, as a server does with one idle too long."""
    seen: set[int] = set()

    async def handle(request: Received) -> bool:
        if request.connection in seen or (forever and seen):
            await request.write(last_bytes)
            if reset:
                request.reset()
            return True
        seen.add(request.connection)
        await whole(request)
        return False

    return handle


@pytest.mark.parametrize("reset", [False, True])
async def test_a_reused_connection_that_dies_is_replaced_once(reset: bool) -> None:
    async with calling(dying_when_reused(reset=reset)) as (caller, server):
        await caller.call()
        caller.told.clear()
        ended = await caller.call()
        assert (ended.ending, ended.output_tokens) == ("ok", 2)
        assert (server.connections, len(server.received)) == (2, 3)
        sent = caller.told[0]
        assert isinstance(sent, RequestSent)
        assert [type(m) for m in caller.told] == [RequestSent, RequestFirst, RequestEnded]
        assert ended.t_sent is not None
        assert ended.t_sent > sent.t_sent, "the time of the send is that of the request which was answered"


async def test_only_once() -> None:
    async with calling(dying_when_reused(forever=True)) as (caller, server):
        await caller.call()
        assert (await caller.call()).ending == "connection"
        assert len(server.received) == 3


async def test_not_after_a_part_of_an_answer() -> None:
    async with calling(dying_when_reused(b"HTTP/1.1 200 OK\r\nContent-")) as (caller, server):
        await caller.call()
        assert (await caller.call()).ending == "connection"
        assert len(server.received) == 2


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    assert (await end_of(whole)).ending == "ok"


async def test_localhost_finds_a_server_that_listens_on_one_family_only() -> None:
    async with serving(whole) as server:
        client = client_of(Target(url=server.url.replace("127.0.0.1", "localhost")))
        assert (await Caller(client).call()).ending == "ok"
        await client.aclose()


# --- cancelling ---------------------------------------------------------------------------------------------------


async def before_the_headers(request: Received) -> None:
    await request.gone.wait()


@pytest.mark.parametrize(("handler", "told"), [(before_the_headers, RequestSent), (endless, RequestFirst)])
async def test_cancelling_closes_the_connection_and_is_told(
    handler: Callable[[Received], Awaitable[None]], told: type[Message]
) -> None:
    async with calling(handler) as (caller, server):
        task = caller.start()
        await caller.until(told)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert (caller.last.ending, caller.last.error) == ("aborted", None)
        await server.until(lambda s: s.closed == 1)
        assert server.received[0].gone.is_set()


async def test_three_hundred_at_once_are_all_seen_at_once() -> None:
    everyone = asyncio.Event()

    async def handler(request: Received) -> None:
        await everyone.wait()
        await whole(request)

    async with calling(handler) as (caller, server):
        tasks = [caller.start(i) for i in range(300)]
        await server.until(lambda s: len(s.received) == 300)
        assert server.connections == 300
        everyone.set()
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*tasks)
        ends = [m.ending for m in caller.told if isinstance(m, RequestEnded)]
        assert ends == ["ok"] * 300


async def test_another_transport_can_take_the_place() -> None:
    """The seam: any httpx transport serves; one that never tells of a send leaves `t_sent` unknown."""

    async def body() -> AsyncIterator[bytes]:
        yield WHOLE

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body()))
    client = LoadClient(Target(url="http://replica"), None, transport)
    ended = await Caller(client).call()
    assert (ended.ending, ended.output_tokens, ended.t_sent) == ("ok", 2, None)
