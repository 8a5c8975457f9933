"""How good is a search? Many searches of simulated replicas with known knees, in virtual time.

    python -m tests.benchmarks.knee_search [--mode MODE] [-n SEARCHES] [--twin] [--replicas FILE.json] [--no-redo] [replica ...]

The built-in replicas are those by whose tables the constants of the modes were chosen. What is judged after the search
(`core/judge/search/candidates.py`, `core/judge/search/posterior.py`) was tuned on them, on tests/data/replicas/tuned.json and on
tests/data/replicas/held_out.json (random engines, lengths and limits; knees from 100,000 requests x 5 rates x 3 runs, standard
error at most 0.4 %). Nothing was tuned on tests/data/replicas/fresh.json (`tests.benchmarks.fresh_replicas`).

A bracket is right when the long-run knee is in it (open above: when the passing rate is below it); a false pass is a passing rate
above the knee. Below all searches of a mode stand both with their 95 % limits (Wilson), which take searches of one replica for
independent. `--twin`: a twin of the server, fitted to what the run has seen, reads the windows after each step, as in a real run;
it knows the limits of the engine, as those of a vLLM server are told.

FILE.json holds replicas by name: `eng` [a, b, c, p, budget, seqs, kv_blocks] (a step takes a + b*decoding + c*KV tokens +
p*prefill tokens seconds), `wl` [input median, sigma, maximum, output median, sigma, maximum], limits `Bf`, `Bd`, `Be` (TTFT, TPOT,
E2E in seconds), `q`, and `knee` where it is known. Without a knee only widths and times are printed.
"""

import argparse
import math
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import NormalDist

import msgspec
import numpy as np

from core.config import Method
from core.engine import EngineSpec
from core.replica.catalog import CATALOG, Replica, TokenLengths
from tests.core.judge.queue_model import LIMIT_S, TARGET
from tests.core.judge.virtual import QUEUE_LENGTHS, Serve, VirtualRun, batching, one_at_a_time, probe_of
from tests.core.twin.looking import Looking

MODES = {
    "quick": Method(),
    "quick-careful": Method(careful=True),
    "standard": Method(mode="standard"),
    "acceptance": Method(mode="acceptance"),
}
FIRST_SEED = 20_000
QUEUE_KNEE_RPS = 5.93
"""The knee of `mg1`: 100,000 s x 4 runs, standard error 0.1 %."""
STRICT_KNEE_RPS = 12.43
"""The knee of `chat` at a target of 99 %: 150,000 s x 4 runs, standard error 0.1 %."""


class ReplicaFields(msgspec.Struct, forbid_unknown_fields=True):
    """One replica of FILE.json."""

    eng: tuple[float, float, float, float, int, int, int]
    wl: tuple[float, float, int, float, float, int]
    q: float = 0.95
    Bf: float | None = None
    Bd: float | None = None
    Be: float | None = None
    knee: float | None = None

    def replica(self, name: str) -> Replica:
        step_s, sequence_s, kv_s, prefill_s, batched, seqs, kv_blocks = self.eng
        return Replica(
            name=name,
            description="",
            engine=EngineSpec(
                step_s=step_s,
                per_sequence_s=sequence_s,
                per_kv_token_s=kv_s,
                per_prefill_token_s=prefill_s,
                kv_blocks=kv_blocks,
                max_seqs=seqs,
                max_batched_tokens=batched,
            ),
            input_tokens=TokenLengths(median=self.wl[0], sigma=self.wl[1], maximum=self.wl[2], minimum=8),
            output_tokens=TokenLengths(median=self.wl[3], sigma=self.wl[4], maximum=self.wl[5]),
            ttft_s=self.Bf,
            tpot_s=self.Bd,
            e2e_s=self.Be,
            target=self.q,
            truth_rps=self.knee,
        )


@dataclass(frozen=True)
class Found:
    """One search: the ends over the true knee (None: no such end, or no knee known), and the virtual seconds it took. `open_above`:
    rates failed, but none of them for sure."""

    passed: bool
    open_above: bool
    low: float | None
    first: float | None
    upper: float | None
    width: float | None
    took_s: float
    expected_s: float
    fitted: tuple[float, float] | None
    redone: int
    steps: int


