"""Does a search find the knee under arrivals that are not Poisson? Searches of a simulated replica against its long-run knee with
the same gamma gaps, in virtual time.

    python -m tests.benchmarks.arrivals [-n SEARCHES] [--mode MODE] [--cv CV ...] [replica]

The truth does not use the product's draw: gamma gaps of numpy, runs of 5,000 s x 4 at five rates around it, with common random
numbers, and a line through the two rates around the target. The row `gamma 1` is the gamma process at a CV of 1 (shape 1), which
must have the knee of the Poisson one.
"""

import argparse
import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.replica.catalog import CATALOG, Replica
from tests.benchmarks import burstiness
from tests.benchmarks.knee_search import FIRST_SEED, MODES, Kind, against_truth, search

CVS = (1.0, 1.0 + 1e-9, 0.5, 2.0)
"""Poisson, the gamma process of shape 1, shapes 4 and 0.25."""
SEEDS = (31, 32, 33, 34)
HORIZON_S = 5000.0
FRACS = (0.94, 0.97, 1.0, 1.03, 1.06)


def long_run_knee(replica: Replica, cv: float, horizon_s: float = HORIZON_S) -> tuple[float, float]:
    """The rate at which the target is met in the long run, and its standard error by the runs, both in requests/s."""
    near_rps = burstiness.knee_frac(replica, replica.truth_rps or 1.0, 1 / cv**2) * (replica.truth_rps or 1.0)
    rates_rps = [near_rps * frac for frac in FRACS]
    attained = np.array([[burstiness.run(replica, rate, 1 / cv**2, seed, horizon_s)[0] for rate in rates_rps] for seed in SEEDS])
    each = [_crossing(rates_rps, row, replica.target) for row in attained]
    return _crossing(rates_rps, attained.mean(0), replica.target), float(np.std(each, ddof=1)) / math.sqrt(len(each))


def _crossing(rates_rps: list[float], attained: NDArray[np.float64], target: float) -> float:
    return float(np.interp(-target, -attained, rates_rps))


def name_of(cv: float) -> str:
    """As the shape of its gaps, so that a CV that is hardly not 1 has a row of its own."""
    return "Poisson" if cv == 1 else f"gamma {1 / cv**2:.3g}"


def main() -> None:
    """Print the truth and what searches made of it, a line for each CV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("replica", nargs="?", default="demo")
    parser.add_argument("-n", type=int, default=60, help="searches for each CV")
    parser.add_argument("--mode", action="append", choices=MODES, help="may be given several times; quick if it is not")
    parser.add_argument("--cv", type=float, action="append", help="1, 1.000000001 (gamma of shape 1), .5 and 2 if none is given")
    asked = parser.parse_args()
    replica = CATALOG[asked.replica]
    print(
        "arrivals       knee (s.e.)    mode          in [pass,first] [pass,clear]  FP  >5%   pass/knee p10/50/90   time   no answer"
    )
    for cv in asked.cv or CVS:
        knee_rps, se_rps = long_run_knee(replica, cv)
        known = msgspec.structs.replace(replica, truth_rps=knee_rps)
        for mode in asked.mode or ["quick"]:
            kind = Kind(MODES[mode], arrival_cv=cv)
            found = [search(known, kind, seed) for seed in range(FIRST_SEED, FIRST_SEED + asked.n)]
            took_s, none = np.mean([each.took_s for each in found]), np.mean([not each.passed for each in found])
            print(
                f"{name_of(cv):14} {knee_rps:6.2f} ({se_rps:.2f})  {mode:13} {against_truth(found)}  {took_s:5.0f} s  {none:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
