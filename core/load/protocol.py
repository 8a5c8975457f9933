"""How parent and child speak: JSON lines over the child's stdin and stdout, split and decoded in batches.

The run's log encodes again what a child has told, into the same bytes. To keep a child's lines for it would save 3 us of the 57
that a request costs the parent before judging and drawing (`python -m tests.benchmarks.parent_cpu`): too little for a second form
of each event on its way.
"""

from typing import Generic, TypeVar

import msgspec

from core.records import ChildCommand, ChildMessage

HEARTBEAT_S = 1.0
"""How often the parent says that it is there."""

SILENCE_S = 5.0
"""A child that has not heard of its parent for so long stops its load: a parent that was suspended judges nothing any more."""


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """The parent is there."""


class Share(msgspec.Struct, frozen=True, kw_only=True, tag="share"):
    """Of the coming orders, this child sends request i where i mod `of` is `index`."""

    index: int
    of: int


Command = ChildCommand | Heartbeat | Share

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


def encode(message: Command | ChildMessage) -> bytes:
    """One line with its newline."""
    return _encoder.encode(message) + b"\n"


class Inlet(Generic[T]):
    """Bytes of a pipe to messages; a line may be of any length and come in any pieces."""

    def __init__(self, decoder: msgspec.json.Decoder[T]) -> None:
        self._decoder = decoder
        self._rest: list[bytes] = []

    def feed(self, data: bytes) -> list[T]:
        """The messages completed by these bytes. Raises msgspec.DecodeError for a line that is none."""
        lines, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._rest.append(rest)
            return []
        whole = b"".join((*self._rest, lines))
        self._rest = [rest]
        return self._decoder.decode_lines(whole)


def commands() -> Inlet[Command]:
    """What the child reads."""
    return Inlet(msgspec.json.Decoder(Command))


def messages() -> Inlet[ChildMessage]:
    """What the parent reads."""
    return Inlet(msgspec.json.Decoder(ChildMessage))