def built_in() -> dict[str, Replica]:
    """The replicas of the catalog, and `chat` at a target of 99 %."""
    strict = msgspec.structs.replace(CATALOG["chat"], name="chat99", target=0.99, truth_rps=STRICT_KNEE_RPS)
    batching = {name: CATALOG[name] for name in ("chat", "rag", "kvlim", "slot")}
    return batching | {"chat99": strict, "mg1": queue(), "demo": CATALOG["demo"]}


def queue() -> Replica:
    """One server with short and long services: its knee is 31 % of what it can serve, and its curve is flat there."""
    return Replica(
        name="mg1",
        description="",
        engine=CATALOG["chat"].engine,  # required, and not used: `one_at_a_time` serves
        input_tokens=TokenLengths(median=8),
        output_tokens=QUEUE_LENGTHS,
        ttft_s=None,
        tpot_s=None,
        e2e_s=LIMIT_S,
        target=TARGET,
        truth_rps=QUEUE_KNEE_RPS,
    )


def replicas_of(path: Path) -> dict[str, Replica]:
    """The replicas of FILE.json, by name."""
    fields = msgspec.json.decode(path.read_bytes(), type=dict[str, ReplicaFields])
    return {name: each.replica(name) for name, each in fields.items()}


def server_of(replica: Replica) -> Serve:
    """What serves its plans."""
    return one_at_a_time if replica.name == "mg1" else batching(replica)


@dataclass(frozen=True)
class Kind:
    """How to search: by which method, with a twin, whether passes with too short a warm-up are run again, with which gaps."""

    method: Method
    twin: bool = False
    redo: bool = True
    arrival_cv: float = 1.0


def search(replica: Replica, kind: Kind, seed: int) -> Found:
    """One search; without a true knee the ends are left out."""
    look = Looking(replica, seed) if kind.twin else None
    probe = probe_of(replica, seed, kind.method)
    probe = msgspec.structs.replace(probe, workload=msgspec.structs.replace(probe.workload, arrival_cv=kind.arrival_cv))
    return found_by(VirtualRun(probe, server_of(replica), redo=kind.redo, twin=look), replica.truth_rps)


def found_by(run: VirtualRun, truth_rps: float | None) -> Found:
    """What a run amounts to, against the true knee (None: not known)."""
    knee = run.answer().knee
    upper_rps = knee.fail_rps

    def over(rate_rps: float | None) -> float | None:
        return None if rate_rps is None or truth_rps is None else rate_rps / truth_rps

    width = None if knee.pass_rps is None or upper_rps is None else upper_rps / knee.pass_rps - 1
    ends = over(knee.pass_rps), over(knee.first_fail_rps), over(upper_rps)
    low, high = (None, None) if knee.estimate is None else (over(knee.estimate.low_rps), over(knee.estimate.high_rps))
    fitted = None if low is None or high is None else (low, high)
    passed = knee.pass_rps is not None
    return Found(passed, knee.open_above, *ends, width, run.elapsed_s, run.expected_s or 0.0, fitted, run.redone, run.steps)


def line(mode: str, name: str, found: list[Found]) -> str:
    """The figures of so many searches."""
    widths = [f.width for f in found if f.width is not None] or [math.nan]
    took_s = [f.took_s for f in found]
    return (
        f"{mode:13} {name:8} {len(found):4}   {against_truth(found)}   {np.median(widths):5.0%} {np.mean(widths):5.0%}  "
        f"{np.mean(took_s):6.0f} ({np.percentile(took_s, 95):.0f})   {np.mean([not f.passed for f in found]):.2f}   "
        f"{np.mean([f.open_above for f in found]):.2f}   "
        f"{np.mean([f.redone for f in found]):.2f}  {np.mean([f.steps for f in found]):.1f}   "
        f"{np.mean([f.expected_s for f in found]) / np.mean(took_s):.2f}   {fitted(found)}"
    )


