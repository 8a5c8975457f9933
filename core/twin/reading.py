"""One look at a run with its twin: where its knee is, and how far from it each window was."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import msgspec

from core.config import Slo, Workload
from core.engine import Limits
from core.records import RepeatOrder, RequestRecord
from core.results import MOST_SHIFT, TwinReading, TwinShift
from core.schedule import draw
from core.twin.model import LONG_REQUESTS, LongKnee, PassCurve, Twin
from core.twin.steps import Lives, fit_lives, lives_of

BUDGET_S = 20.0
"""Processor seconds that one reading may take. With 10 windows of `chat` it takes two to three."""
_ALIKE = 0.015
"""By how much (logarithm of the knee) constants may move a twin before its windows are run again."""
_SAME_LENGTH = 0.25
"""Windows whose lengths differ by less (logarithm) pass alike."""
_MOST_BOUND = 1.0
"""What is only known to be above this counts as this: drowning servers are off any line."""


class TwinWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A judged window: whose plan, from when to when in it (seconds), and its figure. `repeat`: its index among the results of its
    step. `x`: ln of its margin at the target; None where it was cut at a fail (`least`: what X is at least, then) or ended as a
    sure pass (`passed`)."""

    order: RepeatOrder
    repeat: int
    from_s: float
    to_s: float
    x: float | None
    least: float = 0.0
    passed: bool = False


class TwinTask(msgspec.Struct, frozen=True, kw_only=True, tag="task"):
    """What a reading is about. `near_rps`: where the knee is looked for first. `warmup_s`, `measure_s`: of the next windows.
    `seed`: of the twin's own draws; with the same, two readings differ only in what the run has shown meanwhile. `long_requests`:
    of the run that finds the knee. `cpu_s`: processor seconds that the reading may take."""

    windows: tuple[TwinWindow, ...]
    workload: Workload
    slo: Slo
    limits: Limits
    near_rps: float
    warmup_s: float
    measure_s: float
    seed: int = 0
    long_requests: int = LONG_REQUESTS
    cpu_s: float = BUDGET_S


def read(task: TwinTask, records: Sequence[RequestRecord]) -> TwinReading | None:
    """Fit the twin by the records of a run and ask it; None where it cannot be fitted, or has no knee anywhere near."""
    reader = Reader()
    reader.seen(records)
    return reader.read(task)


@dataclass(slots=True)
class _Known:
    """What was found with one set of constants: the knee roughly and well, and the shifts of windows by their step and repeat."""

    task: TwinTask
    rough_rps: float
    knee: LongKnee
    shifts: dict[tuple[int, int], TwinShift]
    curve: PassCurve = ()
    curve_of: TwinTask | None = None


