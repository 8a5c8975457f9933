"""Ten replicas that no rule was tuned on, drawn by a seed, with their knees: for `tests.benchmarks.knee_search --replicas`.

    python -m tests.benchmarks.fresh_replicas SEED > FILE.json

Two have answers of about 1,000 tokens, one has heavy-tailed answers, one has four places, one a flat curve (a loose limit on TTFT,
a tight one on TPOT, prompts of very different lengths); the other five are drawn like tests/data/replicas/held_out.json. A draw
that the idle server does not serve well, or whose knee is beyond .3 to 40 requests/s, is drawn again.

Knees: bisection with 10,000 requests a rate, then 40,000 at each of five rates, three times, and a line through them.
"""

import json
import math
import sys
from collections.abc import Callable

import numpy as np
from numpy.random import Generator, default_rng

from core.config import Method
from core.records import RepeatOrder, Segment
from core.replica.catalog import Replica
from core.schedule import draw
from tests.benchmarks.knee_search import ReplicaFields
from tests.core.judge.virtual import Serve, batching, probe_of

LOW_RPS, HIGH_RPS = 0.3, 40.0
IDLE_ROOM = 0.3
"""The idle server misses at most this share of what the target allows."""
AROUND = (0.94, 0.97, 1.0, 1.03, 1.06)
COARSE, FINE, DRAWS = 10_000, 40_000, 3


def drawn(rng: Generator) -> ReplicaFields:
    """A replica like those of held_out.json."""
    step_s = math.exp(rng.uniform(math.log(0.006), math.log(0.02)))
    engine = (
        round(step_s, 5),
        round(rng.uniform(2e-5, 2e-4), 7),
        round(math.exp(rng.uniform(math.log(3e-8), math.log(1.5e-7))), 10),
        round(rng.uniform(2e-5, 9e-5), 7),
        2048,
        int(rng.choice([8, 16, 64, 256])),
        int(math.exp(rng.uniform(math.log(1600), math.log(30_000)))),
    )
    prompt, answer = (int(math.exp(rng.uniform(math.log(low), math.log(high)))) for low, high in ((100, 4000), (40, 400)))
    lengths = (
        prompt,
        round(rng.uniform(0.3, 0.95), 2),
        min(16_000, 8 * prompt),
        answer,
        round(rng.uniform(0.3, 0.85), 2),
        6 * answer,
    )
    return ReplicaFields(
        eng=engine,
        wl=lengths,
        q=float(rng.choice([0.9, 0.95, 0.95, 0.99])),
        Bf=round(rng.uniform(0.5, 3.0), 2),
        Bd=round(step_s * rng.uniform(1.6, 4.0), 4),
    )


def long_answers(rng: Generator) -> ReplicaFields:
    """Answers of about 1,000 tokens."""
    each = drawn(rng)
    return _with(each, wl=(min(each.wl[0], 1000), each.wl[1], min(each.wl[2], 4096), 1000, 0.25, 2500), seqs=256, blocks=20_000)


def heavy_tailed(rng: Generator) -> ReplicaFields:
    """A few answers are very long."""
    each = drawn(rng)
    return _with(each, wl=(min(each.wl[0], 1000), each.wl[1], min(each.wl[2], 4096), 120, 1.4, 4096), seqs=256, blocks=20_000)


def four_places(rng: Generator) -> ReplicaFields:
    """Only four sequences run at once."""
    return _with(drawn(rng), seqs=4)


def flat(rng: Generator) -> ReplicaFields:
    """Attainment falls slowly with the rate: prompts of very different lengths come between the steps of the others."""
    each = drawn(rng)
    return ReplicaFields(
        eng=(*each.eng[:5], 256, 20_000), wl=(1500, 0.9, 12_000, *each.wl[3:]), q=0.9, Bf=3.0, Bd=round(each.eng[0] * 1.7, 4)
    )


