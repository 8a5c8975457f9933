"""The programs that tests/benchmarks/peers.py sets beside each other: how each is started, and how its report is read.

python -m tests.benchmarks.peer_programs URL LOAD REPORT together|apart       (the product's generator, for peers.py)
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from core.config import Lengths, Target, Workload
from core.load.generator import Generator
from core.records import Hello, LoadDone, PromptAlphabet, RepeatOrder, RequestEnded
from tests.benchmarks.transport import CLIENT_CORE, SERVER_CORE, at

WARMUP, TTFT_US = 64, 20_000
HOME = Path(__file__).resolve().parents[2]
BASE = "vllm bench serve"
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for: `rate_rps` for `seconds`, answers of `tokens`, `itl_us` apart."""

    rate_rps: float
    seconds: float
    tokens: int = 4
    itl_us: int = 5000

    @property
    def count(self) -> int:
        return round(self.rate_rps * self.seconds)


class Report(msgspec.Struct, frozen=True):
    """What a program says of its run, p50 and p99 in ms; only ours says how late it sent."""

    ttft_ms: tuple[float, float]
    tpot_ms: tuple[float, float]
    lateness_ms: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Program:
    """`arguments(url, load, folder)` are run in that folder; `read(folder)` finds the report there, or raises."""

    name: str
    path: str | None
    arguments: Callable[[str, Load, Path], list[str]]
    read: Callable[[Path], Report]
    environment: dict[str, str] = field(default_factory=dict)
    pinned: bool = True
    apart: bool = False
    """Whether it moves one of its processes to the server's core by itself."""

    @property
    def on_one_core(self) -> bool:
        return self.pinned and not self.apart

    @property
    def where(self) -> str:
        if self.path is None:
            return "not run: its path was not given, or nothing is there"
        return f"on core {CLIENT_CORE}" if self.pinned else "on all cores, one of which is the server's"


def programs(given: argparse.Namespace) -> list[Program]:
    pinned = not given.unpinned
    return [
        *ours(),
        vllm(given.vllm, given.tokenizer),
        guidellm(given.guidellm, given.tokenizer, pinned),
        aiperf(given.aiperf, given.tokenizer, pinned),
    ]


def vllm(path: str | None, tokenizer: str) -> Program:
    def arguments(url: str, load: Load, folder: Path) -> list[str]:
        where = f"--backend vllm --base-url {url} --endpoint /v1/completions --model bench --tokenizer {tokenizer}"
        what = f"--dataset-name random --random-input-len 16 --random-output-len {load.tokens} --num-warmups {WARMUP}"
        how = (
            f"--request-rate {load.rate_rps:g} --num-prompts {load.count} --percentile-metrics ttft,tpot --metric-percentiles 50,99"
        )
        return f"bench serve {where} {what} {how} --disable-tqdm --save-result --result-filename report.json".split()

    def read(folder: Path) -> Report:
        said = json.loads((folder / "report.json").read_text())
        return Report((said["p50_ttft_ms"], said["p99_ttft_ms"]), (said["p50_tpot_ms"], said["p99_tpot_ms"]))

    return Program(name=BASE, path=path, arguments=arguments, read=read, environment=OFFLINE | {"VLLM_NO_USAGE_STATS": "1"})


def guidellm(path: str | None, tokenizer: str, pinned: bool) -> Program:
    """One worker a core that it may use: its default of ten are each other's load. Prompts from a file: making them takes CPU
    while it sends."""

    def arguments(url: str, load: Load, folder: Path) -> list[str]:
        count = load.count + WARMUP
        prompts = ({"prompt": f"{number} " + "word " * 15, "output_tokens_count": load.tokens} for number in range(count))
        (folder / "prompts.jsonl").write_text("\n".join(map(json.dumps, prompts)))
        where = f"--backend kind=openai_http,target={url},model=bench,request_format=/v1/completions"
        what = f"--data kind=json_file,path=prompts.jsonl --tokenizer kind=hf_auto,model={tokenizer}"
        how = f"--profile kind=constant,rate={load.rate_rps:g},warmup={WARMUP} --constraint kind=max_requests,count={count}"
        return f"run {where} {what} {how} --output kind=json,path=report.json --disable-console".split()

    def read(folder: Path) -> Report:
        metrics = json.loads((folder / "report.json").read_text())["benchmarks"][0]["metrics"]
        ttft, tpot = (metrics[name]["successful"]["percentiles"] for name in ("time_to_first_token_ms", "inter_token_latency_ms"))
        return Report((ttft["p50"], ttft["p99"]), (tpot["p50"], tpot["p99"]))

    workers = {"GUIDELLM__MAX_WORKER_PROCESSES": str(1 if pinned else os.cpu_count() or 1)}
    return Program(name="guidellm", path=path, arguments=arguments, read=read, environment=OFFLINE | workers, pinned=pinned)


