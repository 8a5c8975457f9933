"""A repeat that is over, judged; and no result may hold a number that is none."""

import math
from collections.abc import Sequence

import msgspec

from core.config import Slo, Stop
from core.facts import Code, fact
from core.judge.tally import Tally
from core.judge.verdict import Decision, judge_repeat
from core.records import LoadDone, LoadTick, ServerInfo, ServerSample
from core.results import RepeatResult
from tests.core.judge.play import SERVER, SLO, START, rules

COMPLETE = Decision(kind="complete", reason=fact("all_decided"))
OVER = START + 100.0
TIME_UP: tuple[Code, ...] = (
    "time_up_ends_apart",
    "time_up_no_clear_fail",
    "time_up_no_pass",
    "time_up_not_confirmed",
    "time_up_too_few",
)
"""All that says that the time was used up."""


def judge(
    tally: Tally,
    decision: Decision | None = COMPLETE,
    *,
    slo: Slo = SLO,
    samples: Sequence[ServerSample] = (),
    ticks: Sequence[LoadTick] = (),
    unsent: int = 0,
    done_at: float = 100.0,
    server: ServerInfo = SERVER,
    strict: bool = False,
    stop: Stop = "exact",
) -> RepeatResult:
    done = LoadDone(order=7, t=START + done_at, sent=tally.sent_count, unsent=unsent, cpu_frac=0.1, loop_lag_max_s=0.001)
    result = judge_repeat(tally, decision, START + done_at, rules(slo, strict=strict, stop=stop), samples, ticks, done, server)
    assert all_finite(msgspec.to_builtins(result))
    return result


def all_finite(value: object) -> bool:
    """No NaN and no inf anywhere: JSON has none, and no reader can use one."""
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(all_finite, value.values()))
        case list() | tuple():
            return all(map(all_finite, value))
        case _:
            return True


def lagging(*lags_s: float) -> list[LoadTick]:
    """The client's reports, two a second."""
    return [LoadTick(order=7, t=START + 0.5 * i, in_flight=3, loop_lag_max_s=lag_s, cpu_frac=0.5) for i, lag_s in enumerate(lags_s)]
