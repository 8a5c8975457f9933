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
ALONE = 0.03
"""Standard error of a twin's knee even where its windows leave none. Measured: twelve twins of six servers, five
of them of another structure, were off by 3.2 % (rms) about the knee as it was (`python -m tests.benchmarks.what_if_structures`)."""
BY_CHANGE: dict[str, float] = {
    "ttft_s": 0.02,
    "tpot_s": 0.03,
    "e2e_s": 0.03,
    "target": 0.02,
    "input_tokens": 0.06,
    "output_tokens": 0.05,
    "input_scale": 0.06,
    "output_scale": 0.05,
    "max_num_seqs": 0.045,
    "kv_tokens": 0.04,
}
"""What each change adds to it. Measured on the same twins, as the rms by which they are further off, or off to another side, than
about the knee as it was: TTFT limit halved 1.2 %, TPOT limit x 0.7 2.4 %, target 99 % 0.9 %, prompts x 1.5 5.8 %, answers x 1.5
1.0 % (and x 2 3.9 % on `chat`), half the places in use 4.3 %, KV cache x 0.75 3.0 %; rounded up. That of E2E is assumed to be that
of TPOT. Larger changes are not measured."""
FAR, TRICKLE, FEW = 8.0, 400, 12_000
"""A knee is looked for within this factor above the run's own, and its square below; by so many requests it is known on which side
of a rate it is. Far below fewer do: hardly two requests meet, and such runs take ten times as long."""

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
    knee_rps = run.as_modelled_rps * ratio
    apart = _apart(run, change)
    return Modelled(
        knee_rps=knee_rps,
        low_rps=knee_rps / apart,
        high_rps=knee_rps * apart,
        ratio=ratio,
        by_queue=most_rps < held_rps,
    )


def as_it_was(run: Explained) -> tuple[float, float]:
    """From where to where, in requests/s, the model has the knee of the server as it was measured."""
    apart = _apart(run, Change())
    return run.as_modelled_rps / apart, run.as_modelled_rps * apart


def _apart(run: Explained, change: Change) -> float:
    """The factor from an answer to either end of its interval."""
    return math.exp(COVERED * math.sqrt(run.offset_se**2 + ALONE**2 + sum(BY_CHANGE[name] ** 2 for name in change.given)))


def _plan(setting: Setting, rate_rps: float, requests: int) -> Plan:
    segment = Segment(rate_rps=rate_rps, duration_s=requests / rate_rps, role="measured")
    order = RepeatOrder(order=0, phase="list", step=0, repeat=0, seed=0, segments=(segment,), start_at=0.0)
    return draw(order, setting.workload)


def _misses(twin: Twin, setting: Setting, rate_rps: float) -> bool:
    """Whether even this rate, at which hardly two requests meet, misses the target."""
    return twin.figure(_plan(setting, rate_rps, TRICKLE), (0.0, TRICKLE / rate_rps), setting.workload.limits(setting.slo)) > 0


def _most_rps(twin: Twin, setting: Setting) -> float:
    """What is served per second of requests that all come at once, without those that fill it up and those that are left at the
    end: a rate above piles up, and the queue would fail it."""
    plan = _plan(setting, 1.0, BULK)
    within_1_s = Slo(ttft_s=None, tpot_s=None, e2e_s=1.0)
    ends_s = np.sort(twin.margins(plan, within_1_s, speed=AT_ONCE))
    low, high = int(0.3 * ends_s.size), int(0.8 * ends_s.size)
    return float((high - low) / (ends_s[high] - ends_s[low]))