class Reader:
    """Readings of one run as it goes on. One more window moves the constants by little: then how far the twin's knee moves by a
    short run of the same requests moves everything that is known, and only new windows are run.

    What the budget has no room for is left out: the pass curve first, then the shifts of the windows farthest from the knee.
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self._lives: list[Lives] = []
        self._clock = clock
        self._known: _Known | None = None

    def seen(self, records: Iterable[RequestRecord]) -> None:
        """What has become of all requests of one or more orders, which were not told before."""
        self._lives += lives_of(records)

    def read(self, task: TwinTask) -> TwinReading | None:
        """Fit the twin and ask it; None where it cannot be fitted, or has no knee anywhere near."""
        began_s = self._clock()
        steps = fit_lives(self._lives)
        if steps is None:
            return None
        twin = Twin(steps, task.limits)
        try:
            known, by = self._moved(twin, task) or (_afresh(twin, task), 0.0)
        except ValueError:  # what the server took does not fit into the cache that it told
            return None
        if known is None:
            return None
        self._known = known
        self._shifts(twin, task, by, began_s + task.cpu_s)
        if (known.curve_of is None or not _alike(known.curve_of, task)) and self._clock() < began_s + task.cpu_s:
            known.curve, known.curve_of = _curve(twin, task, known.knee.rate_rps), task
        shifts = [_moved(known.shifts[key], by) for window in task.windows if (key := _key(window)) in known.shifts]
        whole = [abs(each.shift) for each in shifts if not (each.cut or each.early)]
        return TwinReading(
            knee_rps=known.knee.rate_rps * math.exp(by),
            se_frac=known.knee.se_frac,
            shifts=tuple(shifts),
            pass_curve=known.curve,
            measure_s=task.measure_s if known.curve_of is None else known.curve_of.measure_s,
            median_shift=median(whole) if whole else None,
            steps=steps,
            limits=task.limits,
            cpu_s=self._clock() - began_s,
        )

    def _moved(self, twin: Twin, task: TwinTask) -> tuple[_Known, float] | None:
        """What is known, and by how much faster the twin has become since; None where that is far, or another thing is asked."""
        known = self._known
        if known is None or _asked(task) != _asked(known.task):
            return None
        rough = twin.rough_knee(task.workload, task.slo, known.rough_rps, task.long_requests, task.seed)
        by = math.inf if rough is None else math.log(rough.rate_rps / known.rough_rps)
        return (known, by) if abs(by) <= _ALIKE else None

    def _shifts(self, twin: Twin, task: TwinTask, by: float, until_s: float) -> None:
        """Those of the windows that have none, the nearest to the knee first."""
        assert self._known is not None
        shifts, knee_rps = self._known.shifts, self._known.knee.rate_rps
        missing = [window for window in task.windows if _key(window) not in shifts]
        for window in sorted(missing, key=lambda each: abs(math.log(_rate_rps(each) / knee_rps))):
            if self._clock() < until_s:
                shifts[_key(window)] = _moved(shift_of(twin, window, task.workload, task.slo), -by)


def _afresh(twin: Twin, task: TwinTask) -> _Known | None:
    rough = twin.rough_knee(task.workload, task.slo, task.near_rps, task.long_requests, task.seed)
    knee = rough and twin.knee(task.workload, task.slo, rough.rate_rps, task.long_requests, task.seed)
    return _Known(task, rough.rate_rps, knee, {}) if rough and knee else None


def _curve(twin: Twin, task: TwinTask, knee_rps: float) -> PassCurve:
    return twin.pass_curve(task.workload, task.slo, knee_rps, task.warmup_s, task.measure_s, seed=task.seed)


def _asked(task: TwinTask) -> TwinTask:
    """A task but for what changes as the run goes on."""
    return msgspec.structs.replace(task, windows=(), near_rps=1.0, warmup_s=0.0, measure_s=0.0, cpu_s=0.0)


def _alike(one: TwinTask, other: TwinTask) -> bool:
    """Whether the windows to come pass alike."""
    lengths = ((one.measure_s, other.measure_s), (one.warmup_s + one.measure_s, other.warmup_s + other.measure_s))
    return all(abs(math.log(mine / theirs)) < _SAME_LENGTH for mine, theirs in lengths)


def _key(window: TwinWindow) -> tuple[int, int]:
    return window.order.step, window.repeat


def _moved(shift: TwinShift, by: float) -> TwinShift:
    if abs(shift.shift) >= MOST_SHIFT:
        return shift
    return msgspec.structs.replace(shift, shift=min(max(shift.shift + by, -MOST_SHIFT), MOST_SHIFT))


def shift_of(twin: Twin, window: TwinWindow, workload: Workload, slo: Slo) -> TwinShift:
    """How far one window is from the twin, by its very plan. Raises ValueError for a window in which nothing was due."""
    x = window.x if window.x is not None else 0.0 if window.passed else min(max(window.least, 0.0), _MOST_BOUND)
    shift = twin.shift(draw(window.order, workload), (window.from_s, window.to_s), workload.limits(slo), x)
    cut = window.x is None
    early = cut and window.passed
    return TwinShift(step=window.order.step, repeat=window.repeat, shift=shift, cut=cut and not early, early=early)


def _rate_rps(window: TwinWindow) -> float:
    return max((segment.rate_rps for segment in window.order.segments if segment.role == "measured"), default=1.0)
