"""How far what-if answers are from what is then measured: python -m tests.benchmarks.what_if [--simulated [-n 8]] [--keep FOLDER]

Without an option on the real vLLM: a search at one --max-num-seqs, the model's answers for twice as many places and for another
limit on TTFT, and a search at each of these, in turn and in --rounds (A, A with the other limit, B; then again), because machines
drift; and back from B to A. It prints the twin's error by window and what it may lack, and last one table of all answers. Three
searches of six minutes a round. `--keep` leaves the run files in a folder; runs that are there already are read and not made again.

With --simulated: standard searches of the built-in replicas in virtual time, and long runs of the changed replicas as what is true.
"""

import argparse
import asyncio
import json
import math
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median

import numpy as np
from msgspec.structs import replace

from core import prose
from core.config import Method
from core.engine import EngineSpec, Limits, StepModel
from core.records import RequestRecord
from core.replica.catalog import CATALOG, Replica
from core.results import Knee
from core.run import Recording, read_run, recording
from core.twin import Twin
from core.twin.steps import lives_of
from core.whatif import Change, Explained, Modelled, Refused, Setting, WindowShift, ask, changed, explain, fitted, scaled
from tests.core.judge.virtual import probe_of
from tests.core.run.simulated import probe_in_virtual_time
from tests.real_vllm.server import serve

MODEL = "small"
"""It keeps one core busy at some requests a second, which leaves the client the other; `tiny` takes so many that sends are late."""
PLACES, MORE_PLACES = 2, 4
TTFT, OTHER_TTFT = "3s", "1500ms"
OTHER_TTFT_S = 1.5
LENGTHS = ("--input-tokens", "16", "--output-tokens", "16")
TRIES = 2
TRUE_REQUESTS = 100_000
BATCHES = 4
"""Into so many classes of the same size the requests are put, by how many others decoded beside them."""


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _search(url: str, path: Path, *options: str) -> None:
    """One quick search with windows of 75 s, which have the 40 requests that a model needs; made again where the client had no
    processor. With a target of 80 % they have enough requests for a verdict, too; it starts low: a server at its limit tells
    little."""
    for _ in range(TRIES):
        _forget(path)
        command = ["-m", "tui", "probe", url, *LENGTHS, "--tpot", "1s", "--target", "80%", *options]
        command += ["--measure", "75s", "--budget", "4m", "--start-rps", "0.5"]
        command += ["--headless", "--quiet", "--json", "-", "--out", str(path)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe)
        out, _ = await process.communicate()
        result = json.loads(out)
        print(f"{path.stem}: {result['message']}", flush=True)
        if result["outcome"] != "void":
            return


async def _measure(folder: Path, rounds: int) -> None:
    for n in range(rounds):
        for places, limits in ((PLACES, (TTFT, OTHER_TTFT)), (MORE_PLACES, (TTFT,))):
            wanted = [(limit, folder / f"{n}-{places}-{limit}.jsonl") for limit in limits]
            if all(path.exists() for _, path in wanted):
                continue
            async with serve(MODEL, "--max-num-seqs", str(places)) as url:
                for limit, path in wanted:
                    await _search(url, path, "--ttft", limit)


def _read(path: Path) -> Recording:
    return recording(read_run(path))


def _knee(knee: Knee) -> str:
    ends = [f"{end:.2f}" if end else "?" for end in (knee.pass_rps, knee.fail_rps)]
    return " to ".join(ends)


def _say(run: Explained | Refused, records: Sequence[RequestRecord]) -> None:
    """The error of the twin by window, and what it may lack: each figure beside the one from where on it is named."""
    print("  window, req/s  requests      X  twin's X  shift")
    for each in run.windows:
        shift = f"{math.copysign(100 * math.expm1(abs(each.shift)), each.shift):+.1f} %"
        print(f"  {each.rate_rps:13.2f}  {each.requests:8d}  {each.x:+.2f}  {each.twin_x:+8.2f}  {shift}")
    if run.twin is None:
        return
    steps, limits, slope = run.twin.steps, run.twin.limits, fitted.trend(run.windows)
    print(
        f"  a step: {1000 * steps.a_s:.2f} ms, {1000 * steps.b_s:.3f} ms a sequence, {1e6 * steps.c_s:.2f} us a KV token, "
        f"{1e6 * steps.p_s:.1f} us a prompt token; places {limits.max_seqs} ({limits.seqs_from})"
    )
    half = f"{100 * steps.error_frac:.1f} % (line: {100 * fitted.NON_LINEAR:.0f} %)"
    rising = "one rate" if slope is None else f"{slope:+.2f} (line: {fitted.TREND})"
    print(f"  half of decode times off by {half}; shift rises by {rising}; windows of a rate apart by {_apart(run.windows)}")
    for line in _by_batch(records, steps):
        print(line)