KINDS: dict[str, Callable[[Generator], ReplicaFields]] = {
    "long1": long_answers,
    "long2": long_answers,
    "tail": heavy_tailed,
    "four": four_places,
    "flat": flat,
    **{f"f{i}": drawn for i in range(5)},
}


def _with(
    each: ReplicaFields,
    *,
    wl: tuple[float, float, int, float, float, int] | None = None,
    seqs: int | None = None,
    blocks: int | None = None,
) -> ReplicaFields:
    engine = (*each.eng[:5], seqs or each.eng[5], blocks or each.eng[6])
    return ReplicaFields(eng=engine, wl=wl or each.wl, q=each.q, Bf=each.Bf, Bd=each.Bd, Be=each.Be)


def attainment(replica: Replica, serve: Serve, rate_rps: float, requests: int, seed: int) -> float:
    """The share of good requests in the long run at a rate, by the replica's lengths and limits on TTFT and TPOT."""
    config = probe_of(replica, seed, Method())
    length_s = requests / rate_rps
    order = RepeatOrder(
        order=1,
        phase="hold",
        step=1,
        repeat=0,
        seed=seed,
        segments=(Segment(rate_rps=rate_rps, duration_s=length_s, role="measured"),),
        start_at=0.0,
    )
    plan = draw(order, config.workload)
    first_s, last_s = np.full(len(plan), np.inf), np.full(len(plan), np.inf)
    for event in serve(plan):
        first_s[event.first], last_s[event.last] = event.t, event.t
        if event.t > length_s:
            break
    with np.errstate(invalid="ignore", divide="ignore"):
        tpot_s = np.where(plan.output_tokens > 1, (last_s - first_s) / np.maximum(plan.output_tokens - 1, 1), 0.0)
    good = np.isfinite(last_s) & (first_s - plan.offsets_s <= (replica.ttft_s or np.inf)) & (tpot_s <= (replica.tpot_s or np.inf))
    counted = (plan.offsets_s > 0.1 * length_s) & (plan.offsets_s < 0.95 * length_s)
    return float(good[counted].mean())


def knee_of(fields: ReplicaFields) -> float | None:
    """The rate at which the target share is good in the long run; None where the replica is not one to search."""
    replica = fields.replica("fresh")
    serve = batching(replica)
    if 1 - attainment(replica, serve, LOW_RPS / 3, 600, 1) > IDLE_ROOM * (1 - fields.q):
        return None
    if attainment(replica, serve, LOW_RPS, 2000, 1) < fields.q or attainment(replica, serve, HIGH_RPS, 4000, 1) >= fields.q:
        return None
    return long_run_knee(replica, serve, LOW_RPS, HIGH_RPS)


def long_run_knee(replica: Replica, serve: Serve, low: float, high: float, fine: int = FINE) -> float:
    """The knee of what serves there, which lies between the two rates: bisection, then a line through five rates."""
    target = replica.target
    while high / low > 1.03:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if attainment(replica, serve, middle, COARSE, 2) >= target else (low, middle)
    rates = np.array([math.sqrt(low * high) * share for share in AROUND])
    shares = [np.mean([attainment(replica, serve, rate, fine, 10 + each) for each in range(DRAWS)]) for rate in rates]
    slope, level = np.polyfit(np.log(rates), np.array(shares) - target, 1)
    return float(math.exp(-level / slope))


def main() -> None:
    rng, found = default_rng(int(sys.argv[1])), {}
    for name, kind in KINDS.items():
        fields = kind(rng)
        while (knee := knee_of(fields)) is None:
            fields = kind(rng)
        limits = {limit: value for limit in ("Bf", "Bd", "Be") if (value := getattr(fields, limit)) is not None}
        found[name] = {"eng": fields.eng, "wl": fields.wl, **limits, "q": fields.q, "knee": round(knee, 4)}
        print(name, found[name], file=sys.stderr, flush=True)
    print("{\n" + ",\n".join(f" {json.dumps(name)}: {json.dumps(each)}" for name, each in found.items()) + "\n}")


if __name__ == "__main__":
    main()
