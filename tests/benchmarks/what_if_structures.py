"""Is a what-if right about servers of another structure where it answers, and wrong where it refuses?

    python -m tests.benchmarks.what_if_structures [-n RUNS] [--replica NAME] [structure ...]

In virtual time, each structure of `tests.core.whatif.servers` with the numbers of a replica: one list of rates around its true
knee (two repeats of 40 s each), the twin of it, and what the twin would answer whether it is within MOST_MEDIAN_SHIFT or not,
against long runs of the same server under the same change. Last, over all of them, how far off the answers are by the median
shift, and by the kind of change.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from unittest.mock import patch

from core.engine import Limits, StepModel
from core.replica.catalog import CATALOG, Replica
from core.whatif import Change, Explained, Setting, ask, changed, explain, fitted, scaled
from tests.core.judge.virtual import probe_of
from tests.core.whatif.runs import run_of
from tests.core.whatif.servers import STRUCTURES, Structure, Truth

TRUE_REQUESTS = 24_000
ANY = 10.0
"""A shift that no twin reaches: so that all of them answer."""
CLASSES = (0.03, 0.06, 0.1, 0.15, 0.25, ANY)


@dataclass(frozen=True)
class Said:
    """One answer: the median shift of its twin, how far it is off (a logarithm), and whether its interval holds what is true."""

    kind: str
    shift: float
    off: float
    inside: bool


def changes(setting: Setting, max_running: int) -> Iterator[tuple[str, Change]]:
    """One of each kind, of a size that somebody would ask for."""
    slo, work = setting.slo, setting.workload
    yield "same", Change()
    yield "ttft_s", Change(ttft_s=(slo.ttft_s or 1) * 0.5)
    yield "tpot_s", Change(tpot_s=(slo.tpot_s or 1) * 0.7)
    yield "target", Change(target=0.99)
    yield "max_num_seqs", Change(max_num_seqs=max_running)
    yield "kv_tokens", Change(kv_tokens=int((setting.limits.kv_tokens or 0) * 0.75))
    yield "input_tokens", Change(input_tokens=scaled(work.input_tokens, 1.5))
    yield "output_tokens", Change(output_tokens=scaled(work.output_tokens, 1.5))


def truth_of(replica: Replica, structure: Structure, setting: Setting, near_rps: float) -> float | None:
    """The knee of the server itself, in long runs."""
    engine = replica.engine
    steps = StepModel(
        a_s=engine.step_s, b_s=engine.per_sequence_s, c_s=engine.per_kv_token_s, p_s=engine.per_prefill_token_s, error_frac=0.0
    )
    server = Truth(steps, setting.limits, structure)
    found = server.knee(setting.workload, setting.slo, near_rps, requests=TRUE_REQUESTS, seed=991)
    return None if found is None else found.rate_rps


def said_of(name: str, replica: Replica, n: int) -> Iterator[Said]:
    """What the twins of `n` runs of this server say."""
    structure, config, engine = STRUCTURES[name], probe_of(replica, 1), replica.engine
    limits = Limits(max_seqs=engine.max_seqs, max_batched_tokens=engine.max_batched_tokens, kv_tokens=engine.kv_tokens)
    own = Setting(slo=config.slo, workload=config.workload, limits=limits)
    knee_rps = truth_of(replica, structure, own, replica.truth_rps or 1.0)
    if knee_rps is None:
        print(f"{name}: no rate holds")
        return
    fractions = tuple(share * knee_rps / (replica.truth_rps or 1.0) for share in (0.8, 0.95, 1.05))
    truths: dict[str, float | None] = {}
    for seed in range(n):
        run = run_of(replica.name, lambda plan: structure(engine, plan), 100 + seed, fractions)
        with patch.object(fitted, "MOST_MEDIAN_SHIFT", ANY):
            explained = explain(run)
        if not isinstance(explained, Explained):
            print(f"{name} {seed}: {explained.why}", flush=True)
            continue
        running = max(2, round(knee_rps * 0.5 * _lasting_s(replica, explained)))
        row = []
        for kind, change in changes(own, running):
            if kind not in truths:
                truths[kind] = truth_of(replica, structure, changed(own, change), knee_rps)
            answer, true = ask(explained, change), truths[kind]
            if answer.knee_rps and answer.low_rps and answer.high_rps and true:
                off = math.log(answer.knee_rps / true)
                inside = answer.low_rps <= true <= answer.high_rps
                row.append(f"{kind} {100 * math.expm1(off):+.1f}{'' if inside else '!'}")
                yield Said(kind, explained.median_shift, off, inside)
        refused = "refused" if explained.median_shift >= fitted.MOST_MEDIAN_SHIFT else "answered"
        print(
            f"{name:18} knee {knee_rps:6.2f}, median shift {explained.median_shift:.3f} ({refused}), steps off by "
            f"{100 * explained.twin.steps.error_frac:.1f} %; answers off by % (!: not in the interval): {', '.join(row)}",
            flush=True,
        )


def _lasting_s(replica: Replica, explained: Explained) -> float:
    """How long a request decodes near the knee, roughly: the TPOT limit's half for each token of the median answer."""
    return replica.output_tokens.median * max(explained.twin.steps.a_s, 0.5 * (replica.tpot_s or 0.0))


def _line(name: str, some: list[Said]) -> str:
    off = sorted(abs(each.off) for each in some)
    rms = math.sqrt(sum(each**2 for each in off) / len(off))
    inside = sum(each.inside for each in some)
    most = off[math.ceil(0.9 * len(off)) - 1]
    return (
        f"  {name:24} {len(some):4d} answers: half off by more than {100 * median(off):4.1f} %, rms {100 * rms:5.1f} %, "
        f"nine in ten within {100 * most:5.1f} %, inside {inside} of {len(some)}"
    )


def summary(said: list[Said]) -> Iterator[str]:
    """By median shift, and by kind of change where the twin would answer."""
    yield "by the median shift of the twin:"
    low = 0.0
    for high in CLASSES:
        if some := [each for each in said if low <= each.shift < high]:
            yield _line(f"{low:g} to {high:g}" if high < ANY else f"{low:g} and more", some)
        low = high
    yield "by the kind of change, where the twin answers:"
    kinds: defaultdict[str, list[Said]] = defaultdict(list)
    for each in said:
        if each.shift < fitted.MOST_MEDIAN_SHIFT:
            kinds[each.kind].append(each)
    for kind, some in kinds.items():
        yield _line(kind, some)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="structures; all if none is given")
    parser.add_argument("--replica", default="demo", help="whose numbers they have")
    parser.add_argument("-n", type=int, default=2, help="runs of each")
    asked = parser.parse_args()
    said = [each for name in asked.names or STRUCTURES for each in said_of(name, CATALOG[asked.replica], asked.n)]
    print("\n".join(summary(said)), flush=True)


if __name__ == "__main__":
    main()
