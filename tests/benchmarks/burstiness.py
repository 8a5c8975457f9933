"""How good is the burstiness mark? Knees of the simulated replicas under gamma arrivals, beside what the mark says of them.

    python -m tests.benchmarks.burstiness [replica ...]

Virtual time, 1500 s x 3 runs a rate, 7 halvings: a minute of CPU in all.
"""

import argparse

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from core.fleet.marks import bursty_frac
from core.replica.catalog import CATALOG, Replica, TokenLengths
from core.schedule import Plan
from core.twin import fast_engine

SHAPES = (0.5, 0.25, 0.1)
SEEDS = (1, 2, 3)
HORIZON_S = 1500.0
HALVINGS = 7
START_FRAC = 0.05
"""The first share of the requests finds the server empty and is not counted."""


def _lengths(lengths: TokenLengths, n: int, rng: Generator) -> NDArray[np.int64]:
    drawn = np.exp(rng.normal(np.log(lengths.median), lengths.sigma, n))
    cut: NDArray[np.int64] = np.floor(np.clip(drawn, lengths.minimum, lengths.maximum)).astype(np.int64)
    return cut


def run(replica: Replica, rate_rps: float, shape: float, seed: int, horizon_s: float = HORIZON_S) -> tuple[float, float]:
    """Attainment and mean E2E (s) of one run with gamma gaps of that shape."""
    rng = Generator(PCG64(seed))
    n = int(rate_rps * horizon_s)
    due = np.cumsum(rng.gamma(shape, 1 / (rate_rps * shape), n))
    plan = Plan(due, np.zeros(n, np.int32), _lengths(replica.input_tokens, n, rng), _lengths(replica.output_tokens, n, rng))
    first, last = np.full(n, np.inf), np.full(n, np.inf)
    for emitted in fast_engine(replica.engine, plan):
        first[emitted.first] = emitted.t
        last[emitted.last] = emitted.t
    tpot_s = (last - first) / np.maximum(plan.output_tokens - 1, 1)
    limits = ((first - due, replica.ttft_s), (tpot_s, replica.tpot_s), (last - due, replica.e2e_s))
    good = np.all([values <= limit for values, limit in limits if limit is not None], axis=0)
    counted = slice(int(n * START_FRAC), n)
    return float(good[counted].mean()), float((last - due)[counted].mean())


def knee_frac(replica: Replica, truth_rps: float, shape: float) -> float:
    """The highest share of the known knee at which the target is still met."""
    low, high = 0.2, 1.2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        attained = np.mean([run(replica, middle * truth_rps, shape, seed)[0] for seed in SEEDS])
        low, high = (middle, high) if attained >= replica.target else (low, middle)
    return low


def main() -> None:
    """Print one line for each replica."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("replicas", nargs="*", default=list(CATALOG))
    for name in parser.parse_args().replicas:
        replica = CATALOG[name]
        truth_rps = replica.truth_rps
        assert truth_rps is not None
        poisson = knee_frac(replica, truth_rps, 1.0)
        e2e_s = float(np.mean([run(replica, poisson * truth_rps, 1.0, seed)[1] for seed in SEEDS]))
        columns = []
        for shape in SHAPES:
            simulated = knee_frac(replica, truth_rps, shape) / poisson
            said = bursty_frac(poisson * truth_rps, e2e_s, shape, replica.target)
            columns.append(f"burstiness {shape}: simulated {simulated:.2f}, mark {said:.2f}")
        print(f"{name:<6} {'; '.join(columns)}", flush=True)


if __name__ == "__main__":
    main()