def _apart(shifts: Sequence[WindowShift]) -> str:
    return f"{fitted.scatter(shifts):.2f} (line: {fitted.SCATTER})"


def _by_batch(records: Sequence[RequestRecord], steps: StepModel) -> Iterator[str]:
    """How much longer decoding took than the model says. A median that moves with the batch is a step time that is no straight
    line; wide quartiles in each class are steps that differ at the same batch: other work on the machine."""
    lives = [each for each in lives_of(records) if each.tokens.size]
    if not lives:
        return
    beside = np.concatenate([each.batch((each.began + each.ended) / 2)[0] for each in lives])
    constants = np.array([steps.a_s, steps.b_s, steps.c_s, steps.p_s])
    factors = np.concatenate([each.steps(constants) / each.tokens for each in lives])
    for some in np.array_split(np.argsort(beside, kind="stable"), BATCHES):
        if some.size:
            low, middle, high = np.percentile(factors[some], (25, 50, 75))
            name = f"{beside[some].min():.0f} to {beside[some].max():.0f} decoding"
            yield f"  {name:20} decode times are x {middle:.2f} of the model's (quartiles {low:.2f}, {high:.2f}), n {some.size}"


def _row(n: int, asked: str, said: Modelled | None, measured: Knee) -> str:
    """What was asked, the model's answer with its interval, the bracket that was measured, and whether they meet."""
    if said is None:
        model, meets = "refused", "-"
    elif said.knee_rps is None or said.low_rps is None or said.high_rps is None:
        model, meets = f"no rate ({said.missing})", "-"
    else:
        model = f"{said.knee_rps:.2f} ({said.low_rps:.2f} to {said.high_rps:.2f})"
        low, high = measured.pass_rps or 0.0, measured.fail_rps or math.inf
        inside = low <= said.knee_rps <= high
        meets = "inside" if inside else "interval meets it" if said.high_rps >= low and said.low_rps <= high else "no"
    return f"  {n}  {asked:20} {model:26} {_knee(measured):16} {meets}"


def real(folder: Path, rounds: int) -> None:
    """The experiment on the real server."""
    asyncio.run(_measure(folder, rounds))
    rows = []
    for n in range(1, rounds + 1):
        runs = {
            (places, limit): _read(folder / f"{n - 1}-{places}-{limit}.jsonl")
            for places, limit in ((PLACES, TTFT), (PLACES, OTHER_TTFT), (MORE_PLACES, TTFT))
        }
        for base, other in ((PLACES, MORE_PLACES), (MORE_PLACES, PLACES)):
            run = explain(runs[base, TTFT])
            explained = run if isinstance(run, Explained) else None
            off = "" if run.median_shift is None else f", windows off by {100 * math.expm1(run.median_shift):.1f} % in the median"
            print(f"\nround {n}, --max-num-seqs {base}: {'explained' if explained else 'refused'}{off}")
            if isinstance(run, Refused):
                print(f"  {prose.sentence(run.why)}")
            _say(run, runs[base, TTFT].records)
            asked = [(f"{base}: as it was", Change(), runs[base, TTFT])]
            asked.append((f"{base}: {other} places", Change(max_num_seqs=other), runs[other, TTFT]))
            if base == PLACES:
                asked.append((f"{base}: TTFT {OTHER_TTFT}", Change(ttft_s=OTHER_TTFT_S), runs[base, OTHER_TTFT]))
            rows += [
                _row(n, name, None if explained is None else ask(explained, change), then.knee) for name, change, then in asked
            ]
    print("\n  round, run: asked      model's knee, req/s        measured, req/s  is the model's knee in it?")
    print("\n".join(rows))


