"""The twin of a recorded run, and how far it is from each window: whether it explains the run, and where it puts the knee."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from core.facts import Fact, Said, fact
from core.records import Phase, RequestRecord
from core.results import MOST_SHIFT
from core.run import Recording
from core.twin import Twin, fit, lacks, limits_of
from core.whatif.change import Setting
from core.whatif.windows import LEAST_REQUESTS, Window, windows

MOST_MEDIAN_SHIFT = 0.15
"""Beyond this median a twin is not asked. Measured on simulated servers, most of another structure than a twin, 8 answers a run
(`python -m tests.benchmarks.what_if_structures`): with medians under 0.03 half of 64 answers were off by more than 1.5 % and the
worst by 14 %, at 0.06 to 0.08 half of 32 by more than 4 % and the worst by 8 %; at 0.155 to 0.183 (very unsteady steps) half of 16
by more than 10 % and the worst by 30 %, at 0.21 (half of each prompt in a cache, and nothing tells it) all by 13 to 19 %, at 0.39
(two engines) all by 15 to 19 %, and at 0.45 (places that nothing tells) half by more than 99 %. Nothing was measured between 0.08
and 0.15: where in there the line lies is assumed."""
LEAST_WINDOWS = 2
MOST_REQUESTS = 12_000
"""The constants of a step do not get better with more requests, and each of them takes time."""
_SPREAD, _WINDOW_S, _LONGER = 0.04, 90.0, 0.4
"""Standard deviation, in log rate, of a window's shift around that of its run, and how it falls with the length of the window."""
_FARTHER = 0.12
"""Far from the knee a window says less about it."""
_DUST = 0.008
NON_LINEAR, TREND, SCATTER = 0.10, 0.5, 0.10
"""From where on each of them is worth naming: half of the decode times off by so much, the shift rising by so much per logarithm of
the rate, windows of one rate apart by so much."""
_UNDER_LOAD: frozenset[Phase] = frozenset({"ramp", "search", "confirm", "tighten", "list", "hold"})


@dataclass(frozen=True, slots=True)
class WindowShift:
    """One window: X as measured and as the twin shows it for the same requests, and `shift`, the logarithm of the factor by which
    they must come faster for the twin to show what was measured (above zero the twin is the faster one)."""

    step: int
    repeat: int
    rate_rps: float
    requests: int
    x: float
    twin_x: float
    shift: float


@dataclass(frozen=True, slots=True)
class Explained:
    """A run and its twin. `knee_rps` is where the twin has its knee, and `rough_rps` the same by the fewer requests by which it is
    asked about changes; `offset` is what the windows add to its logarithm and `offset_se` how sure that is; `as_modelled_rps` is
    the knee with the offset. `median_shift`: see `_off`. `notes` weaken it all."""

    setting: Setting
    twin: Twin
    windows: tuple[WindowShift, ...]
    median_shift: float
    knee_rps: float
    rough_rps: float
    offset: float
    offset_se: float
    notes: tuple[Said, ...]

    @property
    def as_modelled_rps(self) -> float:
        """Where the model has the knee of the server as it was measured, in requests/s."""
        return self.knee_rps * math.exp(self.offset)


@dataclass(frozen=True, slots=True)
class Refused:
    """The twin does not explain the run: `why`, and as far as they are known its windows and the twin itself."""

    why: Fact
    twin: Twin | None = None
    windows: tuple[WindowShift, ...] = ()
    median_shift: float | None = None


def explain(run: Recording) -> Explained | Refused:
    """Fit the twin of a run and hold it against every window. A few seconds of processor time. Refused where a run had what a twin
    lacks."""
    if (lacking := lacks(run.config.workload)) is not None:
        return Refused(fact("twin_none", lacking))
    seen = windows(run)
    if len(seen) < LEAST_WINDOWS and len(halves := windows(run, parts=2)) >= LEAST_WINDOWS:
        seen = halves
    if run.server is None or len(seen) < LEAST_WINDOWS:
        held = run.config.method.hold_rps is not None
        return Refused(fact("twin_few_windows", windows=len(seen), least=LEAST_WINDOWS, requests=LEAST_REQUESTS, held=held))
    steps = fit(_records(run, seen))
    if steps is None:
        return Refused(fact("twin_not_fitted", requests=len(run.records)))
    twin = Twin(steps, limits_of(run.server, run.samples))
    try:
        shifts = tuple(_shift(twin, run, window) for window in seen)
        near_rps = math.exp(median(math.log(window.rate_rps) for window in seen))
        found = rough = twin.knee(run.config.workload, run.config.slo, near_rps)
        if found is not None:
            near_rps, rough = found.rate_rps, twin.rough_knee(run.config.workload, run.config.slo, found.rate_rps)
    except ValueError:  # a request that the twin's KV cache cannot hold, and the server's did
        return Refused(fact("twin_too_small", kv_tokens=twin.limits.kv_tokens), twin)
    off = _off(shifts, near_rps)
    if off >= MOST_MEDIAN_SHIFT or found is None or rough is None:
        return Refused(_why_not(shifts, off, steps.error_frac), twin, shifts, off)
    offset, offset_se = _offset(shifts, seen, found.rate_rps)
    return Explained(
        setting=Setting(slo=run.config.slo, workload=run.config.workload, limits=twin.limits),
        twin=twin,
        windows=shifts,
        median_shift=off,
        knee_rps=found.rate_rps,
        rough_rps=rough.rate_rps,
        offset=offset,
        offset_se=math.hypot(offset_se, found.se_frac),
        notes=_notes(twin, len({(each.step, each.repeat) for each in seen})),
    )


