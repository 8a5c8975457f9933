"""The windows of a recorded run as its twin is held against them: the part in which every request ended by itself."""

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from core.config import Slo
from core.records import Phase, RepeatOrder, RequestRecord
from core.results import StepResult
from core.run import Recording
from core.schedule import Plan, draw
from core.slo import margin, needed_good

LEAST_REQUESTS = 40
"""A shorter part of a window has its target quantile among its two latest requests."""
_JUDGED: frozenset[Phase] = frozenset({"ramp", "search", "confirm", "tighten", "list"})


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a repeat's window [from_s, to_s), in seconds of its plan, in which all `n` requests ended by themselves, and X:
    ln of their margin at the target. `repeat` is its index among those of its step."""

    step: int
    repeat: int
    rate_rps: float
    plan: Plan
    from_s: float
    to_s: float
    n: int
    x: float


def windows(run: Recording, parts: int = 1) -> tuple[Window, ...]:
    """Those of all repeats, and the rates of the ramp, that have enough requests for a figure, in the order of the run.

    Where a window was cut, its last requests were open and say only how late they are at least. Those before them say all, and the
    twin is asked about the same ones, so that the moment of the cut favours neither. `parts`: each window as so many, one after
    another, of as many requests each.
    """
    ended: defaultdict[int, dict[int, RequestRecord]] = defaultdict(dict)
    for record in run.records:
        if record.ending != "aborted":
            ended[record.order][record.index] = record
    return tuple(window for step in run.steps if _counts(step) for window in _of(step, run, ended, parts))


def _counts(step: StepResult) -> bool:
    return step.phase in _JUDGED and not step.set_aside


def _of(step: StepResult, run: Recording, ended: dict[int, dict[int, RequestRecord]], parts: int) -> Iterator[Window]:
    orders = {order.order: order for order in run.orders}
    for at, repeat in enumerate(step.repeats):
        order = orders.get(repeat.order)
        if order is None or repeat.verdict == "void":
            continue
        plan = draw(order, run.config.workload)
        for rate_rps, from_s, to_s in _stretches(order):
            low, high = plan.offsets_s.searchsorted([from_s, to_s]).tolist()
            records = ended[repeat.order]
            whole = next((i for i in range(low, high) if i not in records), high)
            cuts = [low + (whole - low) * part // parts for part in range(parts + 1)]
            for first, beyond in pairwise(cuts):
                x = _figure([records[i] for i in range(first, beyond)], run.config.limits)
                if x is not None:
                    yield Window(
                        step=step.step,
                        repeat=at,
                        rate_rps=rate_rps,
                        plan=plan,
                        from_s=from_s if first == low else float(plan.offsets_s[first]),
                        to_s=to_s if beyond == high else float(plan.offsets_s[beyond]),
                        n=beyond - first,
                        x=x,
                    )


def _stretches(order: RepeatOrder) -> Iterator[tuple[float, float, float]]:
    """Rate, beginning and end of each measured segment: one of a repeat, several of a ramp."""
    begin_s = 0.0
    for segment in order.segments:
        if segment.role == "measured":
            yield segment.rate_rps, begin_s, begin_s + segment.duration_s
        begin_s += segment.duration_s


def _figure(records: list[RequestRecord], slo: Slo) -> float | None:
    """X; None of too few, and where the request at the target failed: an error has no latency."""
    if len(records) < LEAST_REQUESTS:
        return None
    margins = sorted(math.inf if record.ending != "ok" else margin(record, slo) or 0.0 for record in records)
    at_target = margins[max(needed_good(len(margins), slo.target), 1) - 1]
    return math.log(at_target) if 0 < at_target < math.inf else None
