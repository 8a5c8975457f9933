"""What the repeats of one rate amount to: its verdict, whether a repeat must be done again, and how they scatter. Pure."""

import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from core.config import Slo
from core.facts import Fact, Said, fact, says, several
from core.judge.evidence import errors_first
from core.judge.stopping import REPORT_DELAY_S, out_of_reach, ramp_holds
from core.judge.tally import Tally
from core.judge.verdict import Decision
from core.results import Outcome, RepeatResult, StepResult, StepVerdict
from core.slo import allowed_misses, floor

WARMUP_TOLERANCE = 0.05
"""The warm-up's own effect changes little from 1.9 to 2.0 mean durations; a step costs minutes."""

WIDE_SPREAD = 0.03
"""Between honest 60 s repeats at the knee of simulated replicas the standard deviation was 3 to 13 points (2 on a flat curve)."""


def too_short_warmup(result: RepeatResult) -> float | None:
    """The warm-up in seconds that this repeat has to be done again with; None where its own will do.

    Only a pass is doubted, since an empty start flatters a server and a fail stands all the more.
    """
    needed_s = result.warmup_needed_s
    if result.verdict != "pass" or needed_s is None:
        return None
    return needed_s if result.warmup_s < (1 - WARMUP_TOLERANCE) * needed_s else None


def spread_note(results: Sequence[RepeatResult]) -> Fact | None:
    """For a step whose repeats differ widely, so that nobody takes it for a fault; None for fewer than two whole repeats.

    Repeats that were cut short have no attainment to compare.
    """
    attained = [r.attainment for r in results if r.verdict in ("pass", "fail") and r.attainment is not None]
    if len(attained) < 2 or (spread := statistics.stdev(attained)) <= WIDE_SPREAD:
        return None
    return fact("repeats_scatter", deviation_frac=spread, repeats=len(attained))


Interval = tuple[float, float]


def floor_of(results: Sequence[RepeatResult]) -> Interval | None:
    """The minimum attainment over the valid repeats, lower and upper ends each for themselves; None without any."""
    return floor(result.attainment_interval for result in results if result.verdict in ("pass", "fail"))


def rechecked(result: RepeatResult) -> RepeatResult:
    """The result of a full step, as unjudged if it is a pass whose warm-up was too short for the latencies it measured."""
    needed_s = too_short_warmup(result)
    if needed_s is None:
        return result
    reason = fact("warmup_short", warmup_s=result.warmup_s, needed_s=needed_s)
    return msgspec.structs.replace(result, verdict="unjudged", reason=reason)


def step_over(results: Sequence[RepeatResult], stop: Literal["first_fail", "majority"], repeats: int) -> bool:
    """Whether no further repeat is needed: all are judged, one has failed where that decides, or most of `repeats` agree."""
    passed, failed = (sum(result.verdict == verdict for result in results) for verdict in ("pass", "fail"))
    if passed + failed >= repeats:
        return True
    return failed > 0 if stop == "first_fail" else 2 * max(passed, failed) > repeats


def step_verdict(results: Sequence[RepeatResult]) -> tuple[StepVerdict, Said]:
    """What the repeats of one rate amount to, with the reason. Void repeats were done again and do not count.

    fail: the first repeat failed, or at least two and at least half of them did; mixed: any other failing.
    """
    valid = [result for result in results if result.verdict in ("pass", "fail")]
    failed = [result for result in valid if result.verdict == "fail"]
    if not valid:
        return "unjudged", fact("none_judged")
    if not failed:
        return "pass", valid[-1].reason if len(valid) == 1 else fact("all_passed", repeats=len(valid))
    why = failed[0].reason
    reason = why if len(valid) == 1 else fact("some_failed", why, failed=len(failed), repeats=len(valid))
    clear = valid[0] is failed[0] or (len(failed) >= 2 and 2 * len(failed) >= len(valid))
    return "fail" if clear else "mixed", reason


def set_aside(step: StepResult) -> StepResult:
    """A step that was judged before the server was away: void, as are its repeats, so that nobody takes it for evidence; its
    figures stay, and its verdict stands in the reason."""
    repeats = tuple(
        msgspec.structs.replace(repeat, verdict="void", reason=_aside(repeat.verdict, repeat.reason))
        if repeat.verdict in ("pass", "fail")
        else repeat
        for repeat in step.repeats
    )
    if step.verdict not in ("pass", "fail", "mixed"):
        return msgspec.structs.replace(step, floor=None, repeats=repeats, set_aside=True)
    reason = _aside(step.verdict, step.reason)
    return msgspec.structs.replace(step, verdict="void", reason=reason, floor=None, repeats=repeats, set_aside=True)


def _aside(verdict: str, reason: Said) -> Fact:
    return fact("set_aside", reason, verdict=verdict)


