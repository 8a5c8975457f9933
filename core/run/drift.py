"""Did the server become slower or faster between two repeats, at the same batch? Told of each repeat that counts. Pure.

Whether it changed is seen without a model, from requests that decoded in batches of like size (`core.run.alike`), for a step need
not be a straight line of its batch. By how much is told by the constants that fit each repeat, both ways, within what those
requests allow. Constants alone prove nothing: of a server whose steps are no straight line they fit one rate, and not another.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

import msgspec
import numpy as np

from core.engine import StepModel
from core.facts import Fact, fact
from core.records import RequestRecord
from core.results import MOST_STEADY, Knee, RepeatSteps
from core.run.alike import Batches, Bounds, batches_of, bounds, slower_for_certain
from core.twin import Lives, fit, fit_lives, lives_of

CHANGE = math.log(MOST_STEADY)
"""The median of the requests must be further off, both ways, by DOUBT standard errors more."""
LEAST_REQUESTS = 40
"""With fewer, nothing is said of a repeat."""
MOST_REQUESTS = 6000
"""The newest of a repeat, which take a quarter of a second here, once, after the load; more would tell no more."""
COMPARED = 3
"""The newest repeats since the last change; with the first since then, a slow drift is noticed, too."""
DOUBT, _STRETCHES = 2.0, 6
"""Steps of one repeat on a machine that others use differ by a factor of two from one second to the next, so the scatter is that
between stretches of the repeat and not that of its requests."""
_LOOKS, _CLOSE = 12, 0.003
_MOST = math.log(20)
"""No server changes by more: constants that say so do not fit."""
_EXPLAINS = 0.05
"""Constants whose error is larger do not explain their own repeat, so they say nothing of another."""
_AGREE = CHANGE / 2
"""Both ways tell one factor. Where a step is no straight line of its batch, they may both say slower, but not the same."""
_SURE = 0.002
"""No constants are better than so: below, the error of a fit says nothing of it."""


class Speed(msgspec.Struct, frozen=True):
    """What a repeat shows of its steps, and the fact to be told at once where the server changed before it."""

    steps: RepeatSteps | None
    change: Fact | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """A repeat, or the first few of a run where one is too short to tell. `at`: when half of its requests had begun to decode."""

    records: Sequence[RequestRecord]
    model: StepModel | None
    batches: Batches
    at: float
    rate_rps: float


@dataclass(frozen=True, slots=True)
class _Way:
    """ln of the factor by which steps take longer: the median over requests, and what it is at least and at most by its scatter
    between stretches of the repeat. `error_frac`: of the constants."""

    low: float
    mid: float
    high: float
    error_frac: float

    def back(self) -> "_Way":
        """Seen from the other repeat."""
        return _Way(-self.high, -self.mid, -self.low, self.error_frac)


@dataclass(slots=True)
class Drift:
    """The speeds of one search. `began_s`, `began_utc_s`: the run's start on the records' clock and in seconds since 1970 (None:
    not known), from which the times of facts count."""

    began_s: float = 0.0
    began_utc_s: float | None = None
    _first: _Seen | None = None
    _first_phase: float = 0.0
    _short: list[RequestRecord] = field(default_factory=list)
    _since: list[_Seen] = field(default_factory=list)
    _phases: list[float] = field(default_factory=lambda: [0.0])
    _rates: dict[float, set[int]] = field(default_factory=dict)

    def judged(self, records: Iterable[RequestRecord], rate_rps: float) -> Speed:
        """A repeat that passed or failed at this rate, with all its requests, warm-up and tail included. To be called when the load
        is off: it takes up to 0.3 s."""
        told = [record for record in records if record.t_first is not None]
        told = sorted(told, key=lambda record: record.t_sched)[-MOST_REQUESTS:]
        if len(told) < LEAST_REQUESTS:
            return Speed(None)
        lives = lives_of(told)
        here = _Seen(told, fit_lives(lives), batches_of(lives), median(record.t_first or 0.0 for record in told), rate_rps)
        change = self._change(here)
        if change is not None:
            self._since, self._short = [], []
        self._keep(here)
        self._rates.setdefault(rate_rps, set()).add(len(self._phases) - 1)
        return Speed(self._steps(here), change)

    def apart(self, knee: Knee) -> Fact | None:
        """What is to be said of a bracket that was not measured at one speed; None where it was, as far as is known."""
        ends = [rate_rps for rate_rps in (knee.pass_rps, knee.fail_rps) if rate_rps is not None and rate_rps in self._rates]
        phases = [sorted(self._rates[rate_rps]) for rate_rps in ends]
        if len({phase for each in phases for phase in each}) < 2:
            return None
        speeds = [[math.expm1(self._phases[phase]) for phase in each] for each in phases]
        names = ("low", "high") if knee.pass_rps in ends else ("high",)
        figures: dict[str, float | list[float] | None] = {"low_rps": None, "high_rps": None, "low_frac": [], "high_frac": []}
        for name, rate_rps, each in zip(names, ends, speeds, strict=False):
            figures |= {f"{name}_rps": rate_rps, f"{name}_frac": [min(each), max(each)]}
        return fact("ends_apart_in_speed", **figures)

    def _change(self, here: _Seen) -> Fact | None:
        """What changed since the newest repeat from which this one surely differs."""
        for there in reversed(self._since):
            ways, limits = self._ways(there, here), bounds(there.batches, here.batches)
            for sign, slow, fast in ((1, here, there), (-1, there, here)):
                seen, told = (ways, limits) if sign > 0 else ([way.back() for way in ways], limits.back())
                alike = _slower(seen, told)
                if alike or (
                    told.least is None and slow.rate_rps <= fast.rate_rps and slower_for_certain(fast.batches, slow.batches)
                ):
                    found = _weighed(seen)
                    if found is None and not alike:
                        found = math.log(slow.batches.step_s / fast.batches.step_s)
                    change = sign * max(told.within(found), CHANGE)
                    self._phases.append(self._phases[-1] + change)
                    return self._told(change, there, here, alike=alike)
        return None

    def _told(self, change: float, there: _Seen, here: _Seen, *, alike: bool) -> Fact:
        from_s, to_s = there.at - self.began_s, here.at - self.began_s
        utc_s = [None if self.began_utc_s is None else self.began_utc_s + t_s for t_s in (from_s, to_s)]
        moments = {"from_s": from_s, "to_s": to_s, "from_utc_s": utc_s[0], "to_utc_s": utc_s[1]}
        rates = {"before_rps": there.rate_rps, "rate_rps": here.rate_rps}
        if alike:
            return fact("server_slower" if change > 0 else "server_faster", factor=math.exp(change), **moments, **rates)
        took = {"before_step_s": there.batches.step_s, "step_s": here.batches.step_s}
        return fact("server_slower_unlike" if change > 0 else "server_faster_unlike", **took, **moments, **rates)

    def _ways(self, there: _Seen, here: _Seen) -> list[_Way]:
        """How much slower `here` is than `there`, each way; by the run's first constants where both have none of their own."""
        ways = [] if there.model is None else _way(here.records, there.model)
        ways += [] if here.model is None else [way.back() for way in _way(there.records, here.model)]
        if ways or self._first is None or self._first.model is None:
            return ways
        then, now = (_way(each.records, self._first.model) for each in (there, here))
        return [_Way(b.low - a.mid, b.mid - a.mid, b.high - a.mid, b.error_frac) for a, b in zip(then, now, strict=False)]

    def _keep(self, here: _Seen) -> None:
        if self._first is None:
            here = self._together(here)
            self._first, self._first_phase = (here if here.model is not None else None), self._phases[-1]
        self._since.append(here)
        del self._since[1:-COMPARED]

    def _together(self, here: _Seen) -> _Seen:
        """The first repeats as one, where each has too few requests: as orders of their own, though a held rate is a single one."""
        number = 1 + max((record.order for record in self._short), default=here.records[0].order)
        own = [msgspec.structs.replace(record, order=number) for record in here.records]
        self._short = [*self._short, *own][-MOST_REQUESTS:]
        if here.model is not None:
            self._short = []
            return here
        model = fit(self._short)
        if model is None:
            return here
        together, self._short = _Seen(self._short, model, here.batches, here.at, here.rate_rps), []
        return together

    def _steps(self, here: _Seen) -> RepeatSteps | None:
        first, drift = self._first, None
        if first is None or first.at == here.at:
            drift = None if first is None and len(self._phases) == 1 else math.expm1(self._phases[-1])
        else:
            limits, since = bounds(first.batches, here.batches), self._phases[-1]
            if limits.both:
                since = self._first_phase + limits.within(_weighed(self._ways(first, here)))
            drift = math.expm1(since)
        if here.model is None:
            return None if drift is None else RepeatSteps(drift_frac=drift)
        return RepeatSteps(**msgspec.structs.asdict(here.model), drift_frac=drift)


