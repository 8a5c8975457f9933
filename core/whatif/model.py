"""The answer of a model: where the knee would be under a change, from where to where by its own error."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.config import Slo
from core.records import RepeatOrder, Segment
from core.schedule import Plan, draw
from core.twin import Twin
from core.whatif.change import Change, Setting, changed
from core.whatif.fitted import Explained

COVERED = 1.645
"""The interval is meant to hold nine in ten knees: so many standard errors to each side."""
ALONE = 0.02
"""Standard error of a twin's knee even where its windows leave none."""
BY_CHANGE: dict[str, float] = {
    "ttft_s": 0.02,
    "tpot_s": 0.02,
    "e2e_s": 0.02,
    "target": 0.02,
    "input_tokens": 0.06,
    "output_tokens": 0.05,
    "max_num_seqs": 0.03,
    "kv_tokens": 0.04,
}
"""What each change adds to it, roughly, and not less than simulated searches show (`python -m tests.benchmarks.what_if
--simulated`): lengths most, because the records of requests hardly part what a sequence costs from what its tokens in the KV
cache cost."""
FAR, TRICKLE, FEW = 8.0, 400, 12_000
"""A knee is looked for within this factor above the run's own, and its square below; by so many requests it is known on which side
of a rate it is. Far below
fewer do: hardly two requests meet, and such runs take ten times as long."""

BULK, AT_ONCE = 3000, 1e9

Missing = Literal["below", "above"]


@dataclass(frozen=True, slots=True)
class Modelled:
    """The knee under a change, in requests/s. None where there is none within reach: `missing` tells on which side, "below" where
    even a trickle misses the limits. `by_queue`: above it more comes than is served, whatever the limits allow."""

    knee_rps: float | None
    low_rps: float | None
    high_rps: float | None
    ratio: float | None
    missing: Missing | None = None
    by_queue: bool = False


def ask(run: Explained, change: Change) -> Modelled:
    """Where the model has the knee under the change; about half a second of processor time.

    The twin with and without the change gets the same requests, so that the ratio of its two knees is surer than either.
    Raises UserError for a change that cannot be.
    """
    setting = changed(run.setting, change)
    twin = Twin(run.twin.steps, setting.limits)
    if _misses(twin, setting, run.knee_rps / FAR**2):
        return Modelled(None, None, None, None, "below")
    if _misses(twin, setting, run.knee_rps / FAR):
        found = twin.rough_knee(setting.workload, setting.slo, run.knee_rps / FAR**1.5, FEW)
    else:
        found = twin.rough_knee(setting.workload, setting.slo, run.knee_rps)
    most_rps, held_rps = _most_rps(twin, setting), math.inf if found is None else found.rate_rps
    if min(most_rps, held_rps) > FAR * run.knee_rps:
        return Modelled(None, None, None, None, "above")
    ratio = min(most_rps, held_rps) / run.rough_rps
    error = math.sqrt(run.offset_se**2 + ALONE**2 + sum(BY_CHANGE[name] ** 2 for name in change.given))
    knee_rps = run.as_modelled_rps * ratio
    return Modelled(
        knee_rps=knee_rps,
        low_rps=knee_rps * math.exp(-COVERED * error),
        high_rps=knee_rps * math.exp(COVERED * error),
        ratio=ratio,
        by_queue=most_rps < held_rps,
    )


def _plan(setting: Setting, rate_rps: float, requests: int) -> Plan:
    segment = Segment(rate_rps=rate_rps, duration_s=requests / rate_rps, role="measured")
    order = RepeatOrder(order=0, phase="list", step=0, repeat=0, seed=0, segments=(segment,), start_at=0.0)
    return draw(order, setting.workload)


def _misses(twin: Twin, setting: Setting, rate_rps: float) -> bool:
    """Whether even this rate, at which hardly two requests meet, misses the target."""
    return twin.figure(_plan(setting, rate_rps, TRICKLE), (0.0, TRICKLE / rate_rps), setting.slo) > 0


def _most_rps(twin: Twin, setting: Setting) -> float:
    """What is served per second of requests that all come at once, without those that fill it up and those that are left at the
    end: a rate above piles up, and the queue would fail it."""
    plan = _plan(setting, 1.0, BULK)
    within_1_s = Slo(ttft_s=None, tpot_s=None, e2e_s=1.0)
    ends_s = np.sort(twin.margins(plan, within_1_s, speed=AT_ONCE))
    low, high = int(0.3 * ends_s.size), int(0.8 * ends_s.size)
    return float((high - low) / (ends_s[high] - ends_s[low]))