def against_truth(found: list[Found]) -> str:
    """The columns that need a true knee."""
    lows = np.array([f.low for f in found if f.low is not None])
    if not lows.size:
        return f"{'(no true knee, or no passing rate)':52}"
    firsts = np.mean([inside(f.low, f.first) for f in found])
    false, false_5 = (sum(lows > edge) / len(found) for edge in (1.0, 1.05))
    p10, p50, p90 = np.percentile(lows, [10, 50, 90])
    held = np.mean([inside(f.low, f.upper) for f in found])
    return f"{firsts:.2f}   {held:.3f}   {false:.3f}  {false_5:.2f}   {p10:.2f}/{p50:.2f}/{p90:.2f}"


def limits(found: list[Found]) -> str:
    """How sure the two figures are that are promised, by the number of searches alone; empty without a true knee."""
    if all(f.low is None for f in found):
        return ""
    shares = (
        ("knee in [pass,upper]", sum(inside(f.low, f.upper) for f in found)),
        ("false pass", sum(f.low is not None and f.low > 1 for f in found)),
    )
    said = (
        f"{name} {k / len(found):.3f} (95 % limits {low:.3f} to {high:.3f})"
        for name, k in shares
        for low, high in [wilson(k, len(found))]
    )
    return " " * 14 + ", ".join(said)


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The 95 % limits of a share, of which `hits` of `n` were seen (Wilson's score interval)."""
    z = NormalDist().inv_cdf(0.975)
    share, more = hits / n, z * z / n
    middle, half = share + more / 2, z * math.sqrt(share * (1 - share) / n + more / (4 * n))
    return max(0.0, (middle - half) / (1 + more)), min(1.0, (middle + half) / (1 + more))


def fitted(found: list[Found]) -> str:
    """How often the fitted interval holds the knee, and how wide it is on average."""
    intervals = [f.fitted for f in found if f.fitted is not None]
    if not intervals:
        return "-"
    return (
        f"{np.mean([low <= 1 <= high for low, high in intervals]):.2f} {np.mean([high / low - 1 for low, high in intervals]):.0%}"
    )


def inside(low: float | None, high: float | None) -> bool:
    """Whether a bracket (over the true knee) holds it; one that is open above holds any from its lower end on."""
    return low is not None and low <= 1 and (high is None or high >= 1)


HEAD = (
    "mode          replica     n  in [pass,first] [pass,upper] false pass >5%  pass/knee p10/50/90  width median mean  time (p95)  "
    "no answer  open above  redone  steps  expected/took  fitted in, width"
)


def lines(kinds: dict[str, Kind], replicas: dict[str, Replica], n: int, jobs: int) -> Iterator[str]:
    """One for each replica and all of them, for each kind by its name."""
    seeds = range(FIRST_SEED, FIRST_SEED + n)
    with ProcessPoolExecutor(jobs) as pool:
        for name, kind in kinds.items():
            everything: list[Found] = []
            for replica in replicas.values():
                found = list(pool.map(partial(search, replica, kind), seeds))
                everything += found
                yield line(name, replica.name, found)
            yield line(name, "all", everything)
            yield limits(everything)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="replicas; all but demo if none is given")
    parser.add_argument("--mode", action="append", choices=MODES, help="may be given several times; all if it is not")
    parser.add_argument("--replicas", type=Path, help="a JSON file of replicas in place of the built-in ones")
    parser.add_argument("-n", type=int, default=20, help="searches per replica")
    parser.add_argument("--twin", action="store_true", help="let a twin read the windows after each step")
    parser.add_argument("--no-redo", action="store_true", help="let a pass stand whose warm-up was too short")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    replicas = built_in()
    if asked.replicas is not None:
        replicas = replicas_of(asked.replicas)
    names = asked.names or [name for name in replicas if asked.replicas is not None or name != "demo"]
    began = time.perf_counter()
    print(HEAD)
    kinds = {mode: Kind(MODES[mode], asked.twin, not asked.no_redo) for mode in asked.mode or MODES}
    for text in lines(kinds, {name: replicas[name] for name in names}, asked.n, asked.jobs):
        print(text, flush=True)
    print(f"{time.perf_counter() - began:.0f} s of computing")


if __name__ == "__main__":
    main()
