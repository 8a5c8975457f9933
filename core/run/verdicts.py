"""What the repeats of one rate amount to. Pure."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from core.judge.bracket import rate_number, rate_text
from core.judge.rechecks import too_short_warmup
from core.judge.slo import allowed_misses, floor
from core.judge.stopping import RAMP_FORGIVES
from core.judge.tally import Tally
from core.judge.wording import count, duration, plain
from core.results import RepeatResult, StepVerdict
from core.run.conductor import OrderRun

Interval = tuple[float, float]


def floor_of(results: Sequence[RepeatResult]) -> Interval | None:
    """The minimum attainment over the valid repeats, lower and upper ends each for themselves; None without any."""
    return floor(result.attainment_interval for result in results if result.verdict in ("pass", "fail"))


def rechecked(result: RepeatResult) -> RepeatResult:
    """The result of a full step, as unjudged if it is a pass whose warm-up was too short for the latencies it measured."""
    e2e_s = too_short_warmup(result)
    if e2e_s is None:
        return result
    reason = f"warm-up of {duration(result.warmup_s)} for requests of {duration(e2e_s)}, two of those are needed"
    return msgspec.structs.replace(result, verdict="unjudged", reason=reason)


def step_over(results: Sequence[RepeatResult], stop: Literal["first_fail", "majority"], repeats: int) -> bool:
    """Whether no further repeat is needed: after the first failing one, or as soon as most of `repeats` agree."""
    passed, failed = (sum(result.verdict == verdict for result in results) for verdict in ("pass", "fail"))
    return failed > 0 if stop == "first_fail" else 2 * max(passed, failed) > repeats


def step_verdict(results: Sequence[RepeatResult]) -> tuple[StepVerdict, str]:
    """What the repeats of one rate amount to, with the reason. Void repeats were done again and do not count.

    fail: the first repeat failed, or at least two and at least half of them did; mixed: any other failing.
    """
    valid = [result for result in results if result.verdict in ("pass", "fail")]
    failed = [result for result in valid if result.verdict == "fail"]
    if not valid:
        return "unjudged", "no repeat was judged"
    if not failed:
        return "pass", valid[-1].reason if len(valid) == 1 else f"all {len(valid)} repeats passed"
    reason = failed[0].reason if len(valid) == 1 else f"{len(failed)} of {len(valid)} repeats failed: {failed[0].reason}"
    clear = valid[0] is failed[0] or (len(failed) >= 2 and 2 * len(failed) >= len(valid))
    return "fail" if clear else "mixed", reason


def failed_segment(run: OrderRun) -> int | None:
    """The segment of a ramp that is known to have failed; None where none is, for a rate that was not seen to fail is no end."""
    return None if run.decision is None else run.decision.segment


def held_rates(tally: Tally, target: float, now: float, failed: int | None) -> list[float]:
    """The rates of a ramp below the failing segment whose requests were good, all but those that a segment may miss.

    A segment whose requests were still open when the ramp ended is not among them.
    """
    rates = []
    for segment in tally.measured:
        bounds = tally.bounds(now, segment)
        may_miss = max(RAMP_FORGIVES, allowed_misses(bounds.planned, target))
        if (failed is None or segment < failed) and bounds.planned - bounds.good <= may_miss:
            rates.append(tally.layout.segments[segment].rate_rps)
    return rates


def ramp_reason(held_rps: Sequence[float], reason: str) -> str:
    """Why a ramp ended, after the rates that it was seen to hold."""
    return f"held {', '.join(map(rate_number, held_rps))}; {reason}" if held_rps else reason


def held_text(rates: Sequence[tuple[float, Sequence[RepeatResult]]]) -> str:
    """What became of the rates that were held, in the order in which they were."""
    return "held " + ", then ".join(f"{rate_text(rate_rps)} ({_segments(results)})" for rate_rps, results in rates)


def _segments(results: Sequence[RepeatResult]) -> str:
    judged = [result for result in results if result.verdict in ("pass", "fail")]
    lowest = floor_of(judged)
    if lowest is None:
        return "no segment was judged"
    passed = sum(result.verdict == "pass" for result in judged)
    return f"{passed} of {count(len(judged), 'segment')} passed, the lowest attainment {plain(round(lowest[0], 3))}"