def _slower(ways: Sequence[_Way], limits: Bounds) -> bool:
    """Whether `here` is surely slower: requests in like batches say by how much, or they say so and the constants how much."""
    if limits.above(CHANGE):
        return True
    if not ways or not all(way.error_frac < _EXPLAINS and way.low > CHANGE for way in ways):
        return False
    agree = len(ways) > 1 and abs(ways[0].mid - ways[1].mid) < _AGREE
    return agree or (limits.least is not None and limits.least.mid > 0)


def _way(records: Sequence[RequestRecord], model: StepModel) -> list[_Way]:
    """Of these requests by these constants; empty with too few usable ones.

    The factor is the one by which all the constants must grow for the requests to get their tokens: the more they grow, the fewer
    steps fit, so it lies between two factors that come closer and closer. (What `slower_each` says of the constants as they are is
    more than that where prompts take much of the time, up to 2.3 for 1.4.)
    """
    lives = [each for each in lives_of(records) if each.tokens.size]
    if sum(each.tokens.size for each in lives) < LEAST_REQUESTS:
        return []
    low, high, slope = -_MOST, _MOST, -1.0
    mid, off = 0.0, _off(lives, model, 0.0)
    for _ in range(_LOOKS):
        if abs(off[0]) < _CLOSE:
            break
        low, high = (mid, high) if off[0] > 0 else (low, mid)
        before, was = mid, off[0]
        mid -= was / slope
        if not low < mid < high:
            mid = (low + high) / 2
        off = _off(lives, model, mid)
        slope = min((off[0] - was) / (mid - before), -1.0)
    doubt = DOUBT * off[1]
    return [_Way(mid - doubt, mid, mid + doubt, model.error_frac)]


def _off(lives: Sequence[Lives], model: StepModel, grown: float) -> tuple[float, float]:
    """ln of the steps that fit, with constants grown by e to the power of `grown`, over those that were: the median, and its
    standard error by the medians of stretches."""
    constants = math.exp(grown) * np.array([model.a_s, model.b_s, model.c_s, model.p_s])
    logs = np.concatenate([np.log(np.maximum(each.steps(constants), 1e-6) / each.tokens) for each in lives])
    stretches = [float(np.median(each)) for each in np.array_split(logs, _STRETCHES)]
    return float(np.median(logs)), float(np.std(stretches, ddof=1)) / math.sqrt(_STRETCHES)


def _weighed(ways: Sequence[_Way]) -> float | None:
    """Both ways as one: the better the constants, the more they count. None without any."""
    if not ways:
        return None
    weights = [(way.error_frac + _SURE) ** -2 for way in ways]
    return sum(weight * way.mid for weight, way in zip(weights, ways, strict=True)) / sum(weights)