def aiperf(path: str | None, tokenizer: str, pinned: bool) -> Program:
    """Not told to be offline: aiperf 0.13.0 then takes the folder of the tokenizer for a name on the hub, and fails."""

    def arguments(url: str, load: Load, folder: Path) -> list[str]:
        where = f"--model bench --url {url} --endpoint-type completions --streaming --tokenizer {tokenizer}"
        what = f"--isl 16 --isl-stddev 0 --osl {load.tokens} --osl-stddev 0 --num-prompts 200 --warmup-request-count {WARMUP}"
        how = f"--request-rate {load.rate_rps:g} --arrival-pattern constant --request-count {load.count} --use-server-token-count"
        quiet = "--ui none --no-gpu-telemetry --no-server-metrics --export-level summary --no-auto-plot --artifact-dir report"
        return f"profile {where} {what} {how} {quiet}".split()

    def read(folder: Path) -> Report:
        said = json.loads((folder / "report" / "profile_export_aiperf.json").read_text())
        ttft, tpot = said["time_to_first_token"], said["inter_token_latency"]
        return Report((ttft["p50"], ttft["p99"]), (tpot["p50"], tpot["p99"]))

    return Program(name="aiperf", path=path, arguments=arguments, read=read, pinned=pinned)


def ours() -> list[Program]:
    """With the process that it reports to on the same core, and with that on the server's: a run, too, has it on another."""

    def program(name: str, how: str) -> Program:
        def arguments(url: str, load: Load, folder: Path) -> list[str]:
            return ["-m", "tests.benchmarks.peer_programs", url, msgspec.json.encode(load).decode(), "report.json", how]

        def read(folder: Path) -> Report:
            return msgspec.json.decode((folder / "report.json").read_bytes(), type=Report)

        environment = {"PYTHONPATH": str(HOME)}
        apart = how == "apart"
        return Program(name=name, path=sys.executable, arguments=arguments, read=read, environment=environment, apart=apart)

    return [program("ours", "together"), program("ours, child alone", "apart")]


async def send(url: str, load: Load, apart: bool) -> Report:
    """The product's generator, one child, as a run uses it; arrivals as `vllm bench serve` draws and scales them."""
    gaps = np.random.default_rng(11).standard_exponential(load.count)
    warm_s = 0.5 + (TTFT_US + load.tokens * load.itl_us) * 1e-6
    offsets_s = warm_s + np.cumsum(gaps) * (load.seconds / gaps.sum())
    generator = await Generator.start(1)
    if apart:
        os.sched_setaffinity(0, {SERVER_CORE})
    ends: list[RequestEnded] = []
    try:
        hello = Hello(
            target=Target(url=url),
            model="bench",
            workload=Workload(input_tokens=Lengths(median=16), output_tokens=Lengths(median=load.tokens)),
            alphabet=PromptAlphabet(token_ids=tuple(range(1000, 2000))),
            nonce=os.urandom(8).hex(),
        )
        await generator.hello(hello)
        due_s, start_at = (*[0.0] * WARMUP, *offsets_s.tolist()), time.monotonic() + 1.0
        await generator.order(RepeatOrder(order=1, phase="list", step=0, repeat=0, seed=11, offsets_s=due_s, start_at=start_at))
        async for message in generator.messages():
            if isinstance(message, RequestEnded):
                ends.append(message)
            elif isinstance(message, LoadDone):
                break
    finally:
        await generator.close()
    return summed_up(ends)


def summed_up(ends: list[RequestEnded]) -> Report:
    if bad := next((end for end in ends if end.ending != "ok"), None):
        raise RuntimeError(f"{bad.ending}: {bad.error}")
    ttft, tpot, late = [], [], []
    for end in ends:
        if end.index >= WARMUP and end.t_first is not None and end.t_last is not None and end.t_sent is not None:
            ttft.append(end.t_first - end.t_sched)
            tpot.append((end.t_last - end.t_first) / max(1, end.output_tokens - end.first_tokens))
            late.append(end.t_sent - end.t_sched)
    return Report(spread_ms(ttft), spread_ms(tpot), spread_ms(late))


def spread_ms(values_s: list[float]) -> tuple[float, float]:
    return (at(values_s, 0.5) * 1e3, at(values_s, 0.99) * 1e3) if values_s else (0.0, 0.0)


if __name__ == "__main__":
    _url, _load, _report, _how = sys.argv[1:]
    _asked = msgspec.json.decode(_load.encode(), type=Load)
    Path(_report).write_bytes(msgspec.json.encode(asyncio.run(send(_url, _asked, _how == "apart"))))