def held_verdict(results: Sequence[RepeatResult]) -> tuple[StepVerdict, Said]:
    """The same of the segments of a held rate, with what there is of the one that was cut off at its end; void where segments
    ended and none of them counts."""
    verdict, reason = step_verdict(results)
    if not results:
        return verdict, fact("no_segment_judged")
    if (void := _all_void(results)) is not None:
        verdict, reason = "void", void
    elif verdict == "unjudged":
        reason = fact("no_segment_judged")
    cut = cut_off(results)
    return verdict, several(reason, fact("segment_cut_off", cut)) if cut else reason


def cut_off(results: Sequence[RepeatResult]) -> Fact | None:
    """How far the last repeat came, if it was cut off undecided; None where it was not, or nothing of its window was sent."""
    if not results or not says((last := results[-1]).reason, "undecided") or not last.sent:
        return None
    open_ = last.sent - last.good - last.misses
    return fact("cut_off", sent=last.sent, good=last.good, misses=last.misses, open=open_)


def failed_segment(decision: Decision | None) -> int | None:
    """The segment of a ramp that is known to have failed; None where none is, for a rate that was not seen to fail is no end."""
    return None if decision is None else decision.segment


class RampOutcome(NamedTuple):
    """What a ramp has shown: its last rate below the failing one, the failing one, why it ended, and the attainment of the failing
    segment; None where there is none."""

    passed_rps: float | None
    failed_rps: float | None
    reason: Said
    floor: Interval | None


def ramp_outcome(decision: Decision | None, decided_at: float | None, tally: Tally, slo: Slo, now: float) -> RampOutcome:
    """A ramp that has ended, with what came in since its decision."""
    reason: Said = decision.reason if decision else ""
    failed, segments = failed_segment(decision), tally.layout.segments
    passed_rps = next((segment.rate_rps for segment in reversed(segments[:failed]) if segment.role == "measured"), None)
    held = held_rates(tally, slo.target, now, failed)
    if failed is None:
        return RampOutcome(passed_rps, None, ramp_reason(held, reason), None)
    failed_rps = segments[failed].rate_rps
    bounds = tally.bounds((decided_at or now) - REPORT_DELAY_S, failed)
    if bounds.bad > allowed_misses(bounds.planned, slo.target):
        low, high = tally.layout.slices[failed]
        errors = errors_first([r for r in tally.records if low <= r.index < high], slo)
        missed = out_of_reach(bounds, slo.target)
        reason = fact("ramp_failed", missed if errors is None else several(errors, missed), rate_rps=failed_rps)
    return RampOutcome(passed_rps, failed_rps, ramp_reason(held, reason), bounds.end if bounds.bad else None)


def held_rates(tally: Tally, target: float, now: float, failed: int | None) -> list[float]:
    """The rates of a ramp below the failing segment whose requests were good, all but those that a segment may miss.

    A segment whose requests were still open when the ramp ended is not among them.
    """
    below = [segment for segment in tally.measured if failed is None or segment < failed]
    return [tally.layout.segments[segment].rate_rps for segment in below if ramp_holds(tally.bounds(now, segment), target)]


def ramp_reason(held_rps: Sequence[float], reason: Said) -> Said:
    """Why a ramp ended, after the rates that it was seen to hold."""
    return several(fact("ramp_held", rates_rps=list(held_rps)), reason) if held_rps else reason


def _all_void(results: Sequence[RepeatResult]) -> Fact | None:
    """How many segments of a held rate were void, with the newest reason, where none of them counts; None otherwise."""
    void = [result for result in results if result.verdict == "void"]
    if not void or any(result.verdict in ("pass", "fail") for result in results):
        return None
    return fact("segments_void", void[-1].reason, void=len(void))


def held(rates: Sequence[tuple[float, Sequence[RepeatResult]]]) -> tuple[Outcome, Fact]:
    """What became of the rates that were held, in the order in which they were: held, or void where segments ended and none of any
    rate counts. A rate that was changed again in its warm-up is left out."""
    told = [rate for rate in rates[:-1] if rate[1]] + list(rates[-1:])
    in_vain = _all_void([result for _, results in rates for result in results]) is not None
    return "void" if in_vain else "held", fact("held", *(_held_rate(rate_rps, results) for rate_rps, results in told))


def _held_rate(rate_rps: float, results: Sequence[RepeatResult]) -> Fact:
    if (void := _all_void(results)) is not None:
        return fact("held_void", void, rate_rps=rate_rps)
    judged = [result for result in results if result.verdict in ("pass", "fail")]
    lowest, cut = floor_of(judged), cut_off(results)
    beside = () if cut is None else (cut,)
    if lowest is None:
        return fact("held_rate", *beside, rate_rps=rate_rps, segments=0)
    passed = sum(result.verdict == "pass" for result in judged)
    low, high = lowest
    return fact("held_rate", *beside, rate_rps=rate_rps, segments=len(judged), passed=passed, low_frac=low, high_frac=high)
