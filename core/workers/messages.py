"""What the controller, which is in the terminal's process, and the driver, which speaks with the machines, say to each other.

JSON lines over the driver's stdin and stdout. What goes on to a worker, and what comes from one, passes the driver unread.
"""

import msgspec

from core.load import Inlet
from core.records import ChildMessage, WorkerInfo
from core.workers.asked import WorkersAsked


class Gather(msgspec.Struct, frozen=True, kw_only=True, tag="gather"):
    """The first word: bring the machines together, and start our sending process on each."""

    asked: WorkersAsked


class Say(msgspec.Struct, frozen=True, kw_only=True, tag="say"):
    """Commands for one worker's sending process. `number` rises from one to the next: what came twice is obeyed once."""

    worker: int
    number: int
    commands: tuple[msgspec.Raw, ...]


class Beat(msgspec.Struct, frozen=True, kw_only=True, tag="beat"):
    """The controller is there: goes on to the stdin of every sending process, and every worker answers it."""


class Trips(msgspec.Struct, frozen=True, kw_only=True, tag="trips"):
    """Make so many round trips to each worker, one after another."""

    count: int


ToDriver = Gather | Say | Beat | Trips


class Gathered(msgspec.Struct, frozen=True, kw_only=True, tag="gathered"):
    """These machines send, each with our version and all that it needs. `elsewhere`: the name of one that is not this machine."""

    workers: tuple[WorkerInfo, ...]
    elsewhere: str | None = None


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The machines did not come together; `text` is for the user."""

    text: str
    exit_code: int


class Heard(msgspec.Struct, frozen=True, kw_only=True, tag="heard"):
    """What one worker's sending process said."""

    worker: int
    messages: list[ChildMessage]


class Passed(msgspec.Struct, frozen=True, kw_only=True, tag="heard"):
    """The same as the driver writes it."""

    worker: int
    messages: msgspec.Raw


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered"):
    """A round trip to a worker, as `core.workers.clocks.RoundTrip` has it; the driver shares the controller's clock. `beat`: it was
    the answer to a Beat."""

    worker: int
    beat: bool
    t0: float
    remote: float
    t1: float


class Lost(msgspec.Struct, frozen=True, kw_only=True, tag="lost"):
    """A worker is not there any more, or its sending process is not."""

    worker: int
    why: str


FromDriver = Gathered | Refused | Heard | Answered | Lost


def to_driver() -> Inlet[ToDriver]:
    """What the driver reads."""
    return Inlet(msgspec.json.Decoder(ToDriver))


def from_driver() -> Inlet[FromDriver]:
    """What the controller reads."""
    return Inlet(msgspec.json.Decoder(FromDriver))


def passed_on(worker: int, lines: bytes) -> Passed:
    """Whole lines of a sending process, none of them decoded."""
    return Passed(worker=worker, messages=msgspec.Raw(b"[" + lines.rstrip(b"\n").replace(b"\n", b",") + b"]"))
