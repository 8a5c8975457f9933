"""How often is a check wrong? Pairs of independent searches of one replica, as fast as it was or slower, in virtual time.

    python -m tests.benchmarks.check_alarms [--mode MODE] [-n PAIRS] [--max-drop 10%] [--slower 0,10,20,30] [--twin] [replica ...]

Both searches of a pair have their own seed. A replica that is 20 % slower takes 1 / 0.8 as long for everything, and its limits
are as much longer, so its knee is lower by exactly 20 %. Exit 1 with 0 % slower is a false alarm; exit 0 with more than
--max-drop is a drop that was missed; exit 3 says that the two brackets do not tell. PAIRS are per replica.
"""

import argparse
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from core.check import Verdict, check
from core.compare import Side, side_of
from core.config import parse_fraction
from core.replica.catalog import Replica
from core.run import Recording
from tests.benchmarks.knee_search import MODES, Kind, built_in, server_of, wilson
from tests.core.judge.virtual import VirtualRun, probe_of
from tests.core.twin.looking import Looking

OLD_SEED, NEW_SEED = 60_000, 80_000
NAMES = ("chat", "rag", "kvlim", "slot")
VERDICTS: tuple[Verdict, ...] = ("met", "not_met", "not_known")


def slower(replica: Replica, by: float) -> Replica:
    """The replica with a knee that is lower by this share: all its times are longer, those of its limits too."""
    factor = 1 / (1 - by)
    engine = replica.engine
    times = ("step_s", "per_sequence_s", "per_kv_token_s", "per_prefill_token_s")
    slowed = msgspec.structs.replace(engine, **{name: factor * getattr(engine, name) for name in times})
    limits = {name: None if (limit := getattr(replica, name)) is None else factor * limit for name in ("ttft_s", "tpot_s", "e2e_s")}
    return msgspec.structs.replace(replica, engine=slowed, **limits)


def found(replica: Replica, kind: Kind, limits: Replica, seed: int) -> Side:
    """One search, told as one within the `limits` of the replica that was not slowed down."""
    run = VirtualRun(
        probe_of(replica, seed, kind.method),
        server_of(replica),
        redo=kind.redo,
        twin=Looking(replica, seed) if kind.twin else None,
    )
    answer, asked = run.answer(), probe_of(limits, seed, kind.method)
    recorded = Recording(
        config=asked,
        server=None,
        orders=(),
        records=(),
        samples=(),
        steps=(),
        knee=answer.knee,
        ended=True,
        answer=answer,
    )
    return side_of(recorded, Path(replica.name))


def pair(replica: Replica, kind: Kind, by: float, max_drop_frac: float, number: int) -> Verdict:
    """The verdict on the newer of two searches."""
    old = found(replica, kind, replica, OLD_SEED + number)
    new = found(slower(replica, by), kind, replica, NEW_SEED + number)
    return check(new, old=old, max_drop_frac=max_drop_frac).verdict


def line(mode: str, by: float, verdicts: list[Verdict]) -> str:
    """The shares of the three verdicts, and how sure that of exit 1 is."""
    counts, n = Counter(verdicts), len(verdicts)
    low, high = wilson(counts["not_met"], n)
    shares = "".join(f"{counts[verdict] / n:8.0%}" for verdict in VERDICTS)
    return f"{mode:13} {by:5.0%} {n:6} {shares}   {low:.0%} to {high:.0%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"replicas; {', '.join(NAMES)} if none is given")
    parser.add_argument("--mode", action="append", choices=MODES, help="may be given several times; all if it is not")
    parser.add_argument("-n", type=int, default=10, help="pairs per replica")
    parser.add_argument("--max-drop", default="10%", help="as of `kneescope check`")
    parser.add_argument("--slower", default="0,10,20,30", help="by which shares in percent the newer one is slower")
    parser.add_argument("--twin", action="store_true", help="let a twin read the windows after each step")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    max_drop_frac = parse_fraction(asked.max_drop, "--max-drop")
    replicas = [built_in()[name] for name in asked.names or NAMES]
    began = time.perf_counter()
    print("mode         slower  pairs   exit 0  exit 1  exit 3   exit 1, 95 % limits")
    with ProcessPoolExecutor(asked.jobs) as pool:
        for mode in asked.mode or MODES:
            kind = Kind(MODES[mode], asked.twin)
            for percent in asked.slower.split(","):
                by, verdicts = float(percent) / 100, list[Verdict]()
                for replica in replicas:
                    verdicts += pool.map(partial(pair, replica, kind, by, max_drop_frac), range(asked.n))
                print(line(mode, by, verdicts), flush=True)
    print(f"{time.perf_counter() - began:.0f} s of computing")


if __name__ == "__main__":
    main()
