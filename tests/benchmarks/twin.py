"""How good is the twin of a run? Simulated replicas, whose constants and knees are known, in virtual time.

    python -m tests.benchmarks.twin [-n RUNS] [--replicas FILE.json] [replica ...]       (two minutes a run and replica)

A run has four windows of 90 s, at .6, .8, .95 and 1.1 of the knee. From its records the constants of a step are fitted, and the
fitted twin is asked what-ifs; the truth is the same engine with its true constants and the same draws, so that what is left is the
error of the fit. Then the twin reads ten windows with limits right and wrong (its knee, the median of the absolute shifts, their
scatter), and as the run goes on (processor seconds of the first reading and of the later ones).
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, median, pstdev

import msgspec
import numpy as np

from core.config import Lengths, Slo, Workload
from core.engine import Limits, StepModel
from core.replica.catalog import CATALOG, Replica
from core.twin import Reader, Twin, fit, read
from tests.benchmarks.knee_search import replicas_of
from tests.core.judge.virtual import probe_of
from tests.core.twin.windows import constants, limits_of, seen, task_of

FIRST_SEED = 31_000
TEN = (0.5, 0.75, 0.9, 1.0, 1.1, 0.95, 0.92, 0.97, 1.03, 0.95)
Question = tuple[Workload, Slo, Limits]


def what_ifs() -> dict[str, Callable[[Question], Question]]:
    """What is asked, from what was run."""

    def limits(slo: Slo, ttft: float, tpot: float) -> Slo:
        return msgspec.structs.replace(
            slo, ttft_s=None if slo.ttft_s is None else slo.ttft_s * ttft, tpot_s=None if slo.tpot_s is None else slo.tpot_s * tpot
        )

    def lengths(work: Workload, prompts: float, answers: float) -> Workload:
        return msgspec.structs.replace(
            work, input_tokens=scaled(work.input_tokens, prompts), output_tokens=scaled(work.output_tokens, answers)
        )

    def places(most: Limits, n: int) -> Limits:
        return msgspec.structs.replace(most, max_seqs=n)

    return {
        "same": lambda q: q,
        "TTFT/2 TPOT*.75": lambda q: (q[0], limits(q[1], 0.5, 0.75), q[2]),
        "target 99 %": lambda q: (q[0], msgspec.structs.replace(q[1], target=0.99), q[2]),
        "in*2 out*.5": lambda q: (lengths(q[0], 2, 0.5), q[1], q[2]),
        "out*2": lambda q: (lengths(q[0], 1, 2), q[1], q[2]),
        "seqs 16": lambda q: (q[0], q[1], places(q[2], 16)),
        "seqs 32": lambda q: (q[0], q[1], places(q[2], 32)),
        "KV*2": lambda q: (q[0], q[1], msgspec.structs.replace(q[2], kv_tokens=2 * (q[2].kv_tokens or 0))),
    }


def scaled(lengths: Lengths, by: float) -> Lengths:
    return msgspec.structs.replace(lengths, median=lengths.median * by, maximum=max(int(lengths.maximum * by), lengths.minimum))


def asked(replica: Replica, models: list[StepModel]) -> Iterator[str]:
    """The error of each what-if: its mean over the runs, and the largest."""
    probe = probe_of(replica, FIRST_SEED)
    for name, change in what_ifs().items():
        work, slo, limits = change((probe.workload, probe.slo, limits_of(replica.engine)))
        began = time.process_time()
        truth = Twin(constants(replica.engine), limits).knee(work, slo, replica.truth_rps or 1.0)
        if truth is None:
            yield f"    {name:18} no knee"
            continue
        took_s, errors = time.process_time() - began, []
        for model in models:
            knee = Twin(model, limits).knee(work, slo, truth.rate_rps)
            errors.append(math.nan if knee is None else knee.rate_rps / truth.rate_rps - 1)
        worst = max(errors, key=abs)
        error = f"error {fmean(errors):+6.1%}, worst {worst:+6.1%}"
        yield f"    {name:18} knee {truth.rate_rps:7.2f}   {error}   {took_s:4.1f} s a knee"


def fitted(replica: Replica, models: list[StepModel]) -> str:
    true = np.array([constants(replica.engine).a_s, *_rest(constants(replica.engine))])
    off = np.array([[model.a_s, *_rest(model)] for model in models]) / np.where(true > 0, true, np.nan) - 1
    told = ", ".join(
        f"{name} {mean:+.1%} (sd {spread:.1%})" for name, mean, spread in zip("abcp", off.mean(0), off.std(0), strict=True)
    )
    return f"    constants off by {told}; half of the decode times by more than {fmean(m.error_frac for m in models):.2%}"


def _rest(model: StepModel) -> tuple[float, float, float]:
    return model.b_s, model.c_s, model.p_s


def wrong(replica: Replica, seed: int) -> Iterator[str]:
    """Ten windows read with limits that are not those of the server."""
    run, limits = seen(replica, seed, TEN), limits_of(replica.engine)
    cases = {
        "limits right": limits,
        "batch/2": msgspec.structs.replace(limits, max_batched_tokens=max(limits.max_seqs, limits.max_batched_tokens // 2)),
        "batch*4": msgspec.structs.replace(limits, max_batched_tokens=4 * limits.max_batched_tokens),
        "seqs/2": msgspec.structs.replace(limits, max_seqs=max(1, limits.max_seqs // 2)),
        "KV*.85": msgspec.structs.replace(limits, kv_tokens=int(0.85 * (limits.kv_tokens or 0))),
        "KV*1.15": msgspec.structs.replace(limits, kv_tokens=int(1.15 * (limits.kv_tokens or 0))),
    }
    for name, each in cases.items():
        reading = read(task_of(replica, run, each), run.records)
        if reading is None:
            yield f"    {name:18} no reading"
            continue
        shifts = [shift.shift for shift in reading.shifts]
        off = reading.knee_rps / (replica.truth_rps or 1.0) - 1
        yield (
            f"    {name:18} knee off {off:+6.1%} (se {reading.se_frac:.1%})   median |shift| "
            f"{median(map(abs, shifts)):.3f}, scatter {pstdev(shifts):.3f}   {reading.cpu_s:.1f} s"
        )


def going_on(replica: Replica, seed: int) -> str:
    """Processor seconds of each reading of a run with one more window."""
    run, reader, took_s = seen(replica, seed, TEN), Reader(), []
    for windows in range(1, len(TEN) + 1):
        reader.seen([record for record in run.records if record.order == windows])
        task = msgspec.structs.replace(task_of(replica, run), windows=run.windows[:windows])
        reading = reader.read(task)
        took_s.append(math.nan if reading is None else reading.cpu_s)
    later = took_s[1:]
    return f"    readings: the first {took_s[0]:.1f} s, later ones {fmean(later):.2f} s (up to {max(later):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="replicas; demo, chat, rag, kvlim and slot if none is given")
    parser.add_argument("--replicas", type=Path, help="a JSON file of replicas in place of the built-in ones")
    parser.add_argument("-n", type=int, default=4, help="runs per replica")
    given = parser.parse_args()
    known = CATALOG if given.replicas is None else replicas_of(given.replicas)
    for name in given.names or known:
        replica = known[name]
        runs = [seen(replica, FIRST_SEED + k) for k in range(given.n)]
        models = [model for run in runs if (model := fit(run.records)) is not None]
        print(f"{name}: {len(models)} of {given.n} runs fitted, {fmean(len(run.records) for run in runs):.0f} requests each")
        print(fitted(replica, models), flush=True)
        for lines in (asked(replica, models), wrong(replica, FIRST_SEED)):
            for line in lines:
                print(line, flush=True)
        print(going_on(replica, FIRST_SEED), flush=True)


if __name__ == "__main__":
    main()