def _changes(setting: Setting) -> Iterator[tuple[str, Change]]:
    slo, lengths = setting.slo, setting.workload
    yield "same", Change()
    yield "TTFT x .5, TPOT x .75", Change(ttft_s=(slo.ttft_s or 1) * 0.5, tpot_s=(slo.tpot_s or 1) * 0.75)
    yield "target 99 %", Change(target=0.99)
    yield (
        "prompts x 2, answers x .5",
        Change(input_tokens=scaled(lengths.input_tokens, 2.0), output_tokens=scaled(lengths.output_tokens, 0.5)),
    )
    yield "answers x 2", Change(output_tokens=scaled(lengths.output_tokens, 2.0))
    yield "max_num_seqs 16", Change(max_num_seqs=16)
    yield "max_num_seqs 32", Change(max_num_seqs=32)
    if setting.limits.kv_tokens:
        yield "KV x .75", Change(kv_tokens=int(setting.limits.kv_tokens * 0.75))


def true_knee(engine: EngineSpec, setting: Setting, near_rps: float) -> float | None:
    """Of an engine whose constants are known, in long runs."""
    steps = StepModel(
        a_s=engine.step_s, b_s=engine.per_sequence_s, c_s=engine.per_kv_token_s, p_s=engine.per_prefill_token_s, error_frac=0.0
    )
    found = Twin(steps, setting.limits).knee(setting.workload, setting.slo, near_rps, requests=TRUE_REQUESTS, seed=991)
    return None if found is None else found.rate_rps


def _true_limits(engine: EngineSpec) -> Limits:
    return Limits(max_seqs=engine.max_seqs, max_batched_tokens=engine.max_batched_tokens, kv_tokens=engine.kv_tokens)


def _errors(
    replica: Replica, seed: int, mode: Method, folder: Path, truths: dict[str, float | None]
) -> dict[str, tuple[float, bool]]:
    """Of each answer to one search how far it is off, and whether its interval holds what is true; none of one that is refused."""
    path = folder / f"{replica.name}-{mode.mode}-{seed}.jsonl"
    if not path.exists():
        probe_in_virtual_time(replica, path, method=mode, seed=seed)
    run = explain(_read(path))
    if not isinstance(run, Explained):
        print(f"{replica.name} {seed}: {run.why}")
        return {}
    errors = {}
    config = probe_of(replica, seed)
    known = Setting(slo=config.slo, workload=config.workload, limits=_true_limits(replica.engine))
    for name, change in _changes(known):
        if name not in truths:
            truths[name] = true_knee(replica.engine, changed(known, change), replica.truth_rps or 1.0)
        said, true = ask(run, change), truths[name]
        if said.knee_rps and true and said.low_rps and said.high_rps:
            errors[name] = said.knee_rps / true - 1, said.low_rps <= true <= said.high_rps
    return errors


def simulated(n: int, folder: Path, names: list[str], mode: str) -> None:
    """Errors of what-if over simulated searches."""
    for name in names:
        truths: dict[str, float | None] = {}
        method = replace(Method(), mode=mode)
        found = [_errors(CATALOG[name], 100 + seed, method, folder, truths) for seed in range(n)]
        print(f"\n{name}, {sum(map(bool, found))} of {n} {mode} searches explained")
        for change, true in truths.items():
            each = [errors[change] for errors in found if change in errors]
            if each and true:
                off = [error for error, _ in each]
                rms = math.sqrt(mean(error**2 for error in off))
                inside = sum(held for _, held in each)
                print(
                    f"  {change:26} true {true:7.2f}: mean {100 * mean(off):+5.1f} %, median {100 * median(off):+5.1f} %, "
                    f"rms {100 * rms:4.1f} %, inside {inside} of {len(each)}",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulated", nargs="*", metavar="REPLICA", help="virtual time; without names demo, chat and kvlim")
    parser.add_argument("-n", type=int, default=8, help="searches of each replica")
    parser.add_argument("--mode", default="standard", help="of the simulated searches")
    parser.add_argument("--keep", type=Path, help="folder for the run files")
    parser.add_argument("--rounds", type=int, default=2, help="on the real server")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the server ends, too
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if asked.simulated is None:
            real(folder, asked.rounds)
        else:
            simulated(asked.n, folder, asked.simulated or ["demo", "chat", "kvlim"], asked.mode)


if __name__ == "__main__":
    main()