def _records(run: Recording, seen: Sequence[Window]) -> list[RequestRecord]:
    """Of the orders under load, those that were judged first, as many as the fit takes."""
    under_load = {order.order for order in run.orders if order.phase in _UNDER_LOAD}
    judged = {repeat.order for step in run.steps for repeat in step.repeats}
    records = [record for record in run.records if record.order in under_load]
    records.sort(key=lambda record: record.order not in judged)
    kept: list[RequestRecord] = []
    for record in records:
        if len(kept) >= MOST_REQUESTS and record.order != kept[-1].order:
            break
        kept.append(record)
    return kept


def _shift(twin: Twin, run: Recording, window: Window) -> WindowShift:
    within = (window.from_s, window.to_s)
    return WindowShift(
        step=window.step,
        repeat=window.repeat,
        rate_rps=window.rate_rps,
        requests=window.n,
        x=window.x,
        twin_x=twin.figure(window.plan, within, run.config.limits),
        shift=twin.shift(window.plan, within, run.config.limits, window.x),
    )


def _offset(shifts: Sequence[WindowShift], seen: Sequence[Window], knee_rps: float) -> tuple[float, float]:
    """What the windows say of the logarithm of the knee beyond the twin, and its standard error. Those nearer to the knee count
    more, and one that is far from the others less (Student's t with 5 degrees of freedom)."""
    values = np.array([-each.shift for each in shifts])
    length_s = np.array([window.to_s - window.from_s for window in seen])
    far = np.log(np.array([each.rate_rps for each in shifts]) / knee_rps)
    variance = (_SPREAD * (_WINDOW_S / length_s) ** _LONGER) ** 2 + (_FARTHER * far) ** 2 + _DUST**2
    variance[np.abs(values) >= MOST_SHIFT * 0.98] *= 25  # that or more: hardly a figure
    mean, weight = float(np.median(values)), 1 / variance
    for _ in range(8):
        weight = 6 / (5 + (values - mean) ** 2 / variance) / variance
        mean = float((weight * values).sum() / weight.sum())
    scatter = float((weight * (values - mean) ** 2).sum()) / max(len(values) - 1, 1)
    return mean, math.sqrt(max(scatter, 1.0) / float(weight.sum()))


def _why_not(shifts: Sequence[WindowShift], off: float, step_error: float) -> Fact:
    """By how much the twin is off, and what it may lack."""
    mean = float(np.median([each.shift for each in shifts]))
    lacks = [fact("twin_lacks_straight_line", step_error_frac=step_error)] if step_error >= NON_LINEAR else []
    slope = trend(shifts)
    if slope is not None and slope > TREND:
        lacks.append(fact("twin_lacks_limit", per_doubling_frac=math.expm1(slope * math.log(2))))
    apart = scatter(shifts)
    if apart > SCATTER:
        lacks.append(fact("twin_lacks_steadiness", apart_frac=math.expm1(apart)))
    if not lacks:
        lacks.append(fact("twin_lacks_unknown"))
    return fact(
        "twin_off", *lacks, off_frac=math.expm1(off), most_frac=math.expm1(MOST_MEDIAN_SHIFT), faster=mean > 0, windows=len(shifts)
    )


def _off(shifts: Sequence[WindowShift], knee_rps: float) -> float:
    """The median of the absolute shifts, or that of the half nearest to the knee where that is more: far below it, any twin is
    right."""
    nearest = sorted(shifts, key=lambda each: abs(math.log(each.rate_rps / knee_rps)))[: (len(shifts) + 1) // 2]
    return max(median(abs(each.shift) for each in some) for some in (shifts, nearest))


def trend(shifts: Sequence[WindowShift]) -> float | None:
    """By how much the shift rises for each unit of the logarithm of the rate; None where the rates are about the same."""
    log_rps, values = np.log([each.rate_rps for each in shifts]), np.array([each.shift for each in shifts])
    return float(np.polyfit(log_rps, values, 1)[0]) if float(np.ptp(log_rps)) > 0.2 else None


def scatter(shifts: Sequence[WindowShift]) -> float:
    """How far the windows of one rate are from each other at most, the middle one of the rates."""
    by_rate: dict[float, list[float]] = {}
    for each in shifts:
        by_rate.setdefault(each.rate_rps, []).append(each.shift)
    ranges = [max(values) - min(values) for values in by_rate.values() if len(values) > 1]
    return median(ranges) if ranges else 0.0


def _notes(twin: Twin, repeats: int) -> tuple[Said, ...]:
    limits = twin.limits
    notes: list[Said] = [fact("twin_one_repeat")] if repeats == 1 else []
    if limits.seqs_from != "told":
        notes.append(fact("twin_places", max_num_seqs=limits.max_seqs, assumed=limits.seqs_from == "assumed"))
    if limits.batched_from != "told":
        notes.append(fact("twin_batch", max_batched_tokens=limits.max_batched_tokens, assumed=limits.batched_from == "assumed"))
    if limits.kv_tokens is None:
        notes.append(fact("twin_kv_unknown"))
    return tuple(notes)
