"""Is a server that becomes slower noticed, and is nothing said of a steady one?

    python -m tests.benchmarks.drift steady [-n SEARCHES] [replica ...]         (virtual time: false alarms)
    python -m tests.benchmarks.drift shift [-n SEARCHES] [--factor F] [replica ...]         (all constants times F after 300 s)
    python -m tests.benchmarks.drift uneven [-n SEARCHES] [--factor F]         (virtual time: steps that are no straight line)
    python -m tests.benchmarks.drift vllm [--rate R] [--measure S] [--repeats N] [--busy FIRST-LAST] [--loops N]   (real)

The replicas of the first two are those of `knee_search`, and those of tests/data/replicas/held_out.json. Each search judges repeats
from far below to three times its knee, with preemptions where the cache is small and with 50 to 1,500 requests. `uneven` has the
servers of `tests.core.run.uneven`: first all of them steady, then slower by the factor from the second of four repeats on and as
before in the last; there is one search with even steps for each with uneven ones. `vllm` judges one
rate over and over; during the repeats FIRST to LAST (counted from 1; 0-0: never) so many busy loops run beside the server.
"""

import argparse
import asyncio
import json
import math
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import msgspec
import numpy as np

from core.engine import EngineSpec
from core.judge.search.actions import Step
from core.records import Segment
from core.replica.catalog import Replica
from core.results import RepeatResult
from core.run.drift import Drift
from core.schedule import Plan
from core.twin import Emitted, fast_engine
from core.units import DASH
from tests.benchmarks.knee_search import MODES, built_in, replicas_of
from tests.core.judge.virtual import VirtualRun, probe_of
from tests.core.run.uneven import SERVERS, UNEVEN, StepTime, played
from tests.real_vllm.server import serve

HELD_OUT = Path("tests/data/replicas/held_out.json")
FIRST_SEED = 60_000
CHANGES_AT_S = 300.0
_BEGUN = re.compile(rb'"type":"repeat_started".*"phase":"list".*?"repeat":([0-9]+)')


@dataclass
class Watched(VirtualRun):
    """A search whose server takes `factor` times as long for every step from CHANGES_AT_S on. `heard`: of each repeat whether it
    was after that, and what was said."""

    factor: float = 1.0
    engine: EngineSpec | None = None
    heard: list[tuple[bool, float | None, float | None]] = field(default_factory=list)
    drift: Drift = field(default_factory=Drift)

    def __post_init__(self) -> None:
        self.serve = self._serve

    @property
    def _changed(self) -> bool:
        return self.factor != 1.0 and self.elapsed_s > CHANGES_AT_S

    def _serve(self, plan: Plan) -> Iterator[Emitted]:
        assert self.engine is not None
        return fast_engine(slowed(self.engine, self.factor) if self._changed else self.engine, plan)

    def _judged(self, step: Step, index: int, segments: tuple[Segment, ...]) -> RepeatResult:
        changed = self._changed
        result = super()._judged(step, index, segments)
        speed = self.drift.judged(self.latest, step.rate_rps)
        factor = speed.change.figures["factor"] if speed.change else None
        assert factor is None or isinstance(factor, float)
        self.heard.append((changed, speed.steps.drift_frac if speed.steps else None, factor))
        return result


def slowed(engine: EngineSpec, factor: float) -> EngineSpec:
    """The engine whose steps take that much longer at every batch."""
    costs = ("step_s", "per_sequence_s", "per_kv_token_s", "per_prefill_token_s")
    return msgspec.structs.replace(engine, **{cost: factor * getattr(engine, cost) for cost in costs})


def watch(replica: Replica, mode: str, seed: int, factor: float = 1.0) -> Watched:
    """One search, heard to its end."""
    run = Watched(probe_of(replica, seed, MODES[mode]), lambda plan: iter(()), factor=factor, engine=replica.engine)
    run.answer()
    return run


