"""Every kind of traffic once against the real vLLM on the CPU: python -m tests.benchmarks.real_traffic [SHOW ...] [--keep FOLDER]

Each show is one quick search, or a list of two rates, with requests so short that one core serves some of them a second. The files
are made here, in the forms of what they are named after: conversations, and traces with bursts, prefixes and long requests that do
not fit. It prints the answer, and what is particular of each.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.real_vllm.server import serve

SHORT = ("--input-tokens", "16", "--output-tokens", "16")
LIMITS = ("--ttft", "5s", "--tpot", "1s", "--target", "80%")
QUICK = ("--measure", "30s", "--budget", "90s", "--start-rps", "0.5")
LISTED = ("--rates", "0.5,1", "--repeats", "1", "--measure", "30s")
WORDS = ("the", "server", "says", "how", "many", "requests", "it", "can", "take", "in", "a", "second", "and", "why")
TRACE_REQUESTS, TRACE_S = 900, 1800.0
BLOCK = 128
"""Tokens of a block of vLLM's KV cache on the CPU; a shared prefix has whole ones."""


def conversations(path: Path, turns: int = 1, longest_words: int = 12) -> Path:
    """In the form of ShareGPT."""
    rng = np.random.default_rng(1)

    def say(words: int) -> str:
        return " ".join(rng.choice(WORDS, words))

    entries = [
        {
            "id": str(n),
            "conversations": [
                {"from": who, "value": say(int(rng.integers(4, longest_words if who == "human" else 10)))}
                for _ in range(turns)
                for who in ("human", "gpt")
            ],
        }
        for n in range(400)
    ]
    path.write_text(json.dumps(entries))
    return path


def _times_s() -> list[float]:
    rng = np.random.default_rng(2)
    gaps = rng.gamma(0.5, 2 * TRACE_S / TRACE_REQUESTS, TRACE_REQUESTS)
    times: list[float] = np.cumsum(gaps).tolist()
    return times


def mooncake(path: Path) -> Path:
    """Milliseconds, lengths and ids of blocks; one request in a hundred is longer than the context."""
    rng = np.random.default_rng(3)
    with path.open("w") as file:
        for n, time_s in enumerate(_times_s()):
            tokens = 4096 if n % 100 == 50 else int(rng.integers(8, 32))
            row = {"timestamp": int(1000 * time_s), "input_length": tokens, "output_length": int(rng.integers(4, 24))}
            file.write(json.dumps({**row, "hash_ids": [n]}) + "\n")
    return path


def azure(path: Path) -> Path:
    """A table with dates and tokens."""
    rng = np.random.default_rng(4)
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for time_s in _times_s():
        minutes, seconds = divmod(time_s, 60)
        stamp = f"2024-05-10 {int(minutes // 60):02}:{int(minutes % 60):02}:{seconds:09.6f}+00:00"
        lines.append(f"{stamp},{int(rng.integers(8, 32))},{int(rng.integers(4, 24))}")
    path.write_text("\n".join(lines) + "\n")
    return path


def shows(folder: Path) -> dict[str, tuple[str, ...]]:
    """The options of each."""
    return {
        "mix": ("--mix", "16:16=3,64:16=1@ttft=10s", *LISTED),
        "dataset": ("--api", "chat", "--dataset", str(conversations(folder / "sharegpt.json")), *LISTED),
        "turns": (
            *("--api", "chat", "--dataset", str(conversations(folder / "talks.json", 3, 100)), "--prefix", "turns"),
            *("--think-time", "1s", "--rates", "0.1,0.2", "--repeats", "1", "--measure", "90s"),
        ),
        "mooncake": ("--trace", str(mooncake(folder / "mooncake.jsonl")), *QUICK),
        "azure": ("--trace", str(azure(folder / "azure.csv")), *QUICK),
        "shared": ("--prefix", f"shared:{2 * BLOCK}/2", "--input-tokens", str(2 * BLOCK + 16), "--output-tokens", "16", *LISTED),
        "natural": (*SHORT, "--stop", "natural", *LISTED),
        "gateway": (*SHORT, "--gateway-limit", "2,queue=8,timeout=10s", *LISTED),
        "closed": (*SHORT, "--closed-loop", *QUICK),
    }


def _repeats(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"rate_rps": step["rate_rps"], **repeat} for step in result["steps"] for repeat in step["repeats"]]


def _each(*names: str) -> Callable[[dict[str, Any]], list[str]]:
    """These figures of each repeat."""

    def told(result: dict[str, Any]) -> list[str]:
        return [
            f"{repeat['rate_rps']:.2f}/s {repeat['verdict']}: " + ", ".join(f"{name} {repeat.get(name)}" for name in names)
            for repeat in _repeats(result)
        ]

    return told


PARTICULAR: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "mix": _each("buckets"),
    "shared": _each("prefix_hit_frac"),
    "turns": _each("prefix_hit_frac", "planned_hit_frac", "planned", "sent", "endings", "warnings"),
    "natural": _each("output_tokens", "stopped_frac"),
    "gateway": _each("gateway", "endings"),
    "closed": lambda result: [json.dumps(result["closed_loop"])],
}


async def _probe(url: str, options: tuple[str, ...], path: Path) -> dict[str, Any]:
    command = ["-m", "tui", "probe", url, *LIMITS, *options, "--headless", "--quiet", "--json", "-", "--out", str(path)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    out, said = await process.communicate()
    if not out:
        return {"outcome": "refused", "message": said.decode().strip(), "steps": [], "workload": None, "knee": {"notes": []}}
    result: dict[str, Any] = json.loads(out)
    return result


async def show(names: list[str], folder: Path) -> None:
    """Run them on one server, and print."""
    async with serve("small", "--max-num-seqs", "16") as url:
        for name in names:
            tell(name, await _probe(url, shows(folder)[name], folder / f"run-{name}.jsonl"))


def tell(name: str, result: dict[str, Any]) -> None:
    """The answer, what was sent, and what is particular of it."""
    print(f"\n{name}: {result['outcome']}: {result['message']}")
    print(f"  workload {json.dumps(result['workload'])}")
    for note in result["knee"]["notes"]:
        print(f"  - {note}")
    if name in PARTICULAR and result["steps"]:
        for line in PARTICULAR[name](result):
            print(f"  {line}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shows", nargs="*", help="all if none is given")
    parser.add_argument("--keep", type=Path, help="a folder for the run files and what is sent")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = asked.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        asyncio.run(show(asked.shows or list(shows(kept)), kept))


if __name__ == "__main__":
    main()
