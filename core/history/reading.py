"""What a list shows of a run, read from both ends of its file: neither its requests nor what they came to are looked at."""

import mmap
import os
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from core import RUN_FILE_SCHEMA
from core.errors import UserError
from core.history.labels import called, stored
from core.knee_ends import KneeEnds

Problem = Literal["foreign", "damaged", "newer"]
"""No run begins in this file; or one does, and what follows was changed, or is of a format that is not known here yet."""
Way = Literal["search", "list", "hold", "fleet_check"]

_EVENT = b'{"type":"'
_FIRST_LINE_MAX = 1 << 26
_HEAD_MAX = 1 << 22
"""What stands before the load: some dozen checks and single requests."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """As `core.config.Slo`, which takes longer to import than a list to print; what a file says was valid when it was asked for."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    target: float = 0.95


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """`way`: whether a bracket was searched, a list of rates judged, one held, or a fleet checked, of so many `replicas`. `outcome`
    None: there is no answer, for the run goes on or broke off. `clear`: the upper end is a clear fail, not only the first one."""

    started_utc: str | None = None
    label: str = ""
    model: str | None = None
    slo: Limits | None = None
    mode: str | None = None
    way: Way = "search"
    replicas: int | None = None
    outcome: str | None = None
    pass_rps: float | None = None
    fail_rps: float | None = None
    clear: bool = False
    problem: Problem | None = None


class _Target(msgspec.Struct):
    model: str | None = None


class _Fleet(msgspec.Struct):
    replicas: int


class _Method(msgspec.Struct):
    mode: str = "quick"
    rates_rps: tuple[float, ...] = ()
    hold_rps: float | None = None
    fleet: _Fleet | None = None

    @property
    def way(self) -> Way:
        if self.fleet is not None:
            return "fleet_check"
        return "hold" if self.hold_rps is not None else "list" if self.rates_rps else "search"


class _Config(msgspec.Struct):
    target: _Target
    slo: Limits
    method: _Method


class _Head(msgspec.Struct, tag="run_started"):
    """All that can be relied on in a format of tomorrow."""

    schema: int


class _Started(msgspec.Struct, tag="run_started"):
    started_utc: str
    config: _Config
    label: str | None = None
    utc_offset_s: int | None = None
    schema: int = RUN_FILE_SCHEMA


class _Info(msgspec.Struct):
    model: str | None = None


class _Server(msgspec.Struct, tag="server"):
    info: _Info


class _Answer(msgspec.Struct):
    outcome: str
    knee: KneeEnds


class _Ended(msgspec.Struct, tag="run_ended"):
    answer: _Answer


class _Found(msgspec.Struct, tag="answer_found"):
    answer: _Answer


_HEAD = msgspec.json.Decoder(_Head)
_STARTED = msgspec.json.Decoder(_Started)
_SERVER = msgspec.json.Decoder(_Server)
_ANSWERED = msgspec.json.Decoder(_Ended | _Found)
_WRONG = (msgspec.DecodeError, UserError, ValueError, RecursionError)


def read(path: Path, *, going: bool) -> Read:
    """What the file tells. `going`: it is still being written, and has no answer. Raises OSError where it cannot be read."""
    with path.open("rb") as file:
        line = file.readline(_FIRST_LINE_MAX)
        try:
            started = _STARTED.decode(line)
        except _WRONG:
            return Read(label=stored(path.name), problem="newer" if _is_newer(line) else "foreign")
        if started.schema > RUN_FILE_SCHEMA:
            return _put_together(started, None, None, "newer")
        try:
            server = next((_SERVER.decode(line) for line in _head(file) if line.startswith(b'{"type":"server"')), None)
            answer = None if going else _answer(file.fileno())
        except _WRONG:
            return _put_together(started, None, None, "damaged")
    return _put_together(started, server, answer, None)


def _is_newer(line: bytes) -> bool:
    with suppress(*_WRONG):
        return _HEAD.decode(line).schema > RUN_FILE_SCHEMA
    return False


def _put_together(started: _Started, server: _Server | None, answer: _Answer | None, problem: Problem | None) -> Read:
    config, knee = started.config, answer.knee if answer else KneeEnds()
    model = (server.info.model if server else None) or config.target.model
    return Read(
        started_utc=started.started_utc,
        label=called(started.label, model, started.started_utc, started.utc_offset_s),
        model=None if model is None else stored(model),
        slo=config.slo,
        mode=config.method.mode,
        way=config.method.way,
        replicas=config.method.fleet.replicas if config.method.fleet else None,
        outcome=answer.outcome if answer else None,
        pass_rps=knee.pass_rps,
        fail_rps=knee.fail_rps,
        clear=knee.clearly_fails,
        problem=problem,
    )


def _head(file: BinaryIO) -> Iterator[bytes]:
    """The lines after the first one, as far as the load."""
    left = _HEAD_MAX
    while left > 0 and (line := file.readline(left)):
        if line.startswith(b'{"type":"step_started"'):
            return
        left -= len(line)
        yield line


def _answer(fd: int) -> _Answer | None:
    """The answer at the end of the file, or before a closed loop that broke off; None where there is none. Raises ValueError for an
    end that is no event, where it is more than half a line."""
    if os.fstat(fd).st_size == 0:
        return None
    with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as content:
        end = content.rfind(b"\n") + 1
        last = content.rfind(b"\n", 0, max(end - 1, 0)) + 1
        if end and content[last : last + len(_EVENT)] != _EVENT:
            raise ValueError("no event")
        for kind in (b'\n{"type":"run_ended"', b'\n{"type":"answer_found"'):
            at = content.rfind(kind)
            if at < 0:
                continue
            stop = content.find(b"\n", at + 1)
            line = content[at + 1 : len(content) if stop < 0 else stop]
            with suppress(msgspec.DecodeError) if stop < 0 else nullcontext():  # half a line is none
                return _ANSWERED.decode(line).answer
    return None
