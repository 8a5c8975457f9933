"""How far what-if answers are from what is then measured: python -m tests.benchmarks.what_if [--simulated [-n 8]] [--keep FOLDER]

Without an option on the real vLLM: a search at one --max-num-seqs, the model's answers for twice as many places and for another
limit on TTFT, and a search at each of these, twice and in turn (A, A with the other limit, B; then again), because machines
drift. About 12 minutes. `--keep` leaves the run files in a folder; runs that are there already are read and not made again.

With --simulated: standard searches of the built-in replicas in virtual time, and long runs of the changed replicas as what is true.
"""

import argparse
import asyncio
import json
import math
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median

from msgspec.structs import replace

from core.config import Method
from core.engine import EngineSpec, Limits, StepModel
from core.replica.catalog import CATALOG, Replica
from core.results import Knee
from core.run import Recording, read_run, recording
from core.twin import Twin
from core.whatif import Change, Explained, Modelled, Setting, ask, changed, explain, scaled
from tests.core.judge.virtual import probe_of
from tests.core.run.simulated import probe_in_virtual_time
from tests.real_vllm.server import serve

PLACES, MORE_PLACES = 4, 8
TTFT, OTHER_TTFT = "1s", "500ms"
OTHER_TTFT_S = 0.5
LENGTHS = ("--input-tokens", "64", "--output-tokens", "32")
ROUNDS = 2
TRUE_REQUESTS = 100_000


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _search(url: str, path: Path, *options: str) -> None:
    """One quick search with a window of 30 s; made again where the client had no processor, twice at most."""
    for _ in range(3):
        _forget(path)
        command = ["-m", "tui", "probe", url, *LENGTHS, "--tpot", "200ms", "--measure", "30s", *options]
        command += ["--headless", "--quiet", "--json", "-", "--out", str(path)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe)
        out, _ = await process.communicate()
        result = json.loads(out)
        print(f"{path.stem}: {result['message']}", flush=True)
        if result["outcome"] != "void":
            return


async def _measure(folder: Path) -> None:
    for n in range(ROUNDS):
        for places, limits in ((PLACES, (TTFT, OTHER_TTFT)), (MORE_PLACES, (TTFT,))):
            wanted = [(limit, folder / f"{n}-{places}-{limit}.jsonl") for limit in limits]
            if all(path.exists() for _, path in wanted):
                continue
            async with serve("small", "--max-num-seqs", str(places)) as url:
                for limit, path in wanted:
                    await _search(url, path, "--ttft", limit)


def _read(path: Path) -> Recording:
    return recording(read_run(path))


def _say(run: Explained) -> None:
    steps, limits = run.twin.steps, run.twin.limits
    print(
        f"  step {1000 * steps.a_s:.2f} ms + {1000 * steps.b_s:.3f} ms a sequence + {1e6 * steps.p_s:.1f} us a prompt token, "
        f"half of decode times off by {100 * steps.error_frac:.1f} %; places {limits.max_seqs} ({limits.seqs_from})"
    )
    for each in run.windows:
        print(
            f"  {each.rate_rps:6.2f} req/s, {each.requests:4d} requests: X {each.x:+.2f}, twin {each.twin_x:+.2f}, "
            f"shift {100 * math.expm1(each.shift):+.1f} %"
        )
    print(f"  median shift {100 * math.expm1(run.median_shift):.1f} %, model's knee as measured {run.as_modelled_rps:.2f}")


def _knee(knee: Knee) -> str:
    ends = [f"{end:.2f}" if end else "-" for end in (knee.pass_rps, knee.fail_rps)]
    return " to ".join(ends)


def _answer(name: str, said: Modelled, measured: Knee) -> None:
    if said.knee_rps is None or said.low_rps is None or said.high_rps is None:
        print(f"  {name}: no rate ({said.missing}); measured {_knee(measured)}")
        return
    low, high = measured.pass_rps, measured.fail_rps
    held = low is not None and high is not None and said.high_rps >= low and said.low_rps <= high
    off = f"{100 * (said.knee_rps / math.sqrt(low * high) - 1):+.0f} % of its middle" if low and high else "no bracket"
    print(
        f"  {name}: predicted {said.knee_rps:.2f} ({said.low_rps:.2f} to {said.high_rps:.2f}), measured {_knee(measured)}: {off}, "
        f"{'they meet' if held else 'they do not meet'}"
    )


def real(folder: Path) -> None:
    """The experiment on the real server."""
    asyncio.run(_measure(folder))
    for n in range(ROUNDS):
        runs = {
            (places, limit): _read(folder / f"{n}-{places}-{limit}.jsonl")
            for places, limit in ((PLACES, TTFT), (PLACES, OTHER_TTFT), (MORE_PLACES, TTFT))
        }
        base = runs[PLACES, TTFT]
        print(f"\nround {n + 1}: --max-num-seqs {PLACES}, TTFT {TTFT}: measured {_knee(base.knee)}")
        run = explain(base)
        if not isinstance(run, Explained):
            print(f"  the twin does not explain it: {run.why}")
            for each in run.windows:
                print(f"  {each.rate_rps:6.2f} req/s: X {each.x:+.2f}, twin {each.twin_x:+.2f}, shift {each.shift:+.2f}")
            continue
        _say(run)
        _answer("same setting", ask(run, Change()), base.knee)
        _answer(f"--max-num-seqs {MORE_PLACES}", ask(run, Change(max_num_seqs=MORE_PLACES)), runs[MORE_PLACES, TTFT].knee)
        _answer(f"--ttft {OTHER_TTFT}", ask(run, Change(ttft_s=OTHER_TTFT_S)), runs[PLACES, OTHER_TTFT].knee)


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
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the server ends, too
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if asked.simulated is None:
            real(folder)
        else:
            simulated(asked.n, folder, asked.simulated or ["demo", "chat", "kvlim"], asked.mode)


if __name__ == "__main__":
    main()
