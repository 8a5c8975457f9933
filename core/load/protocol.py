"""How parent and child speak: JSON lines over the child's stdin and stdout, split and decoded in batches."""

from typing import Generic, TypeVar

import msgspec

from core.records import ChildCommand, ChildMessage

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


def encode(message: ChildCommand | ChildMessage) -> bytes:
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


def commands() -> Inlet[ChildCommand]:
    """What the child reads."""
    return Inlet(msgspec.json.Decoder(ChildCommand))


def messages() -> Inlet[ChildMessage]:
    """What the parent reads."""
    return Inlet(msgspec.json.Decoder(ChildMessage))
