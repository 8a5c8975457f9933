"""One connection by itself: what was stamped and is taken in only later."""

import asyncio

import httpx
import pytest

from core.load.transport.connection import Connection
from core.load.transport.response import Line, Reply

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


class NoSocket(asyncio.Transport):
    """Writes to nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def is_closing(self) -> bool:
        return self.aborted

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.aborted = True


class Queue:
    """What reads brought, taken in when a test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Line, bytes, float]] = []

    def take_in(self) -> None:
        line, data, t = self.waiting.pop(0)
        line.take_in(data, t)


@pytest.fixture
def socket() -> NoSocket:
    return NoSocket()


@pytest.fixture
def freed() -> list[Connection]:
    return []


@pytest.fixture
def connection(socket: NoSocket, freed: list[Connection]) -> Connection:
    connection = Connection(freed.append, lambda _: None)
    connection.connection_made(socket)
    return connection


def ask(connection: Connection) -> Reply:
    reply = Reply()
    connection.send(reply, b"GET / HTTP/1.1\r\n\r\n", "GET")
    return reply


def test_a_second_answer_is_not_taken_for_that_of_the_next_request(
    connection: Connection, socket: NoSocket, freed: list[Connection]
) -> None:
    """It came before that request was written, and is taken in after."""
    queue = Queue()
    first = ask(connection)
    connection.data_received(HEAD)
    first.deliver(lambda data, t: None, lambda: None, queue.waiting.append)
    connection.data_received(END)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nunasked"[:-1])
    queue.take_in()
    assert freed == [connection]
    second = ask(connection)
    queue.take_in()
    assert socket.aborted
    assert not second.heard, "it will be sent again, by another connection"
    with pytest.raises(httpx.ReadError, match="more than one answer"):
        second.raise_problem()


@pytest.mark.parametrize("problem", [None, ConnectionResetError("reset")], ids=["closed", "reset"])
def test_a_loss_is_told_after_what_came_before_it(connection: Connection, problem: Exception | None) -> None:
    queue, got, ends = Queue(), list[bytes](), list[bool]()
    reply = ask(connection)
    connection.data_received(HEAD)
    reply.deliver(lambda data, t: got.append(data), lambda: ends.append(True), queue.waiting.append)
    connection.data_received(b"4\r\nlast\r\n")
    connection.connection_lost(problem)
    assert not connection.is_open
    assert (got, ends) == ([], [])
    queue.take_in()
    assert (got, ends) == ([b"last"], [])
    queue.take_in()
    assert ends == [True]
    with pytest.raises(httpx.ReadError if problem else httpx.RemoteProtocolError):
        reply.raise_problem()


def test_a_body_that_ended_with_its_connection_is_whole_whatever_came_after(connection: Connection) -> None:
    queue, ends = Queue(), list[bool]()
    reply = ask(connection)
    connection.data_received(b"HTTP/1.1 200 OK\r\n\r\nall")
    reply.deliver(lambda data, t: None, lambda: ends.append(True), queue.waiting.append)
    connection.eof_received()
    connection.connection_lost(ConnectionResetError("reset"))
    while queue.waiting:
        queue.take_in()
    assert ends == [True]
    reply.raise_problem()
