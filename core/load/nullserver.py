"""A server that costs next to nothing: answers each request with its tokens at fixed times, for the generator's test of itself.

It runs as a process of its own until its stdin ends. It says its port in a first line, and to each line that it reads, its CPU time
in seconds and the requests it has answered.
"""

import asyncio
import itertools
import os
import sys
import threading
import time

STEP_S = 0.01
"""All streams get a token together, as an engine's step does it."""

TTFT_S = 0.005

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
_EVENT = (
    b'data: {"id":"cmpl-0123456789abcdef0123456789abcdef","object":"text_completion","created":1790000000,"model":"null","choices":'
    b'[{"index":0,"text":" token","logprobs":null,"finish_reason":%b,"stop_reason":null,"token_ids":null}],"usage":null}\n\n'
)
_USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":16,"total_tokens":%d,"completion_tokens":%d}}\n\n'


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_TOKEN = _chunk(_EVENT % b"null")
_LAST = _chunk(_EVENT % b'"length"')
_END = _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class _Stream:
    def __init__(self, transport: asyncio.Transport, tokens: int) -> None:
        self.transport, self.tokens, self.left = transport, tokens, tokens

    def step(self) -> bool:
        """Send the next token; False when it was the last."""
        self.left -= 1
        if self.left:
            self.transport.write(_TOKEN)
            return True
        self.transport.write(_LAST + _chunk(_USAGE % (16 + self.tokens, self.tokens)) + _END)
        return False


class Steps:
    """All streams of the server, stepped together."""

    def __init__(self) -> None:
        self.answered = 0
        self._loop = asyncio.get_running_loop()
        self._streams: list[_Stream] = []
        self._due: float | None = None

    def begin(self, transport: asyncio.Transport, tokens: int) -> None:
        """A request came: its head goes at once, its first token after TTFT_S, the others with the steps."""
        transport.write(_HEAD)
        self._loop.call_later(TTFT_S, self._first, _Stream(transport, tokens))

    def _first(self, stream: _Stream) -> None:
        if stream.step():
            self._streams.append(stream)
        else:
            self.answered += 1
        if self._due is None:
            self._due = self._loop.time() + STEP_S
            self._loop.call_at(self._due, self._step)

    def _step(self) -> None:
        before = len(self._streams)
        self._streams = [stream for stream in self._streams if not stream.transport.is_closing() and stream.step()]
        self.answered += before - len(self._streams)
        assert self._due is not None
        self._due = max(self._due + STEP_S, self._loop.time()) if self._streams else None
        if self._due is not None:
            self._loop.call_at(self._due, self._step)


class _Protocol(asyncio.Protocol):
    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, blank, body = self._data.partition(b"\r\n\r\n")
        if blank and len(body) >= _number_after(head.lower(), b"content-length:"):
            self._data = b""
            self._steps.begin(self._transport, max(1, _number_after(body, b'"max_tokens":')))  # type: ignore[arg-type]


def _number_after(text: bytes, name: bytes) -> int:
    digits = bytes(itertools.takewhile(bytes([*b"0123456789"]).__contains__, text.partition(name)[2][:24].lstrip()))
    return int(digits or b"0")


async def _serve() -> None:
    steps = Steps()
    server = await asyncio.get_running_loop().create_server(lambda: _Protocol(steps), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)

    def answer_questions() -> None:
        for _ in sys.stdin:
            print(time.process_time(), steps.answered, flush=True)
        os._exit(0)

    threading.Thread(target=answer_questions, daemon=True).start()
    await asyncio.Event().wait()


def main() -> None:
    """Serve until stdin ends."""
    from core.load.child import make_room_for_files, new_loop

    make_room_for_files()
    with asyncio.Runner(loop_factory=new_loop()[1]) as runner:
        runner.run(_serve())