def searches(replicas: list[Replica], modes: tuple[str, ...], n: int, factor: float = 1.0) -> Iterator[tuple[Replica, Watched]]:
    """So many searches of each replica in each mode."""
    for replica in replicas:
        for mode in modes:
            for seed in range(FIRST_SEED, FIRST_SEED + n):
                yield replica, watch(replica, mode, seed, factor)


def steady(replicas: list[Replica], n: int) -> None:
    """Every change that is said of a steady server is a false alarm."""
    drifts: list[float] = []
    repeats = alarms = silent = 0
    for replica, run in searches(replicas, ("quick", "standard"), n):
        repeats += len(run.heard)
        for _, drift, factor in run.heard:
            silent += drift is None
            drifts += [] if drift is None else [drift]
            if factor is not None:
                alarms += 1
                print(f"{replica.name}: false alarm, factor {factor:.2f}", flush=True)
    low, high = np.quantile(drifts, (0.005, 0.995)).tolist()
    print(f"{repeats} repeats, {alarms} false alarms ({alarms / repeats:.3%}); {silent} with too few requests to be compared")
    print(f"step time against the first: 99 % from {low:+.1%} to {high:+.1%}, all from {min(drifts):+.1%} to {max(drifts):+.1%}")


def shift(replicas: list[Replica], n: int, factor: float) -> None:
    """How often, how soon and with which figure the change is said."""
    late: Counter[int | None] = Counter()
    factors: list[float] = []
    wrong = 0
    for _, run in searches(replicas, ("standard",), n, factor):
        after = [heard for changed, _, heard in run.heard if changed]
        if not after or len(after) == len(run.heard):
            continue
        first = next((at for at, each in enumerate(after) if each is not None), None)
        late[first] += 1
        factors += [] if first is None else [after[first] or math.nan]
        wrong += sum(heard is not None for _, _, heard in run.heard) - (first is not None)
    told = ", ".join(f"{count} {'never' if at is None else f'in repeat {at + 1} after it'}" for at, count in late.items())
    print(f"{sum(late.values())} searches whose server changed by {factor:g}: {told}; {wrong} other alarms")
    if factors:
        print(f"factor told: mean {np.mean(factors):.3f}, from {min(factors):.3f} to {max(factors):.3f}")


def uneven(n: int, factor: float) -> None:
    """False alarms at like and unlike rates, and whether a change at one rate is told in the repeat after it."""
    rates = (3.0, 3.0, 3.0, 3.0), (1.5, 6.0, 1.5, 9.0), (2.0, 2.5, 2.2, 2.0)
    repeats = alarms = changes = told = 0
    seeds = iter(range(1, 1_000_000))
    for step_s, spread, _ in product(SERVERS, (0.0, 0.15, UNEVEN), range(n)):
        for each in rates:
            repeats += len(each)
            alarms += len(heard_of(step_s, spread, [(rate_rps, 1.0) for rate_rps in each], seeds))
        heard = heard_of(step_s, spread, [(3.0, 1.0), (3.0, factor), (3.0, factor), (3.0, 1.0)], seeds)
        changes, told = changes + 2, told + ((1, "slower") in heard) + ((3, "faster") in heard)
    print(f"{repeats} repeats, {alarms} false alarms ({alarms / repeats:.3%}); of {changes} changes by {factor:g} {told} were told")


