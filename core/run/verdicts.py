"""What the repeats of one rate amount to. Pure."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from core import prose
from core.config import Slo
from core.facts import Fact, Said, fact, says, several
from core.judge.bracket import rate_text
from core.judge.evidence import errors_first
from core.judge.rechecks import too_short_warmup
from core.judge.slo import allowed_misses, floor
from core.judge.stopping import REPORT_DELAY_S, out_of_reach, ramp_holds
from core.judge.tally import Tally
from core.judge.wording import count, plain
from core.results import RepeatResult, StepResult, StepVerdict
from core.run.conductor import OrderRun

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
    """The same of the segments of a held rate, with what there is of the one that was cut off at its end."""
    verdict, reason = step_verdict(results)
    if not results:
        return verdict, fact("no_segment_judged")
    if verdict == "unjudged":
        reason = fact("no_segment_judged")
    cut = cut_off(results)
    return verdict, several(reason, fact("segment_cut_off", cut)) if cut else reason


def cut_off(results: Sequence[RepeatResult]) -> Fact | None:
    """How far the last repeat came, if it was cut off undecided; None where it was not, or nothing of its window was sent."""
    if not results or not says((last := results[-1]).reason, "undecided") or not last.sent:
        return None
    open_ = last.sent - last.good - last.misses
    return fact("cut_off", sent=last.sent, good=last.good, misses=last.misses, open=open_)


def failed_segment(run: OrderRun) -> int | None:
    """The segment of a ramp that is known to have failed; None where none is, for a rate that was not seen to fail is no end."""
    return None if run.decision is None else run.decision.segment


class RampOutcome(NamedTuple):
    """What a ramp has shown: its last rate below the failing one, the failing one, why it ended, and the attainment of the failing
    segment; None where there is none."""

    passed_rps: float | None
    failed_rps: float | None
    reason: Said
    floor: Interval | None


def ramp_outcome(run: OrderRun, tally: Tally, slo: Slo, now: float) -> RampOutcome:
    """A ramp that has ended, with what came in since its decision."""
    reason: Said = run.decision.reason if run.decision else ""
    failed, segments = failed_segment(run), run.order.segments
    passed_rps = next((segment.rate_rps for segment in reversed(segments[:failed]) if segment.role == "measured"), None)
    held = held_rates(tally, slo.target, now, failed)
    if failed is None:
        return RampOutcome(passed_rps, None, ramp_reason(held, reason), None)
    failed_rps = segments[failed].rate_rps
    bounds = tally.bounds((run.decided_at or now) - REPORT_DELAY_S, failed)
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


def held_text(rates: Sequence[tuple[float, Sequence[RepeatResult]]]) -> str:
    """What became of the rates that were held, in the order in which they were. One that was changed again in its warm-up is
    left out."""
    told = [rate for rate in rates[:-1] if rate[1]] + list(rates[-1:])
    return "held " + ", then ".join(f"{rate_text(rate_rps)} ({_segments(results)})" for rate_rps, results in told)


def _segments(results: Sequence[RepeatResult]) -> str:
    judged = [result for result in results if result.verdict in ("pass", "fail")]
    lowest, cut = floor_of(judged), cut_off(results)
    if lowest is None:
        return "no segment was judged" + (f", one was cut off: {prose.text(cut)}" if cut else "")
    passed = sum(result.verdict == "pass" for result in judged)
    low, high = lowest
    share = plain(round(low, 3)) if low == high else f"at most {plain(math.ceil(1000 * high) / 1000)}"
    text = f"{passed} of {count(len(judged), 'segment')} passed, the lowest attainment {share}"
    return text + (f"; the next was cut off: {prose.text(cut)}" if cut else "")
