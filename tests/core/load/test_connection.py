"""One connection by itself: what was stamped and is taken in only later."""

import asyncio

import httpx
import pytest

from core.load.transport.connection import Connection
from core.load.transport.response import Reply, Stamped

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
        self.waiting: list[Stamped] = []

    def take_in(self) -> bool:
        intake, data, t = self.waiting.pop(0)
        return intake.take_in(data, t)


class Notes:
    """A reader that keeps what it is given."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def read(self, data: bytes, t: float) -> bool:
        self.pieces.append(data)
        return True


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


async def test_a_second_answer_is_not_taken_for_that_of_the_next_request(
    connection: Connection, socket: NoSocket, freed: list[Connection]
) -> None:
    """It came before that request was written, and is taken in after."""
    queue = Queue()
    first = ask(connection)
    connection.data_received(HEAD)
    first.deliver(Notes(), queue.waiting.append)
    connection.data_received(END)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nunasked"[:-1])
    assert queue.take_in(), "it is over by that"
    assert freed == [connection]
    second = ask(connection)
    assert queue.take_in()
    assert socket.aborted
    assert not second.heard, "it will be sent again, by another connection"
    with pytest.raises(httpx.ReadError, match="more than one answer"):
        await second.end()


@pytest.mark.parametrize("problem", [None, ConnectionResetError("reset")], ids=["closed", "reset"])
async def test_a_loss_is_told_after_what_came_before_it(connection: Connection, problem: Exception | None) -> None:
    queue, notes = Queue(), Notes()
    reply = ask(connection)
    connection.data_received(HEAD)
    reply.deliver(notes, queue.waiting.append)
    connection.data_received(b"4\r\nlast\r\n")
    connection.connection_lost(problem)
    assert not connection.is_open
    assert (notes.pieces, reply.is_over) == ([], False)
    assert not queue.take_in()
    assert (notes.pieces, reply.is_over) == ([b"last"], False)
    assert queue.take_in()
    with pytest.raises(httpx.ReadError if problem else httpx.RemoteProtocolError):
        await reply.end()


async def test_a_body_that_ended_with_its_connection_is_whole_whatever_came_after(connection: Connection) -> None:
    queue = Queue()
    reply = ask(connection)
    connection.data_received(b"HTTP/1.1 200 OK\r\n\r\nall")
    reply.deliver(Notes(), queue.waiting.append)
    connection.eof_received()
    connection.connection_lost(ConnectionResetError("reset"))
    assert [queue.take_in() for _ in range(2)] == [True, False]
    await reply.end()
