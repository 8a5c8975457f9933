"""Between which factors did the steps of one repeat take longer than those of another, whatever a step is made of? Pure.

No constants are fitted: on a processor, and on a machine that others use, a step is no straight line of its batch. What holds on
any server is that a step takes no less time where as many or more sequences decode, with as many or more KV and prompt tokens. So
of two requests, the one in the smaller batch that still decoded more slowly met a slower server, at least by that factor.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.twin import Floats, Lives

LEAST_ALIKE = 10
"""With fewer requests that have one to be held against, there is no bound."""
MOST_HELD = 300
"""Requests of a repeat, spread evenly over it: each is held against each."""
_NEAREST = 5
"""Of the other repeat's requests in no smaller batches, those nearest in their number: the bound is closest there."""
_NEAR, _NEAR_MORE = 1.3, 1.0
"""Batches so much larger are near; others are looked at only where there are too few of these."""
_SPANS, _LEAST_IN_SPAN = 6, 2
_DOUBT = 2.5
"""Standard errors. That of a bound is the larger of the scatter between spans of the repeat and within them, so that a few
requests of one slow moment tell little."""
_MUCH = math.log(1.5)
_FEW = 3


@dataclass(frozen=True, slots=True)
class Batches:
    """Requests in order of time, each by the mean batch of its life. `batch`: rows of decoding sequences, KV tokens, and prompt
    tokens of a step; `log_step`: ln of its seconds a token; `span`: which part of the repeat it began in."""

    batch: Floats
    log_step: Floats
    span: NDArray[np.int64]

    @property
    def step_s(self) -> float:
        """The median, in seconds; NaN without any request."""
        return float(np.exp(np.median(self.log_step))) if self.log_step.size else math.nan


@dataclass(frozen=True, slots=True)
class Bound:
    """ln of a factor that is no larger (no smaller) than the true one, and its standard error."""

    mid: float
    error: float


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the factor by which steps took longer in the later repeat: at least and at most so. None: hardly a batch of the earlier
    one was as large (as small) as one of the later one."""

    least: Bound | None
    most: Bound | None

    @property
    def both(self) -> bool:
        return self.least is not None and self.most is not None

    def back(self) -> "Bounds":
        """Seen from the other repeat."""
        return Bounds(*(None if each is None else Bound(-each.mid, each.error) for each in (self.most, self.least)))

    def above(self, change: float) -> bool:
        """Whether the factor is surely above this one (as ln): the least is, or the middle of both where it is surely slower."""
        if self.least is None:
            return False
        if self.least.mid - _DOUBT * self.least.error > change:
            return True
        return self.most is not None and self.least.mid > 0 and self._middle - _DOUBT * self._error > change

    def within(self, found: float | None) -> float:
        """A factor found otherwise, as far as the bounds allow it; their middle without one."""
        low, high = (each.mid if each is not None else None for each in (self.least, self.most))
        if found is None:
            known = [each for each in (low, high) if each is not None]
            return sum(known) / len(known) if known else 0.0
        if low is not None and high is not None and low > high:
            return (low + high) / 2
        return min(max(found, -math.inf if low is None else low), math.inf if high is None else high)

    @property
    def _middle(self) -> float:
        return self.within(None)

    @property
    def _error(self) -> float:
        return max(each.error for each in (self.least, self.most) if each is not None)


def bounds(there: Batches, here: Batches) -> Bounds:
    """Of `here` against `there`, the earlier one."""
    most = _at_least(here, there)
    return Bounds(_at_least(there, here), None if most is None else Bound(-most.mid, most.error))


def slower_for_certain(there: Batches, here: Batches) -> bool:
    """Where hardly a batch was of one size, and the rate of `here` was no higher: whether its steps took much longer. A server is
    empty when a repeat starts, so one that did not change has a few requests in small batches at any rate: they must show it."""
    if not min(there.log_step.size, here.log_step.size) or np.median(here.log_step) - np.median(there.log_step) < _MUCH:
        return False
    alike = [
        own - float(np.median(there.log_step[larger]))
        for own, decoding in zip(here.log_step, here.batch[0], strict=True)
        if np.count_nonzero(larger := there.batch[0] >= decoding)
    ]
    return len(alike) < _FEW or float(np.median(alike)) > _MUCH


def batches_of(lives: Sequence[Lives]) -> Batches:
    """What the requests of one or more orders met."""
    met = [each.met() for each in lives if each.tokens.size]
    if not met:
        return Batches(np.zeros((3, 0)), np.zeros(0), np.zeros(0, dtype=np.int64))
    began, step_s, *batch = np.concatenate(met, axis=1)
    held = np.argsort(began, kind="stable")[np.unique(np.linspace(0, began.size - 1, min(began.size, MOST_HELD)).astype(np.int64))]
    began = began[held]
    share = (began - began[0]) / max(float(began[-1] - began[0]), 1e-9)
    span = np.minimum((share * _SPANS).astype(np.int64), _SPANS - 1)
    return Batches(np.array(batch)[:, held], np.log(step_s[held]), span)


def _at_least(there: Batches, here: Batches) -> Bound | None:
    """ln of the least factor by which steps took longer `here`."""
    larger = np.asarray((there.batch[:, :, None] >= here.batch[:, None, :]).all(axis=0))
    apart = there.batch[0][:, None] - here.batch[0][None, :]
    near = larger & (apart <= (_NEAR - 1) * here.batch[0][None, :] + _NEAR_MORE)
    found = _held(there, here, near, apart)
    return found if found is not None else _held(there, here, larger, apart)


def _held(there: Batches, here: Batches, pairs: NDArray[np.bool_], apart: Floats) -> Bound | None:
    """The requests of both against those of the other that they pair with."""
    distance = np.where(pairs, apart, np.inf)
    sides = [_side(here, there, distance.T, 1.0), _side(there, here, distance, -1.0)]
    if sides[0] is None or sides[1] is None:
        return None
    return Bound(min(each[0] for each in sides if each), float(np.hypot(sides[0][1], sides[1][1])))


def _side(own: Batches, other: Batches, distance: Floats, sign: float) -> tuple[float, float] | None:
    """Each of `own` against the nearest of `other`: the median, and its standard error by the scatter between spans and within."""
    if 0 in distance.shape:
        return None
    nearest = np.argpartition(distance, min(_NEAREST, distance.shape[1]) - 1, axis=1)[:, :_NEAREST]
    usable = np.isfinite(np.take_along_axis(distance, nearest, axis=1))
    some = usable.any(axis=1)
    if np.count_nonzero(some) < LEAST_ALIKE:
        return None
    theirs = (other.log_step[nearest] * usable)[some].sum(axis=1) / usable[some].sum(axis=1)
    off, span = sign * (own.log_step[some] - theirs), own.span[some]
    each = [off[span == at] for at in range(_SPANS) if np.count_nonzero(span == at) >= _LEAST_IN_SPAN]
    if not each:
        return None
    middles = [float(np.median(part)) for part in each]
    within = float(np.median([np.std(part, ddof=1) for part in each]))
    between = float(np.std(middles, ddof=1)) if len(middles) > 1 else 0.0
    return float(np.median(off)), max(between, within) / len(middles) ** 0.5
