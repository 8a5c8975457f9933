"""What a search may ask for: a ramp, a step, a held rate, or nothing more."""

from typing import Literal

import msgspec

from core.records import Phase, Segment
from core.results import Answer


class Ramp(msgspec.Struct, frozen=True, kw_only=True):
    """One continuous open-loop ramp through measured segments, without a drain between them."""

    segments: tuple[Segment, ...]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Judge one rate with up to `repeats` repeats. `reads_whole`: each goes on to the end of its window where that can be read.
    `stop` "first_fail": a candidate for the passing end, which one failing repeat ends; "majority": as soon as most of the repeats
    agree. `from_s`: where in a recording its first stretch begins, behind those of earlier steps at this rate."""

    phase: Phase
    rate_rps: float
    repeats: int
    segments: tuple[Segment, ...]
    curtail_pass: bool
    reads_whole: bool = False
    stop: Literal["first_fail", "majority"] = "first_fail"
    from_s: float = 0.0


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Keep one rate until somebody stops it: measured segments one after another, each with an attainment of its own."""

    segments: tuple[Segment, ...]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The search has its answer."""

    answer: Answer


Action = Ramp | Step | Hold | Done