def heard_of(step_s: StepTime, spread: float, repeats: list[tuple[float, float]], seeds: Iterator[int]) -> list[tuple[int, str]]:
    """In which repeats what was said."""
    drift = Drift()
    said = [drift.judged(played(step_s, rate_rps, next(seeds), factor, spread), rate_rps).change for rate_rps, factor in repeats]
    return [(at, "slower" if "slower" in change.code else "faster") for at, change in enumerate(said) if change is not None]


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many busy loops on this machine, each in a session of its own: the processes of one share a core's time as one."""
    running = [Popen([sys.executable, "-c", "while True: pass"], stdin=DEVNULL, start_new_session=True) for _ in range(loops)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def probe(url: str, log: Path, rate_rps: float, measure_s: int, repeats: int, disturbed: range, loops: int) -> dict[str, Any]:
    """The result of one rate judged over and over, with limits that nothing misses; repeats in `disturbed` (counted from 1) beside
    busy loops."""
    options = ["--input-tokens", "16", "--output-tokens", "16", "--ttft", "120s", "--tpot", "none", "--target", "80%"]
    options += ["--rates", str(rate_rps), "--repeats", str(repeats), "--measure", f"{measure_s}s"]
    options += ["--headless", "--json", "-", "--out", str(log)]
    command = [sys.executable, "-m", "tui", "probe", url, *options]
    with Popen(command, stdin=DEVNULL, stdout=PIPE) as running, ExitStack() as stack:
        beside = False
        while running.poll() is None:
            wanted = repeat_of(log) in disturbed
            if wanted and not beside:
                stack.enter_context(busy(loops))
            elif beside and not wanted:
                stack.close()
            beside = wanted
            time.sleep(0.2)
        assert running.stdout is not None
        result: dict[str, Any] = json.loads(running.stdout.read())
        return result


def repeat_of(log: Path) -> int:
    """Which repeat runs, counted from 1; 0 before the first. One that is done again keeps its number."""
    begun = _BEGUN.findall(log.read_bytes()) if log.exists() else []
    return int(begun[-1]) + 1 if begun else 0


async def on_vllm(rate_rps: float, measure_s: int, repeats: int, disturbed: range, loops: int) -> None:
    """The real vLLM, and what is told of it."""
    with tempfile.TemporaryDirectory() as folder:
        async with serve("small", "--max-num-seqs", "16") as url:
            result = await asyncio.to_thread(probe, url, Path(folder) / "run.jsonl", rate_rps, measure_s, repeats, disturbed, loops)
    tell(result, disturbed)


def tell(result: dict[str, Any], disturbed: range) -> None:
    """Each repeat with its step time, and what was said."""
    for step in result["steps"]:
        for at, repeat in enumerate(step["repeats"], 1):
            beside = "beside busy loops" if at in disturbed else ""
            print(f"repeat {at} {repeat['verdict']:8} {repeat['sent']:4} sent  {figures(repeat['step_model'] or {})}  {beside}")
    print(result["outcome"], result["message"])
    for note in result["knee"]["notes"]:
        print("-", note)


def figures(steps: dict[str, float | None]) -> str:
    """Drift, error and constants."""
    drift, error = (DASH if (value := steps.get(key)) is None else f"{value:+.1%}" for key in ("drift_frac", "error_frac"))
    names = ("a_s", "b_s", "c_s", "p_s")
    constants = " ".join(f"{name} {value:.2g}" for name in names if (value := steps.get(name)) is not None)
    return f"steps {drift:>7}, error {error:>6}  {constants}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("steady", "shift", "uneven", "vllm"))
    parser.add_argument("names", nargs="*", help="replicas; all if none is given")
    parser.add_argument("-n", type=int, default=4, help="searches per replica and mode")
    parser.add_argument("--factor", type=float, default=1.4)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--measure", type=int, default=45, help="seconds")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--busy", default="3-4")
    parser.add_argument("--loops", type=int, default=2)
    asked = parser.parse_intermixed_args()
    if asked.what == "vllm":
        first, last = map(int, asked.busy.split("-"))
        asyncio.run(on_vllm(asked.rate, asked.measure, asked.repeats, range(first, last + 1) if first else range(0), asked.loops))
        return
    if asked.what == "uneven":
        uneven(asked.n, asked.factor)
        return
    known = {name: each for name, each in (built_in() | replicas_of(HELD_OUT)).items() if name != "mg1"}  # it has no batches
    replicas = [known[name] for name in asked.names or known]
    if asked.what == "steady":
        steady(replicas, asked.n)
    else:
        shift(replicas, asked.n, asked.factor)


if __name__ == "__main__":
    main()
