"""One answer and how it is delivered: what is said, in which pieces and when, and where it breaks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tests.core.load.server import DONE, END, chunk, event, token, usage

Pieces = tuple[tuple[float, bytes], ...]
"""(seconds after the piece before, bytes of the body)."""

EVENT_STREAM = "Content-Type: text/event-stream; charset=utf-8"
JSON = "Content-Type: application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`pieces` make the body. `framing`: HTTP chunks, a Content-Length (`short_by` bytes longer than the body), or up to the
    closing of the connection. `clump_bytes`: a proxy collects so many before it passes them on. `bytes_per_write` with
    `write_gap_s` between them. `cut_after`: so many raw bytes, head included, and then FIN or RST. `silent`: nothing comes
    after the request, or after the head, until the client goes. `idle_close_s`: the connection is closed when it was idle so long.
    """

    pieces: Pieces = ()
    status: int = 200
    headers: tuple[str, ...] = (EVENT_STREAM,)
    framing: Literal["chunked", "length", "close"] = "chunked"
    short_by: int = 0
    one_write: bool = False
    clump_bytes: int | None = None
    bytes_per_write: int | None = None
    write_gap_s: float = 0.0
    cut_after: int | None = None
    cut_by: Literal["fin", "rst"] = "fin"
    silent: Literal["request", "head"] | None = None
    idle_close_s: float | None = None

    @property
    def head(self) -> bytes:
        """Status line and headers."""
        framing = {
            "chunked": ["Transfer-Encoding: chunked"],
            "length": [f"Content-Length: {sum(len(data) for _, data in self.pieces) + self.short_by}"],
            "close": ["Connection: close"],
        }[self.framing]
        return "\r\n".join([f"HTTP/1.1 {self.status} Reason", *self.headers, *framing]).encode() + b"\r\n\r\n"

    @property
    def raw(self) -> bytes:
        """All of it."""
        return b"".join(data for _, data in self.writes())

    def writes(self) -> Iterator[tuple[float, bytes]]:
        """What is written when, as (seconds after the write before, raw bytes)."""
        left = self.cut_after
        for delay_s, data in self._split(self._collected()):
            if left is not None:
                data = data[:left]
                left -= len(data)
            yield delay_s, data
            if left == 0:
                return

    def _framed(self) -> Iterator[tuple[float, bytes]]:
        yield 0.0, self.head
        for delay_s, data in self.pieces:
            yield delay_s, chunk(data) if self.framing == "chunked" else data
        if self.framing == "chunked":
            yield 0.0, END

    def _collected(self) -> Iterator[tuple[float, bytes]]:
        if not self.one_write and self.clump_bytes is None:
            yield from self._framed()
            return
        wait_s, held = 0.0, b""
        for delay_s, data in self._framed():
            wait_s += delay_s
            held += data
            if self.clump_bytes is not None and len(held) >= self.clump_bytes:
                yield wait_s, held
                wait_s, held = 0.0, b""
        yield wait_s, held

    def _split(self, writes: Iterator[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
        size, first = self.bytes_per_write, True
        for delay_s, data in writes:
            if size is None:
                yield delay_s, data
                continue
            for at in range(0, len(data), size):
                yield (delay_s if at == 0 else 0.0) + (0.0 if first else self.write_gap_s), data[at : at + size]
                first = False


def tokens(
    n: int,
    *,
    first_s: float = 0.0,
    gap_s: float = 0.0,
    per_chunk: int = 1,
    first_chunk: int = 1,
    usage_by: Literal["each", "last", "none"] = "each",
    finish: str | None = "length",
    tail_s: float = 0.0,
    prompt: int = 8,
) -> Pieces:
    """A completion of n tokens: the first chunk after `first_s`, then `per_chunk` tokens every `gap_s`; the last chunk tells the
    finish_reason; `tail_s` later come usage and `[DONE]`."""
    pieces: list[tuple[float, bytes]] = []
    sent = 0
    while sent < n:
        now = min(n - sent, per_chunk if sent else first_chunk)
        sent += now
        told = token(" a" * now, count=sent if usage_by == "each" else None, finish=finish if sent == n else None)
        pieces.append((gap_s if pieces else first_s, told.replace(b'"prompt_tokens": 8', b'"prompt_tokens": %d' % prompt)))
    last = usage(n).replace(b'"prompt_tokens": 8', b'"prompt_tokens": %d' % prompt) if usage_by != "none" else b""
    pieces.append((tail_s, last + DONE))
    return tuple(pieces)


def chat(**delta: object) -> bytes:
    """A chat chunk that holds this delta."""
    return event({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def finish(reason: str = "stop") -> bytes:
    """A chunk that tells the finish_reason and nothing else."""
    return event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})


def whole(body: bytes, status: int = 200, *headers: str) -> Answer:
    """An answer with a Content-Length that comes at once."""
    return Answer(pieces=((0.0, body),), status=status, headers=headers, framing="length")
