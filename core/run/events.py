"""Every fact of a run as a small typed record, and its JSON-lines codec.

An event carries the monotonic time `t` at which it happened, stamped where it happened. The log keeps exactly these
lines, and `core.run.state` is made from nothing else, so a recorded run and a live one give the same views.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args

import msgspec

from core import RUN_FILE_SCHEMA
from core.config import ProbeConfig, Workload
from core.facts import Said
from core.records import (
    Check,
    ClosedOrder,
    LoadDone,
    LoadReady,
    LoadState,
    LoadTick,
    MachineSample,
    Phase,
    RepeatOrder,
    RequestEnded,
    RequestFirst,
    RequestHeld,
    RequestSent,
    ServerInfo,
    ServerSample,
    WorkerInfo,
)
from core.results import Answer, ClientInfo, ClosedLoop, RepeatResult, StepResult, TwinReading

SCHEMA = RUN_FILE_SCHEMA
"""Since 2 reasons, warnings and notes are facts (`core.facts`), since 3 also the answer and the lines of events; older files hold
sentences there, and are read as well. Since 4 it stands there when the time that is left was thought to be another."""


class RunStarted(msgspec.Struct, frozen=True, kw_only=True, tag="run_started"):
    """First line of every log. `started_utc` is ISO 8601; `truth_rps` is the long-run knee of a simulated replica, for the end.

    `label` is the name that the run was given (None: model and time are its name), `utc_offset_s` how far the local clock was from
    UTC; older files have neither."""

    t: float
    schema: int = SCHEMA
    started_utc: str
    config: ProbeConfig
    client: ClientInfo
    command: str
    truth_rps: float | None = None
    label: str | None = None
    utc_offset_s: int | None = None


class CheckDone(msgspec.Struct, frozen=True, kw_only=True, tag="check"):
    t: float
    check: Check


class ServerKnown(msgspec.Struct, frozen=True, kw_only=True, tag="server"):
    t: float
    info: ServerInfo


class WorkloadKnown(msgspec.Struct, frozen=True, kw_only=True, tag="workload"):
    """What is sent, in place of what the start of the run said: rows of a dataset by their places and lengths, once their tokens
    have been counted, or what of a trace fits into the model's context. Nothing of a text is recorded. `rates_rps`: the list of
    rates, which may have changed with it."""

    t: float
    workload: Workload
    rates_rps: tuple[float, ...] = ()

    def known(self, config: ProbeConfig) -> ProbeConfig:
        """The run with it."""
        method = msgspec.structs.replace(config.method, rates_rps=self.rates_rps)
        return msgspec.structs.replace(config, workload=self.workload, method=method)


class StepStarted(msgspec.Struct, frozen=True, kw_only=True, tag="step_started"):
    """A rate is about to be judged (for the ramp: `rate_rps` is its first rate; for a held rate `repeats` is 0). `left_s` is
    the expected time to the answer."""

    t: float
    step: int
    phase: Phase
    rate_rps: float
    repeats: int
    left_s: float | None = None


class Expected(msgspec.Struct, frozen=True, kw_only=True, tag="expected"):
    """The run is expected to last `left_s` more, which differs from what was expected before by more than a little; `why` is None
    for the first of these."""

    t: float
    left_s: float
    why: Said | None = None


class RepeatStarted(msgspec.Struct, frozen=True, kw_only=True, tag="repeat_started"):
    t: float
    order: RepeatOrder


class ServerSampled(msgspec.Struct, frozen=True, kw_only=True, tag="sample"):
    t: float
    sample: ServerSample


class MachineSampled(msgspec.Struct, frozen=True, kw_only=True, tag="machine"):
    t: float
    sample: MachineSample


class SampleFailed(msgspec.Struct, frozen=True, kw_only=True, tag="sample_failed"):
    t: float
    reason: str


class LoadStateChanged(msgspec.Struct, frozen=True, kw_only=True, tag="load_state"):
    t: float
    state: LoadState


class RepeatJudged(msgspec.Struct, frozen=True, kw_only=True, tag="repeat_judged"):
    t: float
    step: int
    result: RepeatResult


class StepJudged(msgspec.Struct, frozen=True, kw_only=True, tag="step_judged"):
    t: float
    result: StepResult


class TwinRead(msgspec.Struct, frozen=True, kw_only=True, tag="twin_read"):
    """What the twin of the server shows by the steps that were judged so far, in place of what it showed before."""

    t: float
    reading: TwinReading


class AnswerFound(msgspec.Struct, frozen=True, kw_only=True, tag="answer_found"):
    """The answer, before something is measured beside it: whatever becomes of that, the run ends with this one."""

    t: float
    answer: Answer


class ClosedStarted(msgspec.Struct, frozen=True, kw_only=True, tag="closed_started"):
    """Requests of this order wait for each other: they belong to no repeat."""

    t: float
    order: ClosedOrder


class ClosedMeasured(msgspec.Struct, frozen=True, kw_only=True, tag="closed_measured"):
    """What the closed loop beside the answer has shown so far, in place of what it had before."""

    t: float
    closed: ClosedLoop


class SearchRestarted(msgspec.Struct, frozen=True, kw_only=True, tag="search_restarted"):
    """The server was away, last seen to work at `since`, and is back: no step judged so far is part of the answer, and the search
    begins anew."""

    t: float
    since: float


class WorkersKnown(msgspec.Struct, frozen=True, kw_only=True, tag="workers"):
    """Which machines send, before the first order; where this one alone does it is never written."""

    t: float
    workers: tuple[WorkerInfo, ...]


class Note(msgspec.Struct, frozen=True, kw_only=True, tag="note"):
    """Something for the event line."""

    t: float
    level: Literal["info", "warn", "error"] = "info"
    text: Said


class RunEnded(msgspec.Struct, frozen=True, kw_only=True, tag="run_ended"):
    t: float
    answer: Answer


Event = (
    RunStarted
    | CheckDone
    | ServerKnown
    | WorkloadKnown
    | StepStarted
    | Expected
    | RepeatStarted
    | LoadReady
    | RequestHeld
    | RequestSent
    | RequestFirst
    | RequestEnded
    | LoadTick
    | LoadDone
    | ServerSampled
    | MachineSampled
    | SampleFailed
    | LoadStateChanged
    | RepeatJudged
    | StepJudged
    | TwinRead
    | AnswerFound
    | ClosedStarted
    | ClosedMeasured
    | SearchRestarted
    | WorkersKnown
    | Note
    | RunEnded
)


class _Unread(msgspec.Struct, frozen=True, gc=False):
    """In place of something that is passed over."""


class EndedInShort(RequestEnded, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag="ended"):
    """The end of a request for who looks at no gaps between its tokens: they are most of a file, and of the time to read it."""

    gaps: _Unread = _Unread()  # type: ignore[assignment]


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_IN_SHORT: Any = Union[tuple(EndedInShort if kind is RequestEnded else kind for kind in get_args(Event))]  # noqa: UP007
_decoder_in_short: msgspec.json.Decoder[Event] = msgspec.json.Decoder(_IN_SHORT)


def time_of(event: Event) -> float:
    """The moment of an event on the run's monotonic clock, in seconds."""
    match event:
        case RequestSent():
            return event.t_sent
        case RequestFirst():
            return event.t_first
        case RequestEnded():
            return event.t_end
        case _:
            return event.t


def encode(event: Event) -> bytes:
    """One JSON line with its newline. Raises ValueError for a time that is not finite (JSON has no NaN)."""
    if not math.isfinite(time_of(event)):
        raise ValueError(f"event without a finite time: {event!r}")
    return _encoder.encode(event) + b"\n"


def decode(line: bytes) -> Event:
    """The event of one line. Raises msgspec.DecodeError or ValidationError for anything else."""
    return _decoder.decode(line)


def decode_in_short(lines: Sequence[bytes]) -> list[Event]:
    """The same of many lines, with `EndedInShort` for the end of a request."""
    events = _decoder_in_short.decode_lines(b"".join(lines))
    if len(events) != len(lines):
        raise msgspec.DecodeError("a line is empty")
    return events
