"""From a tally to a verdict: when a repeat may stop early, and what it was."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from core.judge.tally import Tally
from core.records import JudgeRules, LoadDone, LoadTick, RepeatResult, ServerInfo, ServerSample


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Why a repeat (or a ramp) need not go on. `segment` is the failing segment of a ramp.

    fail: the target cannot be reached any more; pass: it cannot be missed any more; overload: hopeless already in the
    warm-up; complete: every measured request is decided; drained: the drain time ran out, what is open counts as missed.
    """

    kind: Literal["fail", "pass", "overload", "complete", "drained"]
    reason: str
    segment: int | None = None


def decide_step(tally: Tally, now: float, rules: JudgeRules, drain_s: float) -> Decision | None:
    """Whether a full step (warm-up, measured, tail) is decided at `now`; None while it is not."""
    raise NotImplementedError


def decide_ramp(tally: Tally, now: float, rules: JudgeRules) -> Decision | None:
    """Whether any segment of a ramp can no longer reach the target at `now`, or all were sent and decided."""
    raise NotImplementedError


def judge_repeat(
    tally: Tally,
    decision: Decision | None,
    now: float,
    rules: JudgeRules,
    samples: Sequence[ServerSample],
    ticks: Sequence[LoadTick],
    done: LoadDone | None,
    server: ServerInfo,
) -> RepeatResult:
    """The judged repeat; `decision` None means it was interrupted: unjudged.

    `samples`: readings of the server from just before the repeat's start to its end.
    """
    raise NotImplementedError
