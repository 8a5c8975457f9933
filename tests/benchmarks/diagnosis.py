"""Does the diagnosis name the cause that was built in? Replicas whose binding cause is known, probed whole.

    python -m tests.benchmarks.diagnosis [-n SEEDS] [--mode MODE] [--lines] [name ...]
    python -m tests.benchmarks.diagnosis --vllm [--lines] [name ...]

Without --vllm: the replicas of tests/data/replicas and of the catalog, in virtual time, by the product's own session, scheduler
and metrics. With it: the real vLLM server for the CPU (`make real-vllm`), one quick run each, two to four minutes. `client` is
`slots` with sends that leave 300 ms late. The catalog's own replicas have what binds them in their description; of `chat` two
causes hold, decode and prompts between the tokens.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from core.config import Method
from core.replica.catalog import CATALOG, load
from core.report import diagnosis_lines
from core.results import Cause, Diagnosis
from tests.core.run.bench import final_view
from tests.core.run.simulated import probe_in_virtual_time
from tests.real_vllm.server import serve

REPLICAS = Path(__file__).resolve().parents[1] / "data/replicas"
LATE_S = 0.3
METHODS = {"quick": Method(), "careful": Method(careful=True), "standard": Method(mode="standard")}


@dataclass(frozen=True)
class Built:
    """A replica and the cause that was built into it; `late_s`: its client's lateness."""

    name: str
    cause: Cause
    late_s: float = 0.0


BUILT = {
    "slots": Built("slots", "slots"),
    "kv": Built("kv", "kv"),
    "prefill": Built("prefill", "prefill"),
    "decode": Built("decode", "decode"),
    "client": Built("slots", "client", LATE_S),
    "prefix": Built("prefix", "prefix"),
    "slot": Built("slot", "slots"),
    "demo": Built("demo", "kv"),
    "kvlim": Built("kvlim", "kv"),
    "rag": Built("rag", "prefill"),
    "chat": Built("chat", "decode"),
}


def probed(built: Built, method: Method, seed: int) -> Diagnosis | None:
    """The diagnosis of one run in virtual time."""
    replica = CATALOG[built.name] if built.name in CATALOG else load(str(REPLICAS / f"{built.name}.json"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        return probe_in_virtual_time(replica, path, method=method, seed=seed, late_s=built.late_s).diagnosis


def named(diagnosis: Diagnosis | None) -> str:
    """The cause as the table shows it: with the second one where two fit, and a question mark where it is not sure."""
    if diagnosis is None:
        return "no diagnosis"
    also = f" or {diagnosis.also}" if diagnosis.also else ""
    return f"{diagnosis.cause}{also}{'' if diagnosis.sure else ' ?'}"


def show(names: list[str], mode: str, seeds: int, lines: bool) -> None:
    print(f"{'built':10} {'cause':9} {'named right':12} named (? = said to be not certain)")
    for name in names or BUILT:
        built = BUILT[name]
        found = [probed(built, METHODS[mode], seed) for seed in range(11, 11 + seeds)]
        right = sum(each is not None and each.cause == built.cause for each in found)
        counts = ", ".join(f"{text} {n}" for text, n in Counter(map(named, found)).most_common())
        print(f"{name:10} {built.cause:9} {f'{right} of {seeds}':12} {counts}", flush=True)
        for line in diagnosis_lines(found[0]) if lines else []:
            print(f"    {line}")


@dataclass(frozen=True)
class Served:
    """A real server: model, its options, what is asked of it, and the cause that this builds in."""

    model: str
    options: tuple[str, ...]
    asked: tuple[str, ...]
    cause: Cause


SERVED = {
    "slots": Served(
        "small", ("--max-num-seqs", "4"), ("--input-tokens", "64", "--output-tokens", "32", "--ttft", "1500ms"), "slots"
    ),
    "kv": Served(
        "tiny",
        ("--num-gpu-blocks-override", "24", "--max-num-seqs", "64"),
        ("--input-tokens", "120", "--output-tokens", "200", "--ttft", "1500ms"),
        "kv",
    ),
    "prefill": Served(
        "small", ("--max-num-seqs", "128"), ("--input-tokens", "1500", "--output-tokens", "8", "--ttft", "4s"), "prefill"
    ),
}


async def served(each: Served) -> Diagnosis | None:
    """The diagnosis of one quick run on the real server. A target of 80 % keeps its windows short on a slow machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        async with serve(each.model, *each.options) as url:
            command = ["-m", "tui", "probe", url, *each.asked, "--target", "80%", "--measure", "15s"]
            probe = await asyncio.create_subprocess_exec(sys.executable, *command, "--headless", "--out", str(path), stdout=DEVNULL)
            await probe.wait()
        view = final_view(path)
    return view.answer.diagnosis if view.answer else None


def show_served(names: list[str], lines: bool) -> None:
    print(f"{'built':10} {'cause':9} named by the real server (? = said to be not certain)")
    for name in names or SERVED:
        found = asyncio.run(served(SERVED[name]))
        print(f"{name:10} {SERVED[name].cause:9} {named(found)}", flush=True)
        for line in diagnosis_lines(found) if lines else []:
            print(f"    {line}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="all if none is given")
    parser.add_argument("-n", type=int, default=5, help="runs of each, with seeds of their own")
    parser.add_argument("--mode", choices=METHODS, default="quick")
    parser.add_argument("--vllm", action="store_true", help="the real server")
    parser.add_argument("--lines", action="store_true", help="print the sentences of the first run")
    asked = parser.parse_args()
    began = time.perf_counter()
    if asked.vllm:
        show_served(asked.names, asked.lines)
    else:
        show(asked.names, asked.mode, asked.n, asked.lines)
    print(f"{time.perf_counter() - began:.0f} s of computing")


if __name__ == "__main__":
    main()
